"""Weighted sums by group, from which means are made that lean on those of all groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.intp]


@dataclass(frozen=True)
class GroupSums:
    """Weighted sums by group, which can be added.

    Attributes
    ----------
    sums, totals : ndarray of shape (n_groups + 1, n_metrics)
        Of values times weights, and of weights; the last row is of unknown groups.
    """

    sums: Floats
    totals: Floats

    @classmethod
    def of(cls, values: Floats, weights: Floats, place: Whole, groups: int) -> GroupSums:
        """Sum up `values`; a missing one weighs nothing."""
        weights = np.where(np.isnan(values), 0.0, weights)
        sums, totals = np.zeros((2, groups + 1, values.shape[1]))
        np.add.at(sums, place, weights * np.nan_to_num(values))
        np.add.at(totals, place, weights)
        return cls(sums, totals)

    def __add__(self, other: GroupSums) -> GroupSums:
        return GroupSums(self.sums + other.sums, self.totals + other.totals)

    def means(self, prior: float) -> Floats:
        """Return the means by group, drawn towards that of all; the last row is of all."""
        every = self.sums.sum(axis=0) / np.maximum(self.totals.sum(axis=0), 1)
        means = (self.sums + prior * every) / (self.totals + prior)
        means[-1] = every
        return means
