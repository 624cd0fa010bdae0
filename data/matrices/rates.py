"""From what was counted during a run to its raw metrics: rates per second and per transaction.

=============================  =====================================================================
what was read                  what the raw metric is
=============================  =====================================================================
a count of the machine         its growth per second of the run
the same of `PEAKED`           besides, the growth per second in the interval where it was largest;
                               a last interval of less than half is part of the one before
a level of the machine         its change per second, which may be negative
a count of the program         its growth per transaction; a count that seems to fall has not
a count of its control group   its growth per second, as read
a level of the program         its mean over the looks
an event of perf               its count per transaction
=============================  =====================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from data.measure import kernel_counts
from data.measure.kernel_counts import Numbers

CHANGE, PEAK = ".change", ".peak"
PROGRAM, GROUP, PERF = "process.", "group.", "perf."
#: Processor time of the program, in milliseconds per second: from its control group where there is one.
BUSY = "process.busy"
PEAKED = (
    *("cpu.user", "cpu.system", "cpu.idle", "cpu.iowait", "stat.ctxt", "stat.intr", "stat.processes"),
    *("vmstat.pgfault", "vmstat.pgfree", "vmstat.pgalloc_normal", "vmstat.pgpgout", "vmstat.nr_dirtied"),
    *("softirq.SCHED", "softirq.RCU", "irq.RES", "irq.LOC", "disk.writes", "pressure.cpu_some"),
)
#: A last interval is too short for a peak if it is a smaller share of the one before.
SHORT = 0.5
PLAIN_LEVELS = ("level_Threads", "level_files", "level_avg")
#: Units of what a program or its control group counts, other than plain numbers.
PROGRAM_UNITS = {
    **dict.fromkeys(("user", "system", "wait", "run"), "ms"),
    **dict.fromkeys(("read_volume", "write_volume", "disk_read", "disk_written"), "KiB"),
    "resident": "MiB",
}


@dataclass(frozen=True)
class Look:
    """What was read at one moment, ``at`` in seconds of any clock.

    ``machine``, ``program`` and ``group`` are counts, ``levels`` are levels of the machine and
    ``program_levels`` those of the program.
    """

    at: float
    machine: Numbers
    program: Numbers
    group: Numbers
    levels: Numbers
    program_levels: Numbers


def rates(looks: Sequence[Look], perf: Mapping[str, float], transactions: int) -> Numbers:
    """Return the raw metrics of a run.

    Parameters
    ----------
    looks : sequence of Look
        At least two, at growing times.
    perf : mapping
        The count of each event over the run; NaN where perf has none.
    transactions : int
        Done in the run; without any, what counts per transaction is missing.
    """
    first, last = looks[0], looks[-1]
    seconds = last.at - first.at
    per = float(transactions) if transactions else np.nan
    found = _growth(first.machine, last.machine, seconds)
    steps = [
        _growth(before.machine, after.machine, after.at - before.at)
        for before, after in pairwise(_whole(looks))
    ]
    found |= {f"{name}{PEAK}": max(step[name] for step in steps) for name in PEAKED if name in found}
    levels = _growth(first.levels, last.levels, seconds)
    found |= {f"{name}{CHANGE}": value for name, value in levels.items()}
    for name, values in _by_name(look.program for look in looks).items():
        found[f"{PROGRAM}{name}"] = (max(values) - first.program.get(name, 0.0)) / per
    found |= {f"{GROUP}{name}": value for name, value in _growth(first.group, last.group, seconds).items()}
    for name, values in _by_name(look.program_levels for look in looks).items():
        found[f"{PROGRAM}{name}"] = float(np.mean(values))
    found |= {f"{PERF}{event}": count / per for event, count in perf.items()}
    found[BUSY] = _busy(found, per / seconds)
    return found


def _by_name(looks: Iterable[Numbers]) -> dict[str, list[float]]:
    """Return by name what there was at each look that had it."""
    found: dict[str, list[float]] = {}
    for look in looks:
        for name, value in look.items():
            found.setdefault(name, []).append(value)
    return found


def _whole(looks: Sequence[Look]) -> list[Look]:
    """Return the looks whose intervals tell a peak: a last one that is much shorter joins the one before.

    A program ends at any time, and clocks of the kernel tick every few milliseconds.
    """
    if len(looks) <= len(("first", "last")):
        return list(looks)
    *before, late, last = looks
    short = last.at - late.at < SHORT * (late.at - before[-1].at)
    return [*before, last] if short else [*before, late, last]


def _growth(before: Numbers, after: Numbers, seconds: float) -> Numbers:
    return {name: (value - before.get(name, 0.0)) / seconds for name, value in after.items()}


def _busy(found: Numbers, transactions_per_second: float) -> float:
    kinds = ("user", "system")
    if all(f"{GROUP}{kind}_usec" in found for kind in kinds):
        return sum(found[f"{GROUP}{kind}_usec"] for kind in kinds) / 1000
    return sum(found[f"{PROGRAM}{kind}"] for kind in kinds) * transactions_per_second


def unit(name: str) -> str:
    """Return the unit of a raw metric."""
    if name == BUSY:
        return "ms/s"
    if name.startswith(PERF):
        return "ms/txn" if name.endswith("clock") else "1/txn"
    if name.startswith(GROUP):
        return "us/s" if name.endswith("_usec") else "1/s"
    if name.startswith(PROGRAM):
        kind = name.removeprefix(PROGRAM)
        if kind.startswith("level_"):
            return "1" if kind.startswith(PLAIN_LEVELS) else "KiB"
        known = PROGRAM_UNITS.get(kind, "1")
        return known if known == "MiB" else f"{known}/txn"
    return f"{kernel_counts.unit(name.removesuffix(CHANGE).removesuffix(PEAK))}/s"


def signed(name: str) -> bool:
    """Tell whether a raw metric may be negative."""
    return name.endswith(CHANGE)
