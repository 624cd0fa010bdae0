"""Reader of Pitot's WebAssembly workloads (MIT, WiseLabCMU/pitot): data.npz and if2.npz.

Its events are counts of executed WebAssembly opcodes, equal on all platforms, instead of hardware counters.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd

from data.corun.tables import CorunTables
from data.errors import InputError
from data.tables import arrays
from data.tables.arrays import ArraySpec

_RUNS = ("runs",)
_TIMES = {
    "t": ArraySpec("f", _RUNS, finite=False),
    "i_platform": ArraySpec("i", _RUNS),
    "i_workload": ArraySpec("i", _RUNS),
}
SOLO = _TIMES | {
    "d_platform": ArraySpec("f", ("platforms", "properties"), finite=False),
    "d_workload": ArraySpec("f", ("workloads", "opcodes"), finite=False),
    "n_platform": ArraySpec("U", ("platforms",)),
    "n_workload": ArraySpec("U", ("workloads",)),
    "f_platform": ArraySpec("U", ("properties",)),
    "f_workload": ArraySpec("U", ("opcodes",)),
}
CORUN = _TIMES | {"i_interference0": ArraySpec("i", _RUNS)}
NANOSECOND = 1e-9
#: Suffix of a workload's name for its size: large, medium, small.
SIZE = re.compile(r"_[sml]$")
NOTE = "pitot: events are WebAssembly opcodes, not hardware counters"


def read_tables(directory: Path) -> CorunTables:
    """Return the tables of a directory with ``data.npz`` (solo) and ``if2.npz`` (with one co-runner).

    A machine is a platform, ``<engine>:<device>``, whose properties are further columns of the table
    ``hosts``; a family is a workload without its size; times become seconds. Solo runs have the events
    ``op_<opcode>`` and the repetition 1. Co-runs have no events; those of a task with the same co-runner on a
    machine are numbered from 1 as repetitions. The table ``samples`` is empty. InputError names a wrong or
    missing file, array or index.
    """
    specs = {directory / "data.npz": SOLO, directory / "if2.npz": CORUN}
    solo, corun = (arrays.read_arrays(path, spec) for path, spec in specs.items())
    platforms, workloads = (
        pd.array(solo[name].tolist(), dtype="str") for name in ("n_platform", "n_workload")
    )
    for path, loaded in zip(specs, (solo, corun), strict=True):
        for name in loaded.keys() & {"i_platform", "i_workload", "i_interference0"}:
            count = len(platforms if name == "i_platform" else workloads)
            wrong = np.flatnonzero((loaded[name] < 0) | (loaded[name] >= count))
            if len(wrong):
                problem = f"{name}={loaded[name][wrong[0]]} names none of the {count}"
                raise InputError(problem, file=path, place=f"row {wrong[0]}")
    unsplit = [number for number, name in enumerate(platforms) if ":" not in name]
    if unsplit:
        problem = f'n_platform="{platforms[unsplit[0]]}"; expected <engine>:<device>'
        raise InputError(problem, file=directory / "data.npz", place=f"row {unsplit[0]}")
    tasks, pairs = (
        pd.DataFrame(
            {
                "task": workloads.take(loaded["i_workload"]),
                "machine": platforms.take(loaded["i_platform"]),
                seconds: loaded["t"].astype(np.float64) * NANOSECOND,
            }
        )
        for loaded, seconds in ((solo, "solo_seconds"), (corun, "corun_seconds"))
    )
    tasks["family"] = tasks["task"].str.replace(SIZE, "", regex=True)
    tasks["repetition"] = 1
    counts = np.expm1(solo["d_workload"].astype(np.float64)).round()[solo["i_workload"]]
    events = pd.DataFrame(counts, columns=[f"op_{name}" for name in solo["f_workload"]])
    pairs["corunner_1"] = workloads.take(corun["i_interference0"])
    pairs["repetition"] = pairs.groupby(["machine", "task", "corunner_1"]).cumcount() + 1
    parts = pd.Series(platforms).str.split(":", n=1, expand=True)
    hosts = pd.DataFrame({"machine": platforms, "device": parts[1], "engine": parts[0], "note": NOTE})
    described = pd.DataFrame(solo["d_platform"].astype(np.float64), columns=solo["f_platform"].tolist())
    hosts = pd.concat([hosts, described], axis="columns")
    return CorunTables.from_rows(pd.concat([tasks, events], axis="columns"), pairs, None, hosts)
