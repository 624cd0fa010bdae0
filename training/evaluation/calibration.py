"""Calibration: a monotone map of probabilities, learned from out-of-fold predictions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from training.estimators.answering import CalibrationKind, CalibrationMap, Floats

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
    """Return the natural log-odds of probabilities, clipped to 1e-4 from 0 and 1, in their shape."""
    inside = np.clip(probability, EXTREME, 1 - EXTREME)
    return np.asarray(np.log(inside / (1 - inside)))


def learn_calibration(y: NDArray[np.int64], probability: Floats, groups: NDArray[np.str_]) -> CalibrationMap:
    """Return a calibration map learned from out-of-fold probabilities; the identity if no map is better.

    Sigmoid (Platt 1999), beta (Kull and others 2017) and isotonic maps are learned in 5 folds of whole
    groups, drawn with a fixed seed, and scored by the log loss on the held-out groups. The gain of a kind is
    the sum of the losses without a map, minus the sum with its maps. Of the kinds whose gain is larger than
    its standard error over groups, the one with the largest gain is used; its maps, one per fold, are
    averaged on the scale of log-odds. The result has a ``kind``: "sigmoid", "beta", "isotonic", or "none" for
    the identity (also with a single group or label). Its knots are the probabilities ``raw``, mapped to
    ``calibrated``; between knots it is linear. All arguments have shape (n_rows,), at least one row; in the
    labels `y`, 1 is fail.
    """
    place = np.unique(groups, return_inverse=True)[1]
    fold = np.random.default_rng(0).permutation(place.max() + 1)[place] % FOLDS
    odds = log_odds(probability)
    usable = [test for test in range(FOLDS) if len(np.unique(y[fold != test])) > 1 and (fold == test).any()]
    training = [(y[fold != test], odds[fold != test]) for test in usable]
    maps = {kind: [learn(*rows) for rows in training] for kind, learn in _KINDS.items()}
    plain = _row_losses(y, odds)
    best: CalibrationKind = "none"
    gained = 0.0
    for kind, learned in maps.items():
        loss = plain.copy()
        for test, line in zip(usable, learned, strict=True):
            loss[fold == test] = _row_losses(y[fold == test], line(odds[fold == test]))
        gain = np.bincount(place, weights=plain - loss)
        if gain.sum() > max(gained, np.sqrt((gain**2).sum())):
            best, gained = kind, float(gain.sum())
    if best == "none":
        return CalibrationMap("none", (0.0, 1.0), (0.0, 1.0))
    knots = np.linspace(log_odds(np.zeros(1))[0], log_odds(np.ones(1))[0], KNOTS)
    mapped = expit(np.mean([line(knots) for line in maps[best]], axis=0))
    # leave out knots that are equal to the one before, or to the ends
    rising = np.flatnonzero(np.diff(np.maximum.accumulate(mapped), prepend=0.0) > 0)
    inner = rising[mapped[rising] < 1]
    raw = (0.0, *expit(knots)[inner].tolist(), 1.0)
    return CalibrationMap(best, raw, (0.0, *mapped[inner].tolist(), 1.0))


def _row_losses(y: NDArray[np.int64], odds: Floats) -> Floats:
    return np.asarray(np.logaddexp(0, np.where(y == 1, -odds, odds)))


def learn_sigmoid(y: NDArray[np.int64], odds: Floats) -> Line:
    """Return a function from log-odds to calibrated log-odds (Platt), learned from out-of-fold predictions.

    The function is a line that always rises, its slope shrunk towards 1. `y` (1 is fail, both labels occur)
    and `odds` (the log-odds of fail) have shape (n_rows,).
    """
    slope, shift = _fit_line(y, odds[:, None])
    return lambda odds_in: slope * odds_in + shift


def _learn_beta(y: NDArray[np.int64], odds: Floats) -> Line:
    low, high, shift = _fit_line(y, _log_probabilities(odds))
    return lambda odds_in: _log_probabilities(odds_in) @ np.array([low, high]) + shift


def _log_probabilities(odds: Floats) -> Floats:
    """Return ln p and -ln(1 - p), which add up to the log-odds."""
    return np.stack([-np.logaddexp(0, -odds), np.logaddexp(0, odds)], axis=1)


def _learn_isotonic(y: NDArray[np.int64], odds: Floats) -> Line:
    from sklearn.isotonic import IsotonicRegression

    steps, smooth = IsotonicRegression(out_of_bounds="clip").fit(odds, y), learn_sigmoid(y, odds)
    return lambda odds_in: log_odds(STEPS * steps.predict(odds_in) + (1 - STEPS) * expit(smooth(odds_in)))


_KINDS: dict[CalibrationKind, Callable[[NDArray[np.int64], Floats], Line]] = {
    "sigmoid": learn_sigmoid,
    "beta": _learn_beta,
    "isotonic": _learn_isotonic,
}


def _fit_line(y: NDArray[np.int64], columns: Floats) -> Floats:
    """Return the slopes, above 0, and the shift of the likeliest line; slopes are shrunk towards 1."""
    from scipy.optimize import minimize

    wide = np.column_stack([columns, np.ones(len(columns))])
    away = np.r_[np.ones(columns.shape[1]), 0.0]

    def penalised_loss(line: Floats) -> tuple[float, Floats]:
        odds, off = wide @ line, (line - 1) * away
        loss = float(_row_losses(y, odds).sum() + HELD * (off**2).sum() / 2)
        return loss, np.asarray(wide.T @ (expit(odds) - y) + HELD * off)

    bounds = [(0.05, None)] * columns.shape[1] + [(None, None)]
    return np.asarray(minimize(penalised_loss, away, jac=True, method="L-BFGS-B", bounds=bounds).x)


def calibration_error(y: NDArray[np.int64], probability: Floats) -> float:
    """Return the expected calibration error (Naeini and others 2015), in 10 bins of equal width.

    It is the mean distance between the share of fails and the mean probability, weighted by the cases of a
    bin. `y` (1 is fail) and `probability` have shape (n_rows,), at least one row.
    """
    number = np.minimum((probability * RANGES).astype(np.int64), RANGES - 1)
    off = np.bincount(number, weights=y - probability, minlength=RANGES)
    return float(np.abs(off).sum() / len(y))
