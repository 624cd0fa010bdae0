"""The kernel's counts of the whole machine and of programs, from ``/proc/vmstat`` and similar files.

Counts only grow; levels rise and fall. Names begin with their source and do not depend on the machine:
``disk.reads`` is the sum over all disks.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
TICK_MILLISECONDS = 1000 // TICKS_PER_SECOND
#: Columns of a processor in /proc/stat.
CPU_TIMES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
#: Resources with pressure stall information.
PRESSURES = ("cpu", "memory", "io")
#: Column of /proc/PID/stat after the name: time of the start, in ticks since boot.
_STARTED = 19


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file; an empty list if it cannot be read."""
    try:
        # the kernel cuts names of programs even within a character
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def read_rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield for each line its first word and its other words; nothing if the file cannot be read.

    The first colon of a line separates words, too. A blank line gives ``("", [])``.
    """
    for line in read_lines(path):
        name, *words = line.replace(":", " ", 1).split() or [""]
        yield name, words


def pressure_totals(path: Path) -> dict[str, float]:
    """Return the microseconds so far in which some or all tasks waited, by the keys "some" and "full".

    `path` is a file such as ``/proc/pressure/cpu``; the result is empty if it cannot be read.
    """
    return {kind: float(words[-1].partition("=")[2]) for kind, words in read_rows(path)}


def process_stat(pid: int) -> list[str]:
    """Return the words of ``/proc/PID/stat`` after the name, state first; empty if the process is gone."""
    return "".join(read_lines(PROC / str(pid) / "stat")).rpartition(")")[2].split()


def running_seconds(pid: int) -> float:
    """Return the seconds of real time since the process `pid` started; 0 if it no longer exists."""
    words = process_stat(pid)
    if not words:
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(words[_STARTED]) / TICKS_PER_SECOND


def thread_folders(pid: int) -> Iterator[Path]:
    """Yield ``/proc/PID/task/TID`` of each thread of the process `pid`; nothing if the process is gone."""
    with suppress(OSError):
        yield from (PROC / str(pid) / "task").iterdir()


def child_processes(pid: int) -> Iterator[int]:
    """Yield the ids of the child processes of `pid`, with adopted ones and zombies; none if it is gone."""
    for thread in thread_folders(pid):
        yield from map(int, " ".join(read_lines(thread / "children")).split())


def with_descendants(pid: int) -> Iterator[int]:
    """Yield `pid`, even if it is gone, and the ids of all its descendants, parents first."""
    yield pid
    for child in child_processes(pid):
        yield from with_descendants(child)


def is_running(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    return process_stat(pid)[:1] not in ([], ["Z"], ["X"])


PAGE_MEBIBYTES = os.sysconf("SC_PAGE_SIZE") / 2**20
#: Columns of counts in /proc/PID/stat after the name: of the process, and of children that have ended.
_STAT = {"minor_faults": (7, 8), "major_faults": (9, 10), "user_ms": (11, 13), "system_ms": (12, 14)}
_IO = ("rchar", "wchar", "syscr", "syscw", "read_bytes", "write_bytes")
_RSS = 21
#: Columns of /proc/PID/task/TID/schedstat after the first.
_SCHEDSTAT = ("wait_ns", "timeslices")
KIB = 1024.0
#: Names of `ProcessTree.detailed_counts` by those of `ProcessTree.counts`, and divisors where not 1.
NAMES = {"user_ms": "user", "system_ms": "system"}
NAMES |= {"minor_faults": "minor_faults", "major_faults": "major_faults"}
NAMES |= {"rchar": "read_volume", "wchar": "write_volume", "syscr": "read_calls", "syscw": "write_calls"}
NAMES |= {"read_bytes": "disk_read", "write_bytes": "disk_written", "wait_ns": "wait", "timeslices": "slices"}
DIVISORS = {**dict.fromkeys(("rchar", "wchar", "read_bytes", "write_bytes"), KIB), "wait_ns": 1e6}
#: Names of levels by file of /proc/PID.
LEVEL_FIELDS = {
    "status": {"VmSize", "VmHWM", "RssAnon", "RssFile", "RssShmem", "VmData", "VmStk", "VmPTE", "Threads"},
    "smaps_rollup": {
        *("Pss", "Shared_Clean", "Shared_Dirty", "Private_Clean", "Private_Dirty", "AnonHugePages")
    },
    "sched": {"se.avg.load_avg", "se.avg.runnable_avg", "se.avg.util_avg"},
}
#: Names of a thread's counts by those in /proc/PID/task/TID/status and sched.
SWITCHES = {
    "voluntary_ctxt_switches": "voluntary_switches",
    "nonvoluntary_ctxt_switches": "involuntary_switches",
}
SCHED = {"se.sum_exec_runtime": "run", "se.nr_migrations": "migrations", "nr_switches": "switches"}


class ProcessTree:
    """Counts and levels of a child program and its descendants.

    ``resident_mebibytes`` is set by `counts`.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        # a thread's counts are lost when it ends: keep the last ones seen; short-lived threads are missed
        self._threads: defaultdict[str, dict[str, float]] = defaultdict(dict)
        self.resident_mebibytes = 0.0

    def counts(self) -> dict[str, float]:
        """Return all counts so far by name: ``user_ms``, ``minor_faults``, ``rchar`` (bytes) and others."""
        counts = dict.fromkeys([*_STAT, *_IO], 0.0)
        resident = 0.0
        for pid in with_descendants(self._pid):
            words = process_stat(pid)
            if not words:
                continue
            for name, columns in _STAT.items():
                counts[name] += sum(int(words[column]) for column in columns)
            resident += int(words[_RSS]) * PAGE_MEBIBYTES
            for name, (value, *_) in read_rows(PROC / str(pid) / "io"):
                if name in _IO:
                    counts[name] += int(value)
            for thread in thread_folders(pid):
                for _, numbers in read_rows(thread / "schedstat"):
                    for name, number in zip(_SCHEDSTAT, numbers, strict=True):
                        self._threads[name][thread.name] = float(number)
        # a program that has just ended has no memory
        self.resident_mebibytes = resident or self.resident_mebibytes
        for name in ("user_ms", "system_ms"):
            counts[name] *= TICK_MILLISECONDS
        return counts | self._thread_sums(_SCHEDSTAT)

    def _thread_sums(self, names: Iterable[str]) -> dict[str, float]:
        return {name: sum(self._threads[name].values(), 0.0) for name in names}

    def processor_seconds(self) -> float:
        """Return the processor time so far, in seconds."""
        counts = self.counts()
        return (counts["user_ms"] + counts["system_ms"]) / 1000

    def detailed_counts(self) -> dict[str, float]:
        """Return more counts so far by name, such as ``user`` and ``wait`` (ms) or ``read_volume`` (KiB)."""
        tree_counts = self.counts()
        counts = {name: tree_counts[source] / DIVISORS.get(source, 1) for source, name in NAMES.items()}
        for pid in with_descendants(self._pid):
            for thread in thread_folders(pid):
                for file, names in (("status", SWITCHES), ("sched", SCHED)):
                    for name, words in read_rows(thread / file):
                        if name in names:
                            self._threads[names[name]][thread.name] = float(words[0])
        return counts | self._thread_sums((*SWITCHES.values(), *SCHED.values()))

    def levels(self) -> dict[str, float]:
        """Return summed levels by name (``level_VmSize``: KiB, ``resident``: MiB); empty after the end."""
        total: defaultdict[str, float] = defaultdict(float)
        for pid in with_descendants(self._pid):
            for file, names in LEVEL_FIELDS.items():
                for name, words in read_rows(PROC / str(pid) / file):
                    if name in names:
                        total[f"level_{name.removeprefix('se.')}"] += float(words[0])
            with suppress(OSError):
                total["level_files"] += len(list((PROC / str(pid) / "fd").iterdir()))
        return dict(total, resident=self.resident_mebibytes) if total else {}


#: The nr_ lines of vmstat that are counts; the others are levels.
NR_COUNTS = frozenset(
    f"vmstat.{name}"
    for name in (
        *("nr_dirtied", "nr_written", "nr_throttled_written", "nr_vmscan_write"),
        *("nr_vmscan_immediate_reclaim", "nr_foll_pin_acquired", "nr_foll_pin_released"),
    )
)
#: Prefixes of the names of levels; all others are counts.
LEVEL_PREFIXES = (
    *("vmstat.nr_", "vmstat.workingset_nodes", "stat.procs_", "disk.in_flight"),
    *("meminfo.", "zone.", "slab.", "buddy."),
)
DISK = (
    *("reads", "reads_merged", "read_volume", "read_time", "writes", "writes_merged", "write_volume"),
    *("write_time", "in_flight", "busy_time", "queue_time", "discards", "discards_merged"),
    *("discard_volume", "discard_time", "flushes", "flush_time"),
)
SECTORS_PER_KIB = 2
NOT_DISKS = re.compile(r"loop|ram|zram|dm-|md|sr|fd")
#: Columns of an interface's counts in /proc/net/dev.
NET = {"rx_bytes": 0, "rx_packets": 1, "tx_bytes": 8, "tx_packets": 9}
#: Columns of /proc/schedstat, which not every kernel has; those without name are ignored.
SCHEDULE = ("yields", "", "schedules", "idles", "wakeups", "local_wakeups", "run_ns", "wait_ns", "slices")
#: Levels of /proc/meminfo that are not in vmstat.
MEMINFO = ("MemAvailable", "Buffers", "Cached", "Committed_AS", "VmallocUsed", "Percpu", "DirectMap4k")
#: Kernel objects (slabs) for programs, files and connections.
SLABS = (
    *("dentry", "filp", "vm_area_struct", "anon_vma", "anon_vma_chain", "task_struct", "pid", "mm_struct"),
    *("files_cache", "signal_cache", "ext4_inode_cache", "proc_inode_cache", "buffer_head", "maple_node"),
    *("radix_tree_node", "kmalloc-64", "kmalloc-1k", "skbuff_head_cache"),
)

Numbers = dict[str, float]


def machine_counts(cpu: int) -> Numbers:
    """Return the machine's counts since boot by name (``disk.reads``), in the units of `count_unit`.

    Levels are left out. Counts whose names contain ``cpu.`` or ``sched.`` are of processor `cpu`, the others
    of the whole machine. A file of ``/proc`` that cannot be read gives no counts; if it is ``net/dev``, its
    counts are 0.
    """
    numbers = processor_counts(cpu) | memory_numbers() | interrupt_counts(cpu) | _disk_counts()
    numbers |= _network_counts()
    for resource in PRESSURES:
        for kind, total in pressure_totals(PROC / "pressure" / resource).items():
            numbers[f"pressure.{resource}_{kind}"] = total
    # not every kernel has the scheduler's counts
    schedule = zip(SCHEDULE, dict(read_rows(PROC / "schedstat")).get(f"cpu{cpu}", []), strict=False)
    numbers |= {f"sched.{kind}": float(value) for kind, value in schedule if kind}
    return {name: value for name, value in numbers.items() if not _is_level(name)}


def machine_levels() -> Numbers:
    """Return the machine's levels by name, such as ``meminfo.Cached``, in the units of `count_unit`.

    Files of ``/proc`` that cannot be read give no levels.
    """
    numbers = processor_counts() | memory_numbers() | _disk_counts()
    numbers |= _memory_levels() | _kernel_object_levels()
    return {name: value for name, value in numbers.items() if _is_level(name)}


def _is_level(name: str) -> bool:
    return name.startswith(LEVEL_PREFIXES) and name not in NR_COUNTS


def processor_counts(cpu: int | None = None) -> Numbers:
    """Return the times (ms), counts and levels in ``/proc/stat`` by name; times and counts are since boot.

    Times are ``stat.<kind>``, the sum of all processors (``stat.softirq_time`` of soft interrupts), and, of
    `cpu`, ``cpu.<kind>``, for the kinds in `CPU_TIMES`; counts are ``stat.ctxt``, ``stat.intr``,
    ``stat.softirq`` (the number of soft interrupts) and ``stat.processes``; levels are ``stat.procs_<name>``.
    """
    numbers: Numbers = {}
    for name, values in read_rows(PROC / "stat"):
        if name in {"cpu", f"cpu{cpu}"}:
            place = "stat" if name == "cpu" else "cpu"
            for kind, ticks in zip(CPU_TIMES, values, strict=False):
                # stat.softirq is the number, from the line softirq
                suffix = "_time" if (place, kind) == ("stat", "softirq") else ""
                numbers[f"{place}.{kind}{suffix}"] = float(int(ticks) * TICK_MILLISECONDS)
        elif name in {"intr", "ctxt", "processes", "softirq"} or name.startswith("procs_"):
            numbers[f"stat.{name}"] = float(values[0])
    return numbers


def memory_numbers() -> Numbers:
    """Return all numbers of ``/proc/vmstat``, counts since boot and levels, by names ``vmstat.<name>``."""
    return {f"vmstat.{name}": float(value) for name, (value,) in read_rows(PROC / "vmstat")}


def interrupt_counts(cpu: int) -> Numbers:
    """Return the numbers of interrupts since boot, ``irq.<name>``, and of soft ones, ``softirq.<name>``.

    They are of all processors; ``irq.cpu.<name>`` and ``softirq.cpu.<name>`` are of `cpu`. A name is the
    kernel's, such as RES, or a device's.
    """
    counted: Counter[str] = Counter()
    for file, place in (("interrupts", "irq"), ("softirqs", "softirq")):
        first, *numbers = [*read_rows(PROC / file)] or [("", [])]
        processors = [first[0], *first[1]]
        for number, words in numbers:
            values = [int(word) for word in words[: len(processors)] if word.isdecimal()]
            # name devices by their name, because their number changes between boots
            name = words[-1] if number.isdecimal() and len(words) > len(processors) else number
            counted[f"{place}.{name}"] += sum(values)
            if f"CPU{cpu}" in processors and len(values) == len(processors):
                counted[f"{place}.cpu.{name}"] += values[processors.index(f"CPU{cpu}")]
    return {name: float(value) for name, value in counted.items()}


def _disk_counts() -> Numbers:
    total: Counter[str] = Counter()
    for _, (_, name, *values) in read_rows(PROC / "diskstats"):
        if not NOT_DISKS.match(name) and not (Path("/sys/class/block") / name / "partition").exists():
            total.update(dict(zip(DISK, map(int, values), strict=False)))
    scales = {name: SECTORS_PER_KIB if name.endswith("volume") else 1 for name in total}
    return {f"disk.{name}": value / scales[name] for name, value in total.items()}


def _network_counts() -> Numbers:
    counted: Counter[str] = Counter({f"net.{name}": 0 for name in NET})
    for interface, values in list(read_rows(PROC / "net/dev"))[2:]:
        for name, column in NET.items():
            counted[f"net.{name}"] += int(values[column])
            if interface == "lo":
                counted[f"net.lo_{name}"] += int(values[column])
    protocols = list(read_rows(PROC / "net/snmp"))
    for (protocol, names), (_, values) in zip(protocols[::2], protocols[1::2], strict=False):
        if protocol in {"Ip", "Tcp", "Udp"}:
            for name, value in zip(names, values, strict=False):
                if name.startswith(("In", "Out", "Active", "Passive", "Retrans")):
                    counted[f"net.{protocol}_{name}"] = int(value)
    return {name: float(value) for name, value in counted.items()}


def _memory_levels() -> Numbers:
    meminfo = read_rows(PROC / "meminfo")
    numbers, zone = {f"meminfo.{name}": float(words[0]) for name, words in meminfo if name in MEMINFO}, ""
    for name, words in read_rows(PROC / "zoneinfo"):
        if name == "Node":
            zone = words[-1]
        elif name == "pages" and words[0] == "free":
            numbers[f"zone.{zone}_free"] = float(words[1])
        elif name == "count":
            numbers[f"zone.{zone}_ready"] = numbers.get(f"zone.{zone}_ready", 0.0) + float(words[0])
    return numbers


def _kernel_object_levels() -> Numbers:
    slabs = read_rows(PROC / "slabinfo")
    numbers = {f"slab.{name}": float(values[0]) for name, values in slabs if name in SLABS}
    for line in read_lines(PROC / "buddyinfo"):
        zone, *free = line.partition("zone")[2].split()
        if zone == "Normal":
            numbers |= {f"buddy.order_{order}": float(blocks) for order, blocks in enumerate(free)}
    return numbers


def count_unit(name: str) -> str:
    """Return the unit of a machine's count or level by its name: "ms", "us", "ns", "KiB", "B", else "1".

    ``stat.softirq_time`` is a time, ``stat.softirq`` the number of soft interrupts.
    """
    kind = name.partition(".")[2].removesuffix("_time")
    if name.startswith(("cpu.", "stat.")) and kind in CPU_TIMES and name != "stat.softirq":
        return "ms"
    if name in {"vmstat.pgpgin", "vmstat.pgpgout"} or name.startswith("meminfo."):
        return "KiB"
    if name.startswith("disk."):
        return {"volume": "KiB", "time": "ms"}.get(name.rpartition("_")[2], "1")
    if name.startswith("pressure."):
        return "us"
    if name.endswith("bytes"):
        return "B"
    return "ns" if name.endswith("_ns") else "1"
