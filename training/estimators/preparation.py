"""Preparation of features for a classifier, and correction of its probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.preprocessing import StandardScaler
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from training.estimators.answering import Floats, fill_gaps, raise_by_evidence


@dataclass(frozen=True)
class Labelled:
    """Rows that a classifier can be fitted to."""

    x: Floats  # shape (n_rows, n_features): Finite, ``float32`` or ``float64``
    classes: NDArray[Any]  # shape (n_classes,): At least two, sorted
    y: NDArray[np.intp]  # shape (n_rows,): Places in `classes`


def check_training_rows(estimator: BaseEstimator, x: ArrayLike, y: ArrayLike) -> Labelled:
    """Return the checked arguments of ``fit`` with the fields ``x, classes, y``.

    ``classes`` are sorted; ``y`` has indices into them. Sets the features' names and number on `estimator`.
    ValueError if a value is not finite, shapes differ, the target is continuous, or has a single class.
    """
    rows, target = validate_data(estimator, x, y, dtype=[np.float64, np.float32], ensure_all_finite=False)
    check_classification_targets(target)
    _refuse_gaps(estimator, rows)
    classes, class_numbers = np.unique(target, return_inverse=True)
    if len(classes) == 1:
        name = type(estimator).__name__
        raise ValueError(f"{name} needs at least 2 classes, but the rows hold 1 class: {classes[0]}")
    return Labelled(rows, classes, class_numbers)


def check_rows(estimator: BaseEstimator, x: ArrayLike) -> Floats:
    """Return the rows that a fitted `estimator` is to predict as an array, shape (n_rows, n_features).

    Float32 is kept, other types become float64. ValueError if a value is not finite, or the features are not
    those of ``fit``.
    """
    rows = validate_data(estimator, x, dtype=[np.float64, np.float32], ensure_all_finite=False, reset=False)
    _refuse_gaps(estimator, rows)
    return np.asarray(rows)


def _refuse_gaps(estimator: BaseEstimator, rows: Floats) -> None:
    # a sum is finite only if every term is, and needs no array as large as the data; it may overflow though
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(rows.sum()) or np.isfinite(rows).all():
            return
    row, column = np.argwhere(~np.isfinite(rows))[0]
    names = getattr(estimator, "feature_names_in_", None)
    named = f"feature {column}" if names is None else f'feature "{names[column]}"'
    value = "NaN" if np.isnan(rows[row, column]) else "inf" if rows[row, column] > 0 else "-inf"
    raise ValueError(f"{type(estimator).__name__}: row {row}, {named} is {value}; expected a finite number")


#: Least step, in standard errors, that leaves no doubt, whatever the passes did: those of another measurement
#: may scatter more. One of 300,000 normal values is worse by this number of deviations.
LEAST_SURE = 4.5
#: At least this share of the training rows with a step beyond doubt failed.
_PURE = 0.95
#: Least number of known values to estimate a slope.
_FEWEST = 20


class GapFiller(TransformerMixin, BaseEstimator):
    """Fill gaps with the median; in a column with a direction, with its usual value given the evidence.

    A gap becomes ``fill_ + slope_ * evidence``; a worse step never makes it better. `evidence` is the column
    of the evidence; see `training.estimators.answering.MonotoneConstraints`.
    """

    def __init__(self, directions: tuple[int, ...], evidence: int | None = None) -> None:
        self.directions = directions
        self.evidence = evidence

    def fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: N803, ARG002 - scikit-learn's
        """Learn medians and slopes from `X`, shape (n_rows, n_features), NaN in gaps."""
        x = np.asarray(X, np.float64)
        finite = ~np.isnan(x)
        self.fill_, self.slope_ = np.zeros(x.shape[1]), np.zeros(x.shape[1])
        self.n_features_in_ = x.shape[1]
        for column in np.flatnonzero(finite.any(axis=0)).tolist():
            self.fill_[column] = np.median(x[finite[:, column], column])
            if self.evidence is None or not self.directions[column] or column == self.evidence:
                continue
            rows = finite[:, column] & finite[:, self.evidence]
            anchor, values = x[rows, self.evidence], x[rows, column]
            if rows.sum() < _FEWEST or not np.ptp(anchor):
                continue
            slope = float(np.cov(anchor, values)[0, 1] / anchor.var(ddof=1))
            slope = max(slope, 0.0) if self.directions[column] < 0 else min(slope, 0.0)
            self.slope_[column] = slope
            self.fill_[column] = np.median(values - slope * anchor)
        return self

    def transform(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return `X`, shape (n_rows, n_features), with its gaps filled."""
        x = np.asarray(X, np.float64)
        return fill_gaps(x, self.fill_, self.slope_, -1 if self.evidence is None else self.evidence)


class EvidenceScaler(StandardScaler):
    """Standardise all columns except `unscaled`."""

    def __init__(self, unscaled: int | None = None) -> None:
        super().__init__()
        self.unscaled = unscaled

    def partial_fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:  # noqa: N803
        """Learn means and standard deviations; those of the column `unscaled` are 0 and 1."""
        super().partial_fit(X, y, sample_weight)
        if self.unscaled is not None:
            self.mean_[self.unscaled], self.scale_[self.unscaled] = 0.0, 1.0
        return self


class ProbabilityClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that predicts the class with the highest probability."""

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return the most probable class of each row, shape (n_rows,)."""
        return np.asarray(self.classes_[np.argmax(self.predict_proba(X), axis=1)])


class EvidenceClassifier(ProbabilityClassifier):
    """A classifier whose probability of ``fail`` is raised where the step leaves no doubt.

    The probability of ``pass`` approaches zero where the step, in standard errors, is so large that
    practically all training rows with such a step failed. `column` is that of the evidence, which must not be
    standardised; see `training.estimators.answering.MonotoneConstraints`.
    """

    def __init__(self, classifier: Any, column: int) -> None:
        self.classifier = classifier
        self.column = column

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803
        """Fit the classifier, and learn the least step that is beyond doubt.

        `X`: shape (n_rows, n_features). `y`: shape (n_rows,), 1 is fail.
        """
        x, labels = np.asarray(X, np.float64), np.asarray(y)
        self.classifier_ = clone(self.classifier).fit(x, labels)
        self.classes_, self.n_features_in_ = self.classifier_.classes_, x.shape[1]
        evidence = x[:, self.column]
        steps = -evidence * np.abs(evidence)
        order = np.argsort(-steps, kind="stable")
        pure = (labels == 1)[order].cumsum() / np.arange(1, len(order) + 1) >= _PURE
        least = steps[order][pure].min() if pure.any() else steps.max()
        self.sure_ = max(LEAST_SURE, float(least))
        return self

    def predict_proba(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the probability of both classes, shape (n_rows, 2)."""
        x = np.asarray(X, np.float64)
        fail = raise_by_evidence(self.classifier_.predict_proba(x)[:, 1], x[:, self.column], self.sure_)
        return np.column_stack([1 - fail, fail])
