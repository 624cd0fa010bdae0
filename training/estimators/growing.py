"""Trees and forests without scikit-learn's checks, which take longer than to grow a small tree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def grown(model: Any, x: Floats, y: NDArray[np.int64]) -> Any:
    """Fit a classifier; a tree or a random forest gets the draws and splits of its own ``fit``, but sooner.

    Parameters
    ----------
    model : classifier
        A forest's ``max_samples`` is None or a share, its ``class_weight`` None or by class.
    x : ndarray of shape (n_rows, n_features)
        Finite.
    y : ndarray of shape (n_rows,)
        0 and 1, both of which occur.
    """
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    if isinstance(model, RandomForestClassifier):
        return _forest(model, x.astype(np.float32), y)
    if isinstance(model, DecisionTreeClassifier):
        return model.fit(x.astype(np.float32), y, check_input=False)
    return model.fit(x, y)


def _forest(model: Any, x: NDArray[np.float32], y: NDArray[np.int64]) -> Any:
    from sklearn.utils.class_weight import compute_sample_weight

    labels, count = y.astype(np.float64)[:, None], len(y)
    weights = None if model.class_weight is None else compute_sample_weight(model.class_weight, y)
    share = None if weights is None else weights / weights.sum()
    whole = count if weights is None else weights.sum()
    size = count if model.max_samples is None else max(int(model.max_samples * whole), 1)
    given = {name: getattr(model, name) for name in model.estimator_params}
    draw = np.random.RandomState(model.random_state)
    model.estimators_ = []
    for seed in draw.randint(np.iinfo(np.int32).max, size=model.n_estimators).tolist():
        draw.seed(seed)
        chosen = draw.randint(0, count, size) if share is None else draw.choice(count, size, p=share)
        times = np.bincount(chosen, minlength=count).astype(np.float64)
        # a generator that is seeded anew costs a fraction of a new one
        draw.seed(seed)
        tree = type(model.estimator)(**{**given, "random_state": draw})
        model.estimators_.append(tree.fit(x, labels, times, check_input=False))
        tree.random_state = seed
    model.n_features_in_, model.n_outputs_ = x.shape[1], 1
    model.classes_, model.n_classes_ = np.unique(y), 2
    return model


def abnormal_share(forest: Any, x: Floats) -> Floats:
    """Return what ``predict_proba`` of a forest says of class 1, shape (n_rows,)."""
    rows, total = x.astype(np.float32), np.zeros(len(x))
    for tree in forest.estimators_:
        total += tree.tree_.predict(rows)[:, 1]
    return total / len(forest.estimators_)
