"""What the kernel counts about a program and all it started, and about the machine meanwhile.

Counts only grow, so that the difference of two is what happened between them. They come from ``/proc/PID``
of the whole tree of processes (``process-``), from a control group where one may be made (``group-``), from
the lines of the processor that the program is pinned to (``cpu-``) and from those of the whole machine
(``system-``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from data.measure.interventions import remove_abandoned

TICK_MILLISECONDS = 1000 // os.sysconf("SC_CLK_TCK")
PAGE_MEBIBYTES = os.sysconf("SC_PAGE_SIZE") / 2**20
INTERRUPTS = ("LOC", "RES", "CAL", "TLB")
SOFTIRQS = ("TIMER", "SCHED", "RCU", "HRTIMER", "BLOCK", "NET_RX")
CPU_TIMES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
VMSTAT = (
    *("pgpgin", "pgpgout", "pgfree", "pgactivate", "pgdeactivate", "pgfault", "pgmajfault", "pgreuse"),
    *("nr_dirtied", "nr_written", "numa_hit", "thp_fault_alloc", "thp_split_pmd", "unevictable_pgs_culled"),
)
PRESSURES = ("cpu", "memory", "io")
#: Counts of /proc/PID/stat after the name: own and of children that have ended.
_STAT = {"minor-faults": (7, 8), "major-faults": (9, 10), "user-ms": (11, 13), "system-ms": (12, 14)}
_IO = ("rchar", "wchar", "syscr", "syscw", "read_bytes", "write_bytes")
_RSS = 21


class Group:
    """A control group (version 2) that counts; a machine may not let us make one.

    Raises
    ------
    OSError
        From the constructor, if it does not.
    """

    def __init__(self, name: str) -> None:
        root = _cgroup2()
        self._path = root / f"perfjudge-{os.getpid()}-{name}"
        self._path.mkdir()
        (self._path / "cpu.stat").read_text()

    def add(self, pid: int) -> None:
        """Move a program into the group."""
        (self._path / "cgroup.procs").write_text(str(pid))

    def counts(self) -> dict[str, float]:
        """Return processor time and pressure so far, in microseconds."""
        counts: dict[str, float] = {}
        for line in lines(self._path / "cpu.stat"):
            name, value = line.split()
            if name in {"user_usec", "system_usec"}:
                counts[f"group-{name.replace('_', '-')}"] = float(value)
        for resource in PRESSURES:
            for line in lines(self._path / f"{resource}.pressure"):
                kind, *_, total = line.split()
                counts[f"group-{resource}-pressure-{kind}-usec"] = float(total.partition("=")[2])
        return counts

    def close(self) -> None:
        """Remove the group; its programs have ended."""
        with suppress(OSError):
            self._path.rmdir()


def remove_abandoned_groups() -> None:
    """Remove groups of measurements that were killed."""
    with suppress(OSError):
        remove_abandoned(_cgroup2())


def _cgroup2() -> Path:
    for line in Path("/proc/mounts").read_text().splitlines():
        _, path, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(path)
    raise OSError("no control groups of version 2 are mounted")


class Tree:
    """A program and what it started.

    Parameters
    ----------
    pid : int
        Of a child of ours, which may be stopped.
    cpu : int
        The processor it is pinned to.
    group : Group or None
    """

    def __init__(self, pid: int, cpu: int, group: Group | None) -> None:
        self._pid, self._cpu, self._group = pid, cpu, group
        # a thread's own counts end with it: the last that was seen, so short-lived ones are missed
        self._threads: dict[int, tuple[float, ...]] = {}
        self._resident = 0.0

    @property
    def resident_mebibytes(self) -> float:
        """Resident memory at the last look."""
        return self._resident

    def counts(self) -> dict[str, float]:
        """Return all counts so far."""
        counts = self.processes()
        if self._group is not None:
            counts |= self._group.counts()
        return counts | _machine(self._cpu)

    def seconds(self) -> float:
        """Return the processor time so far."""
        counts = self.processes()
        return (counts["process-user-ms"] + counts["process-system-ms"]) / 1000

    def processes(self) -> dict[str, float]:
        """Return what the processes have counted so far."""
        counts = dict.fromkeys([*_STAT, *_IO], 0.0)
        resident = 0.0
        for pid in descendants(self._pid):
            stat = _stat(pid)
            if not stat:
                continue
            for name, columns in _STAT.items():
                counts[name] += sum(int(stat[column]) for column in columns)
            resident += int(stat[_RSS]) * PAGE_MEBIBYTES
            for line in lines(Path(f"/proc/{pid}/io")):
                name, _, value = line.partition(": ")
                if name in _IO:
                    counts[name] += int(value)
            self._look_at_threads(pid)
        # a program that has just ended has nothing left
        self._resident = resident or self._resident
        for name in ("user-ms", "system-ms"):
            counts[name] *= TICK_MILLISECONDS
        seen = list(self._threads.values())
        for column, name in enumerate(("wait-ns", "timeslices"), 1):
            counts[name] = sum(numbers[column] for numbers in seen)
        return {f"process-{name.replace('_', '-')}": value for name, value in counts.items()}

    def _look_at_threads(self, pid: int) -> None:
        with suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                for line in lines(thread / "schedstat"):
                    self._threads[int(thread.name)] = tuple(float(number) for number in line.split())


def descendants(pid: int) -> Iterator[int]:
    """Yield `pid` and what it started that still is."""
    yield pid
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for line in lines(thread / "children"):
                for child in line.split():
                    yield from descendants(int(child))


def _machine(cpu: int) -> dict[str, float]:
    return _times(cpu) | _interrupts(cpu) | _memory()


def _times(cpu: int) -> dict[str, float]:
    counts: dict[str, float] = {}
    for line in lines(Path("/proc/stat")):
        name, *values = line.split()
        if name == f"cpu{cpu}":
            times = dict(zip(CPU_TIMES, map(int, values), strict=False))
            # a measurement may itself be nice
            times["user"] += times.pop("nice")
            counts |= {f"cpu-{kind}-ms": float(ticks * TICK_MILLISECONDS) for kind, ticks in times.items()}
        elif name in {"intr", "ctxt", "processes"}:
            counts[f"system-{name}"] = float(values[0])
    return counts


def _interrupts(cpu: int) -> dict[str, float]:
    counts: dict[str, float] = {}
    for path, names in (("/proc/interrupts", INTERRUPTS), ("/proc/softirqs", SOFTIRQS)):
        head, *rows = lines(Path(path)) or [""]
        processors = head.split()
        for line in rows:
            name, _, values = line.strip().partition(":")
            if name in names and f"CPU{cpu}" in processors:
                count = values.split()[processors.index(f"CPU{cpu}")]
                counts[f"cpu-{Path(path).name}-{name}"] = float(count)
    return counts


def _memory() -> dict[str, float]:
    counts = {"system-pgalloc": 0.0}
    for line in lines(Path("/proc/vmstat")):
        name, _, value = line.partition(" ")
        if name in VMSTAT:
            counts[f"system-{name.replace('_', '-')}"] = float(value)
        elif name.startswith("pgalloc_"):
            counts["system-pgalloc"] += float(value)
    return counts


def _stat(pid: int) -> list[str]:
    return "".join(lines(Path(f"/proc/{pid}/stat"))).rpartition(")")[2].split()


def lines(path: Path) -> list[str]:
    """Return the lines of a file; none if it is gone, or not ours to read."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
