"""Small tables of co-runs, built by hand."""

import numpy as np

from data.corun.tables import CorunTables

TASKS = ("copy", "sort", "pipe")


def solo(task, seconds=2.0, repetition=1, machine="m", **events):
    return {
        "task": task, "machine": machine, "solo_seconds": seconds, "repetition": repetition,
        **({"faults": float(sum(map(ord, task or ""))), "switches": seconds * 7} | events),
    }  # fmt: skip


def beside(task, corunner, seconds=3.0, repetition=1, machine="m", **further):
    return {
        "task": task, "corunner_1": corunner, "machine": machine, "corun_seconds": seconds,
        "repetition": repetition, **further,
    }  # fmt: skip


def sample(task, end, corunners="", phase="solo", repetition=1, **events):
    return {
        "task": task, "corunners": corunners, "machine": "m", "phase": phase, "repetition": repetition,
        "t_seconds": end, **({"faults": 10.0, "switches": 1.0} | events),
    }  # fmt: skip


def small(tasks=(), pairs=(), samples=(), hosts=(), without=()):
    """Three tasks alone, each beside each, two of them sampled; further rows; `without` these tasks alone."""
    alone = [solo(task, 2.0 + number) for number, task in enumerate(TASKS) if task not in without]
    together = [beside(task, other, 4.5) for task in TASKS for other in TASKS]
    sampled = [sample("copy", end) for end in (0.2, 0.4, 0.6)]
    sampled += [sample("sort", end, "pipe", "corun") for end in (0.2, 0.4, 0.6)]
    return CorunTables.from_rows(
        [*alone, *tasks], [*together, *pairs], [*sampled, *samples], [{"machine": "m"}, *hosts]
    )


def pitot_archives(directory, **changes):
    """Two workloads on two platforms, alone and beside each other, with three opcodes."""
    arrays = {
        "data.t": np.array([1e9, 2e9, 4e9], np.float32),
        "data.i_platform": np.array([0, 0, 1]),
        "data.i_workload": np.array([0, 1, 0]),
        "data.d_platform": np.array([[1.0, -1.0], [0.5, 2.0]], np.float32),
        "data.d_workload": np.log1p(np.array([[1000, 0, 7], [5, 1, 0]], np.float32)),
        "data.n_platform": np.array(["iwasm-a:hc-10", "wasm3-i:hc-10"]),
        "data.n_workload": np.array(["vision/sift_l", "libsodium/box_easy"]),
        "data.f_platform": np.array(["cpufreq", "l2_size"]),
        "data.f_workload": np.array(["x04", "x05", "x0C"]),
        "if2.t": np.array([1.5e9, 1.6e9, 3e9]),
        "if2.i_platform": np.array([0, 0, 0]),
        "if2.i_workload": np.array([0, 0, 1]),
        "if2.i_interference0": np.array([1, 1, 0]),
    } | changes
    for name in ("data", "if2"):
        own = {key.partition(".")[2]: value for key, value in arrays.items() if key.startswith(name)}
        np.savez(directory / f"{name}.npz", **{key: value for key, value in own.items() if value is not None})
