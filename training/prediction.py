"""An application's performance on a machine that was only fingerprinted, with an interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.errors import InputError
from features.fingerprints import Measured
from training.heldout import folds
from training.importance import log_rates

Floats = NDArray[np.float64]
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

    Trees (extremely randomised, and boosted) follow steps but cannot leave the range that they have seen; the
    support vector machine is smooth and can. Servers of a common CPU model are many near-copies, so a server
    weighs one over the square root of their number.

    Attributes
    ----------
    mean, spread : ndarray of shape (n_columns,)
        Of the logarithms that were learned from; gaps take the mean.
    centre, scale : float
        Of the speeds.
    models : tuple
        Fitted regressors of the standardised speed.
    """

    mean: Floats
    spread: Floats
    centre: float
    scale: float
    models: tuple[Any, ...]

    def predict(self, x: Floats) -> Floats:
        """Return the speed (logarithm, more is better) of machines with these rates."""
        scores = self._standard(x)
        average = np.mean([model.predict(scores) for model in self.models], axis=0)
        return np.asarray(self.centre + self.scale * average, np.float64)

    def _standard(self, x: Floats) -> Floats:
        return np.nan_to_num((np.log(x) - self.mean) / self.spread)


def learn(measured: Measured, seed: int) -> Predictor:
    """Fit a predictor.

    Parameters
    ----------
    measured : Measured
        One row per machine.
    seed : int
    """
    logs, speed = log_rates(measured.x), measured.speed
    spread, scale = logs.std(axis=0), float(speed.std())
    blank = Predictor(
        logs.mean(axis=0),
        np.where(spread > 0, spread, np.inf),
        float(speed.mean()),
        scale if scale > 0 else 1.0,
        (),
    )
    scores = (logs - blank.mean) / blank.spread
    target = (speed - blank.centre) / blank.scale
    _, rows, counts = np.unique(measured.cpus, return_inverse=True, return_counts=True)
    weights = counts[rows] ** -0.5
    weights /= weights.mean()
    models = _models(scores.shape[1], seed)
    fitted = tuple(model.fit(scores, target, sample_weight=weights) for model in models)
    return Predictor(blank.mean, blank.spread, blank.centre, blank.scale, fitted)


def _models(columns: int, seed: int) -> tuple[Any, ...]:
    from sklearn.ensemble import ExtraTreesRegressor
    from sklearn.svm import SVR
    from xgboost import XGBRegressor

    return (
        ExtraTreesRegressor(200, max_features=0.5, random_state=seed),
        XGBRegressor(
            n_estimators=300,
            max_depth=4,
            learning_rate=0.05,
            subsample=0.7,
            colsample_bytree=0.3,
            n_jobs=1,
            random_state=seed,
        ),
        SVR(C=10, gamma=0.1 / columns, epsilon=0.02),
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


def margin(misses: Floats, confidence: float) -> float:
    """Return the half-width of an interval of speeds (split conformal: Lei and others 2018).

    Parameters
    ----------
    misses : ndarray of shape (n,)
        Errors on machines that were held out.
    confidence : float
    """
    rank = int(np.ceil((len(misses) + 1) * confidence))
    return float(np.sort(np.abs(misses))[min(rank, len(misses)) - 1])


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
    wide = margin(errors(known, seed), confidence)
    speed = learn(known, seed).predict(x)
    sign = 1 if known.better == "higher" else -1
    value, one, other = (np.exp(sign * (speed + shift)) for shift in (0, -wide, wide))
    reasons = _reasons(known)
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


def _reasons(known: Measured) -> tuple[str, ...]:
    cpus = len(np.unique(known.cpus))
    return (f"{cpus} CPU models, fewer than {FEW_CPUS}",) if cpus < FEW_CPUS else ()
