"""What really changed in a measurement that injected its changes, and the labels that follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from data.comparisons.repetitions import Repetition
from data.comparisons.suite import Suite, Version
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


@dataclass(frozen=True)
class Measured:
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


def tables(suite: Suite, repetitions: Sequence[Repetition], available: frozenset[str]) -> Measured:
    """Make results, comparisons and labels of all operations whose repetitions are complete.

    The truth of a comparison is the injected slow-down where that is exact, and otherwise the worst
    configuration's in the reference measurement. Truth and injection are columns ``truth_*`` and
    ``injected_*`` of the comparisons, never features.
    """
    entries = pd.DataFrame([asdict(entry) for entry in repetitions])
    results, comparisons, labels, references = [], [], [], []
    for operation in suite.operations:
        versions = [version for version in suite.versions_of(operation) if version.change in available]
        mine = entries[entries["operation"] == operation.name] if len(entries) else entries
        samples = mine[mine["purpose"] == "sample"] if len(mine) else mine
        if len(samples) < len(versions) * len(suite.threads) * suite.repetitions:
            continue
        results += _results(operation, versions, samples)
        reference = _reference(operation, versions, mine[mine["purpose"] == "reference"])
        references += reference
        for order, version in enumerate(versions[1:], 1):
            comparison = _comparison(operation, version, order, reference)
            comparisons.append(comparison)
            labels += _label(comparison)
    columns = ["comparison_id", "threads", "slowdown", "low", "high", "repetitions"]
    return Measured(
        ComparisonTables.of_rows(results, comparisons, labels), pd.DataFrame(references, columns=columns)
    )


def _id(operation: Operation, version: Version) -> str:
    return f"{operation.name}/{version.name}"


def _results(operation: Operation, versions: list[Version], samples: pd.DataFrame) -> list[dict[str, object]]:
    orders = {version.name: order for order, version in enumerate(versions)}
    machine = name()
    return [
        {
            "series_id": f"{operation.name}/{entry.threads}",
            "group": operation.group,
            "benchmark": BENCHMARK,
            "operation": operation.name,
            "machine": machine,
            "unit": "units/s",
            "better": "higher",
            "threads": entry.threads,
            "version": entry.version,
            "order": orders[entry.version],
            "measured_at": pd.Timestamp(entry.at),
            "value": entry.nominal / entry.seconds,
            "real_seconds": entry.real_seconds,
            "user_seconds": entry.user_seconds,
            "kernel_seconds": entry.kernel_seconds,
            "out_of_cpu_seconds": entry.out_of_cpu_seconds,
        }
        for entry in samples.sort_values("at").itertuples()
    ]


def _reference(
    operation: Operation, versions: list[Version], samples: pd.DataFrame
) -> list[dict[str, object]]:
    random = np.random.default_rng(0)
    rows: list[dict[str, object]] = []
    for version in versions:
        if version.exact(operation):
            continue
        for threads, at_threads in samples.groupby("threads"):
            baseline = at_threads.loc[at_threads["version"] == versions[0].name, "seconds"].to_numpy()
            target = at_threads.loc[at_threads["version"] == version.name, "seconds"].to_numpy()
            drawn = [
                np.median(random.choice(side, (RESAMPLES, len(side))), axis=1) for side in (baseline, target)
            ]
            low, high = np.quantile(drawn[1] / drawn[0] - 1, (0.025, 0.975))
            rows.append(
                {
                    "comparison_id": _id(operation, version),
                    "threads": threads,
                    "slowdown": np.median(target) / np.median(baseline) - 1,
                    "low": low,
                    "high": high,
                    "repetitions": len(target),
                }
            )
    return rows


def _comparison(
    operation: Operation, version: Version, order: int, reference: list[dict[str, object]]
) -> dict[str, object]:
    identifier = _id(operation, version)
    measured = [row for row in reference if row["comparison_id"] == identifier]
    worst = max(measured, key=lambda row: float(str(row["slowdown"])), default=None)
    exact = version.work - 1
    return {
        "comparison_id": identifier,
        "benchmark": BENCHMARK,
        "operation": operation.name,
        "machine": name(),
        "baseline_from": 0,
        "baseline_to": 0,
        "target_from": order,
        "target_to": order,
        "injected_change": version.change,
        "injected_size": version.size,
        "truth_source": "injection" if worst is None else "reference measurement",
        "truth_slowdown": exact if worst is None else worst["slowdown"],
        "truth_low": exact if worst is None else worst["low"],
        "truth_high": exact if worst is None else worst["high"],
    }


def _label(comparison: dict[str, object]) -> list[dict[str, object]]:
    slowdown, low, high = (float(str(comparison[f"truth_{key}"])) for key in ("slowdown", "low", "high"))
    by_reference = comparison["truth_source"] == "reference measurement"
    if by_reference and (UNSURE[0] < slowdown < UNSURE[1] or (low < UNSURE[0] and high > UNSURE[1])):
        return []
    return [
        {
            "comparison_id": comparison["comparison_id"],
            "status": "fail" if slowdown >= FAIL - 1e-9 else "pass",
            "labelled_by": comparison["truth_source"],
            "labelled_at": datetime.now(UTC),
        }
    ]
