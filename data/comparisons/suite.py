"""What to measure: the typed form of a SUITE.yaml for comparisons."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from data.errors import InputError
from data.measure import suite as measured
from data.measure.suite import Count, Operation, content, typed, unique
from data.tables.given import Section


class SuiteVersion(Section):
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


class Suite(measured.Suite):
    """A measurement of comparisons.

    ``seconds`` is what one repetition of the baseline at one thread should take; ``foreign`` the share of the
    machine that others may use before a batch of repetitions is measured again.
    """

    kind: Literal["comparisons"]
    threads: tuple[Count, ...]
    repetitions: Annotated[int, Field(ge=2)]
    reference_repetitions: Count
    seconds: Annotated[float, Field(gt=0)]
    foreign: Annotated[float, Field(gt=0, lt=1)]
    versions: tuple[SuiteVersion, ...]
    operations: tuple[Operation, ...]

    @property
    def patience(self) -> tuple[float, float]:
        """What ``foreign`` says, however long it takes."""
        return self.foreign, math.inf

    def versions_of(self, operation: Operation) -> tuple[SuiteVersion, ...]:
        """Return the baseline and the versions that apply to `operation`."""
        baseline = SuiteVersion(name="baseline", change="none")
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
