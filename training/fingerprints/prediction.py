"""Predictions of performance on machines that were only fingerprinted, and their accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from features.fingerprints.matrix import EVERY_THREAD, Measured, stressor_of, zscores
from training.evaluation.metrics import half_width, summarise_folds
from training.fingerprints.importance import STILL, Boosting, cpu_model_folds, log_rates, r2, seed_model

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

#: Number of CPU models below which held-out errors say little about the next one.
FEW_CPUS = 5
#: Powers of their relevance that scores are multiplied by, one per support vector machine.
POWERS = (0, 1, 2)
#: Coefficient of the kernel, times the number of columns.
WIDTH = 0.01


@dataclass(frozen=True)
class Prediction:
    """An application's predicted performance on one machine, in the application's unit.

    `low` and `high` contain the true value with probability `confidence`; `reasons`: why not to rely on it.
    """

    application: str
    metric: str
    better: str
    machine: str
    value: float
    low: float
    high: float
    confidence: float
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Predictor:
    """Four regressions on standardised logarithms of the rates, whose predictions are averaged.

    Support vector machines are smooth and can leave the range of the training data; boosted trees follow
    steps. A kernel weighs all scores equally, and most are irrelevant to the application, so two of the three
    machines multiply them by their correlation with it, or by its square. Further columns are how each
    stressor scales from one thread to all. A server of a CPU model with n servers has the weight n ** -0.5.

    `scaling`, shape (n_stressors, 2), has the columns of stressors on every thread and on one; `mean` and
    `spread`, shape (n_columns + n_stressors,), standardise the inputs, `centre` and `scale` the speeds. A
    member has the factor of each score in its input, and a regression of the standardised speed.
    """

    scaling: Rows
    mean: Floats
    spread: Floats
    centre: float
    scale: float
    members: tuple[tuple[Floats, Any], ...]

    def predict(self, x: Floats) -> Floats:
        """Return the natural logarithm of the speed (more is better) of machines, shape (n_rows,).

        `x`: shape (n_rows, n_columns), bogo operations per second, above 0, NaN where unknown.
        """
        scores = self.standardised_inputs(np.log(x))
        speeds = [regression.predict(scores * stretch) for stretch, regression in self.members]
        average = np.mean([np.asarray(speed, np.float64) for speed in speeds], axis=0)
        return np.asarray(self.centre + self.scale * average, np.float64)

    def standardised_inputs(self, logs: Floats) -> Floats:
        """Return standardised log rates and scalings, (n_rows, n_columns + n_stressors); unknown is 0."""
        return np.nan_to_num((_with_scalings(logs, self.scaling) - self.mean) / self.spread)


def fit_predictor(measured: Measured, seed: int) -> Predictor:
    """Return a predictor of the speed of machines for one application, fitted to `measured`.

    `measured` has one row per machine; speed is the performance, or 1 / performance where lower is better.
    `seed` is for the boosted trees.
    """
    logs, speed = log_rates(measured.x), measured.log_speed
    columns = measured.columns
    every = [name for name in columns if name.endswith(EVERY_THREAD) and stressor_of(name) in columns]
    pairs = [(columns.index(name), columns.index(stressor_of(name))) for name in every]
    scaling = np.array(pairs, np.int64).reshape(-1, 2)
    described = _with_scalings(logs, scaling)
    spread, scale = described.std(axis=0), float(speed.std()) or 1.0
    spread = np.where(spread > STILL, spread, np.inf)
    blank = Predictor(scaling, described.mean(axis=0), spread, float(speed.mean()), scale, ())
    scores = blank.standardised_inputs(logs)
    target = (speed - blank.centre) / blank.scale
    _, rows, counts = np.unique(measured.cpus, return_inverse=True, return_counts=True)
    weights = np.asarray(counts[rows] ** -0.5, np.float64)
    weights /= weights.mean()
    # the absolute weighted correlation of each column with the target
    product = np.abs((weights[:, None] * scores * target[:, None]).mean(axis=0))
    deviation = np.sqrt((weights[:, None] * scores**2).mean(axis=0) * (weights * target**2).mean())
    relevance = np.divide(product, deviation, out=np.zeros_like(product), where=deviation > STILL)
    fitted = tuple(
        (stretch, regression.fit(scores * stretch, target, sample_weight=weights))
        for stretch, regression in _unfitted_members(relevance, seed)
    )
    return replace(blank, members=fitted)


def _with_scalings(logs: Floats, scaling: Rows) -> Floats:
    return np.column_stack([logs, logs[:, scaling[:, 0]] - logs[:, scaling[:, 1]]])


def _unfitted_members(relevant: Floats, seed: int) -> Iterator[tuple[Floats, Any]]:
    from sklearn.svm import SVR
    from xgboost import XGBRegressor

    columns = len(relevant)
    for power in POWERS:
        stretch = relevant**power
        size = float(np.sqrt((stretch**2).mean()))
        # keep the mean distance of unscaled scores, so that one kernel coefficient suits all
        alike = stretch / size if size > 0 else np.ones(columns)
        yield alike, SVR(C=10, gamma=WIDTH / columns, epsilon=0.02)
    trees = {"n_estimators": 300, "max_depth": 4, "learning_rate": 0.05}
    sampling = {"subsample": 0.7, "colsample_bytree": 0.3}
    yield np.ones(columns), XGBRegressor(**trees, **sampling, n_jobs=1, random_state=seed)


def held_out_errors(measured: Measured, seed: int) -> Floats:
    """Return the predicted minus the true natural logarithm of the speed of each row, shape (n_rows,).

    Each row is predicted from rows of other CPU models. InputError for a single CPU model.
    """
    if len(np.unique(measured.cpus)) < 2:  # noqa: PLR2004 - one to learn from, one to predict
        problem = f"machines of one CPU model ({measured.cpus[0]}) predict no other"
        raise InputError(problem, place=f'application "{measured.application}"')
    misses = np.zeros(len(measured.y))
    for train, test in cpu_model_folds(measured.cpus):
        predictor = fit_predictor(measured.select_rows(train), seed)
        misses[test] = predictor.predict(measured.x[test]) - measured.log_speed[test]
    return misses


def predict_performance(
    measured: Measured, machines: NDArray[np.str_], x: Floats, confidence: float, seed: int
) -> tuple[Prediction, ...]:
    """Return an application's predicted performance on machines that were only fingerprinted, in order.

    `measured` is the application on other machines, whose runs are averaged here; `machines` are names, shape
    (n,), and `x` their rates, shape (n, n_columns), in the order of ``measured.columns``, above 0, or NaN
    where a stressor did not run. `confidence` is the intervals' nominal coverage, for example 0.9. Reasons
    not to rely on predictions are fewer than five CPU models, and R2 on held-out CPU models not above 0.
    InputError for a single CPU model.
    """
    training_data = measured.by_machine()
    misses = held_out_errors(training_data, seed)
    wide = half_width(misses, confidence)
    speed = fit_predictor(training_data, seed).predict(x)
    value, *ends = (training_data.performance_at(speed + shift) for shift in (0, -wide, wide))
    low, high = np.minimum(*ends), np.maximum(*ends)
    cpus, worth = len(np.unique(training_data.cpus)), r2(misses, training_data.log_speed)
    reasons = [f"{cpus} CPU models, fewer than {FEW_CPUS}"] if cpus < FEW_CPUS else []
    if not worth > 0:
        by_mean = "CPU models that were held out are predicted no better than by the mean"
        reasons.append(f"{by_mean} (R2 {worth:.2f})")
    about = measured.application, measured.metric, measured.better
    rows = zip(machines.tolist(), value.tolist(), low.tolist(), high.tolist(), strict=True)
    return tuple(Prediction(*about, *row, confidence, tuple(reasons)) for row in rows)


#: Number of trees in the plain forest, a reference method.
TREES = 60
METRICS = ("within_tolerance", "mape", "median_error", "r2", "coverage")


@dataclass(frozen=True)
class Forecast:
    """One application to predict by some of `ENTRIES`; `confidence` is of the intervals."""

    measured: Measured
    entries: tuple[str, ...]
    confidence: float
    boosting: Boosting
    seed: int


def forecast_application(task: Forecast) -> pd.DataFrame:
    """Predict every machine from machines of other CPU models; return a row per entry and row of the task.

    Columns: ``application, entry`` (the method, one of ``task.entries``), ``fold`` (from 0), ``machine,
    cpu_model, value`` (measured), ``predicted, low, high``, in the application's unit. The width of a fold's
    intervals comes from the errors of the other folds. Rows are in the order of entries, then of
    ``task.measured``. ValueError for a single CPU model, KeyError for an unknown entry.
    """
    measured = task.measured
    tables = []
    for entry in task.entries:
        fold = np.zeros(len(measured.y), np.int64)
        speed = np.zeros(len(measured.y))
        for number, (train, test) in enumerate(cpu_model_folds(measured.cpus)):
            fold[test] = number
            speed[test] = ENTRIES[entry](task, train, test)
        misses = speed - measured.log_speed
        margins = [half_width(misses[fold != number], task.confidence) for number in range(fold.max() + 1)]
        ends = measured.performance_at(speed + np.outer((-1, 1), np.array(margins)[fold]))
        columns = {
            "application": measured.application,
            "entry": entry,
            "fold": fold,
            "machine": measured.machines,
            "cpu_model": measured.cpus,
            "value": measured.y,
            "predicted": measured.performance_at(speed),
            "low": ends.min(axis=0),
            "high": ends.max(axis=0),
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


def _ensemble_method(task: Forecast, train: Any, test: Any) -> Floats:
    return fit_predictor(task.measured.select_rows(train), task.seed).predict(task.measured.x[test])


def _plain_forest(task: Forecast, train: Any, test: Any) -> Floats:
    from sklearn.ensemble import RandomForestRegressor

    logs = log_rates(task.measured.x, train)
    forest = RandomForestRegressor(TREES, random_state=task.seed)
    return np.asarray(forest.fit(logs[train], task.measured.log_speed[train]).predict(logs[test]), np.float64)


def _seed_method(task: Forecast, train: Any, test: Any) -> Floats:
    measured = task.measured
    scores = zscores(measured.x, train)
    model = seed_model(task.boosting, task.seed).fit(scores[train], measured.y[train])
    # boosting may exceed the range of the training values
    predicted = np.clip(model.predict(scores[test]), measured.y[train].min(), measured.y[train].max())
    return replace(measured, y=predicted).log_speed


def _median_method(task: Forecast, train: Any, test: Any) -> Floats:
    return np.full(len(test), float(np.median(task.measured.log_speed[train])))


ENTRIES: dict[str, Callable[[Forecast, Any, Any], Floats]] = {
    "ensemble": _ensemble_method,
    "forest": _plain_forest,
    "seed": _seed_method,
    "median": _median_method,
}


def summarise_entries(predictions: pd.DataFrame, tolerance: float) -> dict[str, Any]:
    """Return by entry, sorted, a dict of scores of `forecast_application`'s predictions.

    It has ``kind`` ("model", or "rule" for the median), and for each score of `by_application` a dict of
    ``mean`` and ``std`` (by n) over the folds, and ``pooled`` over all machines, to 6 decimals. A score is
    computed per application and averaged over applications, without those where it cannot be computed; None
    if it cannot be for any.
    """
    summaries = {}
    for entry, rows in _score_rows(predictions, tolerance).groupby("entry", sort=True):
        pooled = _mean_scores(rows, ["application"])
        by_fold = _mean_scores(rows, ["fold", "application"]).groupby("fold").mean()
        scores = {
            name: summarise_folds(by_fold[name].dropna().to_numpy(), pooled[name].mean()) for name in METRICS
        }
        summaries[str(entry)] = {"kind": "rule" if entry == "median" else "model", **scores}
    return summaries


def by_application(predictions: pd.DataFrame, tolerance: float) -> pd.DataFrame:
    """Return a row of scores of `forecast_application`'s predictions per ``application, entry``, sorted.

    Further columns: ``within_tolerance`` (share of relative errors up to `tolerance`), ``mape, median_error``
    (relative errors, as shares), ``r2`` (of logarithms; NaN without variance), ``coverage`` (share of values
    inside the interval).
    """
    return _mean_scores(_score_rows(predictions, tolerance), ["application", "entry"]).reset_index()


def by_median(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return `predictions` with ``measured, predicted`` as shares of the median of the application's values.

    ``unit`` (new) is the application. ``value, low, high`` are not converted.
    """
    median = predictions.groupby("application")["value"].transform("median")
    shares = {"measured": predictions["value"] / median, "predicted": predictions["predicted"] / median}
    return predictions.assign(unit=predictions["application"], **shares)


def _score_rows(predictions: pd.DataFrame, tolerance: float) -> pd.DataFrame:
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


def _mean_scores(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    groups = rows.groupby(list(by))
    sums = groups[["squares", "total"]].sum()
    scores = {
        "within_tolerance": groups["within_tolerance"].mean(),
        "mape": groups["relative"].mean(),
        "median_error": groups["relative"].median(),
        "r2": 1 - sums["squares"] / sums["total"].where(sums["total"] > 0),
        "coverage": groups["coverage"].mean(),
    }
    return pd.DataFrame(scores)


def rank_models(summaries: dict[str, Any]) -> list[str]:
    """Return entries of kind "model" in `summaries`, least pooled median error first, then by name."""
    models = [name for name, content in summaries.items() if content["kind"] == "model"]
    return sorted(models, key=lambda name: (summaries[name]["median_error"]["pooled"], name))
