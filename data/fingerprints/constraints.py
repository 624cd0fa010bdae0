"""Constraints on this machine that make measured programs run as on another machine."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from data.errors import InputError
from data.measure.child import Child
from data.measure.groups import Quota, new_limited_group, remove_group
from data.tables.documents import Section

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
BLOCKS = Path("/sys/dev/block")
MEGABYTE = 1_000_000
Wrap = Callable[[list[str]], list[str]]
Positive = Annotated[float, Field(gt=0)]


class Constraint(Section):
    """A constraint that simulates the machine ``name``; its ``kind`` is used as the CPU model.

    ``processors`` is a quota of processor time; ``neighbour`` a stressor on another processor; ``huge_pages``
    the kernel's setting; ``writes`` the limit of the disk in MB/s; ``traced`` the number of traces of each
    system call.
    """

    name: str
    kind: str
    processors: Positive | None = None
    neighbour: str | None = None
    huge_pages: Literal["always", "never"] | None = None
    writes: Positive | None = None
    traced: Annotated[int, Field(ge=0, le=16)] = 0


@contextmanager
def confined(constraint: Constraint, neighbour_cpu: int) -> Iterator[Wrap]:
    """Yield a function that turns a command (list of words) into one that runs under the constraint.

    The constraint ends with the ``with`` block. Its neighbour (if any), a stressor, runs on the processor
    `neighbour_cpu` until the block ends or this process is killed. InputError at the start of the block if
    this machine does not allow the constraint, or stress-ng is missing, may not use that processor or ends
    within 0.2 s; at the end of the block if the neighbour ended later.
    """
    with ExitStack() as stack:
        try:
            groups = list(_create_groups(constraint, stack))
            if constraint.huge_pages:
                # the current setting is in brackets: always [madvise] never
                chosen = HUGE_PAGES.read_text().partition("[")[2].partition("]")[0]
                stack.callback(HUGE_PAGES.write_text, chosen)
                HUGE_PAGES.write_text(constraint.huge_pages)
        except OSError as exc:
            place = f'constraint "{constraint.name}"'
            raise InputError(f"cannot be put on here ({exc})", place=place) from exc
        neighbour = None
        if constraint.neighbour:
            # without a time limit
            command = ["stress-ng", f"--{constraint.neighbour}", "1", "--timeout", "0", "--quiet"]
            place = f"neighbour {constraint.neighbour}"
            neighbour = Child(command, place, cpu=neighbour_cpu)
            stack.callback(neighbour.end)
            if neighbour.wait(0.2):
                raise neighbour.end_with_error()
        joins = [f"echo $$ > {shlex.quote(str(group / 'cgroup.procs'))}; " for group in groups]
        prefix = ["sh", "-c", f'{"".join(joins)}exec "$@"', "sh"] if joins else []
        if constraint.traced:
            events = ",".join(["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"] * constraint.traced)
            prefix += ["perf", "stat", "--output", os.devnull, "--event", events, "--"]
        yield lambda command: [*prefix, *command]
        if neighbour is not None and neighbour.wait(0):
            problem = f"ended while runs were measured: {neighbour.end_with_error().problem}"
            raise InputError(problem, place=place)


def _create_groups(constraint: Constraint, stack: ExitStack) -> Iterator[Path]:
    if constraint.processors:
        quota = Quota()
        stack.callback(quota.close)
        quota.set_limit(constraint.processors)
        yield quota.path
    if constraint.writes:
        limit = round(constraint.writes * MEGABYTE)
        # limits do not apply to partitions, so the number of the whole disk is needed
        number = Path.cwd().stat().st_dev
        entry = (BLOCKS / f"{os.major(number)}:{os.minor(number)}").resolve(strict=True)
        disk = entry.parent if (entry / "partition").exists() else entry
        device = (disk / "dev").read_text().strip()
        path, is_legacy = new_limited_group("blkio", f"perfjudge-{os.getpid()}-disk")
        stack.callback(remove_group, path)
        if is_legacy:
            (path / "blkio.throttle.write_bps_device").write_text(f"{device} {limit}")
        else:
            (path / "io.max").write_text(f"{device} wbps={limit}")
        yield path
