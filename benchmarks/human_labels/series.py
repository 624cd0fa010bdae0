"""The series that comparisons were cut from: what other tools see, and which way it goes at a boundary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class VersionedSeries:
    """The samples of an operation.

    Attributes
    ----------
    better : float
        1 where higher is better, else -1.
    values : ndarray of shape (n_samples,)
        By version.
    starts : ndarray of shape (n_versions + 1,)
        The first sample of every version, and the number of samples.
    orders : ndarray of shape (n_versions,)
        As the results have them, ascending.
    """

    better: float
    values: Floats
    starts: Ints
    orders: Ints

    @classmethod
    def of(cls, results: pd.DataFrame) -> VersionedSeries:
        """Take the results of one operation at one configuration."""
        rows = results.sort_values("order", kind="stable")
        orders = rows["order"].to_numpy(np.int64)
        first = np.flatnonzero(np.diff(orders, prepend=orders[0] - 1))
        better = -1.0 if rows["better"].iloc[0] == "lower" else 1.0
        return cls(better, rows["value"].to_numpy(np.float64), np.r_[first, len(orders)], orders[first])

    @cached_property
    def medians(self) -> Floats:
        """The median of every version."""
        return np.array([np.median(part) for part in np.split(self.values, self.starts[1:-1])])

    def place(self, order: int) -> int:
        """Return the index of the first version of that order or later."""
        return int(np.searchsorted(self.orders, order))

    def worsened(self, first: int, at: int, stop: int) -> bool:
        """Tell whether the median of the samples got worse from versions ``first:at`` to ``at:stop``."""
        low, middle, high = self.starts[[first, at, stop]]
        before, after = np.median(self.values[low:middle]), np.median(self.values[middle:high])
        return bool(self.better * (after - before) < 0)


def series_of(results: pd.DataFrame) -> Mapping[str, VersionedSeries]:
    """Return the series of every operation; those with more than one thread are left out."""
    found = results.groupby("operation", sort=True)
    return {str(name): VersionedSeries.of(rows) for name, rows in found if rows["threads"].eq(1).all()}
