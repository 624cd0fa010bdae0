"""Nearest neighbours of many rows at once: what there is of a fit is the rows themselves."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: So many distances at a time are held in memory.
AT_ONCE = 4_000_000
#: Manhattan's distance; the other is Euclid's.
MANHATTAN = 1


class Nearest:
    """Neighbours that count the more the nearer they are, as scikit-learn's ``weights="distance"``.

    scikit-learn's own takes longer to check a few rows than to find what is near them.

    Parameters
    ----------
    k : int
        Neighbours.
    p : 1 or 2
        The power of the distance.
    """

    def __init__(self, k: int, p: int) -> None:
        self.k, self.p = k, p

    def fit(self, x: Floats, y: NDArray[np.int64]) -> Self:
        """Keep rows, at least `k`, and their labels, 0 or 1."""
        self.x_, self.y_, self.squares_ = x, y.astype(np.float64), np.einsum("ij,ij->i", x, x)
        return self

    def shares(self, x: Floats) -> Floats:
        """Return what share of the neighbours of each row of `x` is of class 1; of equal rows, only these."""
        step = max(1, AT_ONCE // len(self.x_))
        parts = [self._share(x[first : first + step]) for first in range(0, len(x), step)]
        return np.concatenate([*parts, np.zeros(0)])

    def _share(self, x: Floats) -> Floats:
        apart = self._apart(x)
        near = np.argpartition(apart, self.k - 1, axis=1)[:, : self.k]
        distance = np.take_along_axis(apart, near, axis=1)
        same = distance == 0
        with np.errstate(divide="ignore"):
            weight = np.where(same.any(axis=1)[:, None], same, 1 / distance)
        return np.asarray((weight * self.y_[near]).sum(axis=1) / weight.sum(axis=1))

    def _apart(self, x: Floats) -> Floats:
        if self.p == MANHATTAN:
            from scipy.spatial.distance import cdist

            return np.asarray(cdist(x, self.x_, "cityblock"))
        own = np.einsum("ij,ij->i", x, x)
        return np.sqrt(np.maximum(own[:, None] + self.squares_ - 2 * (x @ self.x_.T), 0))
