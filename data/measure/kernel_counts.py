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
    {
        *("nr_dirtied", "nr_written", "nr_throttled_written", "nr_vmscan_write"),
        *("nr_vmscan_immediate_reclaim", "nr_foll_pin_acquired", "nr_foll_pin_released"),
    }
)
DISK = (
    *("reads", "reads_merged", "read_volume", "read_time", "writes", "writes_merged", "write_volume"),
    *("write_time", "in_flight", "busy_time", "queue_time", "discards", "discards_merged"),
    *("discard_volume", "discard_time", "flushes", "flush_time"),
)
SECTORS_PER_KIB = 2
NOT_DISKS = re.compile(r"loop|ram|zram|dm-|md|sr|fd")
NET = ("rx_bytes", "rx_packets", "tx_bytes", "tx_packets")
_NET_COLUMNS = (0, 1, 8, 9)
#: Of /proc/schedstat, which not every kernel has.
SCHEDULE = ("yields", "", "schedules", "idles", "wakeups", "local_wakeups", "run_ns", "wait_ns", "slices")
#: Levels of /proc/meminfo that vmstat has not.
MEMINFO = ("MemAvailable", "Buffers", "Cached", "Committed_AS", "VmallocUsed", "Percpu", "DirectMap4k")

#: Objects that the kernel makes for programs, files and connections.
SLABS = frozenset(
    {
        *(
            "dentry",
            "filp",
            "vm_area_struct",
            "anon_vma",
            "anon_vma_chain",
            "task_struct",
            "pid",
            "mm_struct",
        ),
        *("files_cache", "signal_cache", "ext4_inode_cache", "proc_inode_cache", "buffer_head", "maple_node"),
        *("radix_tree_node", "kmalloc-64", "kmalloc-1k", "skbuff_head_cache"),
    }
)

Numbers = dict[str, float]


def counts(cpu: int) -> Numbers:
    """Return all counts so far; ``cpu.`` and ``irq.cpu.`` are those of processor `cpu`."""
    return (
        stat(cpu)[0] | vmstat()[0] | interrupts(cpu) | _disks()[0] | _network() | _pressure() | _schedule(cpu)
    )


def levels(cpu: int) -> Numbers:
    """Return all levels."""
    return stat(cpu)[1] | vmstat()[1] | _disks()[1] | _memory() | _objects()


def stat(cpu: int) -> tuple[Numbers, Numbers]:
    """Return counts and levels of programs, and times of all processors and of `cpu`."""
    counted: Numbers = {}
    level: Numbers = {}
    for name, values in rows(PROC / "stat"):
        if name in {"cpu", f"cpu{cpu}"}:
            place = "stat" if name == "cpu" else "cpu"
            for kind, ticks in zip(CPU_TIMES, values, strict=False):
                counted[f"{place}.{kind}"] = float(int(ticks) * TICK_MILLISECONDS)
        elif name in {"intr", "ctxt", "processes", "softirq"}:
            counted[f"stat.{name}"] = float(values[0])
        elif name.startswith("procs_"):
            level[f"stat.{name}"] = float(values[0])
    return counted, level


def vmstat() -> tuple[Numbers, Numbers]:
    """Return counts and levels of memory."""
    counted: Numbers = {}
    level: Numbers = {}
    for name, (value,) in rows(PROC / "vmstat"):
        gauge = (name.startswith("nr_") and name not in NR_COUNTS) or name == "workingset_nodes"
        (level if gauge else counted)[f"vmstat.{name}"] = float(value)
    return counted, level


def interrupts(cpu: int) -> Numbers:
    """Return interrupts and soft interrupts of all processors and of `cpu`."""
    counted: Counter[str] = Counter()
    for file in ("interrupts", "softirqs"):
        first, *numbers = [*rows(PROC / file)] or [("", [])]
        processors = [first[0], *first[1]]
        for number, words in numbers:
            values = [int(word) for word in words[: len(processors)] if word.isdecimal()]
            # a device keeps its name where its number changes from start to start
            name = words[-1] if number.isdecimal() and len(words) > len(processors) else number
            place = "irq" if file == "interrupts" else "softirq"
            counted[f"{place}.{name}"] += sum(values)
            if f"CPU{cpu}" in processors and len(values) == len(processors):
                counted[f"{place}.cpu.{name}"] += values[processors.index(f"CPU{cpu}")]
    return {name: float(value) for name, value in counted.items()}


def _disks() -> tuple[Numbers, Numbers]:
    total: Counter[str] = Counter()
    for _, (_, name, *values) in rows(PROC / "diskstats"):
        if not NOT_DISKS.match(name) and not (Path("/sys/class/block") / name / "partition").exists():
            total.update(dict(zip(DISK, map(int, values), strict=False)))
    found = {
        f"disk.{name}": value / SECTORS_PER_KIB if name.endswith("volume") else float(value)
        for name, value in total.items()
    }
    level = {name: found.pop(name) for name in ["disk.in_flight"] if name in found}
    return found, level


def _network() -> Numbers:
    counted: Counter[str] = Counter({f"net.{name}": 0 for name in NET})
    for interface, values in list(rows(PROC / "net/dev"))[2:]:
        for name, column in zip(NET, _NET_COLUMNS, strict=True):
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
    for name, values in rows(PROC / "schedstat"):
        if name == f"cpu{cpu}":
            return {
                f"sched.{kind}": float(value) for kind, value in zip(SCHEDULE, values, strict=False) if kind
            }
    return {}


def _memory() -> Numbers:
    level: Numbers = {}
    for name, words in rows(PROC / "meminfo"):
        if name in MEMINFO:
            level[f"meminfo.{name}"] = float(words[0])
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
    level: Numbers = {}
    for name, values in rows(PROC / "slabinfo"):
        if name in SLABS:
            level[f"slab.{name}"] = float(values[0])
    for line in lines(PROC / "buddyinfo"):
        _, _, rest = line.partition("zone")
        zone, *free = rest.split()
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
    return "us" if name.startswith("pressure.") else _unit_by_end(name)


def _unit_by_end(name: str) -> str:
    return next((unit for end, unit in (("bytes", "B"), ("_ns", "ns")) if name.endswith(end)), "1")
