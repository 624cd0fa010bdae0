"""What this machine is: its settings, as they stand beside a measurement."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from data.errors import InputError
from data.measure.child import execute


def settings() -> dict[str, str]:
    """Describe this machine and the programs that measure on it."""
    return {
        "hostname": platform.node(),
        "processor": _field(Path("/proc/cpuinfo"), "model name"),
        "processors": str(os.cpu_count()),
        "memory": _field(Path("/proc/meminfo"), "MemTotal"),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "distribution": _field(Path("/etc/os-release"), "PRETTY_NAME", "=").strip('"'),
        "governor": _text(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        "nice": str(os.nice(0)),
        "python": platform.python_version(),
        "stress-ng": stress_ng(),
    }


def name() -> str:
    """Return a short name for this kind of machine, such as ``AMD EPYC x2``."""
    return f"{_field(Path('/proc/cpuinfo'), 'model name')} x{os.cpu_count()}"


def stress_ng() -> str:
    """Return the version of stress-ng."""
    try:
        done = execute(["stress-ng", "--version"], "stress-ng")
        done.require("stress-ng")
    except InputError:
        return "not installed"
    return done.output.split(",")[1].split()[1]


def _field(path: Path, key: str, separator: str = ":") -> str:
    for line in _text(path).splitlines():
        found, _, value = line.partition(separator)
        if found.strip() == key:
            return " ".join(value.split())
    return "unknown"


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return "unknown"


@dataclass(frozen=True)
class Topology:
    """What the processors share, as far as the kernel knows; a virtual machine need not say.

    ``siblings`` lists the processors of each core, ``caches`` the processors that share each cache.
    """

    siblings: tuple[str, ...]
    caches: dict[str, tuple[str, ...]]
    virtual: bool
    shared_cache_mib: float

    @property
    def threads_per_core(self) -> int:
        """Processors of the first core."""
        return len(_processors(self.siblings[0])) if self.siblings else 1

    @property
    def told(self) -> str:
        """The same for people."""
        caches = (f"{name} of {' and '.join(cpus)}" for name, cpus in self.caches.items())
        guest = ", as the virtual machine sees it" if self.virtual else ""
        return f"cores: {' and '.join(self.siblings)}; caches: {', '.join(caches)}{guest}"


def topology() -> Topology:
    """Tell which processors share a core and which caches."""
    root = Path("/sys/devices/system/cpu")
    cpus = [root / f"cpu{number}" for number in sorted(os.sched_getaffinity(0))]
    siblings = dict.fromkeys(_text(cpu / "topology/thread_siblings_list") for cpu in cpus)
    caches: dict[str, dict[str, None]] = {}
    shared = 0.0
    for index in (index for cpu in cpus for index in sorted((cpu / "cache").glob("index*"))):
        kind = {"Data": "d", "Instruction": "i"}.get(_text(index / "type"), "")
        size, users = _text(index / "size"), _text(index / "shared_cpu_list")
        caches.setdefault(f"L{_text(index / 'level')}{kind} {size}", {})[users] = None
        if len(_processors(users)) > 1 and size.endswith("K"):
            shared = max(shared, int(size[:-1]) / 1024)
    virtual = "hypervisor" in _field(Path("/proc/cpuinfo"), "flags").split()
    return Topology(tuple(siblings), {name: tuple(users) for name, users in caches.items()}, virtual, shared)


def _processors(text: str) -> list[int]:
    """Read a list of processors such as ``0-1,4``."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal():
            found += range(int(first), int(last or first) + 1)
    return found
