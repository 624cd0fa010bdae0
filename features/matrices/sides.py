"""Runs of pairs of matrices summed up side by side: what stands where, middles, spreads and counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.matrices.tables import MatrixTables
from data.tables.stacks import middle, stacks

Floats = NDArray[np.float64]
Whole = NDArray[np.intp]

ABOUT = ("run_id", "pair_id", "workload", "group", "side")


@dataclass(frozen=True)
class MatrixPairs:
    """Both matrices of each pair, in scaled values: the first axis is the side, the second the pair.

    Attributes
    ----------
    about : DataFrame, n_pairs rows
        As in `features.matrices.forms.Rows`, of the first run of the target, else of the pair.
    middles, spreads, counts : ndarray of shape (2, n_pairs, n_metrics)
        Median and variance of the runs, and how many measured the metric; NaN where none, or fewer than two,
        did.
    """

    about: pd.DataFrame
    middles: Floats
    spreads: Floats
    counts: Floats

    @classmethod
    def of(cls, tables: MatrixTables, scaled: Floats) -> MatrixPairs:
        """Summarise the runs of `tables`, whose metrics are `scaled`."""
        pair, side, pairs = tables.standing.pair, tables.standing.target, len(tables.standing.names)
        order = np.lexsort((np.arange(len(pair)), ~side, pair))
        first = order[np.searchsorted(pair[order], np.arange(pairs))]
        summed = (
            found.reshape(2, pairs, found.shape[1])
            for found in summarised(side * pairs + pair, scaled, 2 * pairs)
        )
        return cls(about(tables.runs, first), *summed)

    @property
    def difference(self) -> Floats:
        """Middle of the target less that of the baseline, shape (n_pairs, n_metrics)."""
        return np.asarray(self.middles[1] - self.middles[0])


def about(runs: pd.DataFrame, rows: Whole) -> pd.DataFrame:
    """Return what is told of some runs."""
    return pd.DataFrame({name: runs[name].to_numpy(object)[rows] for name in ABOUT}, dtype=object)


def summarised(place: Whole, values: Floats, places: int) -> tuple[Floats, Floats, Floats]:
    """Return median, variance and count of the rows of `values` that have the same place, column by column.

    Parameters
    ----------
    place : ndarray of shape (n_rows,)
        From 0 to `places`, exclusive.
    values : ndarray of shape (n_rows, n_columns)
        NaN was not measured.
    places : int

    Returns
    -------
    middles, spreads, counts : ndarray of shape (places, n_columns)
        NaN where there is no value; the variance where there are fewer than two.
    """
    shape = (places, values.shape[1])
    middles, spreads, counts = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape)
    for here, rows in stacks(place, places):
        sides = np.sort(values[rows], axis=1)
        middles[here], counts[here] = middle(sides)
        spreads[here] = _variance(sides, counts[here])
    return middles, spreads, counts


def _variance(rows: Floats, count: Floats) -> Floats:
    known = np.isfinite(rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(known, rows, 0.0).sum(axis=1) / count
        apart = np.where(known, rows - mean[:, None], 0.0)
        return np.asarray(np.where(count > 1, (apart**2).sum(axis=1) / (count - 1), np.nan))
