"""The catalogue of classifiers for matrices: those of the matrix paper and others, with search spaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from features.matrices.forms import split_forms
from training.estimators.catalogue import CATALOGUE as OF_COMPARISONS
from training.estimators.catalogue import (
    WEIGHTED,
    Model,
    OneOf,
    Params,
    Real,
    Whole,
    build_estimator,
    build_logistic,
)

Floats = NDArray[np.float64]

#: Number of distances held in memory at a time.
AT_ONCE = 4_000_000
#: `p` of the Manhattan distance; otherwise the distance is Euclidean.
MANHATTAN = 1


class Nearest:
    """The `k` nearest neighbours, weighted by inverse distance (`p`: 1 Manhattan, 2 Euclidean).

    scikit-learn's classifier spends more time on checking a few rows than on finding their neighbours.
    """

    def __init__(self, k: int, p: int) -> None:
        self.k, self.p = k, p

    def fit(self, x: Floats, y: NDArray[np.int64]) -> Self:
        """Store at least `k` rows `x`, shape (n_rows, n_columns), and their labels `y`, (n_rows,), 0 or 1."""
        self.x_, self.y_, self.squares_ = x, y.astype(np.float64), np.einsum("ij,ij->i", x, x)
        return self

    def class_shares(self, x: Floats) -> Floats:
        """Return the weighted share of class 1 among each row's `k` neighbours, shape (n_rows,).

        Where some equal the row, only among these.
        """
        step = max(1, AT_ONCE // len(self.x_))
        parts = [self._class_share(x[first : first + step]) for first in range(0, len(x), step)]
        return np.concatenate([*parts, np.zeros(0)])

    def _class_share(self, x: Floats) -> Floats:
        distances = self._distances(x)
        near = np.argpartition(distances, self.k - 1, axis=1)[:, : self.k]
        distance = np.take_along_axis(distances, near, axis=1)
        same = distance == 0
        with np.errstate(divide="ignore"):
            weight = np.where(same.any(axis=1)[:, None], same, 1 / distance)
        return np.asarray((weight * self.y_[near]).sum(axis=1) / weight.sum(axis=1))

    def _distances(self, x: Floats) -> Floats:
        if self.p == MANHATTAN:
            from scipy.spatial.distance import cdist

            return np.asarray(cdist(x, self.x_, "cityblock"))
        squares = np.einsum("ij,ij->i", x, x)
        return np.sqrt(np.maximum(squares[:, None] + self.squares_ - 2 * (x @ self.x_.T), 0))


class Blend:
    """Two classifiers on rows of `features.matrices.forms.join_forms`: one on contrasts, one on medians.

    Their log-odds are averaged.
    """

    def __init__(self, of_contrasts: Any, of_medians: Any) -> None:
        self.of_contrasts, self.of_medians = of_contrasts, of_medians

    def fit(self, x: Floats, y: NDArray[np.int64]) -> Self:
        """Fit both classifiers to rows `x`, shape (n_rows, n_columns), and labels `y`, (n_rows,), 0 or 1."""
        contrasts, medians = split_forms(x)
        self.of_contrasts.fit(contrasts, y)
        self.of_medians.fit(medians, y)
        return self

    def decision_function(self, x: Floats) -> Floats:
        """Return the mean log-odds of class 1 of every row of `x`, shape (n_rows,)."""
        contrasts, medians = split_forms(x)
        return (log_odds(self.of_contrasts, contrasts) + log_odds(self.of_medians, medians)) / 2


#: Number of bins of a column in boosting: most data have few hundred rows, for which more bins change little.
BINS = 64


def _build_xgboost(
    params: Params, seed: int, weights: Mapping[int, float] | None, *, directions: Any = None
) -> Any:
    model = OF_COMPARISONS["xgboost"].build(params, seed, weights, directions=directions)
    return model.set_params(max_bin=BINS)


def _build_blend(
    params: Params, seed: int, weights: Mapping[int, float] | None, *, directions: Any = None
) -> Blend:
    return Blend(*(_build_xgboost(params, seed, weights, directions=directions) for _ in range(2)))


#: Models whose rows are pairs: baseline and target side by side, whatever the scheme's form.
PAIRED = frozenset({"similarity-logistic"})
#: Largest depth of a decision tree.
DEEPEST = 16
#: Probabilities are clipped to this distance from 0 and 1.
EXTREME = 1e-6


#: Settings of similarity logistic, for the final fit and for trials; with more iterations verdicts hardly
#: change.
_WHOLE_CLIMB = {"tolerance": 1e-6, "starts": 5, "iterations": 200}
_SHORT_CLIMB = {"tolerance": 1e-3, "starts": 1, "iterations": 20}
_FOREST = {"trees": 100, "leaf": 1, "features": "sqrt"}
_BOOSTED = {
    "trees": 100, "depth": 3, "rate_of_learning": 0.1, "child_weight": 1.0, "subsample": 0.8, "columns": 0.5
}  # fmt: skip
_FEWER_TREES = {"trees": 10}


def _variant_of(of: str, name: str, title: str, start: dict[str, Any], in_search: dict[str, Any]) -> Model:
    return replace(OF_COMPARISONS[of], name=name, title=title, start=start, in_search=in_search)


#: By name. Only a model's own parameters in ``start`` are used; the engine sets cost and resampling.
CATALOGUE: dict[str, Model] = {
    model.name: model
    for model in (
        # a tree that splits off few rows per level takes time quadratic in its rows
        Model(
            "decision-tree", "Decision tree", {"leaf": 2, "criterion": "gini"},
            partial(OF_COMPARISONS["decision-tree"].build, max_depth=DEEPEST),
            OF_COMPARISONS["decision-tree"].space,
        ),
        # for many small fits of few columns; Newton's method needs only a few steps
        Model(
            "logistic", "Logistic", {"c": 1.0},
            partial(build_logistic, solver="newton-cholesky"), OF_COMPARISONS["logistic"].space,
        ),
        Model(
            "tan", "TAN", {"levels": 3},
            partial(build_estimator, "training.estimators.tan:TAN",
                    {"levels": "levels", "class_weight": "weights"}),
            {"levels": OneOf((3, 5, "classes"))},
        ),
        # direct maximisation reaches the likelihood that EM reaches from the same start; EM takes many slow
        # steps near the maximum
        Model(
            "similarity-logistic", "Similarity logistic", {"ridge": 1.0, **_WHOLE_CLIMB},
            partial(build_estimator, "training.estimators.similarity_logistic:SimilarityLogistic",
                    {"ridge": "ridge", "class_weight": "weights", "starts": "starts", "tol": "tolerance",
                     "max_iter": "iterations"}, solver="direct", shared=0),
            {**_WHOLE_CLIMB, "ridge": Real(0.1, 100.0, log=True)}, in_search=_SHORT_CLIMB,
        ),
        Model(
            "svm", "SVM", {"c": 1.0},
            partial(build_estimator, "sklearn.svm:SVC", {"C": "c", **WEIGHTED}, gamma="scale"),
            {"c": Real(0.1, 100.0, log=True)},
        ),
        _variant_of("random-forest", "random-forest", "Random forest", {"samples": 1.0, **_FOREST},
            _FEWER_TREES),
        _variant_of("extra-trees", "extra-trees", "Extra trees", _FOREST, _FEWER_TREES),
        Model(
            "knn", "k-NN", {"k": 5, "p": 2},
            partial(build_estimator, f"{__name__}:Nearest", {"k": "k", "p": "p"}),
            {"k": Whole(1, 30), "p": Whole(1, 2)}, weighted=False,
        ),
        replace(_variant_of("xgboost", "xgboost", "XGBoost", _BOOSTED, {}), build=_build_xgboost),
        replace(
            _variant_of("xgboost", "xgboost-blend", "Blend of XGBoost", _BOOSTED, {}), build=_build_blend
        ),
    )
}  # fmt: skip


def log_odds(fitted: Any, x: Floats) -> Floats:
    """Return the natural log-odds of abnormal of every row of `x`, shape (n_rows,); for an SVM, its margin.

    `fitted` is a classifier fitted by `fit_classifier`. Probabilities of models without a decision function
    (except TAN) are clipped to 1e-6 from 0 and 1.
    """
    if hasattr(fitted, "decision_function"):
        return np.asarray(fitted.decision_function(x), np.float64)
    if isinstance(fitted, Nearest):
        return _clipped_log_odds(fitted.class_shares(x))
    if hasattr(fitted, "log_tables_"):
        # the probabilities of naive Bayes are too close to 0 and 1
        of_classes = fitted.predict_log_proba(x)
        return np.asarray(of_classes[:, 1] - of_classes[:, 0])
    return _clipped_log_odds(fitted.predict_proba(x)[:, 1].astype(np.float64))


def _clipped_log_odds(shares: Floats) -> Floats:
    clipped = np.clip(shares, EXTREME, 1 - EXTREME)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))
