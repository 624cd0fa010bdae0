"""Which runs of pieces can be learned from: the rules of `data.matrices.validity`, a piece at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.matrices.pieces.parting import Pieces, described, runs_of
from data.matrices.schema import SIGNED_SHARE
from data.matrices.tables import SIDES, SUMMARY, MatrixTables, metrics_of
from data.matrices.validity import decided, telling
from data.parallel import Compute, side_by_side
from data.tables.files import replacing
from data.tables.problems import Problems

Floats = NDArray[np.float64]
#: The column beside the metrics that says to which part of the test cases a run belongs.
PART = "part of the test cases"
CLEAN = "valid.parquet"
#: Rows of a clean piece that are read at once.
_GROUP = 10_000


@dataclass(frozen=True)
class MetricCounts:
    """What the rules want to know of metrics, which can be added.

    Attributes
    ----------
    rows : int
    measured, negative : ndarray of int, shape (n_metrics,)
    least, most : ndarray of shape (n_metrics,)
        NaN where a metric was never measured.
    """

    rows: int
    measured: NDArray[np.int64]
    negative: NDArray[np.int64]
    least: Floats
    most: Floats

    @classmethod
    def of(cls, values: Floats) -> MetricCounts:
        """Count in runs x metrics, at least one run."""
        least, most = np.fmin.reduce(values), np.fmax.reduce(values)
        return cls(len(values), (~np.isnan(values)).sum(axis=0), (values < 0).sum(axis=0), least, most)

    def __add__(self, other: MetricCounts) -> MetricCounts:
        return MetricCounts(
            self.rows + other.rows,
            self.measured + other.measured,
            self.negative + other.negative,
            np.fmin(self.least, other.least),
            np.fmax(self.most, other.most),
        )

    def reasons(self, metrics: Sequence[str], missing: float) -> pd.Series:
        """Say by metric why nothing can be learned from it; see `data.tables.decisions.reasons`."""
        seldom = 1 - self.measured / self.rows > missing
        same = self.least == self.most
        told = [
            f"was measured in {self.measured[place]} of {self.rows} runs"
            if seldom[place]
            else f"has the same value {self.least[place]:g} in all runs"
            if same[place]
            else ""
            for place in range(len(metrics))
        ]
        return pd.Series(told, list(metrics), dtype="str")


@dataclass(frozen=True)
class Cleaning:
    """A piece to be cleaned.

    Attributes
    ----------
    number : int
    file : Path
    metrics : DataFrame
        As `MatrixTables.metrics`; it is known which of them may be negative.
    reasons : Series of str
        By metric, why nothing can be learned from it.
    missing : float
        The share of the raw metrics that a run may lack.
    part : Series of int
        By test case, to which part it belongs.
    share : float
        Of the pairs that are returned with all their runs.
    """

    number: int
    file: Path
    metrics: pd.DataFrame
    reasons: pd.Series
    missing: float
    part: pd.Series
    share: float
    seed: int


@dataclass(frozen=True)
class Cleaned:
    """What came of a piece.

    Attributes
    ----------
    file : Path
        Its valid runs, with the metrics that say something and the column `PART`.
    runs, valid, pairs : int
        Runs in all; valid ones, and their pairs.
    some : MatrixTables
        Some pairs with all their runs, flagged.
    by_analysts : bool
        Whether an analyst has flagged a run of the piece invalid.
    """

    file: Path
    runs: int
    valid: int
    pairs: int
    some: MatrixTables
    by_analysts: bool


def cleaned(
    source: Path,
    pieces: Pieces,
    part: pd.Series,
    compute: Compute,
    *,
    missing: float,
    some: int,
    seed: int,
) -> list[Cleaned]:
    """Clean all pieces, which are then gone.

    Parameters
    ----------
    source : Path
        Where the runs come from; the table of metrics lies beside them.
    pieces : Pieces
    part : Series of int
        By test case.
    compute : Compute
    missing : float
        The share of the raw metrics that a run may lack.
    some : int
        About as many runs are returned, all of a pair.
    seed : int
        Of their choice.

    Raises
    ------
    InputError
        If no metric says anything, or a run is wrong.
    """
    counts = reduce(add, side_by_side(counted, pieces.files, compute, "count metrics"))
    names = metrics_of(runs_of(pieces.files[0]))
    table = described(source, names)
    reasons = counts.reasons(names, missing)
    often = pd.Series(counts.negative / counts.rows > SIGNED_SHARE, names)
    signed = table["signed"].fillna(often.reindex(table["metric"]).reset_index(drop=True).astype("boolean"))
    table, share = table.assign(signed=signed), min(1.0, some / counts.rows)
    raw = [name for name in table["metric"] if not name.startswith(SUMMARY)]
    if not raw:
        raise InputError("has no raw metric", file=source)
    telling(reasons, raw)
    tasks = [
        Cleaning(number, file, table, reasons, missing, part, share, seed)
        for number, file in enumerate(pieces.files)
    ]
    return side_by_side(clean, tasks, compute, "clean matrices")


def counted(file: Path) -> MetricCounts:
    """Count the metrics of a piece."""
    runs = runs_of(file)
    return MetricCounts.of(runs[metrics_of(runs)].to_numpy(np.float64))


def clean(task: Cleaning) -> Cleaned:
    """Write the valid runs of a piece, and remove it."""
    runs = runs_of(task.file)
    nothing = pd.DataFrame(columns=["run_id", "cause", "cause_size", "invalid_kind"])
    tables = MatrixTables.of({"runs": runs, "causes": nothing, "metrics": task.metrics})
    try:
        tables = tables.without_flaws(Problems())
    except InputError as exc:
        raise exc.within("matrices") from exc
    flagged = decided(tables, task.reasons, task.missing).flagged(tables)
    valid = flagged.runs["valid"].to_numpy(bool)
    pairs = flagged.runs["pair_id"].unique()
    chosen = pairs[np.random.default_rng([task.seed, task.number]).random(len(pairs)) < task.share]
    some = flagged.of_runs(flagged.runs["pair_id"].isin(chosen).to_numpy(bool))
    kept = flagged.of_runs(valid).runs
    target = flagged.runs[flagged.runs["side"] == SIDES[1]].drop_duplicates("pair_id")
    home = target.set_index("pair_id")["workload"].reindex(kept["pair_id"])
    part = task.part.reindex(home).to_numpy(np.float64)
    with replacing(task.file.with_name(CLEAN)) as path:
        kept.assign(**{PART: part}).to_parquet(path, index=False, row_group_size=_GROUP)
    task.file.unlink()
    path = task.file.with_name(CLEAN)
    by_analysts = bool((~tables.runs["valid"].fillna(value=True)).any())
    return Cleaned(path, len(runs), int(valid.sum()), kept["pair_id"].nunique(), some, by_analysts)
