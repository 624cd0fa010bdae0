"""What a measurement of matrices keeps: runs, and what units of work cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PlannedRun:
    """One run to measure.

    ``pair`` counts the versions of a test case; ``cause`` with its ``size`` is the defect of the version,
    empty if it has none; ``invalid`` is how the run is made invalid, empty for a valid one.
    """

    case: str
    pair: int
    side: str
    number: int
    cause: str = ""
    size: float = 0.0
    invalid: str = ""

    @property
    def pair_id(self) -> str:
        """The name of the pair of matrices."""
        return f"{self.case} {self.pair}"

    @property
    def run_id(self) -> str:
        """The name of the run."""
        return f"{self.pair_id} {self.side} {self.number}"

    #: What tells one run from another, and what people read.
    key, told = run_id, pair_id


@dataclass(frozen=True)
class MeasuredRun:
    """What was measured: ``at`` a UTC time, raw metrics, and the share of the machine that others used.

    A metric that was not measured is None.
    """

    planned: PlannedRun
    at: str
    elapsed: float
    transactions: int
    foreign: float
    metrics: dict[str, float | None]

    @property
    def key(self) -> str:
        """The key of what was planned."""
        return self.planned.key


@dataclass(frozen=True)
class Costs:
    """What a unit of the work of a test case, and of each defect, costs in seconds."""

    case: str
    costs: dict[str, float]
