"""Predictions on held-out CPU models, beside opponents on the same folds, and what they are worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.fingerprints.matrix import Measured, zscores
from training.evaluation.metrics import half_width, spread
from training.fingerprints.heldout import folds
from training.fingerprints.importance import Boosting, log_rates, seed_model
from training.fingerprints.prediction import learn

Floats = NDArray[np.float64]
#: Trees of the plain forest that others are compared with.
TREES = 60
METRICS = ("within_tolerance", "mape", "median_error", "r2", "coverage")


@dataclass(frozen=True)
class Forecast:
    """One application to predict by some entries.

    Attributes
    ----------
    measured : Measured
        One row per machine.
    entries : tuple of str
        ``ensemble`` (ours), ``forest`` (plain, on logarithms), ``seed`` (boosting on z-scores) or ``median``.
    confidence : float
        Of the intervals.
    boosting : {"gradient-boosting", "xgboost"}
    seed : int
    """

    measured: Measured
    entries: tuple[str, ...]
    confidence: float
    boosting: Boosting
    seed: int


def forecast(task: Forecast) -> pd.DataFrame:
    """Predict every machine from machines of other CPU models.

    Returns
    -------
    DataFrame
        ``application, entry, fold, machine, cpu_model, value, predicted, low, high``. The margin of the
        interval of a fold comes from the errors of the other folds.
    """
    measured = task.measured
    tables = []
    for entry in task.entries:
        fold = np.zeros(len(measured.y), np.int64)
        speed = np.zeros(len(measured.y))
        for number, (train, test) in enumerate(folds(measured.cpus)):
            fold[test] = number
            speed[test] = ENTRIES[entry](task, train, test)
        tables.append(_table(task, entry, fold, speed))
    return pd.concat(tables, ignore_index=True)


def _table(task: Forecast, entry: str, fold: NDArray[np.int64], speed: Floats) -> pd.DataFrame:
    measured = task.measured
    misses = speed - measured.speed
    wide = np.array([half_width(misses[fold != number], task.confidence) for number in range(fold.max() + 1)])
    ends = measured.performance(speed + np.outer((-1, 1), wide[fold]))
    return pd.DataFrame(
        {
            "application": measured.application,
            "entry": entry,
            "fold": fold,
            "machine": measured.machines,
            "cpu_model": measured.cpus,
            "value": measured.y,
            "predicted": measured.performance(speed),
            "low": ends.min(axis=0),
            "high": ends.max(axis=0),
        }
    )


def _ensemble(task: Forecast, train: Any, test: Any) -> Floats:
    return learn(task.measured.rows(train), task.seed).predict(task.measured.x[test])


def _forest(task: Forecast, train: Any, test: Any) -> Floats:
    from sklearn.ensemble import RandomForestRegressor

    logs = log_rates(task.measured.x, train)
    forest = RandomForestRegressor(TREES, random_state=task.seed)
    return np.asarray(forest.fit(logs[train], task.measured.speed[train]).predict(logs[test]), np.float64)


def _seed(task: Forecast, train: Any, test: Any) -> Floats:
    measured = task.measured
    scores = zscores(measured.x, train)
    model = seed_model(task.boosting, task.seed).fit(scores[train], measured.y[train])
    # trees stay within what they have seen, but boosting may overshoot it
    predicted = np.clip(model.predict(scores[test]), measured.y[train].min(), measured.y[train].max())
    return replace(measured, y=predicted).speed


def _median(task: Forecast, train: Any, test: Any) -> Floats:
    return np.full(len(test), float(np.median(task.measured.speed[train])))


ENTRIES: dict[str, Callable[[Forecast, Any, Any], Floats]] = {
    "ensemble": _ensemble,
    "forest": _forest,
    "seed": _seed,
    "median": _median,
}


def entries(predictions: pd.DataFrame, tolerance: float) -> dict[str, Any]:
    """Summarise predictions by entry.

    Every measure is computed per application and averaged over applications.

    Parameters
    ----------
    predictions : DataFrame
        Of `forecast`, for all applications.
    tolerance : float
        Relative error within which a prediction counts as right.

    Returns
    -------
    dict
        By entry: ``kind`` and per metric ``mean`` and ``std`` over the folds and ``pooled`` over all machines
        (None where it cannot be computed). ``r2`` is of logarithms.
    """
    rows = _judged(predictions, tolerance)
    found = {}
    for entry, own in rows.groupby("entry", sort=True):
        pooled = _means(own, ["application"])
        by_fold = _means(own, ["fold", "application"]).groupby("fold").mean()
        found[str(entry)] = {
            "kind": "rule" if entry == "median" else "model",
            **{one: spread(by_fold[one].dropna().to_numpy(), pooled[one].mean()) for one in METRICS},
        }
    return found


def by_application(predictions: pd.DataFrame, tolerance: float) -> pd.DataFrame:
    """Return the measures of each application and entry, over all its machines."""
    return _means(_judged(predictions, tolerance), ["application", "entry"]).reset_index()


def by_median(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return ``measured`` and ``predicted`` as shares of the median of their application, the ``unit``."""
    median = predictions.groupby("application")["value"].transform("median")
    shares = {"measured": predictions["value"] / median, "predicted": predictions["predicted"] / median}
    return predictions.assign(unit=predictions["application"], **shares)


def _judged(predictions: pd.DataFrame, tolerance: float) -> pd.DataFrame:
    truth, predicted = np.log(predictions["value"]), np.log(predictions["predicted"])
    relative = (predictions["predicted"] / predictions["value"] - 1).abs()
    centre = truth.groupby([predictions["application"], predictions["entry"]]).transform("mean")
    return predictions.assign(
        relative=relative,
        within_tolerance=(relative <= tolerance).astype("float64"),
        squares=(predicted - truth) ** 2,
        total=(truth - centre) ** 2,
        coverage=predictions["value"].between(predictions["low"], predictions["high"]).astype("float64"),
    )


def _means(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    found = rows.groupby(list(by))
    sums = found[["squares", "total"]].sum()
    return pd.DataFrame(
        {
            "within_tolerance": found["within_tolerance"].mean(),
            "mape": found["relative"].mean(),
            "median_error": found["relative"].median(),
            "r2": 1 - sums["squares"] / sums["total"].where(sums["total"] > 0),
            "coverage": found["coverage"].mean(),
        }
    )


def champion(summaries: dict[str, Any]) -> str:
    """Return the model that is `ranked` first."""
    return ranked(summaries)[0]


def ranked(summaries: dict[str, Any]) -> list[str]:
    """Sort models by pooled median error, the smallest first, then by name."""
    models = [name for name, content in summaries.items() if content["kind"] == "model"]
    return sorted(models, key=lambda name: (summaries[name]["median_error"]["pooled"], name))
