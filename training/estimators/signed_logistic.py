"""Logistic regression whose coefficients have known signs."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from training.estimators.answering import Floats
from training.estimators.preparation import labelled, unlabelled

_MOST_STEPS = 500
#: Bounds of a coefficient for L-BFGS-B, by its direction.
_BOUNDS = {-1: (None, 0.0), 0: (None, None), 1: (0.0, None)}


class SignedLogistic(ClassifierMixin, BaseEstimator):
    """Penalised logistic regression of two classes as in scikit-learn, with signs known beforehand.

    Parameters
    ----------
    C : float
        As of ``sklearn.linear_model.LogisticRegression``: the inverse of the penalty's weight.
    directions : tuple of int
        By column: the sign that its coefficient may have, -1 or 1; 0 leaves it free.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
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

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:  # noqa: N803
        """Minimise the penalised loss under the sign constraints (L-BFGS-B: Byrd et al. 1995)."""
        from scipy.optimize import minimize

        rows = labelled(self, X, y, sample_weight)
        self.classes_ = rows.classes
        costs = self.class_weight or {}
        weights = rows.weighed() * np.array([costs.get(one, 1.0) for one in rows.classes])[rows.y]
        x, sign = np.column_stack([rows.x, np.ones(len(rows.x))]), 2.0 * rows.y - 1

        def loss(beta: Floats) -> tuple[float, Floats]:
            margin = sign * (x @ beta)
            penalty = np.append(beta[:-1], 0.0)
            wrong = np.exp(-np.logaddexp(0.0, margin)) * weights * sign
            value = self.C * float(weights @ np.logaddexp(0.0, -margin)) + float(penalty @ penalty) / 2
            return value, penalty - self.C * (wrong @ x)

        bounds = [*(_BOUNDS[one] for one in self.directions), (None, None)]
        options = {"maxiter": _MOST_STEPS, "maxfun": 2 * _MOST_STEPS}
        found = minimize(loss, np.zeros(x.shape[1]), jac=True, bounds=bounds, options=options).x
        self.coef_, self.intercept_ = found[None, :-1], found[-1:]
        return self

    def predict_proba(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the probability of both classes, shape (n_rows, 2)."""
        odds = unlabelled(self, X) @ self.coef_[0] + self.intercept_[0]
        return np.exp(-np.logaddexp(0.0, np.column_stack([odds, -odds])))

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return the more probable class of each row."""
        return np.asarray(self.classes_[np.argmax(self.predict_proba(X), axis=1)])
