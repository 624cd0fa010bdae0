"""Nearest neighbours with one-sided distances, so that a worse row never gets a better verdict."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from training.estimators.compiled_pipeline import NearVotes
from training.estimators.preparation import labelled, unlabelled

Floats = NDArray[np.float64]

#: Least correlation of columns that form one axis.
_ALIKE = 0.8


def axes_of(x: Floats, directions: tuple[int, ...]) -> Floats:
    """Merge correlated columns that have a direction into axes; on every axis, less is worse.

    No weight is against a column's direction; the absolute weights of an axis add up to one.

    Parameters
    ----------
    x : ndarray of shape (n_rows, n_features)
        Standardised. Columns without a direction, and constant columns, are on no axis.

    Returns
    -------
    ndarray of shape (n_features, n_axes)
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


#: Largest number of rows of each class that are stored.
MOST = 500


class OneSidedNeighbours(ClassifierMixin, BaseEstimator):
    """Nearest neighbours of two classes, monotone in every column that has a direction.

    The distance from a failed neighbour counts only where the row is *better*, the distance from a passed one
    only where the row is *worse*. So a row that gets worse moves no farther from any failed neighbour and no
    nearer to any passed one, and its probability of ``fail`` never falls. The densities of the classes are
    compared by the `k` nearest of each class, so that rows beyond all fails are still ranked by the passes.

    Correlated columns with a direction form one axis, their mean; columns without a direction are ignored.

    Parameters
    ----------
    p : int
        Power of the Minkowski distance.
    directions : tuple of int
        By column; see `training.estimators.answering.Guide`.
    weights : {"uniform", "distance"}
        Mean of the `k` distances: arithmetic, or harmonic, so that the nearest count most.
    seed : int
        Random seed for the choice of rows where a class has more than `MOST`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    axes_ : ndarray of shape (n_features, n_axes)
        Weight of each column in each axis; on an axis, less is worse.
    points_ : ndarray of shape (n_kept, n_axes)
    fails_ : ndarray of bool, shape (n_kept,)
    """

    def __init__(
        self, k: int, p: int, *, directions: tuple[int, ...], weights: str = "uniform", seed: int = 0
    ) -> None:
        self.k = k
        self.p = p
        self.directions = directions
        self.weights = weights
        self.seed = seed

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803
        """Learn the axes, and store the rows."""
        rows = labelled(self, X, y, None)
        self.classes_ = rows.classes
        self.axes_ = axes_of(rows.x, self.directions)
        draw = np.random.default_rng(self.seed)
        of_class = [np.flatnonzero(rows.y == one) for one in (0, 1)]
        kept = [
            one if len(one) <= MOST else np.sort(draw.choice(one, MOST, replace=False)) for one in of_class
        ]
        chosen = np.concatenate(kept)
        self.points_, self.fails_ = rows.x[chosen] @ self.axes_, rows.y[chosen] == 1
        return self

    @property
    def votes(self) -> NearVotes:
        """The stored points, which predict."""
        return NearVotes(self.axes_, self.points_, self.fails_, self.k, self.p, self.weights == "distance")

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
        """Return the probability of both classes, shape (n_rows, 2)."""
        share = self.votes.share(unlabelled(self, X))
        return np.column_stack([1 - share, share])

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return the more probable class of each row."""
        return np.asarray(self.classes_[np.argmax(self.predict_proba(X), axis=1)])
