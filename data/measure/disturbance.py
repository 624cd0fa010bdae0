"""How much of the machine others used while something was measured."""

from __future__ import annotations

import os
import resource
import time

from data.measure.proc import CPU_TIMES, PROC, TICKS_PER_SECOND, rows


class Disturbance:
    """Processor time of the whole machine, or of one processor, less what the measurement itself used.

    Parameters
    ----------
    ours : float
        Processor seconds that programs of the measurement which still run have used at the start.
    processor : int, optional
        The one that the measurement is pinned to.
    """

    def __init__(self, ours: float = 0.0, processor: int | None = None) -> None:
        self._line = "cpu" if processor is None else f"cpu{processor}"
        self._processors = (os.cpu_count() or 1) if processor is None else 1
        self._begin = time.perf_counter()
        self._busy = _busy_seconds(self._line)
        self._ours = _own_seconds() + ours

    def share(self, ours: float = 0.0) -> float:
        """Return the share of these processors that others used since the start, from 0 to 1."""
        elapsed = time.perf_counter() - self._begin
        foreign = (_busy_seconds(self._line) - self._busy) - (_own_seconds() + ours - self._ours)
        return max(0.0, foreign) / (elapsed * self._processors)


def _busy_seconds(line: str) -> float:
    """Return what is not idle of a line of the statistics: the machine, or a processor, since it started."""
    words = next(words for name, words in rows(PROC / "stat") if name == line)
    times = dict(zip(CPU_TIMES, map(int, words), strict=False))
    return (sum(times.values()) - times["idle"] - times["iowait"]) / TICKS_PER_SECOND


def _own_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
