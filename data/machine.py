"""What this machine is: its settings, as they stand beside a measurement."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path


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
        output = subprocess.run(["stress-ng", "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "not installed"
    return output.split(",")[1].split()[1]


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
