"""Statistics for the forms from matrices that are larger than memory: medians by column, noise by chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from data.matrices.chunks import PART
from data.matrices.tables import CAUSE_DTYPES, METRIC_DTYPES, RUN_DTYPES, Flags, Floats, MatrixTables
from data.parallel import Compute, side_by_side
from data.tables.specs import with_dtypes
from features.matrices.forms import (
    MetricStatistics,
    NoiseSums,
    Rows,
    concat_rows,
    contrast_pairs,
    middle_and_unit,
)

#: Numbers that are read at once.
_AT_ONCE = 20_000_000


@dataclass(frozen=True)
class CleanChunks:
    """Chunks of valid runs; each file has whole pairs of whole test cases, and all raw ``metrics``.

    Statistics for a pair are computed from the other ones of ``parts`` parts, or from all runs if it is 1.
    """

    files: tuple[Path, ...]
    metrics: tuple[str, ...]
    groups: tuple[str, ...]
    rows: int
    pairs: int
    parts: int

    def read_chunk(self, file: Path) -> tuple[MatrixTables, Floats]:
        """Return the runs of `file` as tables, without metadata, and each run's part, shape (n_runs,)."""
        table = ds.dataset(file).to_table(columns=[*RUN_DTYPES, *self.metrics, PART])
        runs = table.to_pandas(ignore_metadata=True).astype(RUN_DTYPES)
        part = runs.pop(PART).to_numpy(np.float64)
        return MatrixTables(runs, with_dtypes(None, CAUSE_DTYPES), with_dtypes(None, METRIC_DTYPES)), part

    def training_masks(self, part: Floats) -> list[Flags]:
        """Return one mask of runs per `MetricStatistics`: all runs, then the runs outside each part.

        part: shape (n_runs,), as `read_chunk` returns it. Masks have shape (n_runs,); with a single part, the
        only mask is that of all runs.
        """
        others = range(self.parts if self.parts > 1 else 0)
        return [np.ones(len(part), bool), *(part != number for number in others)]


def statistics_without_parts(chunks: CleanChunks, compute: Compute) -> list[MetricStatistics]:
    """Return medians, units and noise of metrics for all runs, then for the runs outside each part.

    A part is a fold of the test cases; runs that are in no part are outside of every part. The list has
    ``chunks.parts + 1`` items, in the order of the parts; with a single part, only that of all runs. Each
    item equals `features.matrices.forms.training_statistics` of those runs (``middles``, ``units``,
    ``spread``, ``drift``), but has all ``chunks.groups``. It is computed without all runs in memory, in
    parallel as `compute` configures.
    """
    step = max(1, _AT_ONCE // max(chunks.rows, 1))
    blocks = [chunks.metrics[start : start + step] for start in range(0, len(chunks.metrics), step)]
    scales = side_by_side(partial(_metric_scales, chunks), blocks, compute, "scales of metrics")
    parts = np.concatenate(scales, axis=1)
    starts = [MetricStatistics.from_scales(chunks.metrics, part, chunks.groups) for part in parts]
    noise = partial(_noise_sums, chunks, starts)
    sums = zip(*side_by_side(noise, chunks.files, compute, "noise of metrics"), strict=True)
    return [reduce(add, part).estimate_noise(start) for part, start in zip(sums, starts, strict=True)]


def contrasted_rows(chunks: CleanChunks, statistics: Sequence[MetricStatistics], file: Path) -> Rows:
    """Return one feature row per labelled pair of one chunk, as `contrast_pairs` computes them.

    The chunk is read from `file`, one of ``chunks.files``. `statistics` are those of
    `statistics_without_parts`: the first of all runs, then one per part, of the runs outside it. A pair is
    contrasted with the item of its part, or with the first if there is a single part. Pairs without a label
    or with an empty side are left out; with several parts, the rows are sorted by part, and pairs in no part
    are left out, too (ValueError if these are all pairs).
    """
    tables, part = chunks.read_chunk(file)
    if chunks.parts == 1:
        rows = contrast_pairs(tables, statistics[0])
    else:
        present = [number for number in range(chunks.parts) if (part == number).any()]
        rows = concat_rows(
            [contrast_pairs(tables.select_runs(part == number), statistics[number + 1]) for number in present]
        )
    return rows.select_rows(~np.isnan(rows.y))


def _metric_scales(chunks: CleanChunks, metrics: Sequence[str]) -> Floats:
    """Return medians and units of some metrics, shape (n_known, n_metrics, 2)."""
    table = ds.dataset(list(chunks.files)).to_table(columns=[*metrics, PART], use_threads=False)
    masks = chunks.training_masks(_numeric_column(table, PART))
    columns = (_numeric_column(table, name) for name in metrics)
    return np.array([[middle_and_unit(column[rows]) for rows in masks] for column in columns]).swapaxes(0, 1)


def _numeric_column(table: pa.Table, name: str) -> Floats:
    values = table.column(name).to_numpy().astype(np.float64)
    values[~np.isfinite(values)] = np.nan
    return values


def _noise_sums(chunks: CleanChunks, starts: Sequence[MetricStatistics], file: Path) -> list[NoiseSums]:
    tables, part = chunks.read_chunk(file)
    masks = zip(chunks.training_masks(part), starts, strict=True)
    return [NoiseSums.from_tables(tables.select_runs(rows), start) for rows, start in masks]
