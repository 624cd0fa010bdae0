"""Statistics for the forms from matrices larger than memory: medians by column, noise by chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from numpy.typing import NDArray

from data.matrices.chunks import PART
from data.matrices.tables import RUN_DTYPES, MatrixTables
from data.parallel import Compute, side_by_side
from data.tables.specs import typed
from features.matrices.forms import Known, NoiseSums, Rows, contrasted, joined, middle_and_unit

Floats = NDArray[np.float64]
#: Numbers that are read at once.
_AT_ONCE = 20_000_000


@dataclass(frozen=True)
class CleanChunks:
    """Chunks of valid runs.

    Attributes
    ----------
    files : tuple of Path
        Each holds whole pairs of whole test cases.
    metrics : tuple of str
        The raw metrics, which every chunk has.
    parts : int
        Statistics for a pair are learned from the other parts; 1: from all.
    """

    files: tuple[Path, ...]
    metrics: tuple[str, ...]
    groups: tuple[str, ...]
    rows: int
    pairs: int
    parts: int

    def read(self, file: Path) -> tuple[MatrixTables, Floats]:
        """Read a chunk, and the parts of its runs."""
        table = ds.dataset(file).to_table(columns=[*RUN_DTYPES, *self.metrics, PART])
        runs = table.to_pandas(ignore_metadata=True).astype(RUN_DTYPES)
        nothing = typed(None, MatrixTables.SPECS["causes"].dtypes)
        part = runs.pop(PART).to_numpy(np.float64)
        return MatrixTables(runs, nothing, typed(None, MatrixTables.SPECS["metrics"].dtypes)), part

    def learning(self, part: Floats) -> list[NDArray[np.bool_]]:
        """Return the runs that each `Known` is learned from: all, then those outside each part."""
        others = range(self.parts if self.parts > 1 else 0)
        return [np.ones(len(part), bool), *(part != number for number in others)]


def learned(chunks: CleanChunks, compute: Compute) -> list[Known]:
    """Compute `features.matrices.forms.known` from all runs; then from those outside of each part.

    Medians and units are computed column by column, noise as sums over chunks.
    """
    step = max(1, _AT_ONCE // max(chunks.rows, 1))
    some = [chunks.metrics[start : start + step] for start in range(0, len(chunks.metrics), step)]
    found = side_by_side(partial(_scales, chunks), some, compute, "scales of metrics")
    scales = np.concatenate(found, axis=1)
    starts = [Known.scaling(chunks.metrics, one, chunks.groups) for one in scales]
    noise = partial(_noise, chunks, starts)
    sums = zip(*side_by_side(noise, chunks.files, compute, "noise of metrics"), strict=True)
    return [reduce(add, one).learned(start) for one, start in zip(sums, starts, strict=True)]


def rows_of(chunks: CleanChunks, known: Sequence[Known], file: Path) -> Rows:
    """Contrast the pairs of a chunk, each with the statistics learned from the other parts."""
    tables, part = chunks.read(file)
    if chunks.parts == 1:
        rows = contrasted(tables, known[0])
    else:
        here = [number for number in range(chunks.parts) if (part == number).any()]
        rows = joined([contrasted(tables.of_runs(part == number), known[number + 1]) for number in here])
    return rows.of(~np.isnan(rows.y))


def _scales(chunks: CleanChunks, metrics: Sequence[str]) -> Floats:
    """Return medians and units of some metrics, shape (n_known, n_metrics, 2)."""
    table = ds.dataset(list(chunks.files)).to_table(columns=[*metrics, PART], use_threads=False)
    chosen = chunks.learning(_numbers(table, PART))
    columns = (_numbers(table, name) for name in metrics)
    found = [[middle_and_unit(column[rows]) for rows in chosen] for column in columns]
    return np.array(found).swapaxes(0, 1)


def _numbers(table: pa.Table, name: str) -> Floats:
    values = table.column(name).to_numpy().astype(np.float64)
    values[~np.isfinite(values)] = np.nan
    return values


def _noise(chunks: CleanChunks, starts: Sequence[Known], file: Path) -> list[NoiseSums]:
    tables, part = chunks.read(file)
    chosen = chunks.learning(part)
    return [NoiseSums.of(tables.of_runs(rows), start) for rows, start in zip(chosen, starts, strict=True)]
