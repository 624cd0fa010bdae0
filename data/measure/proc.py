"""Reading ``/proc``, whose files may be gone or not ours to read: their lines, and the words of each."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
TICK_MILLISECONDS = 1000 // TICKS_PER_SECOND
#: Columns of a processor in /proc/stat.
CPU_TIMES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
#: What is waited for, as far as the kernel counts it.
PRESSURES = ("cpu", "memory", "io")
_NAME_END = ")"
#: Column of /proc/PID/stat after the name: when it started, in ticks since boot.
_STARTED = 19


def lines(path: Path) -> list[str]:
    """Return the lines of a file; none if it is gone, or not ours to read."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield of each line its first word, which may end in a colon, and the others."""
    for line in lines(path):
        name, *words = line.replace(":", " ", 1).split() or [""]
        yield name, words


def pressure(path: Path) -> dict[str, float]:
    """Return the microseconds that "some" and "full" of the tasks have waited so far."""
    return {kind: float(words[-1].partition("=")[2]) for kind, words in rows(path)}


def stat(pid: int) -> list[str]:
    """Return the words of ``/proc/PID/stat`` after the name, none if it is gone."""
    return "".join(lines(PROC / str(pid) / "stat")).rpartition(_NAME_END)[2].split()


def running_seconds(pid: int) -> float:
    """Return for how many seconds a process has run; 0 if it is gone."""
    words = stat(pid)
    if not words:
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(words[_STARTED]) / TICKS_PER_SECOND


def threads(pid: int) -> Iterator[Path]:
    """Yield the folder of each thread of a process."""
    with suppress(OSError):
        yield from (PROC / str(pid) / "task").iterdir()


def children(pid: int) -> Iterator[int]:
    """Yield the processes that `pid` started, or took over, and has not waited for."""
    for thread in threads(pid):
        yield from map(int, " ".join(lines(thread / "children")).split())


def descendants(pid: int) -> Iterator[int]:
    """Yield `pid` and what it started that still is."""
    yield pid
    for child in children(pid):
        yield from descendants(child)


def is_running(pid: int) -> bool:
    """Tell whether a process has not ended; one that ended stays until its parent has waited for it."""
    return stat(pid)[:1] not in ([], ["Z"], ["X"])
