"""The settings of this machine, which are stored with a measurement."""

from __future__ import annotations

import os
import platform
import re
import resource
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from data.errors import InputError
from data.measure.child import execute
from data.measure.kernel_counts import CPU_TIMES, PROC, TICKS_PER_SECOND, read_rows


class Disturbance:
    """Measures the processor time of other processes, on the whole machine or on one processor."""

    def __init__(self, processor: int | None = None) -> None:
        self._line = "cpu" if processor is None else f"cpu{processor}"
        self._processors = (os.cpu_count() or 1) if processor is None else 1
        self._begin, self._foreign = time.perf_counter(), self._foreign_seconds()

    def foreign_share(self, ours: float = 0.0) -> float:
        """Return the share of processor time that others used since the start, from 0 to 1.

        `ours` is the processor time in seconds of measured programs that still run.
        """
        elapsed = time.perf_counter() - self._begin
        return max(0.0, self._foreign_seconds() - self._foreign - ours) / (elapsed * self._processors)

    def _foreign_seconds(self) -> float:
        """Return the busy seconds since boot, without those of this process and its ended children."""
        fields = next(fields for name, fields in read_rows(PROC / "stat") if name == self._line)
        times = dict(zip(CPU_TIMES, map(int, fields), strict=False))
        busy = (sum(times.values()) - times["idle"] - times["iowait"]) / TICKS_PER_SECOND
        usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return busy - sum(usage.ru_utime + usage.ru_stime for usage in usages)


AUTOGROUP = Path("/proc/self/autogroup")


class Pinned:
    """Context manager that pins this process and its children to a processor, with a niceness.

    None leaves the processor or the niceness unchanged. ``settings`` has the resulting processor and
    niceness, with the reason if one was refused.
    """

    def __init__(self, processor: int | None, nice: int | None) -> None:
        self._processor, self._nice = processor, nice
        self._before = os.sched_getaffinity(0), os.nice(0), _session_niceness()
        self.settings: dict[str, str] = {}

    def __enter__(self) -> Self:
        self.settings["processor"] = "any"
        if self._processor is not None:
            try:
                os.sched_setaffinity(0, {self._processor})
                self.settings["processor"] = str(self._processor)
            except OSError as exc:
                self.settings["processor"] += f": {self._processor} is not available ({exc})"
        self.settings["nice"] = str(os.nice(0))
        if self._nice is not None:
            try:
                _set_niceness(self._nice, None if self._before[2] is None else self._nice)
                self.settings["nice"] = str(self._nice)
            except OSError as exc:
                self.settings["nice"] += f": {self._nice} is not allowed ({exc})"
        return self

    def __exit__(self, *_: object) -> None:
        affinity, nice, session = self._before
        os.sched_setaffinity(0, affinity)
        if self._nice is not None:
            # lowering the niceness again may not be allowed
            with suppress(OSError):
                _set_niceness(nice, session)


def _session_niceness() -> int | None:
    # the file is missing in kernels without such groups, and empty for a process without a group
    words = AUTOGROUP.read_text().split() if AUTOGROUP.exists() else []
    return int(words[-1]) if words else None


def _set_niceness(nice: int, session: int | None) -> None:
    os.setpriority(os.PRIO_PROCESS, 0, nice)
    # if sessions are groups, a process's niceness only counts within its session
    if session is not None:
        AUTOGROUP.write_text(str(session))


def describe_machine() -> dict[str, str]:
    """Return texts about this machine by their names; a text is "unknown" if it cannot be read.

    Names: hostname, processor (the model), processors, memory, kernel, architecture, distribution, governor,
    nice, python, stress-ng (the version).
    """
    return {
        "hostname": platform.node(),
        "processor": _read_field(Path("/proc/cpuinfo"), "model name"),
        "processors": str(os.cpu_count()),
        "memory": _read_field(Path("/proc/meminfo"), "MemTotal"),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "distribution": _read_field(Path("/etc/os-release"), "PRETTY_NAME", "=").strip('"'),
        "governor": _read_text(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        "nice": str(os.nice(0)),
        "python": platform.python_version(),
        "stress-ng": stress_ng(),
    }


def machine_name() -> str:
    """Return a name of this kind of machine, such as ``AMD EPYC x2``: model and number of processors."""
    return f"{_read_field(Path('/proc/cpuinfo'), 'model name')} x{os.cpu_count()}"


def stress_ng() -> str:
    """Return the version number of stress-ng; "not installed" if it is missing, fails or prints none."""
    try:
        done = execute(["stress-ng", "--version"], "stress-ng")
        done.require_success()
    except InputError:
        return "not installed"
    version = re.search(r"version (\S+)", done.output)
    return version[1] if version else "not installed"


def _read_field(path: Path, key: str, separator: str = ":") -> str:
    for line in _read_text(path).splitlines():
        name, _, value = line.partition(separator)
        if name.strip() == key:
            return " ".join(value.split())
    return "unknown"


def _read_text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return "unknown"


@dataclass(frozen=True)
class Topology:
    """The processors that share cores and caches, as far as the kernel knows; incomplete on virtual machines.

    `read_topology` describes the fields.
    """

    siblings: tuple[str, ...]
    caches: dict[str, tuple[str, ...]]
    virtual: bool
    shared_cache_mib: float

    @property
    def threads_per_core(self) -> int:
        """The number of processors of the first core; 1 if no core is known."""
        return len(_parse_processors(self.siblings[0])) if self.siblings else 1

    @property
    def description(self) -> str:
        """A description in one line for people."""
        caches = (f"{name} {_describe_users(users)}" for name, users in self.caches.items())
        guest = ", as the virtual machine sees it" if self.virtual else ""
        return f"cores: {' and '.join(self.siblings)}; caches: {', '.join(caches)}{guest}"


def _describe_users(users: tuple[str, ...]) -> str:
    if len(users) > 1:
        return f"for each of {' and '.join(users)}"
    return f"{'shared by' if len(_parse_processors(users[0])) > 1 else 'for'} {users[0]}"


def read_topology() -> Topology:
    """Return the cores and caches of the processors that this process may run on.

    ``siblings`` lists the processors of each core ("0-1"), ``caches`` those of each cache ("L2 512K"),
    "unknown" if unreadable; ``virtual`` is whether there is a hypervisor, ``shared_cache_mib`` the size of
    the largest shared cache, 0 if none.
    """
    root = Path("/sys/devices/system/cpu")
    cpus = [root / f"cpu{number}" for number in sorted(os.sched_getaffinity(0))]
    siblings = dict.fromkeys(_read_text(cpu / "topology/thread_siblings_list") for cpu in cpus)
    caches: dict[str, dict[str, None]] = {}
    shared = 0.0
    for index in (index for cpu in cpus for index in sorted((cpu / "cache").glob("index*"))):
        kind = {"Data": "d", "Instruction": "i"}.get(_read_text(index / "type"), "")
        size, users = _read_text(index / "size"), _read_text(index / "shared_cpu_list")
        caches.setdefault(f"L{_read_text(index / 'level')}{kind} {size}", {})[users] = None
        if len(_parse_processors(users)) > 1 and size.endswith("K"):
            shared = max(shared, int(size[:-1]) / 1024)
    virtual = "hypervisor" in _read_field(Path("/proc/cpuinfo"), "flags").split()
    return Topology(tuple(siblings), {name: tuple(users) for name, users in caches.items()}, virtual, shared)


def _parse_processors(text: str) -> list[int]:
    processors: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal():
            processors += range(int(first), int(last or first) + 1)
    return processors
