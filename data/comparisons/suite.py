"""What to measure: reading a SUITE.yaml, and its typed form for comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import Field, ValidationError

from data.errors import InputError
from data.tables.given import Section, said

Count = Annotated[int, Field(ge=1)]


Kind = TypeVar("Kind", bound=Section)


class Operation(Section):
    """One thing to measure.

    ``stressor`` names a stress-ng stressor, ``workload`` one of `data.measure.workloads`; exactly one is given.
    ``options`` are further arguments of stress-ng.
    """

    name: str
    group: str
    stressor: str | None = None
    workload: str | None = None
    options: tuple[str, ...] = ()

    @property
    def program(self) -> Literal["stress-ng", "workload"]:
        """Which kind of program runs it."""
        return "workload" if self.stressor is None else "stress-ng"


class Version(Section):
    """A change to inject.

    ``work`` does ``1 + size`` times the work; ``quota`` takes ``size`` of the processor time away by a
    control group; ``competition`` pins a program to every processor that takes ``size`` of it; ``none`` is
    an A/A repeat. It applies to ``programs`` of these kinds, and besides to the ``operations`` named.
    """

    name: str
    change: Literal["none", "work", "quota", "competition"]
    size: Annotated[float, Field(gt=-0.9, lt=10)] = 0.0
    programs: tuple[Literal["stress-ng", "workload"], ...] = ("stress-ng", "workload")
    operations: tuple[str, ...] = ()

    def applies_to(self, operation: Operation) -> bool:
        """Tell whether `operation` is measured in this version."""
        return operation.program in self.programs or operation.name in self.operations

    def exact(self, operation: Operation) -> bool:
        """Tell whether the slow-down follows from the injection alone."""
        return self.change == "none" or (self.change == "work" and operation.program == "workload")

    @property
    def work(self) -> float:
        """How many times the nominal work it does."""
        return 1 + self.size if self.change == "work" else 1.0


class Suite(Section):
    """A measurement of comparisons.

    ``seconds`` is what one repetition of the baseline at one thread should take; ``foreign`` the share of the
    machine that others may use before a batch of repetitions is measured again.
    """

    kind: Literal["comparisons"]
    name: str
    seed: int
    threads: tuple[Count, ...]
    repetitions: Annotated[int, Field(ge=2)]
    reference_repetitions: Count
    seconds: Annotated[float, Field(gt=0)]
    foreign: Annotated[float, Field(gt=0, lt=1)]
    versions: tuple[Version, ...]
    operations: tuple[Operation, ...]

    def versions_of(self, operation: Operation) -> tuple[Version, ...]:
        """Return the baseline and the versions that apply to `operation`."""
        baseline = Version(name="baseline", change="none")
        return (baseline, *(version for version in self.versions if version.applies_to(operation)))


def load(path: Path) -> Suite:
    """Read and validate a suite.

    Raises
    ------
    InputError
        Naming file, key and value.
    """
    suite = typed(Suite, content(path), path)
    for operation in suite.operations:
        if (operation.stressor is None) == (operation.workload is None):
            raise InputError(
                "names either a stressor or a workload", file=path, place=f'operation "{operation.name}"'
            )
    unique([operation.name for operation in suite.operations], "operation", path)
    unique([version.name for version in suite.versions], "version", path)
    return suite


def content(path: Path) -> Any:
    """Read the YAML of a suite of any kind; InputError if it is none."""
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(f"cannot be read ({exc})", file=path) from exc
    except (RecursionError, yaml.YAMLError) as exc:
        raise InputError(f"is not YAML ({exc})", file=path) from exc


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
