"""How much of the machine others used while something was measured."""

from __future__ import annotations

import os
import resource
import time

from data.measure.proc import CPU_TIMES, PROC, TICKS_PER_SECOND, rows


class Disturbance:
    """Processor time of the whole machine less what the measurement itself used.

    Parameters
    ----------
    ours : float
        Processor seconds that programs of the measurement which still run have used at the start.
    """

    def __init__(self, ours: float = 0.0) -> None:
        self._begin = time.perf_counter()
        self._busy = _busy_seconds()
        self._ours = _own_seconds() + ours

    def share(self, ours: float = 0.0) -> float:
        """Return the share of all processors that others used since the start, from 0 to 1."""
        elapsed = time.perf_counter() - self._begin
        foreign = (_busy_seconds() - self._busy) - (_own_seconds() + ours - self._ours)
        return max(0.0, foreign) / (elapsed * (os.cpu_count() or 1))


def _busy_seconds() -> float:
    """Return user, nice, system, irq, softirq and steal time of the machine since it started."""
    _, words = next(rows(PROC / "stat"))
    times = dict(zip(CPU_TIMES, map(int, words), strict=False))
    return (sum(times.values()) - times["idle"] - times["iowait"]) / TICKS_PER_SECOND


def _own_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
