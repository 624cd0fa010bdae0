"""How neighbours vote on whether a comparison fails: one-sided distances to few points on few axes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Single = NDArray[np.float32]

#: Columns that correlate at least so much tell much the same.
_ALIKE = 0.8
#: Rows that are answered at once, so that their distances stay in the cache.
_ROWS = 256
#: A neighbour at no distance weighs as if it were so far, in standard deviations.
_NEAREST = 0.05


def axes_of(x: Floats, directions: tuple[int, ...]) -> Floats:
    """Gather columns with a direction that correlate into axes, on each of which less is worse.

    Parameters
    ----------
    x : ndarray of shape (n_rows, n_features)
        Standardised. Columns without a direction, and those that are all equal, are on no axis.
    directions : tuple of int

    Returns
    -------
    ndarray of shape (n_features, n_axes)
        None of it leads against a direction; what of an axis is on all its columns adds up to one.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    signs = -np.array(directions, np.float64)
    used = np.flatnonzero((signs != 0) & (np.ptp(x, axis=0) > 0))
    if len(used) <= 1:
        return np.eye(x.shape[1])[:, used] * signs[used]
    apart = np.clip(1 - np.corrcoef(x[:, used] * signs[used], rowvar=False), 0.0, 2.0)
    np.fill_diagonal(apart, 0.0)
    tree = linkage(squareform(apart, checks=False), "average")
    cluster = fcluster(tree, 1 - _ALIKE, "distance") - 1
    axes = np.zeros((x.shape[1], int(cluster.max()) + 1))
    axes[used, cluster] = signs[used] / np.bincount(cluster)[cluster]
    return axes


@dataclass(frozen=True)
class NearVotes:
    """The points that vote; see `training.estimators.one_sided.OneSidedNeighbours`."""

    axes: Floats
    points: Floats
    fails: NDArray[np.bool_]
    k: int
    p: int
    weighted: bool

    def share(self, x: Floats) -> Floats:
        """Return the share of ``fail`` among the nearest, shape (n_rows,)."""
        own = (x @ self.axes).astype(np.float32)
        passes, fails = (
            np.ascontiguousarray(self.points[one].T, np.float32) for one in (~self.fails, self.fails)
        )
        found = np.empty(len(own))
        for start in range(0, len(own), _ROWS):
            part = own[start : start + _ROWS]
            # a pass is far where the row is worse than it, a fail where the row is better
            found[start : start + _ROWS] = self._voted(self._far(passes, part, 1), self._far(fails, part, -1))
        return found

    def _far(self, points: Single, rows: Single, sign: int) -> Single:
        """Return how far each row is from each point, shape (n_rows, n_points)."""
        total = np.zeros((len(rows), points.shape[1]), np.float32)
        for axis, places in enumerate(points):
            apart = sign * (places - rows[:, axis, None])
            np.maximum(apart, 0.0, out=apart)
            total += apart * apart if self.p != 1 else apart
        return np.sqrt(total, out=total) if self.p != 1 else total

    def _voted(self, passes: Single, fails: Single) -> Floats:
        """Let the nearest `k` vote; all that are as far as the last of them share its place."""
        last = self._last(passes, fails)
        nearer = [one < last for one in (passes, fails)]
        passed, failed = (
            (inside * self._weight(one)).sum(axis=1)
            for one, inside in zip((passes, fails), nearer, strict=True)
        )
        tied = [(one == last).sum(axis=1) for one in (passes, fails)]
        places = self._weight(last)[:, 0] * (self.k - sum(inside.sum(axis=1) for inside in nearer))
        failed = failed + places * tied[1] / (tied[0] + tied[1])
        return np.asarray(failed / (passed + failed + places * tied[0] / (tied[0] + tied[1])), np.float64)

    def _last(self, passes: Single, fails: Single) -> Single:
        """Return how far the last one is that votes, shape (n_rows, 1)."""
        both = np.concatenate([passes, fails], axis=1)
        return np.asarray(np.partition(both, self.k - 1, axis=1)[:, self.k - 1 : self.k])

    def _weight(self, distance: Single) -> Single:
        if not self.weighted:
            return np.ones_like(distance)
        return np.asarray(1 / (distance + _NEAREST), np.float32)
