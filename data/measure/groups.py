"""Control groups (version 2) that count what programs use; a machine may not let us make one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from data.measure.proc import PRESSURES, PROC, pressure, rows


class Group:
    """A control group that counts.

    Raises
    ------
    OSError
        From the constructor, if this machine does not let us make one.
    """

    def __init__(self, name: str) -> None:
        self._path = _root() / f"perfjudge-{os.getpid()}-{name}"
        self._path.mkdir()
        (self._path / "cpu.stat").read_text()

    def add(self, pid: int) -> None:
        """Move a program into the group."""
        (self._path / "cgroup.procs").write_text(str(pid))

    def counts(self) -> dict[str, float]:
        """Return processor time and pressure so far, in microseconds."""
        counts = {
            name: float(words[0])
            for name, words in rows(self._path / "cpu.stat")
            if name in {"user_usec", "system_usec"}
        }
        for resource in PRESSURES:
            for kind, total in pressure(self._path / f"{resource}.pressure").items():
                counts[f"{resource}_pressure_{kind}_usec"] = total
        return counts

    def close(self) -> None:
        """Remove the group; its programs have ended."""
        with suppress(OSError):
            self._path.rmdir()


def remove_abandoned_groups() -> None:
    """Remove groups of measurements that were killed."""
    with suppress(OSError):
        remove_abandoned(_root())


def remove_abandoned(root: Path) -> None:
    """Remove groups of measurements that were killed; their names go on with the measurement's process."""
    for group in root.glob("perfjudge-*"):
        if not (PROC / group.name.split("-")[1]).exists():
            group.rmdir()


def _root() -> Path:
    for line in (PROC / "mounts").read_text().splitlines():
        _, path, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(path)
    raise OSError("no control groups of version 2 are mounted")
