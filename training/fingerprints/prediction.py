"""An application's performance on a machine that was only fingerprinted, with an interval."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.errors import InputError
from features.fingerprints.matrix import EVERY_THREAD, Measured, stressor_of
from training.evaluation.intervals import half_width
from training.fingerprints.heldout import folds, r2
from training.fingerprints.importance import STILL, log_rates

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
#: CPU models below which held-out errors say little about the next one.
FEW_CPUS = 5


@dataclass(frozen=True)
class Prediction:
    """An application's predicted performance on one machine.

    Attributes
    ----------
    application, metric, better, machine : str
    value, low, high : float
        In the application's unit; the interval is to hold the true value with probability ``confidence``.
    confidence : float
    reasons : tuple of str
        Why it must not be relied upon; may be empty.
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
    """Three regressions on standardised logarithms of the rates, whose predictions are averaged.

    Two support vector machines, one wide and one narrow, are smooth and can leave the range that they have
    seen; boosted trees follow steps. Beside the rates they see how each stressor scales from one thread to
    all of them. Servers of a common CPU model are many near-copies, so a server weighs one over the square
    root of their number.

    Attributes
    ----------
    scaling : ndarray of shape (n_stressors, 2)
        The columns of the stressors that ran on every thread and on one: ``(every, one)``.
    mean, spread : ndarray of shape (n_columns + n_stressors,)
        Of what was learned from; gaps take the mean.
    centre, scale : float
        Of the speeds.
    models : tuple
        Fitted regressors of the standardised speed.
    """

    scaling: Rows
    mean: Floats
    spread: Floats
    centre: float
    scale: float
    models: tuple[Any, ...]

    def predict(self, x: Floats) -> Floats:
        """Return the speed (logarithm, more is better) of machines with these rates."""
        scores = self.standard(np.log(x))
        average = np.mean([model.predict(scores) for model in self.models], axis=0)
        return np.asarray(self.centre + self.scale * average, np.float64)

    def standard(self, logs: Floats) -> Floats:
        """Return the standardised logarithms and scalings, shape (n_rows, n_columns + n_stressors)."""
        return np.nan_to_num((_scaled(logs, self.scaling) - self.mean) / self.spread)


def learn(measured: Measured, seed: int) -> Predictor:
    """Fit a predictor.

    Parameters
    ----------
    measured : Measured
        One row per machine.
    seed : int
    """
    logs, speed = log_rates(measured.x), measured.speed
    scaling = _scaling(measured.columns)
    described = _scaled(logs, scaling)
    spread, scale = described.std(axis=0), float(speed.std())
    blank = Predictor(
        scaling,
        described.mean(axis=0),
        np.where(spread > STILL, spread, np.inf),
        float(speed.mean()),
        scale if scale > 0 else 1.0,
        (),
    )
    scores = blank.standard(logs)
    target = (speed - blank.centre) / blank.scale
    _, rows, counts = np.unique(measured.cpus, return_inverse=True, return_counts=True)
    weights = counts[rows] ** -0.5
    weights /= weights.mean()
    fitted = tuple(
        model.fit(scores, target, sample_weight=weights) for model in _models(scores.shape[1], seed)
    )
    return replace(blank, models=fitted)


def _scaling(columns: tuple[str, ...]) -> Rows:
    every = [name for name in columns if name.endswith(EVERY_THREAD) and stressor_of(name) in columns]
    pairs = [(columns.index(name), columns.index(stressor_of(name))) for name in every]
    return np.array(pairs, np.int64).reshape(-1, 2)


def _scaled(logs: Floats, scaling: Rows) -> Floats:
    return np.column_stack([logs, logs[:, scaling[:, 0]] - logs[:, scaling[:, 1]]])


def _models(columns: int, seed: int) -> tuple[Any, ...]:
    from sklearn.svm import SVR
    from xgboost import XGBRegressor

    return (
        XGBRegressor(
            n_estimators=300,
            max_depth=4,
            learning_rate=0.05,
            subsample=0.7,
            colsample_bytree=0.3,
            n_jobs=1,
            random_state=seed,
        ),
        *(SVR(C=10, gamma=width / columns, epsilon=0.02) for width in (0.1, 0.01)),
    )


def errors(measured: Measured, seed: int) -> Floats:
    """Return predicted less true speed of each machine, its CPU model held out.

    Raises
    ------
    InputError
        If there is only one CPU model.
    """
    if len(np.unique(measured.cpus)) < 2:  # noqa: PLR2004 - one to learn from, one to predict
        problem = f"machines of one CPU model ({measured.cpus[0]}) predict no other"
        raise InputError(problem, place=f'application "{measured.application}"')
    found = np.zeros(len(measured.y))
    for train, test in folds(measured.cpus):
        predictor = learn(measured.rows(train), seed)
        found[test] = predictor.predict(measured.x[test]) - measured.speed[test]
    return found


def predict(
    measured: Measured, machines: NDArray[np.str_], x: Floats, confidence: float, seed: int
) -> tuple[Prediction, ...]:
    """Predict an application's performance on machines that were only fingerprinted.

    Parameters
    ----------
    measured : Measured
        The application on other machines.
    machines : ndarray of str, shape (n,)
    x : ndarray of shape (n, n_columns)
        Their rates, in the order of ``measured.columns``; NaN where a stressor did not run.
    confidence : float
        Of the interval, for example 0.9.
    seed : int

    Raises
    ------
    InputError
        If the application was measured on machines of one CPU model only.
    """
    known = measured.by_machine()
    misses = errors(known, seed)
    wide = half_width(misses, confidence)
    speed = learn(known, seed).predict(x)
    value, one, other = (known.performance(speed + shift) for shift in (0, -wide, wide))
    reasons = _reasons(known, misses)
    return tuple(
        Prediction(
            known.application,
            known.metric,
            known.better,
            str(machine),
            float(value[row]),
            float(min(one[row], other[row])),
            float(max(one[row], other[row])),
            confidence,
            reasons,
        )
        for row, machine in enumerate(machines)
    )


def _reasons(known: Measured, misses: Floats) -> tuple[str, ...]:
    cpus = len(np.unique(known.cpus))
    worth = r2(misses, known.speed)
    by_mean = f"CPU models that were held out are predicted no better than by the mean (R2 {worth:.2f})"
    found = (
        (cpus < FEW_CPUS, f"{cpus} CPU models, fewer than {FEW_CPUS}"),
        (not worth > 0, by_mean),
    )
    return tuple(reason for failed, reason in found if failed)
