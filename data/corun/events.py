"""What the kernel counts beside perf, under the names of events.

Counts only grow, so that the difference of two is what happened between them. They come from the whole tree
of processes (``process-``), from a control group where one may be made (``group-``), from the lines of the
processor that the program is pinned to (``cpu-``) and from those of the whole machine (``system-``).
"""

from __future__ import annotations

from data.measure import kernel_counts
from data.measure.groups import Group
from data.measure.proc import CPU_TIMES
from data.measure.process_counts import ProcessTree

INTERRUPTS = ("LOC", "RES", "CAL", "TLB")
SOFTIRQS = ("TIMER", "SCHED", "RCU", "HRTIMER", "BLOCK", "NET_RX")
VMSTAT = (
    *("pgpgin", "pgpgout", "pgfree", "pgactivate", "pgdeactivate", "pgfault", "pgmajfault", "pgreuse"),
    *("nr_dirtied", "nr_written", "numa_hit", "thp_fault_alloc", "thp_split_pmd", "unevictable_pgs_culled"),
)
#: Events by what the kernel's counts are called.
EVENTS = {
    **{f"cpu.{kind}": f"cpu-{kind}-ms" for kind in CPU_TIMES},
    **{f"stat.{name}": f"system-{name}" for name in ("intr", "ctxt", "processes")},
    **{f"irq.cpu.{name}": f"cpu-interrupts-{name}" for name in INTERRUPTS},
    **{f"softirq.cpu.{name}": f"cpu-softirqs-{name}" for name in SOFTIRQS},
    **{f"vmstat.{name}": f"system-{name.replace('_', '-')}" for name in VMSTAT},
}


def counts(tree: ProcessTree, cpu: int, group: Group | None) -> dict[str, float]:
    """Return all counts so far of a program that is pinned to processor `cpu`."""
    own = {f"process-{name.replace('_', '-')}": count for name, count in tree.counts().items()}
    grouped = group.counts() if group is not None else {}
    return own | {f"group-{name.replace('_', '-')}": count for name, count in grouped.items()} | machine(cpu)


def machine(cpu: int) -> dict[str, float]:
    """Return the counts of processor `cpu` and of the whole machine so far."""
    counted = kernel_counts.stat(cpu) | kernel_counts.interrupts(cpu)
    memory = kernel_counts.vmstat()
    # a measurement may itself be nice
    counted["cpu.user"] += counted.pop("cpu.nice")
    allocated = sum(count for name, count in memory.items() if name.startswith("vmstat.pgalloc_"))
    return _events(counted) | {"system-pgalloc": allocated} | _events(memory)


def _events(counted: dict[str, float]) -> dict[str, float]:
    return {EVENTS[name]: count for name, count in counted.items() if name in EVENTS}
