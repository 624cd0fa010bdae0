"""What the kernel counts about the whole machine: ``/proc/vmstat`` and the like, in plain names.

Counts only grow; levels go up and down. A name begins with where the number comes from, so that one machine's
``disk.reads`` is another's, whatever its disks are called.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from data.measure.proc import CPU_TIMES, PRESSURES, PROC, TICK_MILLISECONDS, lines, pressure, rows

#: Those of the nr_ lines of vmstat that only grow.
NR_COUNTS = frozenset(
    f"vmstat.{name}"
    for name in (
        *("nr_dirtied", "nr_written", "nr_throttled_written", "nr_vmscan_write"),
        *("nr_vmscan_immediate_reclaim", "nr_foll_pin_acquired", "nr_foll_pin_released"),
    )
)
#: How names of levels begin; all else only grows.
LEVELS = (
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
#: By what is counted of an interface, its column of /proc/net/dev.
NET = {"rx_bytes": 0, "rx_packets": 1, "tx_bytes": 8, "tx_packets": 9}
#: Of /proc/schedstat, which not every kernel has.
SCHEDULE = ("yields", "", "schedules", "idles", "wakeups", "local_wakeups", "run_ns", "wait_ns", "slices")
#: Levels of /proc/meminfo that vmstat has not.
MEMINFO = ("MemAvailable", "Buffers", "Cached", "Committed_AS", "VmallocUsed", "Percpu", "DirectMap4k")
#: Objects that the kernel makes for programs, files and connections.
SLABS = (
    *("dentry", "filp", "vm_area_struct", "anon_vma", "anon_vma_chain", "task_struct", "pid", "mm_struct"),
    *("files_cache", "signal_cache", "ext4_inode_cache", "proc_inode_cache", "buffer_head", "maple_node"),
    *("radix_tree_node", "kmalloc-64", "kmalloc-1k", "skbuff_head_cache"),
)

Numbers = dict[str, float]


def counts(cpu: int) -> Numbers:
    """Return all counts so far; ``cpu.`` and ``irq.cpu.`` are those of processor `cpu`."""
    found = stat(cpu) | vmstat() | interrupts(cpu) | _disks() | _network() | _pressure() | _schedule(cpu)
    return {name: value for name, value in found.items() if not _is_level(name)}


def levels(cpu: int) -> Numbers:
    """Return all levels."""
    found = stat(cpu) | vmstat() | _disks() | _memory() | _objects()
    return {name: value for name, value in found.items() if _is_level(name)}


def _is_level(name: str) -> bool:
    return name.startswith(LEVELS) and name not in NR_COUNTS


def stat(cpu: int) -> Numbers:
    """Return counts and levels of programs, and times of all processors and of `cpu`."""
    found: Numbers = {}
    for name, values in rows(PROC / "stat"):
        if name in {"cpu", f"cpu{cpu}"}:
            place = "stat" if name == "cpu" else "cpu"
            for kind, ticks in zip(CPU_TIMES, values, strict=False):
                found[f"{place}.{kind}"] = float(int(ticks) * TICK_MILLISECONDS)
        elif name in {"intr", "ctxt", "processes", "softirq"} or name.startswith("procs_"):
            found[f"stat.{name}"] = float(values[0])
    return found


def vmstat() -> Numbers:
    """Return counts and levels of memory."""
    return {f"vmstat.{name}": float(value) for name, (value,) in rows(PROC / "vmstat")}


def interrupts(cpu: int) -> Numbers:
    """Return interrupts and soft interrupts of all processors and of `cpu`."""
    counted: Counter[str] = Counter()
    for file, place in (("interrupts", "irq"), ("softirqs", "softirq")):
        first, *numbers = [*rows(PROC / file)] or [("", [])]
        processors = [first[0], *first[1]]
        for number, words in numbers:
            values = [int(word) for word in words[: len(processors)] if word.isdecimal()]
            # a device keeps its name where its number changes from start to start
            name = words[-1] if number.isdecimal() and len(words) > len(processors) else number
            counted[f"{place}.{name}"] += sum(values)
            if f"CPU{cpu}" in processors and len(values) == len(processors):
                counted[f"{place}.cpu.{name}"] += values[processors.index(f"CPU{cpu}")]
    return {name: float(value) for name, value in counted.items()}


def _disks() -> Numbers:
    total: Counter[str] = Counter()
    for _, (_, name, *values) in rows(PROC / "diskstats"):
        if not NOT_DISKS.match(name) and not (Path("/sys/class/block") / name / "partition").exists():
            total.update(dict(zip(DISK, map(int, values), strict=False)))
    return {
        f"disk.{name}": value / SECTORS_PER_KIB if name.endswith("volume") else float(value)
        for name, value in total.items()
    }


def _network() -> Numbers:
    counted: Counter[str] = Counter({f"net.{name}": 0 for name in NET})
    for interface, values in list(rows(PROC / "net/dev"))[2:]:
        for name, column in NET.items():
            counted[f"net.{name}"] += int(values[column])
            if interface == "lo":
                counted[f"net.lo_{name}"] += int(values[column])
    protocols = list(rows(PROC / "net/snmp"))
    for (protocol, names), (_, values) in zip(protocols[::2], protocols[1::2], strict=False):
        if protocol in {"Ip", "Tcp", "Udp"}:
            for name, value in zip(names, values, strict=False):
                if name.startswith(("In", "Out", "Active", "Passive", "Retrans")):
                    counted[f"net.{protocol}_{name}"] = int(value)
    return {name: float(value) for name, value in counted.items()}


def _pressure() -> Numbers:
    return {
        f"pressure.{resource}_{kind}": total
        for resource in PRESSURES
        for kind, total in pressure(PROC / "pressure" / resource).items()
    }


def _schedule(cpu: int) -> Numbers:
    """Return what the scheduler counts, where the kernel tells."""
    values = dict(rows(PROC / "schedstat")).get(f"cpu{cpu}", [])
    return {f"sched.{kind}": float(value) for kind, value in zip(SCHEDULE, values, strict=False) if kind}


def _memory() -> Numbers:
    level = {f"meminfo.{name}": float(words[0]) for name, words in rows(PROC / "meminfo") if name in MEMINFO}
    zone = ""
    for name, words in rows(PROC / "zoneinfo"):
        if name == "Node":
            zone = words[-1]
        elif name == "pages" and words[0] == "free":
            level[f"zone.{zone}_free"] = float(words[1])
        elif name == "count":
            level[f"zone.{zone}_ready"] = level.get(f"zone.{zone}_ready", 0.0) + float(words[0])
    return level


def _objects() -> Numbers:
    level = {f"slab.{name}": float(values[0]) for name, values in rows(PROC / "slabinfo") if name in SLABS}
    for line in lines(PROC / "buddyinfo"):
        zone, *free = line.partition("zone")[2].split()
        if zone == "Normal":
            level |= {f"buddy.order_{order}": float(blocks) for order, blocks in enumerate(free)}
    return level


def unit(name: str) -> str:
    """Return the unit of a count or level."""
    if name.startswith(("cpu.", "stat.")) and name.partition(".")[2] in CPU_TIMES:
        return "ms"
    if name in {"vmstat.pgpgin", "vmstat.pgpgout"} or name.startswith("meminfo."):
        return "KiB"
    if name.startswith("disk."):
        return {"volume": "KiB", "time": "ms"}.get(name.rpartition("_")[2], "1")
    if name.startswith("pressure."):
        return "us"
    return next((unit for end, unit in (("bytes", "B"), ("_ns", "ns")) if name.endswith(end)), "1")
