"""What the kernel counts about a program and all it started: ``/proc/PID`` of the whole tree."""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress

from data.measure.proc import PROC, TICK_MILLISECONDS, TICKS_PER_SECOND, descendants, rows, stat, threads

PAGE_MEBIBYTES = os.sysconf("SC_PAGE_SIZE") / 2**20
#: Counts of /proc/PID/stat after the name: own and of children that have ended.
_STAT = {"minor_faults": (7, 8), "major_faults": (9, 10), "user_ms": (11, 13), "system_ms": (12, 14)}
_IO = ("rchar", "wchar", "syscr", "syscw", "read_bytes", "write_bytes")
_RSS = 21
KIB = 1024.0
#: Names of `Program`, and what one is in units of the other, by those of `Tree`.
NAMES = {
    "user_ms": ("user", 1.0),
    "system_ms": ("system", 1.0),
    "minor_faults": ("minor_faults", 1.0),
    "major_faults": ("major_faults", 1.0),
    "rchar": ("read_volume", KIB),
    "wchar": ("write_volume", KIB),
    "syscr": ("read_calls", 1.0),
    "syscw": ("write_calls", 1.0),
    "read_bytes": ("disk_read", KIB),
    "write_bytes": ("disk_written", KIB),
    "wait_ns": ("wait", 1e6),
    "timeslices": ("slices", 1.0),
}
#: Levels by the file of /proc/PID that has them.
LEVELS = {
    "status": {"VmSize", "VmHWM", "RssAnon", "RssFile", "RssShmem", "VmData", "VmStk", "VmPTE", "Threads"},
    "smaps_rollup": {
        *("Pss", "Shared_Clean", "Shared_Dirty", "Private_Clean", "Private_Dirty", "AnonHugePages"),
    },
    "sched": {"se.avg.load_avg", "se.avg.runnable_avg", "se.avg.util_avg"},
}
#: Counts of a thread: our names by those of /proc/PID/task/TID/status and sched.
SWITCHES = {
    "voluntary_ctxt_switches": "voluntary_switches",
    "nonvoluntary_ctxt_switches": "involuntary_switches",
}
SCHED = {"se.sum_exec_runtime": "run", "se.nr_migrations": "migrations", "nr_switches": "switches"}


class ProcessTree:
    """A program and what it started.

    Parameters
    ----------
    pid : int
        Of a child of ours, which may be stopped.

    Attributes
    ----------
    resident_mebibytes : float
        Resident memory at the last look.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        # a thread's own counts end with it: the last that was seen, so short-lived ones are missed
        self._waits: dict[str, tuple[float, ...]] = {}
        self.resident_mebibytes = 0.0

    def counts(self) -> dict[str, float]:
        """Return all counts so far."""
        counts = dict.fromkeys([*_STAT, *_IO], 0.0)
        resident = 0.0
        for pid in descendants(self._pid):
            words = stat(pid)
            if not words:
                continue
            for name, columns in _STAT.items():
                counts[name] += sum(int(words[column]) for column in columns)
            resident += int(words[_RSS]) * PAGE_MEBIBYTES
            for name, (value, *_) in rows(PROC / str(pid) / "io"):
                if name in _IO:
                    counts[name] += int(value)
            for thread in threads(pid):
                for first, others in rows(thread / "schedstat"):
                    self._waits[thread.name] = tuple(map(float, (first, *others)))
        # a program that has just ended has nothing left
        self.resident_mebibytes = resident or self.resident_mebibytes
        for name in ("user_ms", "system_ms"):
            counts[name] *= TICK_MILLISECONDS
        for column, name in enumerate(("wait_ns", "timeslices"), 1):
            counts[name] = sum(numbers[column] for numbers in self._waits.values())
        return counts

    def seconds(self) -> float:
        """Return the processor time so far."""
        counts = self.counts()
        return (counts["user_ms"] + counts["system_ms"]) / 1000


class Program:
    """A running program of ours with all it started, looked at more closely."""

    def __init__(self, pid: int) -> None:
        self._pid, self._tree = pid, ProcessTree(pid)
        # a thread's own counts end with it: the last that was seen
        self._threads: dict[tuple[str, str], float] = {}

    def counts(self) -> dict[str, float]:
        """Return all counts so far."""
        read = self._tree.counts()
        found = {name: read[source] / scale for source, (name, scale) in NAMES.items()}
        for pid in descendants(self._pid):
            for thread in threads(pid):
                for file, names in (("status", SWITCHES), ("sched", SCHED)):
                    for name, words in rows(thread / file):
                        if name in names:
                            self._threads[thread.name, names[name]] = float(words[0])
        found |= dict.fromkeys([*SWITCHES.values(), *SCHED.values()], 0.0)
        for (_, name), count in self._threads.items():
            found[name] += count
        return found

    def levels(self) -> dict[str, float]:
        """Return levels, summed over the processes; nothing once it has ended."""
        total: defaultdict[str, float] = defaultdict(float)
        for pid in descendants(self._pid):
            for file, names in LEVELS.items():
                for name, words in rows(PROC / str(pid) / file):
                    if name in names:
                        total[f"level_{name.removeprefix('se.')}"] += float(words[0])
            with suppress(OSError):
                files = len(list((PROC / str(pid) / "fd").iterdir()))
                total["level_files"] += files
        return dict(total, resident=self._tree.resident_mebibytes) if total else {}


def own_seconds(pid: int) -> float:
    """Return the processor time of one process so far."""
    user, system = (int(stat(pid)[own]) for own, _ in (_STAT["user_ms"], _STAT["system_ms"]))
    return (user + system) / TICKS_PER_SECOND
