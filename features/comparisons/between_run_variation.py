"""The shift of every operation between two builds, and its standard error, from all runs of a machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, fdtrc, ndtri, polygamma, stdtr, stdtrit

from data.comparisons.sides import Floats, Ints, Samples, Sides
from features.comparisons.outliers import select_configurations
from features.comparisons.summaries import MAD, flatten_samples, hodges_lehmann, robust_spread

#: Least number of operations to estimate the shift of a whole run and the variation between operations.
FEWEST = 5
#: Variance of the Hodges-Lehmann estimate of normal samples, relative to that of their mean.
_LEVEL_VARIANCE = np.pi / 3
#: Between-run variation (standard deviation, as a share) assumed without evidence: the largest that a fail
#: has to exceed, and the usual one, below which a change is not doubted.
ASSUMED, ASSUMED_USUAL = 0.015, 0.007
#: Least degrees of freedom of a measured variance that replaces the assumed one.
ENOUGH = 5.0
#: Degrees of freedom of an assumed variance.
_KNOWN = 1e6

#: Evidence used to estimate between-run variation.
VariationEvidence = Literal["runs", "operations"]


@dataclass(frozen=True)
class RunLevels:
    """Levels of runs as logarithms, as if higher were better: differences are shares, negative is worse."""

    #: Shape (n_runs, n_configurations), in the order of the runs; NaN where not measured.
    history: Floats
    baseline: Floats
    target: Floats
    operation: Ints  # shape (n_configurations,): row of the comparison, ascending
    noise: Floats  # shape (n_configurations,): variance of the difference of the sides due to their samples

    @classmethod
    def from_sides(cls, sides: Sides) -> RunLevels:
        """Return the runs' log levels (Hodges-Lehmann; of summaries: the median); NaN unless above 0."""
        levels, noise = [], []
        for _, side, five in sides.both_sides:
            runs, summary = _run_levels(side, sides.sign), side.lengths == 0
            runs[:1, summary] = _signed_logarithm(five[summary, 2], sides.sign[summary])
            levels.append(runs)
            noise.append(_sample_variance(side, five))
        history = _run_levels(sides.history, sides.sign)
        history = history[np.isfinite(history).any(axis=1)]
        return cls(history, levels[0], levels[1], sides.comparison, noise[0] + noise[1])

    @cached_property
    def _first_rows(self) -> Ints:
        return np.flatnonzero(np.diff(self.operation, prepend=-1))

    @property
    def n_operations(self) -> int:
        """Number of operations, each with one or more configurations."""
        return len(self._first_rows)

    def per_operation(self, values: Floats) -> Floats:
        """Return the medians of `values`, shape (..., n_configurations), as (..., n_operations)."""
        starts = self._first_rows
        if len(starts) == values.shape[-1]:
            return values
        stops = np.append(starts[1:], values.shape[-1])
        columns = [
            nan_median(np.atleast_2d(values[..., start:stop]).T)
            for start, stop in zip(starts, stops, strict=True)
        ]
        return np.stack(columns, axis=-1).reshape(*values.shape[:-1], len(starts))


def _sample_variance(side: Samples, five: Floats) -> Floats:
    """Return the variance of each side's level due to its samples, as a share; 0 for summaries."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        variance = _LEVEL_VARIANCE * (robust_spread(five) / five[:, 2]) ** 2 / side.lengths
    return np.where(np.isfinite(variance), variance, 0.0)


def _run_levels(side: Samples, sign: Floats) -> Floats:
    """Return the levels of the runs of a side, shape (n_runs or 1, n_configurations)."""
    levels = side.reduce_versions(hodges_lehmann)
    owner, place = flatten_samples(levels)
    orders, row = np.unique(levels.orders[place], return_inverse=True)
    runs = np.full((max(len(orders), 1), len(sign)), np.nan)
    runs[row, owner] = _signed_logarithm(levels.values[place], sign[owner])
    return runs


def _signed_logarithm(values: Floats, sign: Floats) -> Floats:
    is_positive: NDArray[np.bool_] = np.isfinite(values) & (values > 0)
    return sign * np.log(values, out=np.full(len(values), np.nan), where=is_positive)


class Shifts(NamedTuple):
    """Shifts as logarithms of ratios (negative is worse), with their errors; arrays of one shape.

    ``error`` is a standard error without a change, with ``freedom`` degrees of freedom; ``usual_error`` is
    the smaller one of usual runs where the error is assumed, else the same.
    """

    value: Floats
    error: Floats
    freedom: Floats
    usual_error: Floats


@dataclass(frozen=True)
class BuildShifts:
    """Shifts of the target of one machine: of each configuration without the shared part, and shared."""

    own: Shifts  # shape (n_configurations,)
    whole: Shifts  # of the whole run, shape (1,)
    removed: float  # the part of the whole run's shift that is not in `own`
    run_spread: Floats  # shape (n_configurations,): between-run standard deviation, as a share
    evidence: VariationEvidence

    @property
    def whole_limit(self) -> float:
        """The shift that an unchanged whole run exceeds with a probability of `LEVEL_WHOLE`."""
        return float(-stdtrit(self.whole.freedom, LEVEL_WHOLE)[0] * self.whole.error[0])


def build_shifts(levels: RunLevels, assumed: float = ASSUMED) -> BuildShifts:
    """Return the shifts of `FEWEST` or more operations, and their errors without a change.

    All evidence is combined. Each operation's variance between runs, from earlier runs and from several runs
    per side, is shrunk towards the others' (moderated t, Smyth 2004). The shift shared by all operations is
    removed as far as it exceeds chance. The shifts of the operations, most of which are unchanged, show
    whether builds differ by more than runs (empirical null, Efron 2004). A drifting history is followed by
    its last runs, an outlying earlier run is left out.

    assumed: between-run standard deviation, as a share, of whole runs without earlier runs; it also limits
    the estimate from few operations.
    """
    past, target, whole, removed, inflation = _remove_shared_shifts(levels, assumed)
    past, n_history = _without_outlying_runs(past, len(levels.history))
    known = _Past.estimate(past, target, n_history)
    variance, freedom, noise = known.variance, known.freedom, levels.noise
    value, runs = known.level_shift(target)
    noisy = np.maximum(noise - _NOISY * np.median(noise), 0.0)
    evidence: VariationEvidence = "runs"
    if freedom.any():
        error2 = np.maximum(variance * runs * inflation, np.minimum(noise, variance * runs + noisy))
        standardised = levels.per_operation(value / np.sqrt(np.maximum(error2, _TINY)))
        factor, freedom = _build_variation(standardised, freedom, known)
        error2, variance = error2 * factor, variance * factor
    else:
        evidence, freedom = "operations", np.full(len(value), _SCALE_FREEDOM * (levels.n_operations - 1))
        common = _common_variance(levels.per_operation(value), levels.per_operation(noisy))
        if levels.n_operations < _MANY and common > (most := 2 * (_AT_MOST * assumed) ** 2):
            # so many of so few operations may have changed
            common, freedom = most, np.full(len(value), _KNOWN)
        error2 = (common + noisy) * inflation
        variance = error2 / 2
    error = np.sqrt(error2)
    return BuildShifts(Shifts(value, error, freedom, error), whole, removed, np.sqrt(variance), evidence)


def single_shifts(sides: Sides, assumed: float = ASSUMED) -> tuple[Shifts, Floats, NDArray[np.bool_]]:
    """Return the shift of each configuration by itself, its run spread, and whether the spread is assumed.

    With fewer than `ENOUGH` degrees of freedom, the standard deviation between runs is at least the assumed
    one, a share. Arrays of shape (n_configurations,).
    """
    n = len(sides.sign)
    levels = sides.pooled_samples.followed_by(sides.history).reduce_versions(hodges_lehmann)
    owner, place = flatten_samples(levels)
    values = _signed_logarithm(levels.values[place], sides.sign[owner % n])
    # history counts as baseline
    cells = owner % n + n * (owner // n == 1)
    columns = [np.bincount(cells, weights, 2 * n) for weights in (None, values, values**2)]
    sums, noise = np.array(columns, np.float64).reshape(3, 2, n).swapaxes(0, 1), np.zeros(n)
    for at, (_, side, five) in enumerate(sides.both_sides):
        number, total, squares = sums[at]
        stated = (number == 0).nonzero()[0]
        number[stated] = 1.0
        total[stated] = _signed_logarithm(five[stated, 2], sides.sign[stated])
        squares[stated] = total[stated] ** 2
        noise += _sample_variance(side, five)
    number, mean = sums[:, 0], sums[:, 1] / sums[:, 0]
    freedom = (number - 1).sum(axis=0)
    within = np.maximum(sums[:, 2] - number * mean**2, 0.0).sum(axis=0) / np.maximum(freedom, 1.0)
    runs, is_assumed = (1 / number).sum(axis=0), freedom < ENOUGH
    least = np.where(is_assumed, assumed**2, 0.0), np.where(is_assumed, min(assumed, ASSUMED_USUAL) ** 2, 0.0)
    variance, usual = (np.maximum(within, each) for each in least)
    error, usual_error = (np.sqrt(part * runs + noise) for part in (variance, usual))
    shifts = Shifts(mean[1] - mean[0], error, np.where(is_assumed, _KNOWN, freedom), usual_error)
    return shifts, np.sqrt(variance), is_assumed


#: Of fewer operations, most may have changed; they show at most this multiple of the assumed spread.
_MANY, _AT_MOST = 15, 2.0
#: Noise of samples beyond this multiple of the other operations' is added to an operation's variance.
_NOISY = 2.5
#: Cut of the robust scale: larger values, in units of the scale, may be changes.
_CUT = 3.0
#: Mean square of normal values within the cut.
_WITHIN_CUT = 0.9733
#: Degrees of freedom of the scale of n values are this multiple of n - 1; calibrated by simulation.
_SCALE_FREEDOM = 1.44
#: Share of the values that must be within the cut of a known scale, otherwise it is too small.
_MOST_WITHIN = 0.7
#: Evidence (probability) needed to replace the runs' variance by that of the operations' shifts.
_REPLACED = 0.001
#: Cut of Huber's and of Tukey's location, in standard deviations.
_HUBER, _BISQUARE = 1.5, 4.7
#: An earlier run whose operations scatter by this multiple of the usual run is left out.
_OUTLYING = 4.0
#: History and its last runs differ where they are further apart than this many standard errors.
_APART = 2.8
#: Least number of earlier runs to look for drift.
_FEW_RUNS = 3
#: Earlier runs drift where their variance exceeds half their squared steps by this many standard errors.
_DRIFTS = 2.5
#: Numbers of last runs that may be used in place of a drifting history.
_WINDOWS = (5, 3, 2, 1)
#: Degrees of freedom of squared steps between neighbours, which overlap (von Neumann 1941).
_OVERLAP = 2 / 3
#: Degrees of freedom assumed for the variances of different operations, worth one observation.
_SIMILAR = 8.0


def _iterate_scale(values: Floats, scale: float) -> float | None:
    """Return the scale of the values within `_CUT` scales; None if too few are within."""
    for _ in range(15):
        inside = np.abs(values) < _CUT * scale
        if inside.mean() < _MOST_WITHIN:
            return None
        scale = max(float(np.sqrt(np.mean(values[inside] ** 2) / _WITHIN_CUT)), np.finfo(float).tiny)
    return scale


def robust_scale(values: Floats, start: float | None = None) -> float:
    """Return the standard deviation around 0 of the finite `values`, most of which are normal.

    Values beyond three standard deviations do not count. `start`: the scale expected, from which to begin.
    """
    values = values[np.isfinite(values)]
    if start is not None and (scale := _iterate_scale(values, start)) is not None:
        return scale
    first = 1.1 * float(np.median(np.abs(values))) / MAD * (1 + 1 / len(values))
    return _iterate_scale(values, first) or first


def _common_variance(value: Floats, noisy: Floats) -> float:
    """Return the variance that the shifts have in common, beyond that of noisy operations."""
    variance = robust_scale(value) ** 2
    for _ in range(10 if noisy.any() else 0):
        variance *= robust_scale(value / np.sqrt(np.maximum(variance + noisy, _TINY)), 1.0) ** 2
    return max(variance, _TINY)


#: Least variance, and least standard deviation, as shares of the level; smaller ones are rounding errors.
_TINY, _LEAST_SCALE = 1e-18, 1e-12


def _build_variation(standardised: Floats, freedom: Floats, known: _Past) -> tuple[float, Floats]:
    """Return by which factor the variance of builds exceeds that of runs, and its degrees of freedom."""
    squared = robust_scale(standardised, 1.0) ** 2
    of_shifts = 0.9 * (np.isfinite(standardised).sum() - 1)
    of_runs = float(np.median(freedom)) if known.drifts else float(known.measured_freedom.sum())
    if not known.n_history:
        # runs of one side show less than builds
        of_runs = min(of_runs, 2 * of_shifts)
    if fdtrc(of_shifts, max(of_runs, 1.0), squared) < _REPLACED:
        return squared, np.minimum(freedom, of_shifts)
    return (of_runs + of_shifts * squared) / (of_runs + of_shifts), freedom


def _bisquare_location(values: Floats, scale: float) -> float:
    """Return Tukey's location of the finite `values` of a known standard deviation."""
    values = values[np.isfinite(values)]
    centre = float(np.median(values))
    for _ in range(15):
        ratio = (values - centre) / (_BISQUARE * scale)
        weights = np.where(np.abs(ratio) < 1, (1 - ratio**2) ** 2, 0.0)
        if not weights.any():
            break
        centre = float(weights @ values / weights.sum())
    return centre


def _spread_around_median(values: Floats) -> float:
    values = values[np.isfinite(values)]
    spread = float(np.median(np.abs(values - np.median(values)))) / MAD if len(values) else 0.0
    return max(spread * (1 + 1 / max(len(values), 1)), _LEAST_SCALE)


def _remove_shared_shifts(levels: RunLevels, assumed: float) -> tuple[Floats, Floats, Shifts, float, float]:
    """Return past and target runs without the shifts of whole runs, and the target's shift.

    A shift is removed as far as it exceeds chance and the usual shifts of earlier runs (shrinkage). The last
    two results are the part of the target's shift against the baseline that is removed, and the factor by
    which the variance of an operation's shift grows.
    """
    n_history, past = len(levels.history), np.vstack([levels.history, levels.baseline])
    n_past, enough = len(past), n_history > _FEW_RUNS
    reference = nan_median(past) if enough else nan_mean(levels.baseline)
    moved = np.vstack([past, levels.target])
    runs = levels.per_operation(moved - reference)
    is_complete = np.isfinite(runs).sum(axis=1) >= FEWEST
    scales = np.array([_spread_around_median(run) for run in runs])
    if enough:
        scales[:] = np.median(scales[:n_history])
    elif len(runs) > 2:  # noqa: PLR2004 - the first of two runs is the reference
        # several runs of one side; those equal to the reference scatter by nothing
        scattered = scales[scales > 2 * _LEAST_SCALE]
        scales[:] = np.median(scattered) if len(scattered) else _LEAST_SCALE
    raw = np.array(
        [
            _bisquare_location(run, scale) if complete else 0.0
            for run, scale, complete in zip(runs, scales, is_complete, strict=True)
        ]
    )
    chance = 1.1 * scales**2 / np.maximum(np.isfinite(runs).sum(axis=1), 1)
    squared, usual = raw**2, 0.0
    if enough:
        distances = np.abs(raw[:n_past] - np.median(raw[:n_past]))
        limited = np.minimum(distances, _CUT * np.median(distances) / MAD)
        usual = max(float(np.mean(limited**2)) * n_past / (n_past - 1) - chance[0], 0.0)
        beyond = squared > _CLEARLY * (chance + usual)
        excess = np.where(beyond, np.maximum(squared - 2 * chance, 0.0), 0.0)
        kept = np.maximum(usual / (usual + chance), excess / (excess + chance))
    else:
        kept = np.maximum(1 - 2 * chance / np.maximum(squared, _TINY), 0.0)
    shared = raw * kept
    moved = moved - shared[:, None]
    inflation = 1 + 1.1 * float(np.mean(kept[n_past:])) / levels.n_operations
    whole = _whole_shift(raw[:n_past], raw[n_past:], chance, n_history, None if enough else assumed)
    removed = float(np.mean(shared[n_past:]) - np.mean(shared[n_history:n_past]))
    return moved[:n_past], moved[n_past:], whole, removed, inflation


#: Least square of the shift of a clearly unusual whole run, relative to its variance.
_CLEARLY = 6.6


def _whole_shift(
    before: Floats, after: Floats, chance: Floats, n_history: int, assumed: float | None
) -> Shifts:
    """Return the shift of the target's runs as a whole; `assumed`: between-run spread without history."""
    known = _Past.estimate(before[:, None], after[:, None], n_history)
    value, runs = known.level_shift(after[:, None])
    variance = known.variance + chance[-1] if assumed is None else assumed**2 + chance[-1:]
    error = np.sqrt(variance * runs)
    return Shifts(value, error, known.freedom if assumed is None else np.full(1, _KNOWN), error)


def _without_outlying_runs(past: Floats, n_history: int) -> tuple[Floats, int]:
    """Return the runs without earlier ones in which the operations scatter far more than usual."""
    if n_history <= _FEW_RUNS:
        return past, n_history
    sizes = nan_median(np.abs(past - nan_median(past)).T)
    outlying = sizes > _OUTLYING * np.nanmedian(sizes)
    outlying[n_history:] = False
    return past[~outlying], n_history - int(outlying.sum())


def nan_median(runs: Floats) -> Floats:
    """Return the median of the finite values of each column; NaN without any."""
    filled = np.where(np.isfinite(runs).any(axis=0), runs, 0.0)
    return np.where(np.isfinite(runs).any(axis=0), np.nanmedian(filled, axis=0), np.nan)


def nan_mean(runs: Floats) -> Floats:
    """Return the mean of the finite values of each column; NaN without any."""
    number = count_runs(runs)
    return np.asarray(np.nansum(runs, axis=0) / np.where(number > 0, number, np.nan))


def count_runs(runs: Floats) -> Floats:
    """Return the number of finite values of each column, shape (n_configurations,)."""
    return np.isfinite(runs).sum(axis=0).astype(np.float64)


def _huber_mean(runs: Floats, scale: Floats) -> Floats:
    """Return Huber's location of each column, whose standard deviation is `scale`."""
    centre = nan_median(runs)
    for _ in range(10):
        distance = np.abs(runs - centre)
        weights = np.where(
            np.isfinite(distance), np.minimum(1, _HUBER * scale / np.maximum(distance, _TINY)), 0.0
        )
        total = weights.sum(axis=0)
        centre = np.where(
            total > 0, (weights * np.nan_to_num(runs)).sum(axis=0) / np.maximum(total, _TINY), centre
        )
    return centre


def _location(runs: Floats, scale: Floats) -> Floats:
    """Return Huber's location of four runs or more, else their mean."""
    return _huber_mean(runs, scale) if len(runs) > _FEW_RUNS else nan_mean(runs)


def _limited_variance(runs: Floats) -> tuple[Floats, Floats]:
    """Return the variance of each column, with far values limited, and its degrees of freedom."""
    number, middle = count_runs(runs), nan_mean(runs)
    distance = np.abs(runs - middle)
    if len(runs) > _FEW_RUNS:
        median = nan_median(runs)
        spread = nan_median(np.abs(runs - median)) / MAD * (1 + 1 / np.maximum(number, 1))
        spread = np.maximum(spread, np.nanmedian(spread) / 2) + 1e-12
        distance = np.minimum(np.abs(runs - _huber_mean(runs, spread)), _CUT * spread)
    freedom = np.maximum(number - 1, 0.0)
    return np.nansum(distance**2, axis=0) / np.where(freedom > 0, freedom, 1.0), freedom


@dataclass(frozen=True)
class _Past:
    """The runs before the target, with the variance of a run and how their level is estimated."""

    runs: Floats  # shape (n_runs, n_configurations): history, then baseline
    n_history: int
    variance: Floats  # shape (n_configurations,): of one run, shrunk; 0 without evidence
    freedom: Floats  # its degrees of freedom
    measured_freedom: Floats  # those of each configuration's own runs
    window: int | None  # number of last runs used in place of a drifting history; None without drift

    @property
    def drifts(self) -> bool:
        return self.window is not None

    @classmethod
    def estimate(cls, past: Floats, target: Floats, n_history: int) -> _Past:
        before, of_before = _limited_variance(past if n_history else past[n_history:])
        window = None
        if n_history >= _FEW_RUNS and _is_drifting(past, before, of_before):
            window, before, of_before = _best_window(past)
        after, of_after = _limited_variance(target)
        freedom = of_before + of_after
        pooled = (before * of_before + after * of_after) / np.where(freedom > 0, freedom, 1.0)
        variance, moderated = moderate_variances(pooled, freedom)
        return cls(past, n_history, variance, moderated, freedom, window)

    def level_shift(self, target: Floats) -> tuple[Floats, Floats]:
        """Return the shift of the target from the earlier level, and its variance in units of a run's."""
        scale = np.sqrt(np.maximum(self.variance, _TINY))
        n_baseline = len(self.runs) - self.n_history
        if self.window is not None:
            level, used = nan_mean(self.runs[-self.window :]), self.runs[-self.window :]
            number = count_runs(used)
        elif self.n_history:
            level, number = _location(self.runs, scale), count_runs(self.runs)
            last = max(n_baseline, _FEW_RUNS)
            lately, before = self.runs[-last:], self.runs[:-last]
            if len(before):
                recent, n_recent, n_before = nan_mean(lately), count_runs(lately), count_runs(before)
                with np.errstate(divide="ignore", invalid="ignore"):
                    error = scale * np.sqrt(1 / n_recent + 1 / n_before)
                    is_apart = np.abs(recent - _location(before, scale)) > _APART * error
                level, number = np.where(is_apart, recent, level), np.where(is_apart, n_recent, number)
        else:
            level, number = nan_mean(self.runs), count_runs(self.runs)
        after = _location(target, scale)
        with np.errstate(divide="ignore"):
            return after - level, 1 / np.maximum(number, 1) + 1 / np.maximum(count_runs(target), 1)


def _is_drifting(past: Floats, variance: Floats, freedom: Floats) -> bool:
    """Return whether the variance of all operations' runs exceeds that of their steps."""
    steps = np.abs(np.diff(past, axis=0))
    limit = _CUT * nan_median(steps) / MAD if len(steps) > _FEW_RUNS else np.inf
    halves = nan_mean(np.minimum(steps, limit) ** 2) / 2
    return bool(np.nansum(variance) > np.nansum(halves) * (1 + _DRIFTS * np.sqrt(2 / max(freedom.sum(), 1))))


def _best_window(past: Floats) -> tuple[int, Floats, Floats]:
    """Return how many last runs predict the next run best, the variance of a run, and its freedom."""
    best: tuple[float, int, Floats, int] | None = None
    for window in _WINDOWS:
        if len(past) < window + _FEW_RUNS:
            continue
        errors = np.array([past[at] - nan_mean(past[at - window : at]) for at in range(window, len(past))])
        limit = _CUT * float(np.nanmedian(np.abs(errors))) / MAD
        squares = nan_mean(np.minimum(np.abs(errors), limit) ** 2)
        if best is None or np.nanmean(squares) < best[0]:
            best = float(np.nanmean(squares)), window, squares / (1 + 1 / window), len(errors)
    assert best is not None
    _, window, variance, number = best
    return window, np.nan_to_num(variance), np.where(np.isfinite(variance), _OVERLAP * number, 0.0)


def moderate_variances(variance: Floats, freedom: Floats) -> tuple[Floats, Floats]:
    """Return variances that are shrunk towards the usual one, and their degrees of freedom (Smyth 2004).

    Arrays of shape (n_configurations,); 0 degrees of freedom: no data, such a variance becomes the usual one.
    How far they are shrunk depends on how much the variances differ by more than chance.
    """
    has_data = (freedom > 0) & (variance > 0)
    number = int(has_data.sum())
    if number <= 1:
        return variance, np.where(has_data, freedom, 0.0)
    own = freedom[has_data]
    logarithms = np.log(variance[has_data]) - (digamma(own / 2) - np.log(own / 2))
    chance = float(np.mean(polygamma(1, own / 2)))
    error = np.sqrt((np.mean(polygamma(3, own / 2)) + 2 * chance**2 * number / (number - 1)) / number)
    excess = max(float(np.var(logarithms, ddof=1)) - chance - float(error), 0.0)
    excess = ((number - 1) * excess + float(polygamma(1, _SIMILAR / 2))) / number
    prior = min(2 * _inverse_trigamma(excess), float(own.sum() - own.mean()))
    middle = np.clip(logarithms, *np.quantile(logarithms, [0.05, 0.95])) if number > FEWEST else logarithms
    usual = np.exp(np.mean(middle) + digamma(prior / 2) - np.log(prior / 2))
    if excess <= _EQUAL:
        values = variance[has_data]
        usual = np.mean(np.minimum(values, np.quantile(values, 0.95)) if number > 2 * FEWEST else values)
    squares = np.where(has_data, freedom * variance, 0.0)
    freedom = np.where(has_data, freedom, 0.0)
    return (squares + prior * usual) / (freedom + prior), freedom + prior


#: Variance of log variances up to which these are equal, so that their mean is the better estimate.
_EQUAL = 0.05


#: Relative step at which an iteration ends.
_CONVERGED = 1e-8


def _inverse_trigamma(value: float) -> float:
    """Return x with trigamma(x) = `value` (Smyth 2004, appendix)."""
    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, x))
        x += step
        if -step / x < _CONVERGED:
            break
    return x


#: Expected share of false alarms among the many operations called worse (Benjamini and Hochberg 1995); of n
#: operations, it is larger by the factor 1 + `_FEW_ALARMS` / n: 3.5 % of 20.
FALSE_DISCOVERY_RATE, _FEW_ALARMS = 0.02, 15.0
#: Largest probability that an unchanged comparison is called worse, and that an unchanged whole run is.
LEVEL, LEVEL_WHOLE = 0.005, 0.0005
#: An operation is doubted from this many standard errors on.
DOUBTED = 2.1
#: Power of the test for the smallest detectable change, as a normal quantile: 80 %.
_POWER = float(ndtri(0.8))


@dataclass(frozen=True)
class RunShifts:
    """Shifts of all machines' targets; arrays of shape (n_configurations,) unless stated otherwise."""

    own: Shifts
    together: Floats  # the part of the whole run's shift that is not in `own`; NaN if unknown
    run_spread: Floats  # between-run standard deviation of the configuration, as a share
    is_assumed: NDArray[np.bool_]  # whether the spread is assumed, as operations and runs are too few
    machine: NDArray[np.str_]
    by_machine: dict[str, BuildShifts]  # of machines with `FEWEST` operations or more
    comparison: Ints  # row of the comparison, ascending
    n_comparisons: int

    @classmethod
    def of_singles(cls, sides: Sides, assumed: float = ASSUMED) -> RunShifts:
        """Return the shifts of each comparison by itself; see `single_shifts`."""
        shifts, spread, is_assumed = single_shifts(sides, assumed)
        unknown, machine = np.full(len(spread), np.nan), np.full(len(spread), "")
        return cls(shifts, unknown, spread, is_assumed, machine, {}, sides.comparison, sides.n_comparisons)

    @classmethod
    def from_sides(cls, sides: Sides, machines: Sequence[str], assumed: float) -> RunShifts:
        """Return the shifts of each machine separately; see `build_shifts` and `single_shifts`.

        `machines`: one per comparison. `assumed`: between-run standard deviation, as a share, where it cannot
        be estimated.
        """
        machine = np.array(machines, str)[sides.comparison]
        own, by_machine = np.full((4, len(machine)), np.nan), dict[str, BuildShifts]()
        (together, spread), is_assumed = np.full((2, len(machine)), np.nan), np.zeros(len(machine), bool)
        for name in dict.fromkeys(machine.tolist()):
            rows = np.flatnonzero(machine == name)
            chosen = select_configurations(sides, rows)
            if len(np.unique(chosen.comparison)) < FEWEST:
                shifts, spread[rows], is_assumed[rows] = single_shifts(chosen, assumed)
                own[:, rows] = np.array(shifts)
                continue
            build = by_machine[name] = build_shifts(RunLevels.from_sides(chosen), assumed)
            own[:, rows], spread[rows] = np.array(build.own), build.run_spread
            together[rows] = build.removed
        return cls(
            Shifts(*own),
            together,
            spread,
            is_assumed,
            machine,
            by_machine,
            sides.comparison,
            sides.n_comparisons,
        )

    def is_beyond(self, sign: float) -> NDArray[np.bool_]:
        """Return which comparisons moved in the direction of `sign` (-1: worse) by more than variation.

        Shape (n_comparisons,). The false discovery rate over all comparisons is limited; see
        `FALSE_DISCOVERY_RATE`.
        """
        p, adjusted = self._p_values(sign)
        whole = np.zeros(self.n_comparisons, bool)
        whole[self.comparison[self._whole_run_beyond(sign, LEVEL_WHOLE)]] = True
        return np.asarray((adjusted <= FALSE_DISCOVERY_RATE) & (p <= LEVEL)) | whole

    def _p_values(self, sign: float) -> tuple[Floats, Floats]:
        """Return the p-value of each comparison, of its clearest configuration, and the adjusted ones."""
        own = self.own
        with np.errstate(invalid="ignore", divide="ignore"):
            p = np.nan_to_num(stdtr(own.freedom, -sign * own.value / own.error), nan=1.0)
        by_comparison = np.ones(self.n_comparisons)
        numbers = np.bincount(self.comparison, minlength=self.n_comparisons)
        np.minimum.at(by_comparison, self.comparison, p)
        by_comparison = np.minimum(by_comparison * np.maximum(numbers, 1), 1.0)
        if not self.by_machine:
            # comparisons by themselves do not depend on those that are judged with them
            return by_comparison, by_comparison
        tested, adjusted = numbers > 0, np.ones(self.n_comparisons)
        adjusted[tested] = _adjust_discoveries(by_comparison[tested] / self._tolerance)
        return by_comparison, adjusted

    def regression_probability(self, low: float, high: float) -> Floats:
        """Return the probability that each comparison is worse, shape (n_comparisons,).

        It is at least `high` where `is_beyond`, from `low` to `high` where otherwise `is_doubted`, and below
        `low` elsewhere; it grows with the shift.
        """
        _, adjusted = self._p_values(-1.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            errors = np.nan_to_num(-self.own.value / self.own.usual_error)
        largest = np.zeros(self.n_comparisons)
        np.maximum.at(largest, self.comparison, errors)
        below = low * np.clip(largest / DOUBTED, 0, _ALMOST)
        between = low + (high - low) * np.clip(1 - DOUBTED / np.maximum(largest, DOUBTED), 0, _ALMOST)
        above = high + (1 - high) * np.clip(1 - adjusted / FALSE_DISCOVERY_RATE, 0, 1)
        return np.select([self.is_beyond(-1.0), self.is_doubted()], [above, between], below)

    @property
    def _tolerance(self) -> float:
        """Factor by which the false discovery rate may be larger.

        It is with few operations, and where all share an estimated error, which makes their false alarms
        occur together, in fewer builds.
        """
        builds = self.by_machine.values()
        numbers = [len(build.run_spread) for build in builds if build.evidence == "operations"]
        is_shared = len(numbers) == len(np.unique(self.machine)) > 0
        few = 1 + _FEW_ALARMS / max(self.n_comparisons, 1) if self.by_machine else 1.0
        return few * (1 + _SHARED_ERROR / max(numbers)) if is_shared else few

    def is_doubted(self) -> NDArray[np.bool_]:
        """Return which comparisons may be worse, shape (n_comparisons,): by `DOUBTED` errors or more."""
        with np.errstate(invalid="ignore", divide="ignore"):
            rows = self.own.value / self.own.usual_error < -DOUBTED
        doubted = np.zeros(self.n_comparisons, bool)
        doubted[self.comparison[rows | self._whole_run_beyond(-1.0, LEVEL)]] = True
        return doubted

    def deciding_rows(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which comparisons the shifts decide, and in which they only may doubt a fail.

        Shape (n_comparisons,). They decide where a machine has `FEWEST` operations or more. They may doubt
        where fewer are compared and the runs are too few to show their variation.
        """
        n = self.n_comparisons
        is_build = np.isin(self.machine, [*self.by_machine])
        unknown = np.bincount(self.comparison[np.isnan(self.own.value)], minlength=n) > 0
        decided = np.bincount(self.comparison[is_build], minlength=n) > 0
        assumed = np.bincount(self.comparison[self.is_assumed], minlength=n) > 0
        return decided & ~unknown, assumed & ~unknown

    def _whole_run_beyond(self, sign: float, level: float) -> NDArray[np.bool_]:
        """Return the configurations whose whole run moved by more than runs do."""
        beyond = np.zeros(len(self.machine), bool)
        for name, build in self.by_machine.items():
            whole = build.whole
            p = stdtr(whole.freedom, -sign * whole.value / np.maximum(whole.error, _TINY))
            beyond[self.machine == name] = bool(p[0] <= level)
        return beyond

    @property
    def interval(self) -> tuple[Floats, Floats]:
        """Lower and upper limits of the shifts, including the whole run's, at a confidence of 95 %."""
        value = self.own.value + np.nan_to_num(self.together)
        half = stdtrit(self.own.freedom, 0.975) * self.own.error
        low, high = (np.clip(limit, -_FARTHEST, _FARTHEST) for limit in (value - half, value + half))
        return low, high

    @cached_property
    def detectable(self) -> Floats:
        """The smallest slow-down that is found with a probability of 80 %, as a share."""
        number = max(self.n_comparisons, 1) if self.by_machine else 1
        level = min(LEVEL, FALSE_DISCOVERY_RATE * self._tolerance / number)
        errors = stdtrit(self.own.freedom, 1 - level) + _POWER
        return np.expm1(np.minimum(errors * self.own.error, _FARTHEST))


#: Largest logarithm of a ratio that is reported: a billion.
_FARTHEST = float(np.log(1e9))
#: Largest part of a range of probabilities that does not reach the next one.
_ALMOST = 0.999
#: See `RunShifts._tolerance`: calibrated by simulation with 5 to 500 operations.
_SHARED_ERROR = 40.0


def _adjust_discoveries(p: Floats) -> Floats:
    """Return adjusted p-values (Benjamini and Hochberg 1995), of the shape of `p`."""
    order = np.argsort(p)
    adjusted = np.empty(len(p))
    steps = p[order] * len(p) / np.arange(1, len(p) + 1)
    adjusted[order] = np.minimum.accumulate(steps[::-1])[::-1]
    return adjusted
