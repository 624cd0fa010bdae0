"""Why a model leans towards fail or pass: what each feature contributes to one very comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from serving.trees import Ensemble
from training.trained import TrainedModel

Floats = NDArray[np.float64]
Unit = Literal["log-odds", "probability"]

#: Classes of scikit-learn whose trees can be walked.
_TREES = {"DecisionTreeClassifier", "RandomForestClassifier", "ExtraTreesClassifier"}

#: Trees are walked once a classifier, not once a request.
_ENSEMBLES: WeakKeyDictionary[Any, Ensemble] = WeakKeyDictionary()


@dataclass(frozen=True)
class Contributions:
    """What every feature adds to the answer for every comparison.

    Attributes
    ----------
    amounts : ndarray of shape (n_comparisons, n_features)
        Positive = towards fail. Columns as in the model's card.
    unit : {"log-odds", "probability"}
    """

    amounts: Floats
    unit: Unit


def contributions(model: TrainedModel, features: pd.DataFrame) -> Contributions:
    """Say what each feature contributes to the probability of ``fail``.

    Linear models: coefficient x deviation from the card's reference (log-odds). XGBoost: its own
    exact contributions (log-odds). Trees and forests: the change of probability along the path
    that the comparison takes; a row sums to probability - base rate. Any other model: how much
    the probability falls when that one feature is replaced by its reference.

    Parameters
    ----------
    model : TrainedModel
    features : DataFrame
        At least the card's columns, one row per comparison.
    """
    columns = features[list(model.card.features)].to_numpy(np.float64)
    reference = np.array([[model.card.reference[name] for name in model.card.features]], np.float64)
    steps = _steps(model.pipeline)
    classifier, prepared = steps[-1], _prepared(steps[:-1], columns)
    exact = _exact(classifier)
    if exact is None or prepared.shape != columns.shape:
        return Contributions(_occlusion(model.pipeline, columns, reference), "probability")
    values, unit = exact(classifier, prepared, _prepared(steps[:-1], reference))
    return Contributions(values, unit)


def contribution_unit(model: TrainedModel) -> Unit:
    """Return the unit of `contributions` for this model."""
    return contributions(model, pd.DataFrame([model.card.reference])).unit


def strongest(values: Floats, count: int) -> NDArray[np.int64]:
    """Return which features contribute most, the strongest first, shape (n_comparisons, <= count).

    Strong is a large contribution in either direction; its sign tells which.
    """
    n_features = values.shape[1]
    count = min(count, n_features)
    if count == 0 or not len(values):
        return np.zeros((len(values), count), np.int64)
    size = np.abs(values)
    top = np.argpartition(size, n_features - count, axis=1)[:, n_features - count :]
    order = np.argsort(-np.take_along_axis(size, top, axis=1), axis=1, kind="stable")
    return np.take_along_axis(top, order, axis=1)


def _steps(pipeline: Any) -> list[Any]:
    """Return what acts when a pipeline predicts: its transformers and its classifier."""
    return [step for _, step in pipeline.steps] if hasattr(pipeline, "steps") else [pipeline]


def _prepared(transformers: list[Any], columns: Floats) -> Floats:
    for transformer in transformers:
        columns = transformer.transform(columns)
    return np.asarray(columns, np.float64)


_Exact = Callable[[Any, Floats, Floats], tuple[Floats, Unit]]


def _exact(classifier: Any) -> _Exact | None:
    if type(classifier).__name__ in _TREES:
        return _of_trees
    if hasattr(classifier, "get_booster"):
        return _of_boosting
    if hasattr(classifier, "coef_"):
        return _of_linear
    return None


def _of_linear(classifier: Any, prepared: Floats, reference: Floats) -> tuple[Floats, Unit]:
    return (prepared - reference) * np.asarray(classifier.coef_, np.float64).reshape(1, -1), "log-odds"


def _of_boosting(classifier: Any, prepared: Floats, _reference: Floats) -> tuple[Floats, Unit]:
    import xgboost

    found = classifier.get_booster().predict(xgboost.DMatrix(prepared), pred_contribs=True)
    return np.asarray(found, np.float64)[:, :-1], "log-odds"


def _of_trees(classifier: Any, prepared: Floats, _reference: Floats) -> tuple[Floats, Unit]:
    if classifier not in _ENSEMBLES:
        _ENSEMBLES[classifier] = Ensemble.of(classifier)
    return _ENSEMBLES[classifier].contributions(prepared), "probability"


def _occlusion(pipeline: Any, columns: Floats, reference: Floats) -> Floats:
    full = np.asarray(pipeline.predict_proba(columns)[:, 1], np.float64)
    values = np.empty_like(columns)
    for feature in range(columns.shape[1]):
        without = columns.copy()
        without[:, feature] = reference[0, feature]
        values[:, feature] = full - pipeline.predict_proba(without)[:, 1]
    return values
