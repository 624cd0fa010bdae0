"""The level before a change, the variance between runs and its tail, from the runs before the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats
from data.deferred import special
from features.comparisons.run_levels import CUT, FEW_RUNS, FEWEST, TINY, count_runs, nan_mean, nan_median
from features.comparisons.summaries import MAD

#: An earlier run had a similar shift from this multiple of the target's on, up to twice of it.
_SIMILAR_SHIFT = 0.7

#: Cut of Huber's location, in standard deviations.
_HUBER = 1.5

#: An earlier run is left out whose operations scatter more than in the usual run: by this share, or by the
#: second number over the root of the number of operations, if that is more. If all runs scatter alike, one
#: history in ten (5 operations) to twenty (50) loses a run.
_OUTLYING = (0.3, 2.0)

#: History and its last runs differ where they are further apart than this many standard errors.
_APART = 2.8

#: Earlier runs drift where their variance exceeds half their squared steps by this many standard errors.
_DRIFTS = 2.5

#: Numbers of last runs that may be used in place of a drifting history.
_WINDOWS = (5, 3, 2, 1)

#: Degrees of freedom of squared steps between neighbours, which overlap (von Neumann 1941).
_OVERLAP = 2 / 3

#: Degrees of freedom assumed for the variances of different operations, worth one observation.
_SIMILAR = 8.0

#: Degrees of freedom of tails that are compared, and the gain in log likelihood needed to prefer them.
_TAILS, _CLEARER = (2.0, 3.0, 4.0, 6.0, 10.0), 3.0

#: Variance of log variances up to which these are equal, so that their mean is the better estimate.
_EQUAL = 0.05

#: Relative step at which an iteration ends.
_CONVERGED = 1e-8


@dataclass(frozen=True)
class EarlierRuns:
    """The runs before the target, with the variance of a run and how their level is estimated."""

    runs: Floats  # shape (n_runs, n_configurations): history, then baseline
    n_history: int
    variance: Floats  # shape (n_configurations,): of one run, shrunk; 0 without evidence
    freedom: Floats  # its degrees of freedom
    measured_freedom: Floats  # those of each configuration's own runs
    tail: float  # degrees of freedom of the t distribution that describes far runs; inf: normal
    forecast: _Forecast | None  # of the target's level from a drifting history; None without drift

    @classmethod
    def estimate(cls, past: Floats, target: Floats, n_history: int) -> EarlierRuns:
        """Return the evidence of `past`, whose first `n_history` runs are earlier ones, and of `target`.

        Runs have shape (n_runs, n_configurations).
        """
        before, of_before = _limited_variance(past if n_history else past[n_history:])
        forecast = None
        if n_history >= FEW_RUNS and _is_drifting(past, before, of_before):
            forecast, before, of_before = _best_forecast(past, len(target))
        after, of_after = _limited_variance(target)
        freedom = of_before + of_after
        pooled = (before * of_before + after * of_after) / np.where(freedom > 0, freedom, 1.0)
        variance, moderated = moderate_variances(pooled, freedom)
        scale = np.sqrt(np.maximum(variance, TINY))
        # a lasting change is one far step, but many far runs
        runs = [np.diff(past, axis=0) / np.sqrt(2), target] if n_history else [past, target]
        residuals = [_standardised_residuals(side, scale).ravel() for side in runs if len(side) > 1]
        # the scale takes overlapping steps for independent ones, so only the shape of their tail counts
        tail = tail_freedom(np.concatenate(residuals), is_scale_known=False) if residuals else np.inf
        return cls(past, n_history, variance, moderated, freedom, tail, forecast)

    def had_shift(self, value: Floats, n_target: int) -> NDArray[np.bool_]:
        """Return which configurations had a similar shift in `n_target` earlier runs, far from the others.

        None if they drift.
        """
        if self.forecast is not None:
            return np.zeros(len(value), bool)
        earlier = self.runs[: self.n_history] - nan_median(self.runs)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = earlier / value
        is_similar = (ratio > _SIMILAR_SHIFT) & (ratio < 1 / _SIMILAR_SHIFT**2)
        is_far = np.abs(earlier) > _APART * np.sqrt(self.variance)
        return np.asarray((is_similar & is_far).sum(axis=0) >= n_target)

    def level_shift(self, target: Floats) -> tuple[Floats, Floats]:
        """Return the shift of the target from the earlier level, and its variance in units of a run's."""
        scale = np.sqrt(np.maximum(self.variance, TINY))
        n_baseline = len(self.runs) - self.n_history
        if self.forecast is not None:
            level, of_level = self.forecast
        elif self.n_history:
            level, number = _location(self.runs, scale), count_runs(self.runs)
            last = max(n_baseline, FEW_RUNS)
            lately, before = self.runs[-last:], self.runs[:-last]
            if len(before):
                recent, n_recent, n_before = nan_mean(lately), count_runs(lately), count_runs(before)
                with np.errstate(divide="ignore", invalid="ignore"):
                    error = scale * np.sqrt(1 / n_recent + 1 / n_before)
                    is_apart = np.abs(recent - _location(before, scale)) > _APART * error
                level, number = np.where(is_apart, recent, level), np.where(is_apart, n_recent, number)
            of_level = 1 / np.maximum(number, 1)
        else:
            level, of_level = nan_mean(self.runs), 1 / np.maximum(count_runs(self.runs), 1)
        return _location(target, scale) - level, of_level + 1 / np.maximum(count_runs(target), 1)


def _is_drifting(past: Floats, variance: Floats, freedom: Floats) -> bool:
    """Return whether the variance of all operations' runs exceeds that of their steps."""
    steps = np.abs(np.diff(past, axis=0))
    limit = CUT * nan_median(steps) / MAD if len(steps) > FEW_RUNS else np.inf
    halves = nan_mean(np.minimum(steps, limit) ** 2) / 2
    return bool(np.nansum(variance) > np.nansum(halves) * (1 + _DRIFTS * np.sqrt(2 / max(freedom.sum(), 1))))


class _Forecast(NamedTuple):
    """Levels expected after the runs of a drifting history; arrays of shape (n_configurations,)."""

    level: Floats  # NaN without a run
    variance: Floats  # of `level`, in units of a run's variance


def _extrapolate(past: Floats, ahead: int, window: int | None) -> _Forecast:
    """Return the level expected of the next `ahead` runs, by the last `window` runs; None: by the trend."""
    used = past[-(window or len(past)) :]
    with np.errstate(divide="ignore", invalid="ignore"):
        if window is not None:
            return _Forecast(nan_mean(used), 1 / count_runs(used))
        trend = _Trend.fit(used)
        distance = len(used) + (ahead - 1) / 2 - trend.centre
        variance = 1 / count_runs(used) + distance**2 / trend.squares
        return _Forecast(trend.level + distance * trend.slope, variance)


class _Trend(NamedTuple):
    """A straight line through the runs of each configuration; arrays of shape (n_configurations,)."""

    level: Floats  # at the place `centre` in the order of the runs
    slope: Floats  # per run; NaN with fewer than two runs
    centre: Floats
    squares: Floats  # sum of the squared distances of the runs from `centre`

    @classmethod
    def fit(cls, runs: Floats) -> _Trend:
        """Return the line of least squares."""
        place = np.where(np.isfinite(runs), np.arange(len(runs))[:, None], np.nan)
        centre = nan_mean(place)
        squares = np.nansum((place - centre) ** 2, axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.nansum((place - centre) * runs, axis=0) / squares
        return cls(nan_mean(runs), slope, centre, squares)


def expected_levels(past: Floats, n_target: int) -> Floats:
    """Return the levels that past and target runs would have if no whole run had shifted all operations.

    They are each configuration's median of `past`, shape (n_runs, n_configurations), plus its linear trend
    relative to the median configuration's, if these trends together are clear (p <= 0.001). NaN in `past` is
    ignored; the levels, logarithms as in `past`, are NaN only for configurations without a past value. Shape
    of the result: (n_runs + n_target, n_configurations), past runs first.
    """
    own = past - nan_median(past)
    own = own - nan_median(own.T)[:, None]
    trend = _Trend.fit(own)
    explained = np.nansum(trend.slope**2 * trend.squares) / own.shape[1]
    place = np.arange(len(past) + n_target)[:, None] - trend.centre
    left = np.nansum((own - trend.level - place[: len(past)] * trend.slope) ** 2)
    freedom = max(float(np.isfinite(own).sum() - 2 * own.shape[1]), 1.0)
    if special.fdtrc(own.shape[1], freedom, explained * freedom / max(left, TINY)) > _NO_TREND:
        place[:] = 0.0
    return nan_median(past) + np.nan_to_num(place * trend.slope)


#: Probability of such trends by chance from which on they are ignored.
_NO_TREND = 0.001


def _best_forecast(past: Floats, n_target: int) -> tuple[_Forecast, Floats, Floats]:
    """Return the forecast that was the best one for earlier runs, the variance of a run, and its freedom."""
    best: tuple[float, _Forecast, Floats, float] | None = None
    ahead = min(n_target, len(past) - FEW_RUNS)
    for window in (None, *_WINDOWS):
        ends = range(window or max(_WINDOWS), len(past) - ahead + 1)
        if len(ends) < FEW_RUNS:
            continue
        level, variance = np.array([_extrapolate(past[:at], ahead, window) for at in ends]).swapaxes(0, 1)
        means = np.array([nan_mean(past[at : at + ahead]) for at in ends])
        errors = (means - level) / np.sqrt(1 / ahead + variance)
        limit = CUT * float(np.nanmedian(np.abs(errors))) / MAD
        squares = nan_mean(np.minimum(np.abs(errors), limit) ** 2)
        forecast = _extrapolate(past, n_target, window)
        expected = float(np.nanmean(squares * (1 / n_target + forecast.variance)))
        if best is None or expected < best[0]:
            best = expected, forecast, squares, len(errors) / ahead
    assert best is not None
    _, forecast, variance, number = best
    return forecast, np.nan_to_num(variance), np.where(np.isfinite(variance), _OVERLAP * number, 0.0)


def without_outlying_runs(past: Floats, n_history: int) -> tuple[Floats, int]:
    """Return the runs without outlying earlier ones, and the number of earlier runs that remain.

    `past`: shape (n_runs, n_configurations), log levels, the first `n_history` are earlier runs. NaN (not
    measured) is ignored, and a run without any value is kept; no value may be infinite. The scatter of a run
    is the root mean square of the distances of its values from their expected levels, each in standard
    deviations of its configuration and at most 3. An earlier run is removed if its scatter exceeds the median
    scatter of all runs by 30 %, or by 2 / sqrt(n_configurations) if that is more; with three earlier runs or
    fewer, none is removed, and `past` itself is returned.
    """
    if n_history <= FEW_RUNS:
        return past, n_history
    distance = np.abs(past - expected_levels(past, 0))
    deviation = nan_median(distance) / MAD
    deviation = np.maximum(np.maximum(deviation, np.nanmedian(deviation) / 2), TINY)
    sizes = np.sqrt(nan_mean(np.minimum(distance / deviation, CUT).T ** 2))
    least, of_number = _OUTLYING
    cut = 1 + max(least, of_number / np.sqrt(past.shape[1]))
    outlying = sizes > cut * np.nanmedian(sizes)
    outlying[n_history:] = False
    return past[~outlying], n_history - int(outlying.sum())


def tail_freedom(standardised: Floats, *, is_scale_known: bool = True) -> float:
    """Return the degrees of freedom of the t distribution that fits best: 2, 3, 4, 6 or 10.

    Infinity (the normal distribution) without values, or if the best log likelihood exceeds the normal one's
    by 3 or less. `standardised` has standard deviation 1; values that are not finite do not count. Unless
    `is_scale_known`, the normal distribution has the values' own deviation: a larger one is no heavier tail.
    """
    squares = standardised[np.isfinite(standardised)] ** 2
    variance = 1.0 if is_scale_known or not len(squares) else max(float(squares.mean()), TINY)
    normal = -(squares.sum() / variance + len(squares) * np.log(2 * np.pi * variance)) / 2
    likelihood = [
        len(squares) * (special.gammaln((f + 1) / 2) - special.gammaln(f / 2) - np.log(f * np.pi) / 2)
        - (f + 1) / 2 * np.log1p(squares / f).sum()
        for f in _TAILS
    ]
    best = int(np.argmax(likelihood))
    return _TAILS[best] if likelihood[best] > normal + _CLEARER else np.inf


def _location(runs: Floats, scale: Floats) -> Floats:
    """Return Huber's location of four runs or more, else their mean."""
    return _huber_mean(runs, scale) if len(runs) > FEW_RUNS else nan_mean(runs)


def _huber_mean(runs: Floats, scale: Floats) -> Floats:
    centre = nan_median(runs)
    for _ in range(10):
        distance = np.abs(runs - centre)
        limited = np.minimum(1, _HUBER * scale / np.maximum(distance, TINY))
        weights = np.where(np.isfinite(distance), limited, 0.0)
        total, sums = weights.sum(axis=0), (weights * np.nan_to_num(runs)).sum(axis=0)
        centre = np.where(total > 0, sums / np.maximum(total, TINY), centre)
    return centre


def _standardised_residuals(runs: Floats, scale: Floats) -> Floats:
    return (runs - _location(runs, scale)) / (scale * np.sqrt(1 - 1 / len(runs)))


def _limited_variance(runs: Floats) -> tuple[Floats, Floats]:
    """Return the variance of each column, with far values limited, and its degrees of freedom."""
    number, middle = count_runs(runs), nan_mean(runs)
    distance = np.abs(runs - middle)
    if len(runs) > FEW_RUNS:
        median = nan_median(runs)
        spread = nan_median(np.abs(runs - median)) / MAD * (1 + 1 / np.maximum(number, 1))
        spread = np.maximum(spread, np.nanmedian(spread) / 2) + 1e-12
        distance = np.minimum(np.abs(runs - _huber_mean(runs, spread)), CUT * spread)
    freedom = np.maximum(number - 1, 0.0)
    return np.nansum(distance**2, axis=0) / np.where(freedom > 0, freedom, 1.0), freedom


def moderate_variances(variance: Floats, freedom: Floats) -> tuple[Floats, Floats]:
    """Return variances shrunk towards a common one, and their new degrees of freedom (Smyth 2004).

    Arrays of shape (n_configurations,). A variance or freedom of 0 means no data: the result is the common
    variance. The closer the variances' differences are to chance, the more they are shrunk, and the more
    degrees are added. With data of one configuration at most, both are returned unchanged, except that the
    degrees are 0 without data.
    """
    has_data = (freedom > 0) & (variance > 0)
    number = int(has_data.sum())
    if number <= 1:
        return variance, np.where(has_data, freedom, 0.0)
    own = freedom[has_data]
    logarithms = np.log(variance[has_data]) - (special.digamma(own / 2) - np.log(own / 2))
    chance = float(np.mean(special.polygamma(1, own / 2)))
    error = np.sqrt((np.mean(special.polygamma(3, own / 2)) + 2 * chance**2 * number / (number - 1)) / number)
    excess = max(float(np.var(logarithms, ddof=1)) - chance - float(error), 0.0)
    excess = ((number - 1) * excess + float(special.polygamma(1, _SIMILAR / 2))) / number
    prior = min(2 * _inverse_trigamma(excess), float(own.sum() - own.mean()))
    middle = np.clip(logarithms, *np.quantile(logarithms, [0.05, 0.95])) if number > FEWEST else logarithms
    usual = np.exp(np.mean(middle) + special.digamma(prior / 2) - np.log(prior / 2))
    if excess <= _EQUAL:
        values = variance[has_data]
        usual = np.mean(np.minimum(values, np.quantile(values, 0.95)) if number > 2 * FEWEST else values)
    squares = np.where(has_data, freedom * variance, 0.0)
    freedom = np.where(has_data, freedom, 0.0)
    return (squares + prior * usual) / (freedom + prior), freedom + prior


def _inverse_trigamma(value: float) -> float:
    """Return x with trigamma(x) = `value` (Smyth 2004, appendix)."""
    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(special.polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(special.polygamma(2, x))
        x += step
        if -step / x < _CONVERGED:
            break
    return x
