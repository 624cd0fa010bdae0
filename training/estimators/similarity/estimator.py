"""Similarity logistic: two logistic sub-models of the same weights say whether a pair of vectors is alike."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from training.estimators.inputs import Labelled, labelled, unlabelled
from training.estimators.similarity.climb import DIRECTIONS, direct, expectation_maximisation, start_of
from training.estimators.similarity.likelihood import Floats, Pairs, Penalty, logistic


class SimilarityLogistic(ClassifierMixin, BaseEstimator):
    """Similarity logistic classifier of pairs (seed 001, section 4.5 and figure 2).

    A pair's baseline m and target n each have a hidden class, P(Y = 1 | m) = s(w m + b) and
    P(Y' = 1 | n) = s(w n + b) with the logistic function s and the same weights. The pair is dissimilar (the
    second class) where Y differs from Y'. A row is the baseline's features, then the target's in the same
    order, then those that describe both. NaN and infinity are refused; features should be standardised, since
    the penalty sees their units.

    Parameters
    ----------
    solver : "em" or "direct"
        Expectation-maximisation as in the seed, or L-BFGS on the likelihood of the labels. Both climb the
        same penalised likelihood from the same start.
    ridge : float
        The penalty is half of this times the squared weights (not the intercept), against the sum of the
        weighted log-likelihood; not below 0.
    shared : int or "rest"
        How many columns at the end belong to baseline and target alike, for example sizes. ``"rest"``: the
        last one where the number of columns is odd. Give 0 to have an odd number refused.
    fit_intercept : bool
        Whether there is b.
    class_weight : dict, "balanced" or None
        What a pair weighs in the likelihood, by class.
    starts : int
        How many starts are compared; 1: that of the highest likelihood is taken as it is.
    tol : float
        The search ends where no component of the gradient exceeds it, per unit of weight and with features
        standardised.
    max_iter : int
        Iterations at most.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Similar, dissimilar.
    coef_ : ndarray of shape (1, n_own + n_shared)
        Of the features of one side. (w, b) and (-w, -b) say the same of pairs; the sign is such that among
        dissimilar pairs the target has the higher mean of w n + b.
    intercept_ : ndarray of shape (1,)
    n_own_, n_shared_ : int
        Columns of one side, and of both.
    n_iter_ : int
    log_likelihoods_ : ndarray of shape (n_iter_ + 1,)
        Penalised, before the first and after every iteration; never falls under ``"em"``.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    An EM iteration takes the probabilities of Y and Y' given the label under the present weights, and then
    the weights that maximise the expected likelihood, by Newton's method from the present ones. Anderson's
    acceleration ("DAAREM", Henderson and Varadhan 2019) extrapolates from the last iterations; where that is
    less likely than the plain EM step, the plain step is taken.

    Zero weights are a saddle point, at which neither solver could move. The start is the direction in which
    the products of baseline and target tell most of the label (leading eigenvectors of their whitened moment)
    or that of a least-squares fit of the flattened data (seed 001, section 4.5), at one of four sizes: the
    one from which ten EM iterations on at most 4,000 evenly spaced pairs lead highest. They are not counted
    in `n_iter_`. The likelihood can have several maxima, above all with few pairs and many features; what is
    found is the one above that start.
    """

    def __init__(
        self,
        solver: str = "em",
        *,
        ridge: float = 1.0,
        shared: int | str = "rest",
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        starts: int = DIRECTIONS + 1,
        tol: float = 1e-8,
        max_iter: int = 1000,
    ) -> None:
        self.solver = solver
        self.ridge = ridge
        self.shared = shared
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.starts = starts
        self.tol = tol
        self.max_iter = max_iter

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:  # noqa: N803
        """Find the weights.

        Parameters
        ----------
        X : array of shape (n_pairs, 2 * n_own + n_shared)
        y : array of shape (n_pairs,)
            The greater of its two values is dissimilar.
        sample_weight : array of shape (n_pairs,), optional

        Raises
        ------
        ValueError
            If a value is not finite, there are not two classes, the columns don't pair, or a parameter is out
            of its range.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` was reached.
        """
        self._check_parameters()
        rows = labelled(self, X, y, sample_weight)
        if (kind := type_of_target(y)) != "binary":
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        self.classes_ = rows.classes
        self.n_shared_ = self._count_shared(rows.x.shape[1])
        self.n_own_ = (rows.x.shape[1] - self.n_shared_) // 2
        penalty = Penalty(float(self.ridge), self.fit_intercept)
        pairs = Pairs.of(*self._sides(rows.x), rows.y == 1, self._costs(rows), penalty)
        climb = {"em": expectation_maximisation, "direct": direct}[self.solver]
        found = climb(pairs, start_of(pairs, self.starts), self.tol, self.max_iter)
        if not found.converged:
            warnings.warn(
                f"SimilarityLogistic: not converged after max_iter={self.max_iter} iterations",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.n_iter_ = max(1, found.iterations)
        self.log_likelihoods_ = np.array(found.history)
        weights, intercept = pairs.unscaled(found.weights)
        self.coef_, self.intercept_ = weights[None], np.array([intercept])
        return self

    def decision_function(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the log-odds of dissimilarity, shape (n_pairs,)."""
        check_is_fitted(self)
        x = unlabelled(self, X)
        baseline, target = (side @ self.coef_[0] + self.intercept_[0] for side in self._sides(x))
        return np.asarray(np.logaddexp(baseline, target) - np.logaddexp(0.0, baseline + target))

    def predict_proba(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the probability of similar and dissimilar, shape (n_pairs, 2)."""
        check_is_fitted(self)
        odds = self.decision_function(X)
        return np.column_stack([logistic(-odds), logistic(odds)])

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return the more probable class of each pair."""
        check_is_fitted(self)
        return np.asarray(self.classes_[(self.decision_function(X) > 0).astype(int)])

    def _check_parameters(self) -> None:
        if self.solver not in {"em", "direct"}:
            raise ValueError(f'SimilarityLogistic: solver={self.solver!r} is neither "em" nor "direct"')
        if not self.ridge >= 0:
            raise ValueError(f"SimilarityLogistic: ridge={self.ridge!r} is below 0")
        if self.starts < 1:
            raise ValueError(f"SimilarityLogistic: starts={self.starts!r} is below 1")

    def _count_shared(self, columns: int) -> int:
        shared = columns % 2 if self.shared == "rest" else int(self.shared)
        if not 0 <= shared <= columns or (columns - shared) % 2:
            raise ValueError(
                f"SimilarityLogistic: n_features = {columns} less shared={self.shared!r} are no baseline and"
                " target of the same width"
            )
        return shared

    def _sides(self, x: Floats) -> tuple[Floats, Floats]:
        own, both = self.n_own_, x[:, 2 * self.n_own_ :]
        return np.hstack([x[:, :own], both]), np.hstack([x[:, own : 2 * own], both])

    def _costs(self, rows: Labelled) -> Floats:
        costs = compute_class_weight(
            self.class_weight, classes=rows.classes, y=rows.classes[rows.y], sample_weight=rows.weights
        )
        return rows.weighed() * costs[rows.y]
