"""What to measure: reading a SUITE.yaml of any kind, and what all kinds say alike."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import Field, ValidationError

from data.errors import InputError
from data.tables.documents import Section, said

Count = Annotated[int, Field(ge=1)]
Kind = TypeVar("Kind", bound=Section)


class Suite(Section):
    """A measurement: its ``name``, and the ``seed`` of its order and of all that is drawn.

    A run may take ``timeout`` seconds; without it, what `data.measure.child.TimeLimits` says.
    """

    #: What of the machine must be the same all the time: its settings by what journals call them.
    SAME: ClassVar[Mapping[str, str]] = {}

    kind: str
    name: str
    seed: int
    timeout: Annotated[float, Field(gt=0)] | None = None

    @property
    def patience(self) -> tuple[float, float]:
        """The share of the machine that others may use, and how many times something is measured at most."""
        return 1.0, 1


class CountedSuite(Suite):
    """A measurement that counts: every ``interval`` seconds, and of perf the ``events``.

    When others use more than the share ``foreign`` of the machine, something is measured again, ``attempts``
    times at most; the least disturbed stays.
    """

    SAME: ClassVar[Mapping[str, str]] = {"machine": "processor", "kernel": "kernel"}

    interval: Annotated[float, Field(ge=0.02, le=10)] = 0.2
    foreign: Annotated[float, Field(gt=0, le=1)] = 0.03
    attempts: Count = 3
    events: tuple[str, ...] = ()

    @property
    def patience(self) -> tuple[float, float]:
        """What ``foreign`` and ``attempts`` say."""
        return self.foreign, self.attempts


class Operation(Section):
    """One thing to measure.

    ``stressor`` names a stress-ng stressor, ``workload`` one of `data.measure.workloads`; exactly one is
    given. ``options`` are further arguments of stress-ng.
    """

    name: str
    group: str
    stressor: str | None = None
    workload: str | None = None
    options: tuple[str, ...] = ()


def typed(kind: type[Kind], content: Any, path: Path) -> Kind:
    """Validate what a suite says; InputError naming file, key and value."""
    try:
        return kind.model_validate(content)
    except ValidationError as exc:
        raise InputError(said(exc), file=path) from exc


def unique(names: Sequence[str], what: str, path: Path) -> None:
    """Raise an InputError if a name stands twice."""
    for name in names:
        if names.count(name) > 1:
            raise InputError("stands twice", file=path, place=f'{what} "{name}"')


WORKLOADS = Path(__file__).with_name("workloads.py")


def command_of(operation: Operation, work: int, threads: int, report: Path, limit: int = 60) -> list[str]:
    """Return the command that does `work` units (bogo operations of a stressor) of `operation`.

    stress-ng writes its metrics to `report` and temporary files beside it, and ends after `limit` seconds
    whatever it has done.
    """
    if operation.stressor is None:
        return [sys.executable, "-I", "-S", str(WORKLOADS), str(operation.workload), str(work), str(threads)]
    stressor = f"--{operation.stressor}"
    return [
        *("stress-ng", stressor, str(threads), f"{stressor}-ops", str(work)),
        *operation.options,
        *("--metrics-brief", "--yaml", str(report), "--temp-path", str(report.parent)),
        *("--no-rand-seed", "--timeout", str(limit)),
    ]
