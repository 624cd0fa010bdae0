"""Control groups (version 2), which count the resources that programs use and end their processes."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from data.measure.kernel_counts import (
    PRESSURES,
    PROC,
    child_processes,
    is_running,
    pressure_totals,
    read_lines,
    read_rows,
    with_descendants,
)

CGROUPS = Path("/sys/fs/cgroup")
#: Period of a quota: short compared with a repetition, so that a program is slowed evenly.
PERIOD_MICROSECONDS = 10_000
_PROCESSES, _KILL, _EVENTS = "cgroup.procs", "cgroup.kill", "cgroup.events"
#: Seconds between checks of processes that are ending.
NAP = 0.005
#: Removes a measurement's groups when its process, which holds the other end of the pipe, has ended.
#: It runs in the background, detached from its parent, so that it is not measured.
_GUARD = """
exec 3<&0
{ read -r _
[ -d "$1" ] || exit
echo 1 > "$1/cgroup.kill"
for _ in 1 2 3 4 5 6 7 8 9 10; do rmdir "$1"/*/*/ "$1"/*/ "$1" && exit; sleep 0.1; done
} <&3 >/dev/null 2>&1 &
"""
#: Constants of linux/prctl.h.
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
#: The environment variable that marks a program's processes where control groups are not available.
_MARK = "PERFJUDGE_PROGRAM"
_numbers = count(1)
_moving = threading.Lock()


class Group:
    """A control group with accounting; a subgroup of `within`, if that is given.

    Groups are created in the group of this process, so that they need no additional rights and have its
    limits. They are removed when this process ends, even if it is killed. OSError if this machine does not
    allow groups.
    """

    #: Function that the child runs before the program (`preexec_fn`), and its environment variables.
    prepare_child: ClassVar[None] = None
    environment: ClassVar[Mapping[str, str]] = {}

    def __init__(self, within: Group | None = None) -> None:
        base: Path = _base_group(os.getpid()) if within is None else within.path
        with _moving:
            base.mkdir(exist_ok=True)
            self.path: Path = base / str(next(_numbers))
            self.path.mkdir()
        (self.path / "cpu.stat").read_text()

    def follow_program(self, pid: int) -> None:
        """Do nothing: processes that start in the group stay in it."""

    @contextmanager
    def starting_inside(self) -> Iterator[None]:
        """Start programs in the group while the block runs.

        Moving a running program instead would miss processes it has already started.
        """
        with _moving:
            own_group = _own_group()
            self.add_process(0)
            try:
                yield
            finally:
                (own_group / _PROCESSES).write_text("0")

    def add_process(self, pid: int) -> None:
        """Move a process into the group; 0 is this process."""
        (self.path / _PROCESSES).write_text(str(pid))

    def list_processes(self) -> list[int]:
        """Return the ids of the processes in the group and its subgroups."""
        if not _has_processes(self.path):
            return []
        folders = [folder for folder, *_ in os.walk(self.path)]
        return [int(pid) for folder in folders for pid in read_lines(Path(folder, _PROCESSES))]

    def counts(self) -> dict[str, float]:
        """Return processor times and pressures so far by name (``user_usec``), in microseconds."""
        times = dict(read_rows(self.path / "cpu.stat"))
        counts = {name: float(times[name][0]) for name in times if name in {"user_usec", "system_usec"}}
        for resource in PRESSURES:
            for kind, total in pressure_totals(self.path / f"{resource}.pressure").items():
                counts[f"{resource}_pressure_{kind}_usec"] = total
        return counts

    def kill(self) -> None:
        """Kill all processes in the group."""
        _kill_group(self.path)

    def close(self) -> None:
        """Kill the remaining processes in the group, and remove it."""
        remove_group(self.path)
        with _moving, suppress(OSError):
            _base_group(os.getpid()).rmdir()


class Descendants:
    """A program and all processes it started, for machines without control groups.

    This process becomes their subreaper: orphaned processes become its children, and are assigned to a
    program by a variable in their environment. If this process and the program are killed, the program's
    children survive.
    """

    def __init__(self) -> None:
        _libc().prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self._before = frozenset(child_processes(os.getpid()))
        self._mark = f"{os.getpid()}-{next(_numbers)}"
        self._program = 0

    @staticmethod
    def prepare_child() -> None:
        """Have the calling process killed when its parent ends; runs in the child before the program."""
        _libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables that mark the program's processes."""
        return {_MARK: self._mark}

    @staticmethod
    def starting_inside() -> AbstractContextManager[None]:
        """Do nothing: a program is followed after its start."""
        return nullcontext()

    def follow_program(self, pid: int) -> None:
        """Set the id of the program whose processes are listed and killed."""
        self._program = pid
        _PROGRAMS.add(pid)

    def list_processes(self) -> list[int]:
        """Return the ids of the program's running processes; the program must not have been waited for."""
        roots = (self._program, *self._adopted_processes())
        return [pid for root in roots for pid in with_descendants(root) if is_running(pid)]

    def _adopted_processes(self) -> Iterator[int]:
        mark = f"{_MARK}={self._mark}".encode()
        for pid in set(child_processes(os.getpid())) - self._before - _PROGRAMS:
            if not is_running(pid):
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
                continue
            # if only one program runs, it started the process even if the mark was removed
            with suppress(OSError):
                if {self._program} == _PROGRAMS or mark in (PROC / str(pid) / "environ").read_bytes():
                    yield pid

    def kill(self) -> None:
        """Kill all processes of the program."""
        signal_processes(self.list_processes(), signal.SIGKILL)

    def close(self) -> None:
        """Kill the remaining processes of the program, and stop following it."""
        # the second call finds processes that were adopted during the first
        while self.list_processes() or self.list_processes():
            self.kill()
            time.sleep(NAP)
        _PROGRAMS.discard(self._program)


#: The programs of all `Descendants`.
_PROGRAMS: set[int] = set()


@cache
def why_no_groups() -> str:
    """Return the reason why this machine does not allow control groups with accounting, empty if it does.

    The answer is determined once, by creating and removing a group.
    """
    try:
        group = Group()
        try:
            with group.starting_inside():
                pass
        finally:
            group.close()
    except OSError as exc:
        return f"no control groups to count in ({exc})"
    return ""


def new_container() -> Group | Descendants:
    """Return an empty container for a program and its processes: a `Group` if possible."""
    return Descendants() if why_no_groups() else Group()


def signal_processes(processes: Iterable[int], number: int) -> None:
    """Send the signal `number` to processes by id, except to ended ones and where it is not permitted."""
    for pid in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _kill_group(path: Path) -> None:
    with suppress(OSError):
        (path / _KILL).write_text("1")


def remove_group(path: Path) -> None:
    """Kill all processes in the control group at `path`, and remove it with its subgroups, if possible.

    It waits up to 10 s for their end. In version 1 of control groups, they are not killed.
    """
    if _has_processes(path):
        _kill_group(path)
        ended = time.monotonic() + 10
        while _has_processes(path) and time.monotonic() < ended:
            time.sleep(NAP)
    for folder, *_ in os.walk(path, topdown=False):
        with suppress(OSError):
            Path(folder).rmdir()


def _remove_abandoned(root: Path) -> None:
    """Remove the control groups ``perfjudge-<pid>...`` in `root` whose process has ended."""
    for group in root.glob("perfjudge-*"):
        if not (PROC / group.name.split("-")[1]).exists():
            remove_group(group)


@cache
def _base_group(process: int) -> Path:
    """Return the parent of all groups of this process; create it on the first call."""
    own_group = _own_group()
    _remove_abandoned(own_group)
    base = own_group / f"perfjudge-{process}"
    base.mkdir()
    try:
        # missing in kernels before 5.14
        (base / _KILL).stat()
    except OSError:
        base.rmdir()
        raise
    # the other end stays open until the kernel closes it when this process ends
    reading, _ = os.pipe()
    subprocess.run(["sh", "-c", _GUARD, "sh", base], stdin=reading, check=True, start_new_session=True)
    os.close(reading)
    return base


def _own_group() -> Path:
    for line in (PROC / "self" / "mounts").read_text().splitlines():
        _, path, kind, *_ = line.split()
        if kind == "cgroup2":
            group = dict(read_rows(PROC / "self" / "cgroup"))["0"]
            return Path(path) / " ".join(group).lstrip(":/")
    raise OSError("no control groups of version 2 are mounted")


def _has_processes(path: Path) -> bool:
    return dict(read_rows(path / _EVENTS)).get("populated") == ["1"]


@cache
def _libc() -> Any:
    import ctypes

    return ctypes.CDLL(None)


def new_limited_group(controller: str, name: str) -> tuple[Path, bool]:
    """Create the control group `name`, and return its path and whether it has version 1.

    Version 1 is used if this machine has its `controller`, for example "cpu", else version 2. Groups that
    ended processes left are removed. OSError if this machine does not allow groups, or the group exists.
    """
    legacy = CGROUPS / controller
    root = legacy if legacy.is_dir() else CGROUPS
    _remove_abandoned(root)
    (root / name).mkdir()
    return root / name, root == legacy


class Quota:
    """A control group (version 1 or 2) with limited processor time.

    OSError if this machine does not allow one.
    """

    def __init__(self) -> None:
        self.path, self._legacy = new_limited_group("cpu", f"perfjudge-{os.getpid()}")
        # the largest weight, so that only the quota slows a program, not other groups
        name, largest = ("cpu.shares", "262144") if self._legacy else ("cpu.weight", "10000")
        if (self.path / name).exists():
            (self.path / name).write_text(largest)
        if not self._legacy and not (self.path / "cpu.max").exists():
            self.path.rmdir()
            raise OSError(f"{self.path} has no cpu.max: the cpu controller is not enabled")

    def set_limit(self, processors: float) -> None:
        """Limit processor time to `processors` seconds per second."""
        quota = max(1000, round(processors * PERIOD_MICROSECONDS))
        if self._legacy:
            (self.path / "cpu.cfs_quota_us").write_text("-1")
            (self.path / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
            (self.path / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (self.path / "cpu.max").write_text(f"{quota} {PERIOD_MICROSECONDS}")

    @property
    def allows_accounting(self) -> bool:
        """Whether a program can be in this group and at the same time in a group with accounting."""
        return self._legacy

    def add_process(self, pid: int) -> None:
        """Move a running program into the group."""
        (self.path / "cgroup.procs").write_text(str(pid))

    def close(self) -> None:
        """Remove the group; in version 2, its processes are killed."""
        remove_group(self.path)
