"""Control groups (version 2): they count what programs use, and end whatever programs leave running."""

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
    children,
    descendants,
    is_running,
    lines,
    pressure,
    rows,
)

CGROUPS = Path("/sys/fs/cgroup")
#: Control group period: short compared with a repetition, so that a quota slows evenly.
PERIOD_MICROSECONDS = 10_000
_PROCESSES, _KILL, _EVENTS = "cgroup.procs", "cgroup.kill", "cgroup.events"
#: Seconds between two looks at processes that are ending.
NAP = 0.005
#: Ends and removes a measurement's groups when its process, which holds the other end of the pipe, has ended.
#: It leaves its parent, so that it is no part of what is measured.
_GUARD = """
exec 3<&0
{ read -r _
[ -d "$1" ] || exit
echo 1 > "$1/cgroup.kill"
for _ in 1 2 3 4 5 6 7 8 9 10; do rmdir "$1"/*/*/ "$1"/*/ "$1" && exit; sleep 0.1; done
} <&3 >/dev/null 2>&1 &
"""
#: Linux's linux/prctl.h.
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
#: The variable by which a program's processes are known where there are no control groups.
_MARK = "PERFJUDGE_PROGRAM"
_numbers = count(1)
_moving = threading.Lock()


class Group:
    """A control group that counts, and can end all that is in it; part of `within`, if that is given.

    Groups lie in the one of this process, so that they need no more rights than it has and underlie the same
    limits. They end with this process, whatever ends it. OSError if this machine does not allow one.
    """

    #: What a program runs before it becomes itself, and what it needs in its environment.
    prepare: ClassVar[None] = None
    environment: ClassVar[Mapping[str, str]] = {}

    def __init__(self, within: Group | None = None) -> None:
        base: Path = _base(os.getpid()) if within is None else within.path
        with _moving:
            base.mkdir(exist_ok=True)
            self.path: Path = base / str(next(_numbers))
            self.path.mkdir()
        (self.path / "cpu.stat").read_text()

    def follow(self, pid: int) -> None:
        """Do nothing: what began in the group stays in it."""

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Let programs that are started while the block runs begin in the group.

        A program that is moved when it runs may have started others by then.
        """
        with _moving:
            home = _home()
            self.add(0)
            try:
                yield
            finally:
                (home / _PROCESSES).write_text("0")

    def add(self, pid: int) -> None:
        """Move a program into the group; 0 is this process."""
        (self.path / _PROCESSES).write_text(str(pid))

    def processes(self) -> list[int]:
        """Return what runs in the group and in those inside it."""
        if not _populated(self.path):
            return []
        folders = [folder for folder, *_ in os.walk(self.path)]
        return [int(pid) for folder in folders for pid in lines(Path(folder, _PROCESSES))]

    def counts(self) -> dict[str, float]:
        """Return processor time and pressure so far, in microseconds."""
        counts = {
            name: float(words[0])
            for name, words in rows(self.path / "cpu.stat")
            if name in {"user_usec", "system_usec"}
        }
        for resource in PRESSURES:
            for kind, total in pressure(self.path / f"{resource}.pressure").items():
                counts[f"{resource}_pressure_{kind}_usec"] = total
        return counts

    def kill(self) -> None:
        """Kill all that is in the group."""
        kill_group(self.path)

    def close(self) -> None:
        """Kill what is left in the group, and remove it."""
        remove_group(self.path)
        with _moving, suppress(OSError):
            _base(os.getpid()).rmdir()


class Descendants:
    """A program and all it started, where there are no control groups.

    Processes whose parents ended become children of this process, their subreaper; which program they come
    from stands in their environment. Of a program that is killed with this process, what it started stays.
    """

    def __init__(self) -> None:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self._before = frozenset(children(os.getpid()))
        self._mark = f"{os.getpid()}-{next(_numbers)}"
        self._program = 0

    @staticmethod
    def prepare() -> None:
        """End with the process that starts the program; the program runs it before it becomes itself."""
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    @property
    def environment(self) -> Mapping[str, str]:
        """What a program needs in its environment."""
        return {_MARK: self._mark}

    @staticmethod
    def inside() -> AbstractContextManager[None]:
        """Do nothing: a program is followed when it has begun."""
        return nullcontext()

    def follow(self, pid: int) -> None:
        """Take the program that all others come from."""
        self._program = pid
        _PROGRAMS.add(pid)

    def processes(self) -> list[int]:
        """Return what runs of the program; it must not have been waited for."""
        roots = (self._program, *self._adopted())
        return [pid for root in roots for pid in descendants(root) if is_running(pid)]

    def _adopted(self) -> Iterator[int]:
        mark = f"{_MARK}={self._mark}".encode()
        for pid in set(children(os.getpid())) - self._before - _PROGRAMS:
            if not is_running(pid):
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
                continue
            # what has cleared its environment comes from the only program, where there is only one
            with suppress(OSError):
                if {self._program} == _PROGRAMS or mark in (PROC / str(pid) / "environ").read_bytes():
                    yield pid

    def kill(self) -> None:
        """Kill all of it."""
        send(self.processes(), signal.SIGKILL)

    def close(self) -> None:
        """Kill what is left of it, and forget it."""
        # what is adopted between two looks is in the second one
        while self.processes() or self.processes():
            self.kill()
            time.sleep(NAP)
        _PROGRAMS.discard(self._program)


#: The programs of all `Descendants`.
_PROGRAMS: set[int] = set()


@cache
def why_no_groups() -> str:
    """Say why this machine does not let us make control groups that count; empty if it does."""
    try:
        group = Group()
        try:
            with group.inside():
                pass
        finally:
            group.close()
    except OSError as exc:
        return f"no control groups to count in ({exc})"
    return ""


def enclosure() -> Group | Descendants:
    """Return what holds a program and all it starts: a control group, where there is one."""
    return Descendants() if why_no_groups() else Group()


def send(processes: Iterable[int], number: int) -> None:
    """Send processes a signal; some may have ended."""
    for pid in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def kill_group(path: Path) -> None:
    """Kill all that is in a control group of version 2, and in those inside it."""
    with suppress(OSError):
        (path / _KILL).write_text("1")


def remove_group(path: Path) -> None:
    """Kill what is left in a control group, and remove it; one of version 1 must be empty."""
    if _populated(path):
        kill_group(path)
        ended = time.monotonic() + 10
        while _populated(path) and time.monotonic() < ended:
            time.sleep(NAP)
    for folder, *_ in os.walk(path, topdown=False):
        with suppress(OSError):
            Path(folder).rmdir()


def remove_abandoned(root: Path) -> None:
    """Remove groups of measurements that were killed; their names go on with the measurement's process."""
    for group in root.glob("perfjudge-*"):
        if not (PROC / group.name.split("-")[1]).exists():
            remove_group(group)


@cache
def _base(process: int) -> Path:
    """Return the group that all groups of this process lie in."""
    home = _home()
    remove_abandoned(home)
    base = home / f"perfjudge-{process}"
    base.mkdir()
    try:
        # kernels before 5.14 lack it
        (base / _KILL).stat()
    except OSError:
        base.rmdir()
        raise
    # nobody closes the other end but the kernel, when this process has ended
    reading, _ = os.pipe()
    subprocess.run(["sh", "-c", _GUARD, "sh", base], stdin=reading, check=True, start_new_session=True)
    os.close(reading)
    return base


def _home() -> Path:
    """Return the control group of this process."""
    for line in (PROC / "self" / "mounts").read_text().splitlines():
        _, path, kind, *_ = line.split()
        if kind == "cgroup2":
            own = dict(rows(PROC / "self" / "cgroup"))["0"]
            return Path(path) / " ".join(own).lstrip(":/")
    raise OSError("no control groups of version 2 are mounted")


def _populated(path: Path) -> bool:
    return dict(rows(path / _EVENTS)).get("populated") == ["1"]


def _prctl(option: int, value: int) -> None:
    _libc().prctl(option, value)


@cache
def _libc() -> Any:
    import ctypes

    return ctypes.CDLL(None)


class Quota:
    """A control group (version 1 or 2) whose processor time is bounded.

    OSError if this machine allows none.
    """

    def __init__(self) -> None:
        legacy = CGROUPS / "cpu"
        self._legacy = legacy.is_dir()
        root = legacy if self._legacy else CGROUPS
        remove_abandoned(root)
        self.path = root / f"perfjudge-{os.getpid()}"
        self.path.mkdir()
        self._weigh()
        if not self._legacy and not (self.path / "cpu.max").exists():
            self.path.rmdir()
            raise OSError(f"{self.path} has no cpu.max: the cpu controller is not enabled")

    def _weigh(self) -> None:
        """Give the group the largest weight: the quota alone should slow a program, not its neighbours."""
        name, largest = ("cpu.shares", "262144") if self._legacy else ("cpu.weight", "10000")
        if (self.path / name).exists():
            (self.path / name).write_text(largest)

    def limit(self, processors: float) -> None:
        """Allow `processors` seconds of processor time a second."""
        quota = max(1000, round(processors * PERIOD_MICROSECONDS))
        if self._legacy:
            (self.path / "cpu.cfs_quota_us").write_text("-1")
            (self.path / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
            (self.path / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (self.path / "cpu.max").write_text(f"{quota} {PERIOD_MICROSECONDS}")

    @property
    def apart(self) -> bool:
        """Whether a program in this group can be in another that counts."""
        return self._legacy

    def add(self, pid: int) -> None:
        """Move a program that runs into the group."""
        (self.path / "cgroup.procs").write_text(str(pid))

    def close(self) -> None:
        """Remove the group, with what is left in it where it is of version 2."""
        remove_group(self.path)
