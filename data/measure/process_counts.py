"""What the kernel counts about a program and all it started, beyond `data.measure.proc_events.Tree`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from data.measure.proc_events import Tree, descendants, lines

KIB = 1024.0
#: Our names, and what one is in units of the other.
NAMES = {
    "process-user-ms": ("user", 1.0),
    "process-system-ms": ("system", 1.0),
    "process-minor-faults": ("minor_faults", 1.0),
    "process-major-faults": ("major_faults", 1.0),
    "process-rchar": ("read_volume", KIB),
    "process-wchar": ("write_volume", KIB),
    "process-syscr": ("read_calls", 1.0),
    "process-syscw": ("write_calls", 1.0),
    "process-read-bytes": ("disk_read", KIB),
    "process-write-bytes": ("disk_written", KIB),
    "process-wait-ns": ("wait", 1e6),
    "process-timeslices": ("slices", 1.0),
}
#: Levels by the file of /proc/PID that has them.
LEVELS = {
    "status": ("VmSize", "VmHWM", "RssAnon", "RssFile", "RssShmem", "VmData", "VmStk", "VmPTE", "Threads"),
    "smaps_rollup": (
        "Pss",
        "Shared_Clean",
        "Shared_Dirty",
        "Private_Clean",
        "Private_Dirty",
        "AnonHugePages",
    ),
    "sched": ("se.avg.load_avg", "se.avg.runnable_avg", "se.avg.util_avg"),
}
#: Counts of a thread: our names by those of /proc/PID/task/TID/status and sched.
SWITCHES = {
    "voluntary_ctxt_switches": "voluntary_switches",
    "nonvoluntary_ctxt_switches": "involuntary_switches",
}
SCHED = {"se.sum_exec_runtime": "run", "se.nr_migrations": "migrations", "nr_switches": "switches"}


class Program:
    """A running program with all it started.

    Parameters
    ----------
    pid : int
        Of a child of ours.
    cpu : int
        The processor it is pinned to.
    """

    def __init__(self, pid: int, cpu: int) -> None:
        self._pid = pid
        self._tree = Tree(pid, cpu, None)
        # a thread's own counts end with it: the last that was seen
        self._threads: dict[int, dict[str, float]] = {}

    def counts(self) -> dict[str, float]:
        """Return all counts so far."""
        read = self._tree.processes()
        found = {name: read[source] / scale for source, (name, scale) in NAMES.items()}
        for pid in descendants(self._pid):
            with suppress(OSError):
                for thread in Path(f"/proc/{pid}/task").iterdir():
                    self._look_at(thread)
        for name in (*SWITCHES.values(), *SCHED.values()):
            found[name] = sum(counted.get(name, 0.0) for counted in self._threads.values())
        return found

    def _look_at(self, thread: Path) -> None:
        found = self._threads.setdefault(int(thread.name), {})
        for file, names in (("status", SWITCHES), ("sched", SCHED)):
            for line in lines(thread / file):
                name, _, value = line.partition(":")
                if name.strip() in names:
                    found[names[name.strip()]] = float(value)

    def levels(self) -> dict[str, float]:
        """Return levels, summed over the processes; nothing once it has ended."""
        total: dict[str, float] = {}
        for pid in descendants(self._pid):
            for file, names in LEVELS.items():
                for line in lines(Path(f"/proc/{pid}/{file}")):
                    name, _, value = line.partition(":")
                    if name.strip() in names:
                        level = f"level_{name.strip().removeprefix('se.')}"
                        total[level] = total.get(level, 0.0) + float(value.split()[0])
            with suppress(OSError):
                files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
                total["level_files"] = total.get("level_files", 0.0) + files
        if total:
            total["resident"] = self._tree.resident_mebibytes
        return total
