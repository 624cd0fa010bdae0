"""Putting a constraint on what runs, and taking it off again."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from data.errors import InputError
from data.fingerprints.constrained.suite import Constraint
from data.measure.child import Child
from data.measure.groups import remove_abandoned, remove_group
from data.measure.interventions import CGROUPS, Quota

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
BLOCKS = Path("/sys/dev/block")
MEGABYTE = 1_000_000
#: A neighbour lives until it is ended; this is for the case that we are killed.
LIFETIME = 600
Wrap = Callable[[list[str]], list[str]]


@contextmanager
def confined(constraint: Constraint, beside: int) -> Iterator[Wrap]:
    """Constrain commands while the block runs.

    Parameters
    ----------
    constraint : Constraint
    beside : int
        The processor that a neighbour runs on.

    Yields
    ------
    callable
        Turns a command into one that runs under the constraint.

    Raises
    ------
    InputError
        If this machine does not let us, with what it lacks.
    """
    with ExitStack() as stack:
        try:
            groups = list(_groups(constraint, stack))
            if constraint.huge_pages:
                stack.callback(HUGE_PAGES.write_text, _chosen(HUGE_PAGES.read_text()))
                HUGE_PAGES.write_text(constraint.huge_pages)
        except OSError as exc:
            raise InputError(
                f"cannot be put on here ({exc})", place=f'constraint "{constraint.name}"'
            ) from exc
        if constraint.neighbour:
            stack.callback(_neighbour(constraint.neighbour, beside).end)
        yield lambda command: [*_entering(groups), *_traced(constraint.traced), *command]


def _groups(constraint: Constraint, stack: ExitStack) -> Iterator[Path]:
    if constraint.processors:
        quota = Quota()
        stack.callback(quota.close)
        quota.limit(constraint.processors)
        yield quota.path
    if constraint.writes:
        yield _slow_disk(constraint.writes, stack)


def _slow_disk(megabytes: float, stack: ExitStack) -> Path:
    """Make a control group that writes so many MB a second to the disk of this directory."""
    legacy = CGROUPS / "blkio"
    root = legacy if legacy.is_dir() else CGROUPS
    remove_abandoned(root)
    path, device, limit = (
        root / f"perfjudge-{os.getpid()}-disk",
        _disk(Path.cwd()),
        round(megabytes * MEGABYTE),
    )
    path.mkdir()
    stack.callback(remove_group, path)
    if legacy.is_dir():
        (path / "blkio.throttle.write_bps_device").write_text(f"{device} {limit}")
    else:
        (path / "io.max").write_text(f"{device} wbps={limit}")
    return path


def _disk(directory: Path) -> str:
    """Return the number of the whole disk that holds a directory; limits do not hold for partitions."""
    held = directory.stat().st_dev
    entry = (BLOCKS / f"{os.major(held)}:{os.minor(held)}").resolve(strict=True)
    whole = entry.parent if (entry / "partition").exists() else entry
    return (whole / "dev").read_text().strip()


def _chosen(text: str) -> str:
    """Return what is chosen in a line such as ``always [madvise] never``."""
    return text.partition("[")[2].partition("]")[0]


def _neighbour(stressor: str, processor: int) -> Child:
    command = ["stress-ng", f"--{stressor}", "1", "--timeout", str(LIFETIME), "--quiet"]
    neighbour = Child(command, f"neighbour {stressor}", cpu=processor)
    if neighbour.wait(0.2):
        raise neighbour.failed()
    return neighbour


def _entering(groups: list[Path]) -> list[str]:
    """Return the beginning of a command that joins control groups before it becomes another."""
    if not groups:
        return []
    joins = "; ".join(f"echo $$ > {shlex.quote(str(group / 'cgroup.procs'))}" for group in groups)
    return ["sh", "-c", f'{joins}; exec "$@"', "sh"]


def _traced(times: int) -> list[str]:
    events = ",".join(["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"] * times)
    return ["perf", "stat", "--output", os.devnull, "--event", events, "--"] if times else []
