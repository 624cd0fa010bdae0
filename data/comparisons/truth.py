"""What really changed in a measurement that injected its changes, and the labels that follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from data.comparisons.repetitions import Repetition
from data.comparisons.suite import Suite, SuiteVersion
from data.comparisons.tables import ComparisonTables
from data.measure.machine import name
from data.measure.suite import Operation
from data.tables.files import replacing

#: Slower by this much or more is a regression (seed 000, section 6.1).
FAIL = 0.05
#: Between these, a reference measurement is not sure enough to label.
UNSURE = (0.035, 0.065)
BENCHMARK = "perfjudge"
RESAMPLES = 400
#: What a repetition took, beside what it measured.
CLOCKS = ("real_seconds", "user_seconds", "kernel_seconds", "out_of_cpu_seconds")


class Reference(NamedTuple):
    """How much slower a configuration was than its baseline where it was measured more often."""

    comparison_id: str
    threads: int
    slowdown: float
    low: float
    high: float
    repetitions: int


@dataclass(frozen=True)
class Truth:
    """How much slower a version is than the baseline, and how that is known."""

    source: str
    slowdown: float
    low: float
    high: float

    @classmethod
    def of(cls, version: SuiteVersion, measured: Sequence[Reference]) -> Truth:
        """Take the worst configuration of a reference measurement, or else what was injected."""
        if not measured:
            exact = version.work - 1
            return cls("injection", exact, exact, exact)
        worst = max(measured, key=lambda one: one.slowdown)
        return cls("reference measurement", worst.slowdown, worst.low, worst.high)

    @property
    def status(self) -> str | None:
        """The label that follows; None where a reference measurement is not sure enough."""
        wide = self.low < UNSURE[0] and self.high > UNSURE[1]
        if self.source != "injection" and (wide or UNSURE[0] < self.slowdown < UNSURE[1]):
            return None
        return "fail" if self.slowdown >= FAIL - 1e-9 else "pass"


@dataclass(frozen=True)
class WithReference:
    """The tables of a measurement and the reference measurement beside them.

    ``reference`` has a row per comparison and number of threads: ``slowdown`` (time ratio - 1) with its 95 %
    bootstrap interval ``low``, ``high``, and the ``repetitions`` of each side.
    """

    tables: ComparisonTables
    reference: pd.DataFrame

    def write_reference(self, path: Path) -> None:
        """Write the reference measurement as Parquet in one piece."""
        with replacing(path) as temporary:
            self.reference.to_parquet(temporary, index=False, compression="zstd")


def tables(suite: Suite, repetitions: Sequence[Repetition], available: frozenset[str]) -> WithReference:
    """Make results, comparisons and labels of all operations whose repetitions are complete.

    The truth of a comparison is the injected slow-down where that is exact, and otherwise the worst
    configuration's in the reference measurement. Truth and injection are columns ``truth_*`` and
    ``injected_*`` of the comparisons, never features.
    """
    entries = pd.DataFrame(map(asdict, repetitions), columns=[*Repetition.__annotations__])
    results, comparisons, labels = [], [], []
    references: list[Reference] = []
    for operation in suite.operations:
        versions = [version for version in suite.versions_of(operation) if version.change in available]
        mine = entries[entries["operation"] == operation.name]
        samples = mine[mine["purpose"] == "sample"]
        if len(samples) < len(versions) * len(suite.threads) * suite.repetitions:
            continue
        results += _results(operation, versions, samples)
        references += _reference(operation, versions, mine[mine["purpose"] == "reference"])
        for order, version in enumerate(versions[1:], 1):
            identifier = _id(operation, version)
            truth = Truth.of(version, [one for one in references if one.comparison_id == identifier])
            named = {"comparison_id": identifier}
            comparisons.append(named | _comparison(operation, version, order, truth))
            if truth.status is not None:
                who = {"labelled_by": truth.source, "labelled_at": datetime.now(UTC)}
                labels.append({**named, "status": truth.status, **who})
    reference = pd.DataFrame(references, columns=[*Reference.__annotations__])
    return WithReference(ComparisonTables.of_rows(results, comparisons, labels), reference)


def _id(operation: Operation, version: SuiteVersion) -> str:
    return f"{operation.name}/{version.name}"


def _results(
    operation: Operation, versions: list[SuiteVersion], samples: pd.DataFrame
) -> list[dict[str, object]]:
    orders = {version.name: order for order, version in enumerate(versions)}
    common = {
        "group": operation.group,
        "benchmark": BENCHMARK,
        "operation": operation.name,
        "machine": name(),
        "unit": "units/s",
        "better": "higher",
    }
    return [
        {
            **common,
            "series_id": f"{operation.name}/{entry.threads}",
            "threads": entry.threads,
            "version": entry.version,
            "order": orders[entry.version],
            "measured_at": pd.Timestamp(entry.at),
            "value": entry.nominal / entry.seconds,
            **{clock: getattr(entry, clock) for clock in CLOCKS},
        }
        for entry in samples.sort_values("at").itertuples()
    ]


def _reference(
    operation: Operation, versions: list[SuiteVersion], samples: pd.DataFrame
) -> Iterator[Reference]:
    random = np.random.default_rng(0)
    for version in versions:
        if version.exact(operation):
            continue
        for threads, there in samples.groupby("threads"):
            pair = versions[0].name, version.name
            sides = [there.loc[there["version"] == one, "seconds"].to_numpy() for one in pair]
            before, after = (np.median(random.choice(side, (RESAMPLES, len(side))), axis=1) for side in sides)
            low, high = np.quantile(after / before - 1, (0.025, 0.975))
            slowdown = np.median(sides[1]) / np.median(sides[0]) - 1
            yield Reference(_id(operation, version), threads, slowdown, low, high, len(sides[1]))


def _comparison(operation: Operation, version: SuiteVersion, order: int, truth: Truth) -> dict[str, object]:
    return {
        "benchmark": BENCHMARK,
        "operation": operation.name,
        "machine": name(),
        "baseline_from": 0,
        "baseline_to": 0,
        "target_from": order,
        "target_to": order,
        "injected_change": version.change,
        "injected_size": version.size,
        **{f"truth_{key}": value for key, value in asdict(truth).items()},
    }
