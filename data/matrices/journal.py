"""The runs that a measurement of matrices has so far: one JSON line each, kept at once, read to resume."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from data.measure import journal


@dataclass(frozen=True)
class Planned:
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


@dataclass(frozen=True)
class Measured:
    """What was measured: ``at`` a UTC time, raw metrics, and the share of the machine that others used."""

    planned: Planned
    at: str
    elapsed: float
    transactions: int
    foreign: float
    metrics: dict[str, float]


@dataclass
class Matrices:
    """The journal: ``entries``, and what units cost by test case, each kept at once."""

    path: Path
    entries: list[Measured]
    costs: dict[str, dict[str, float]]

    @classmethod
    def open(
        cls, path: Path, begun: dict[str, Any], able: Mapping[str, Sequence[str]] | None = None
    ) -> Matrices:
        """Read the journal at `path`, or begin one for what `begun` describes; see `journal.resume`.

        Raises
        ------
        InputError
            If the file belongs to another suite or machine, or was begun by who can do other things.
        """
        records = journal.resume(path, begun, able)
        costs = {record["case"]: record["costs"] for record in records if "costs" in record}
        return cls(path, [_entry(record) for record in records if "costs" not in record], costs)

    def add(self, entry: Measured) -> None:
        """Keep `entry`."""
        self.entries.append(entry)
        journal.append(self.path, [asdict(entry) | {"metrics": _written(entry.metrics)}])

    def calibrate(self, case: str, costs: dict[str, float]) -> None:
        """Keep what a unit of the work of `case`, and of each defect, costs in seconds."""
        self.costs[case] = costs
        journal.append(self.path, [{"case": case, "costs": costs}])


def _written(metrics: dict[str, float]) -> dict[str, float | None]:
    """Return the metrics in six digits; what was not measured as None."""
    return {name: None if math.isnan(value) else float(f"{value:.6g}") for name, value in metrics.items()}


def _entry(record: dict[str, Any]) -> Measured:
    metrics = {name: math.nan if value is None else value for name, value in record["metrics"].items()}
    return Measured(**record | {"planned": Planned(**record["planned"]), "metrics": metrics})
