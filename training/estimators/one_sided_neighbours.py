"""Nearest neighbours that never take worse for better: distances count one way."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from training.estimators.compiled_pipeline import NearVotes
from training.estimators.preparation import labelled, unlabelled

Floats = NDArray[np.float64]

#: Columns that correlate at least so much tell much the same.
_ALIKE = 0.8


def axes_of(x: Floats, directions: tuple[int, ...]) -> Floats:
    """Gather columns with a direction that correlate into axes, on each of which less is worse.

    None of it leads against a direction; what of an axis is on all its columns adds up to one.

    Returns
    -------
    ndarray of shape (n_features, n_axes)

    Parameters
    ----------
    x : ndarray of shape (n_rows, n_features)
        Standardised. Columns without a direction, and those that are all equal, are on no axis.
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


#: Of each class, so many rows are kept to vote at most.
MOST = 500


class OneSidedNeighbours(ClassifierMixin, BaseEstimator):
    """Nearest neighbours of two classes, monotone in every column that has a direction.

    How far a failed neighbour is counts only where the row is *better* than it, how far a passed one is only
    where the row is *worse*. So a row that gets worse comes no farther from any failed neighbour, and no
    nearer to any passed one: what the `k` nearest of each class say of their densities never falls. They are
    compared class by class, so that rows that lie beyond all fails are still told apart by the passes.

    Columns with a direction that tell much the same are one axis, their mean; the others don't count.

    Parameters
    ----------
    p : int
        Of the Minkowski distance.
    directions : tuple of int
        By column; see `training.estimators.answering.Guide`.
    weights : {"uniform", "distance"}
        How the `k` distances are averaged: plainly, or so that the nearest count most.
    seed : int
        Of the draw, where there are more than `MOST` rows of a class.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    axes_ : ndarray of shape (n_features, n_axes)
        What of each column goes into each axis; on an axis, less is worse.
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
        """Find the axes, and keep the rows."""
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
        """What answers."""
        return NearVotes(self.axes_, self.points_, self.fails_, self.k, self.p, self.weights == "distance")

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
        """Return the share of both classes among the nearest, shape (n_rows, 2)."""
        share = self.votes.share(unlabelled(self, X))
        return np.column_stack([1 - share, share])

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return the class of most of the nearest."""
        return np.asarray(self.classes_[np.argmax(self.predict_proba(X), axis=1)])
