"""What an estimator is given, checked once: rows, classes and weights."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, validate_data

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Labelled:
    """Rows that a classifier can be fitted to.

    Attributes
    ----------
    x : ndarray of shape (n_rows, n_features)
        Finite, ``float32`` or ``float64``; rows that weigh nothing are left out.
    classes : ndarray of shape (n_classes,)
        At least two, sorted.
    y : ndarray of shape (n_rows,)
        Places in `classes`.
    weights : ndarray of shape (n_rows,) or None
        Above zero; None where all weigh one.
    """

    x: Floats
    classes: NDArray[Any]
    y: NDArray[np.intp]
    weights: Floats | None

    def weighed(self) -> Floats:
        """Return the weights, ones where none were given."""
        return np.ones(len(self.y)) if self.weights is None else self.weights


def labelled(
    estimator: BaseEstimator, x: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
) -> Labelled:
    """Check what ``fit`` was given, and note the features' names and number on `estimator`."""
    rows, target = validate_data(estimator, x, y, dtype=[np.float64, np.float32], ensure_all_finite=False)
    check_classification_targets(target)
    _refuse_gaps(estimator, rows)
    weights = None
    if sample_weight is not None:
        weights = _weights(sample_weight, len(rows))
        if not weights.all():
            kept = weights > 0
            rows, target, weights = rows[kept], target[kept], weights[kept]
    classes, places = np.unique(target, return_inverse=True)
    if len(classes) == 1:
        name = type(estimator).__name__
        raise ValueError(
            f"{name} needs at least 2 classes, but the rows with weight hold 1 class: {classes[0]}"
        )
    return Labelled(rows, classes, places, weights)


def _weights(sample_weight: ArrayLike, n_rows: int) -> Floats:
    given = np.full(n_rows, sample_weight) if isinstance(sample_weight, Real) else sample_weight
    weights = check_array(given, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weights.shape != (n_rows,):
        raise ValueError(f"sample_weight.shape == {weights.shape}, expected {(n_rows,)}")
    if (weights < 0).any() or not weights.any():
        raise ValueError("sample_weight: expected no negative weight, and one above zero at least")
    return np.asarray(weights)


def unlabelled(estimator: BaseEstimator, x: ArrayLike) -> Floats:
    """Check what a fitted `estimator` is asked about."""
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
