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
#: What is added to every distance, in standard deviations: none is nothing.
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
        """Return the share of ``fail`` in the density of both, shape (n_rows,)."""
        from scipy.special import expit

        own = (x @ self.axes).astype(np.float32)
        passes, fails = (
            np.ascontiguousarray(self.points[one].T, np.float32) for one in (~self.fails, self.fails)
        )
        found = np.empty(len(own))
        for start in range(0, len(own), _ROWS):
            part = own[start : start + _ROWS]
            # a pass is far where the row is worse than it, a fail where the row is better
            found[start : start + _ROWS] = self._odds(self._far(passes, part, 1), self._far(fails, part, -1))
        return np.asarray(expit(found))

    def _far(self, points: Single, rows: Single, sign: int) -> Single:
        """Return how far each row is from each point, shape (n_rows, n_points)."""
        total = np.zeros((len(rows), points.shape[1]), np.float32)
        for axis, places in enumerate(points):
            apart = sign * (places - rows[:, axis, None])
            np.maximum(apart, 0.0, out=apart)
            total += apart * apart if self.p != 1 else apart
        return np.sqrt(total, out=total) if self.p != 1 else total

    def _odds(self, passes: Single, fails: Single) -> Floats:
        """Compare how dense fails and passes are, as log-odds: by the `k` nearest of each.

        The density of a class is its inverse distance to the power of the axes that there are (Loftsgaarden,
        Quesenberry, A nonparametric estimate of a multivariate density function, 1965).
        """
        near = [self._middle(np.partition(one, self._last(one), axis=1)) for one in (passes, fails)]
        return np.asarray(self.axes.shape[1] * (np.log(near[0]) - np.log(near[1])), np.float64)

    def _last(self, distance: Single) -> int:
        return min(self.k, distance.shape[1]) - 1

    def _middle(self, distance: Single) -> Single:
        """Return the mean distance of the nearest; where they are weighed by it, the harmonic one."""
        near = distance[:, : self._last(distance) + 1] + np.float32(_NEAREST)
        return np.asarray(1 / (1 / near).mean(axis=1) if self.weighted else near.mean(axis=1))
