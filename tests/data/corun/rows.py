"""Small tables of co-runs, built by hand."""

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
