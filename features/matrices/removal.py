"""What a classifier would see of pairs if some metrics of the target were the baseline's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.matrices.tables import SIDES, MatrixTables
from features.matrices.forms import FORMS, Known, MatrixPairs, Rows, noise, sizes_told

Floats = NDArray[np.float64]
Whole = NDArray[np.intp]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Removal:
    """Rows of pairs, from which differences between the sides can be taken.

    Attributes
    ----------
    rows : Rows
        Of targets, as they are, those of a pair one after the other.
    still : ndarray, shape as ``rows.x``, or None
        The same where the runs of every target are moved so that all their middles are the baselines'; None
        of rows that are differences themselves.
    pairs : ndarray of str, shape (n_pairs,)
    sizes : ndarray of shape (n_pairs, n_metrics)
        How much the sides differ, in units of noise.
    starts, counts : ndarray of shape (n_pairs,)
        The first row of each pair, and how many it has.
    """

    rows: Rows
    still: Floats | None
    pairs: NDArray[Any]
    sizes: Floats
    starts: Whole
    counts: Whole

    @classmethod
    def of(cls, form: str, tables: MatrixTables, known: Known, rows: Rows) -> Removal:
        """Prepare the `rows` that a form made of `tables`, whose pairs all have both sides."""
        metrics = len(known.metrics)
        if form == "contrasted":
            pairs = np.arange(len(rows.x))
            names = rows.about["pair_id"].to_numpy(object)
            return cls(rows, None, names, np.abs(np.sinh(rows.x[:, :metrics])), pairs, np.ones_like(pairs))
        runs, standing = tables.runs, tables.standing
        values = tables.numbers(known.metrics)
        scaled = known.scaled(np.where(np.isfinite(values), values, np.nan))
        matrices = MatrixPairs.of(tables, scaled)
        moved = np.nan_to_num(matrices.difference)
        back = np.where(standing.target[:, None], known.unscaled(scaled - moved[standing.pair]), values)
        numbers = pd.DataFrame(back, runs.index, list(known.metrics))
        still = pd.concat([runs.drop(columns=list(known.metrics)), numbers], axis="columns")
        size = np.abs(moved) / noise(matrices, known, known.places(matrices.about["group"].tolist()))
        of_row = pd.Index(standing.names).get_indexer(rows.about["pair_id"])
        chosen = np.flatnonzero((rows.about["side"] == SIDES[1]).to_numpy(bool))
        order = chosen[np.argsort(of_row[chosen], kind="stable")]
        counts = np.bincount(of_row[chosen], minlength=len(standing.names))
        x = FORMS[form](tables.with_runs(still), known).x[order]
        return cls(rows.of(order), x, standing.names, size, np.cumsum(counts) - counts, counts)

    def without(self, pair: Whole, removed: Flags) -> tuple[Floats, Whole]:
        """Return the rows of versions of pairs, without the differences of some metrics.

        Parameters
        ----------
        pair : ndarray of shape (n_versions,)
            Whose version it is.
        removed : ndarray of shape (n_versions, n_metrics)
            Where the target is to be the baseline.

        Returns
        -------
        x : ndarray of shape (n_version_rows, n_columns)
        version : ndarray of shape (n_version_rows,)
            Of each row, rising.
        """
        counts = self.counts[pair]
        version = np.repeat(np.arange(len(pair)), counts)
        row = self.starts[pair][version] + np.arange(len(version)) - (np.cumsum(counts) - counts)[version]
        return self._exchanged(self.rows.x[row], row, removed[version]), version

    @cached_property
    def _units(self) -> Floats:
        """The differences of rows that are differences, in units of noise."""
        return np.asarray(np.sinh(self.rows.x[:, : self.sizes.shape[1]]))

    def _exchanged(self, x: Floats, row: Whole, removed: Flags) -> Floats:
        metrics = removed.shape[1]
        if self.still is None:
            x[:, :metrics][removed] = 0
            units = self._units[row]
            units[removed] = 0
            for place, told in enumerate(sizes_told(units).values(), start=metrics):
                x[:, place] = told
            return x
        # of two blocks the first is the baseline's, which stays
        return np.where(np.tile(removed, self.rows.blocks), self.still[row], x)
