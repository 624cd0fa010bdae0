"""Calibration: a monotone map of probabilities, learned from out-of-fold predictions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from training.estimators.answering import CalibrationKind, CalibrationMap

Floats = NDArray[np.float64]
#: A map of log-odds to log-odds.
Line = Callable[[Floats], Floats]

#: Probabilities are clipped to this distance from 0 and 1 when a map is learned; it is linear from there to
#: the ends.
EXTREME = 1e-4
#: Number of knots between these.
KNOTS = 65
#: Weight of an isotonic map, which has steps; the rest is the sigmoid's, so that the sum always rises.
STEPS = 0.9
#: Number of folds of whole groups; maps are learned without each fold, scored on it, and averaged.
FOLDS = 5
#: Weight of the squared distances of slopes from 1.
HELD = 1.0
#: Number of bins of a reliability diagram.
RANGES = 10


def log_odds(probability: Floats) -> Floats:
    """Return the log-odds of probabilities, clipped to `EXTREME`."""
    inside = np.clip(probability, EXTREME, 1 - EXTREME)
    return np.asarray(np.log(inside / (1 - inside)))


def calibrated(y: NDArray[np.int64], probability: Floats, groups: NDArray[np.str_]) -> CalibrationMap:
    """Learn a calibration map from out-of-fold probabilities.

    Sigmoid (Platt 1999), beta (Kull and others 2017) and isotonic maps are learned `FOLDS` times without some
    of the groups, and scored by the log loss there. The best is used if it is better than no map by more than
    its standard error over groups; its maps are averaged on the scale of log-odds.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        Labels, 1 is fail.
    probability : ndarray of shape (n_rows,)
        Predicted probability of fail.
    groups : ndarray of shape (n_rows,)
        No group is split between folds.
    """
    place = np.unique(groups, return_inverse=True)[1]
    fold = np.random.default_rng(0).permutation(place.max() + 1)[place] % FOLDS
    odds = log_odds(probability)
    usable = [one for one in range(FOLDS) if len(np.unique(y[fold != one])) > 1 and (fold == one).any()]
    maps = {
        kind: [learn(y[fold != one], odds[fold != one]) for one in usable] for kind, learn in _KINDS.items()
    }
    plain = _loss(y, odds)
    best: CalibrationKind = "none"
    gained = 0.0
    for kind, learned in maps.items():
        loss = plain.copy()
        for one, line in zip(usable, learned, strict=True):
            loss[fold == one] = _loss(y[fold == one], line(odds[fold == one]))
        gain = np.bincount(place, weights=plain - loss)
        if gain.sum() > max(gained, np.sqrt((gain**2).sum())):
            best, gained = kind, float(gain.sum())
    if best == "none":
        return CalibrationMap("none", (0.0, 1.0), (0.0, 1.0))
    return _knotted(best, maps[best])


def _loss(y: NDArray[np.int64], odds: Floats) -> Floats:
    """Return the log loss of every row."""
    return np.asarray(np.logaddexp(0, np.where(y == 1, -odds, odds)))


def sigmoid(y: NDArray[np.int64], odds: Floats) -> Line:
    """Return Platt's map of log-odds, learned from out-of-fold predictions; it always rises."""
    slope, shift = _fitted(y, odds[:, None])
    return lambda asked: slope * asked + shift


def _beta(y: NDArray[np.int64], odds: Floats) -> Line:
    low, high, shift = _fitted(y, _sides(odds))
    return lambda asked: _sides(asked) @ np.array([low, high]) + shift


def _sides(odds: Floats) -> Floats:
    """Return ln p and -ln(1 - p), which add up to the log-odds."""
    return np.stack([-np.logaddexp(0, -odds), np.logaddexp(0, odds)], axis=1)


def _isotonic(y: NDArray[np.int64], odds: Floats) -> Line:
    from scipy.special import expit
    from sklearn.isotonic import IsotonicRegression

    steps, smooth = IsotonicRegression(out_of_bounds="clip").fit(odds, y), sigmoid(y, odds)

    def line(asked: Floats) -> Floats:
        return log_odds(STEPS * steps.predict(asked) + (1 - STEPS) * expit(smooth(asked)))

    return line


_KINDS: dict[CalibrationKind, Callable[[NDArray[np.int64], Floats], Line]] = {
    "sigmoid": sigmoid,
    "beta": _beta,
    "isotonic": _isotonic,
}


def _fitted(y: NDArray[np.int64], columns: Floats) -> Floats:
    """Return the slopes, above 0, and the shift of the likeliest line; slopes are shrunk towards 1."""
    from scipy.optimize import minimize
    from scipy.special import expit

    wide = np.column_stack([columns, np.ones(len(columns))])
    away = np.r_[np.ones(columns.shape[1]), 0.0]

    def value(line: Floats) -> tuple[float, Floats]:
        odds, off = wide @ line, (line - 1) * away
        loss = float(_loss(y, odds).sum() + HELD * (off**2).sum() / 2)
        return loss, np.asarray(wide.T @ (expit(odds) - y) + HELD * off)

    bounds = [(0.05, None)] * columns.shape[1] + [(None, None)]
    found: Floats = minimize(value, away, jac=True, method="L-BFGS-B", bounds=bounds).x
    return found


def _knotted(kind: CalibrationKind, lines: list[Line]) -> CalibrationMap:
    from scipy.special import expit

    odds = np.linspace(log_odds(np.zeros(1))[0], log_odds(np.ones(1))[0], KNOTS)
    told = expit(np.mean([line(odds) for line in lines], axis=0))
    # leave out knots that are equal to the one before, or to the ends
    rising = np.flatnonzero(np.diff(np.maximum.accumulate(told), prepend=0.0) > 0)
    kept = rising[told[rising] < 1]
    raw = (0.0, *expit(odds)[kept].tolist(), 1.0)
    return CalibrationMap(kind, raw, (0.0, *told[kept].tolist(), 1.0))


def calibration_error(y: NDArray[np.int64], probability: Floats) -> float:
    """Return the expected calibration error (Naeini and others 2015) in `RANGES` bins of equal width.

    It is the mean distance between the share of fails and the mean probability, weighted by the cases of a
    bin.
    """
    number = np.minimum((probability * RANGES).astype(np.int64), RANGES - 1)
    off = np.bincount(number, weights=y - probability, minlength=RANGES)
    return float(np.abs(off).sum() / len(y))
