"""What forms know from matrices that are larger than memory: medians by column, noise by piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from numpy.typing import NDArray

from data.matrices.tables import RUN_DTYPES, MatrixTables
from data.parallel import Compute, side_by_side
from data.tables.specs import typed
from features.matrices.forms import Known, NoiseSums, Rows, contrasted, joined, middle_and_unit

Floats = NDArray[np.float64]
#: Numbers of some columns that are read at once.
_AT_ONCE = 20_000_000


@dataclass(frozen=True)
class CleanPieces:
    """Pieces of valid runs.

    Attributes
    ----------
    files : tuple of Path
        Each holds whole pairs of whole test cases.
    metrics : tuple of str
        The raw metrics, all of which are in every piece.
    part : str
        The column that tells to which part of the test cases a run belongs.
    parts : int
        What is said of a pair comes from the other parts; 1: from all.
    """

    files: tuple[Path, ...]
    metrics: tuple[str, ...]
    groups: tuple[str, ...]
    rows: int
    pairs: int
    part: str
    parts: int

    def read(self, file: Path) -> tuple[MatrixTables, Floats]:
        """Read a piece, and the parts of its runs."""
        table = ds.dataset(file).to_table(columns=[*RUN_DTYPES, *self.metrics, self.part])
        runs = table.to_pandas(ignore_metadata=True).astype(RUN_DTYPES)
        nothing = typed(None, MatrixTables.SPECS["causes"].dtypes)
        part = runs.pop(self.part).to_numpy(np.float64)
        return MatrixTables(runs, nothing, typed(None, MatrixTables.SPECS["metrics"].dtypes)), part

    def learning(self, part: Floats) -> list[NDArray[np.bool_]]:
        """Return the runs that each `Known` is learned from: all, then those outside of each part."""
        others = range(self.parts if self.parts > 1 else 0)
        return [np.ones(len(part), bool), *(part != number for number in others)]


def learned(pieces: CleanPieces, compute: Compute) -> list[Known]:
    """Learn what `features.matrices.forms.known` does of all runs; then of those outside of each part.

    A column at a time gives medians and units; noise is summed up by pieces.
    """
    step = max(1, _AT_ONCE // max(pieces.rows, 1))
    some = [pieces.metrics[start : start + step] for start in range(0, len(pieces.metrics), step)]
    found = side_by_side(_scales, [(pieces, metrics) for metrics in some], compute, "scales of metrics")
    scales = np.concatenate(found, axis=1)
    starts = [Known.scaling(pieces.metrics, one, pieces.groups) for one in scales]
    tasks = [(pieces, starts, file) for file in pieces.files]
    sums = zip(*side_by_side(_noise, tasks, compute, "noise of metrics"), strict=True)
    return [reduce(add, one).learned(start) for one, start in zip(sums, starts, strict=True)]


def rows_of(pieces: CleanPieces, known: Sequence[Known], file: Path) -> Rows:
    """Contrast the pairs of a piece, each in the light of the parts that it is not of."""
    tables, part = pieces.read(file)
    if pieces.parts == 1:
        rows = contrasted(tables, known[0])
    else:
        here = [number for number in range(pieces.parts) if (part == number).any()]
        rows = joined([contrasted(tables.of_runs(part == number), known[number + 1]) for number in here])
    return rows.of(~np.isnan(rows.y))


def _scales(task: tuple[CleanPieces, Sequence[str]]) -> Floats:
    """Return medians and units of some metrics, shape (n_known, n_metrics, 2)."""
    pieces, metrics = task
    table = ds.dataset(list(pieces.files)).to_table(columns=[*metrics, pieces.part], use_threads=False)
    chosen = pieces.learning(_numbers(table, pieces.part))
    columns = (_numbers(table, name) for name in metrics)
    found = [[middle_and_unit(column[rows]) for rows in chosen] for column in columns]
    return np.array(found).swapaxes(0, 1)


def _numbers(table: pa.Table, name: str) -> Floats:
    values = table.column(name).to_numpy().astype(np.float64)
    values[~np.isfinite(values)] = np.nan
    return values


def _noise(task: tuple[CleanPieces, Sequence[Known], Path]) -> list[NoiseSums]:
    pieces, starts, file = task
    tables, part = pieces.read(file)
    chosen = pieces.learning(part)
    return [NoiseSums.of(tables.of_runs(rows), start) for rows, start in zip(chosen, starts, strict=True)]
