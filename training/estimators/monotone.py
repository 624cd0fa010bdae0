"""Monotone classifiers: logistic regression with known signs, and one-sided nearest neighbours."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from training.estimators.answering import Floats
from training.estimators.compiled_pipeline import NearVotes
from training.estimators.preparation import ProbabilityClassifier, check_rows, check_training_rows

_MOST_STEPS = 500
#: Bounds of a coefficient for L-BFGS-B, by its direction.
_BOUNDS = {-1: (None, 0.0), 0: (None, None), 1: (0.0, None)}


class SignedLogistic(ProbabilityClassifier):
    """Penalised logistic regression of two classes as in scikit-learn, with signs known beforehand.

    `C` and the fitted attributes are those of ``sklearn.linear_model.LogisticRegression``; `directions` has
    by column the sign that its coefficient may have, -1 or 1; 0 leaves it free.
    """

    def __init__(
        self,
        C: float = 1.0,  # noqa: N803
        *,
        directions: tuple[int, ...],
        class_weight: dict[Any, float] | None = None,
    ) -> None:
        self.C = C
        self.directions = directions
        self.class_weight = class_weight

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803
        """Minimise the penalised loss under the sign constraints (L-BFGS-B: Byrd et al. 1995).

        `X`: shape (n_rows, n_features). `y`: shape (n_rows,). ValueError if a value is not finite, or
        `y` has a single class.
        """
        rows = check_training_rows(self, X, y)
        self.classes_ = rows.classes
        costs = self.class_weight or {}
        weights = np.array([costs.get(label, 1.0) for label in rows.classes])[rows.y]
        x, sign = np.column_stack([rows.x, np.ones(len(rows.x))]), 2.0 * rows.y - 1

        def penalised_loss(beta: Floats) -> tuple[float, Floats]:
            margin = sign * (x @ beta)
            penalty = np.append(beta[:-1], 0.0)
            wrong = np.exp(-np.logaddexp(0.0, margin)) * weights * sign
            value = self.C * float(weights @ np.logaddexp(0.0, -margin)) + float(penalty @ penalty) / 2
            return value, penalty - self.C * (wrong @ x)

        bounds = [*(_BOUNDS[label] for label in self.directions), (None, None)]
        options = {"maxiter": _MOST_STEPS, "maxfun": 2 * _MOST_STEPS}
        beta = minimize(penalised_loss, np.zeros(x.shape[1]), jac=True, bounds=bounds, options=options).x
        self.coef_, self.intercept_ = beta[None, :-1], beta[-1:]
        return self

    def predict_proba(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the probability of both classes, shape (n_rows, 2)."""
        odds = check_rows(self, X) @ self.coef_[0] + self.intercept_[0]
        return np.exp(-np.logaddexp(0.0, np.column_stack([odds, -odds])))


#: Least correlation of columns that form one axis.
_ALIKE = 0.8


def axes_of(x: Floats, directions: tuple[int, ...]) -> Floats:
    """Return the weight of each column in each axis, shape (n_features, n_axes); less is worse on each axis.

    `x` are standardised rows, shape (n_rows, n_features). `directions` is 1 for a column where a larger value
    is worse, -1 where better, 0 for neither. Columns with a direction, negated where a larger value is worse,
    are clustered; those that correlate by 0.8 or more on average form one axis, their mean. The absolute
    weights of an axis add up to one. Columns without a direction, and constant columns, are on no axis.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    signs = -np.array(directions, np.float64)
    used = np.flatnonzero((signs != 0) & (np.ptp(x, axis=0) > 0))
    if len(used) <= 1:
        return np.eye(x.shape[1])[:, used] * signs[used]
    dissimilarity = np.clip(1 - np.corrcoef(x[:, used] * signs[used], rowvar=False), 0.0, 2.0)
    np.fill_diagonal(dissimilarity, 0.0)
    tree = linkage(squareform(dissimilarity, checks=False), "average")
    cluster = fcluster(tree, 1 - _ALIKE, "distance") - 1
    axes = np.zeros((x.shape[1], int(cluster.max()) + 1))
    axes[used, cluster] = signs[used] / np.bincount(cluster)[cluster]
    return axes


#: Largest number of rows of each class that are stored.
MOST = 500


class OneSidedNeighbours(ProbabilityClassifier):
    """Nearest neighbours of two classes, monotone in every column that has a direction.

    The distance from a failed neighbour counts only where the row is *better*, the distance from a passed one
    only where the row is *worse*. So a row that gets worse moves no farther from any failed neighbour and no
    nearer to any passed one, and its probability of ``fail`` never falls. The densities of the classes are
    compared by the `k` nearest of each class, so that rows beyond all fails are still ranked by the passes.

    Correlated columns with a direction form one axis, their mean; columns without a direction are ignored.

    `p` is the power of the Minkowski distance. `directions` has 1, -1 or 0 by column; see
    `training.estimators.answering.MonotoneConstraints`. `weights` names the mean of the `k` distances:
    "uniform" is arithmetic, "distance" harmonic, so that the nearest count most. `seed` draws the rows to
    store where a class has more than `MOST`. Fitting sets ``classes_``, shape (2,); ``axes_``, (n_features,
    n_axes), the weight of each column in each axis, on which less is worse; ``points_``, (n_kept, n_axes);
    and the flags ``fails_``, (n_kept,).
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
        """Learn the axes, and store the rows of `X`, shape (n_rows, n_features); `y`: (n_rows,)."""
        rows = check_training_rows(self, X, y)
        self.classes_ = rows.classes
        self.axes_ = axes_of(rows.x, self.directions)
        draw = np.random.default_rng(self.seed)

        def at_most(numbers: NDArray[np.intp]) -> NDArray[np.intp]:
            return numbers if len(numbers) <= MOST else np.sort(draw.choice(numbers, MOST, replace=False))

        chosen = np.concatenate([at_most(np.flatnonzero(rows.y == label)) for label in (0, 1)])
        self.points_, self.fails_ = rows.x[chosen] @ self.axes_, rows.y[chosen] == 1
        return self

    @property
    def near_votes(self) -> NearVotes:
        """The stored points, which predict."""
        numbers = (np.array(number, np.int64) for number in (self.k, self.p, self.weights == "distance"))
        return NearVotes(self.axes_, self.points_, self.fails_.astype(np.int64), *numbers)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
        """Return the probability of both classes, shape (n_rows, 2)."""
        share = self.near_votes.fail_share(check_rows(self, X))
        return np.column_stack([1 - share, share])
