"""The shift of every operation between two builds, and its standard error, from all runs of a machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Sides, flatten_samples
from data.deferred import special
from features.comparisons.earlier_runs import (
    EarlierRuns,
    expected_levels,
    tail_freedom,
    without_outlying_runs,
)
from features.comparisons.run_levels import (
    CUT,
    FEW_RUNS,
    FEWEST,
    TINY,
    RunLevels,
    nan_mean,
    sample_variance,
    signed_logarithm,
)
from features.comparisons.summaries import MAD, hodges_lehmann

#: Between-run variation (standard deviation, as a share) assumed without evidence: the largest that a fail
#: has to exceed, and the usual one, below which a change is not doubted.
ASSUMED, ASSUMED_USUAL = 0.015, 0.007

#: Largest between-run variation of whole runs without evidence, in multiples of the assumed one.
_WHOLE_RUNS = 1.2

#: Least degrees of freedom of a measured variance that replaces the assumed one.
ENOUGH = 5.0

#: Larger improvements, as logarithms of ratios, are none by chance.
_IMPROVED = 0.3
#: Cut of Tukey's location, in standard deviations.
_BISQUARE = 4.7
#: Least standard deviation, as a share of the level; smaller ones are rounding errors.
_LEAST_SCALE = 1e-12
#: Degrees of freedom of an assumed variance.
_KNOWN = 1e6

#: Largest probability that an unchanged comparison is called worse, and that an unchanged whole run is.
LEVEL, LEVEL_WHOLE = 0.005, 0.0005
#: Evidence used to estimate between-run variation.
VariationEvidence = Literal["runs", "operations"]

#: Of fewer operations, most may have changed; they show at most this multiple of the assumed spread.
_MANY, _AT_MOST = 15, 2.0

#: Noise of samples beyond this multiple of the other operations' is added to an operation's variance.
_NOISY = 2.5

#: Mean square of normal values within the cut.
_WITHIN_CUT = 0.9733

#: Degrees of freedom of the scale of n values are this multiple of n - 1; calibrated by simulation.
_SCALE_FREEDOM = 1.44

#: Share of the values that must be within the cut of a known scale, otherwise it is too small.
_MOST_WITHIN = 0.7

#: Evidence (probability) needed to replace the runs' variance by that of the operations' shifts.
_REPLACED = 0.001

#: Standard errors that a shift exceeds which an earlier run had: doubted, not a fail.
_BARELY = 2.5

#: Noise of samples beyond this multiple of the usual one raises the variance between runs, by this share.
_NOISIER, _SHOWN = 2.0, 0.3

#: Least square of the shift of a clearly unusual whole run, relative to its variance.
_CLEARLY = 6.6


#: Largest logarithm of a ratio that is reported.
FARTHEST = 20.0
#: Smaller changes of a whole run are not mentioned.
QUIET = 0.005


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
    has_history: bool  # whether earlier runs contribute

    @property
    def whole_limit(self) -> float:
        """The shift that an unchanged whole run exceeds with a probability of `LEVEL_WHOLE`."""
        return float(-special.stdtrit(self.whole.freedom, LEVEL_WHOLE)[0] * self.whole.error[0])


def build_shifts(levels: RunLevels, assumed: float = ASSUMED) -> BuildShifts:
    """Return the shifts of all operations of one machine, and their errors without a change.

    ``own`` has NaN unless the target and the runs before it have a level; its ``usual_error`` is its
    ``error``. `levels` must have at least `FEWEST` (5) operations with a level on both sides; this is not
    checked. The shift shared by all operations is removed as far as it exceeds chance. With earlier runs, or
    several runs of a side, each operation's variance between runs is shrunk towards the others' (moderated t,
    Smyth 2004), and scaled if the shifts of the operations show that builds differ by more than runs
    (empirical null, Efron 2004); else it is estimated from these shifts alone. Both assume that most
    operations are unchanged. The level of a drifting history is that of its last runs or their trend; an
    outlying earlier run is left out. Where heavier tails than normal ones fit the runs or improvements
    better, the degrees of freedom are lowered. Where an earlier run had the shift, too, the error is raised,
    so that the shift is at most doubted.

    assumed: between-run standard deviation, as a share, of whole runs if there are at most three earlier
    runs; it also limits the estimate from fewer than 15 operations.
    """
    past, target, whole, removed, inflation = _remove_shared_shifts(levels, assumed)
    past, n_history = without_outlying_runs(past, len(levels.history))
    known = EarlierRuns.estimate(past, target, n_history)
    variance, freedom, noise = known.variance, known.freedom, levels.noise
    value, runs = known.level_shift(target)
    noisy = np.maximum(noise - _NOISY * np.median(noise), 0.0)
    evidence: VariationEvidence = "runs"
    # most of few operations may have changed, so that they do not show the variation of builds
    is_few, most = levels.n_operations < _MANY, 2 * (_AT_MOST * assumed) ** 2
    if freedom.any():
        error2 = np.maximum(variance * runs * inflation, np.minimum(noise, variance * runs + noisy))
        standardised = levels.per_operation(value / np.sqrt(np.maximum(error2, TINY)))
        limit = max(most / max(float(np.median(error2)), TINY), 1.0) if is_few else np.inf
        factor, freedom = _build_variation(standardised, freedom, known, limit)
        freedom = np.minimum(freedom, known.tail)
        error2, variance = error2 * factor, variance * factor
    else:
        evidence, freedom = "operations", np.full(len(value), _SCALE_FREEDOM * (levels.n_operations - 1))
        relative = _relative_variances(noise)
        common = robust_scale(levels.per_operation(value / np.sqrt(relative))) ** 2
        common = max(common, float(np.median(noise)), TINY)
        if is_few and common > most:
            common, freedom = most, np.full(len(value), _KNOWN)
        error2 = common * relative * inflation
        if not is_few:
            # slower operations may be regressions, and much faster ones improvements
            is_chance = (value > 0) & (value < _IMPROVED)
            standardised = np.where(is_chance, value / np.sqrt(error2), np.nan)
            freedom = np.minimum(freedom, tail_freedom(levels.per_operation(standardised)))
        variance = error2 / 2
    error = np.sqrt(error2)
    if known.n_history:
        # an earlier run had this shift without a change
        error = np.maximum(error, known.had_shift(value, len(target)) * np.abs(value) / _BARELY)
    own, has_history = Shifts(value, error, freedom, error), bool(known.n_history)
    return BuildShifts(own, whole, removed, np.sqrt(variance), evidence, has_history)


def single_shifts(sides: Sides, assumed: float = ASSUMED) -> tuple[Shifts, Floats, NDArray[np.bool_]]:
    """Return each configuration's shift, its between-run standard deviation, and whether that is assumed.

    Each configuration is estimated from its own samples only; the history counts as baseline. The standard
    deviation, a share, counts as assumed with fewer than `ENOUGH` (5) degrees of freedom: it is then at least
    `assumed`, but may be larger. Shift and deviation are NaN unless both sides have a level and the levels of
    all versions are positive. Arrays of shape (n_configurations,).
    """
    n = len(sides.sign)
    levels = sides.pooled_samples.followed_by(sides.history).reduce_versions(hodges_lehmann)
    owner, place = flatten_samples(levels)
    values = signed_logarithm(levels.values[place], sides.sign[owner % n])
    # history counts as baseline
    cells = owner % n + n * (owner // n == 1)
    columns = [np.bincount(cells, weights, 2 * n) for weights in (None, values, values**2)]
    sums, noise = np.array(columns, np.float64).reshape(3, 2, n).swapaxes(0, 1), np.zeros(n)
    for at, (_, side, five) in enumerate(sides.both_sides):
        number, total, squares = sums[at]
        stated = (number == 0).nonzero()[0]
        number[stated] = 1.0
        total[stated] = signed_logarithm(five[stated, 2], sides.sign[stated])
        squares[stated] = total[stated] ** 2
        noise += sample_variance(side, five)
    number, mean = sums[:, 0], sums[:, 1] / sums[:, 0]
    freedom = (number - 1).sum(axis=0)
    within = np.maximum(sums[:, 2] - number * mean**2, 0.0).sum(axis=0) / np.maximum(freedom, 1.0)
    runs, is_assumed = (1 / number).sum(axis=0), freedom < ENOUGH
    least = np.where(is_assumed, assumed**2, 0.0), np.where(is_assumed, min(assumed, ASSUMED_USUAL) ** 2, 0.0)
    variance, usual = (np.maximum(within, each) for each in least)
    error, usual_error = (np.sqrt(part * runs + noise) for part in (variance, usual))
    shifts = Shifts(mean[1] - mean[0], error, np.where(is_assumed, _KNOWN, freedom), usual_error)
    return shifts, np.sqrt(variance), is_assumed


def _iterate_scale(values: Floats, scale: float) -> float | None:
    """Return the scale of the values within `CUT` scales; None if too few are within."""
    for _ in range(15):
        inside = np.abs(values) < CUT * scale
        if inside.mean() < _MOST_WITHIN:
            return None
        scale = max(float(np.sqrt(np.mean(values[inside] ** 2) / _WITHIN_CUT)), np.finfo(float).tiny)
    return scale


def robust_scale(values: Floats, start: float | None = None) -> float:
    """Return the standard deviation around 0 of the finite `values` (at least one), robust to outliers.

    The result is 0 if more than half of the values are 0 (without `start`). Values beyond three standard
    deviations do not count; the others should be normally distributed. `start`: the expected scale, from
    which to iterate; it is ignored if fewer than 70 % of the values are within three scales in any iteration.
    """
    values = values[np.isfinite(values)]
    if start is not None and (scale := _iterate_scale(values, start)) is not None:
        return scale
    first = 1.1 * float(np.median(np.abs(values))) / MAD * (1 + 1 / len(values))
    return _iterate_scale(values, first) or first


def _relative_variances(noise: Floats) -> Floats:
    """Return the ratio of each operation's variance to the usual one, as far as that of samples shows it."""
    usual = float(np.median(noise))
    return 1 + _SHOWN * np.maximum(noise / usual - _NOISIER, 0) if usual else np.ones(len(noise))


def _build_variation(
    standardised: Floats, freedom: Floats, known: EarlierRuns, limit: float
) -> tuple[float, Floats]:
    """Return the factor, at most `limit`, from the variance of runs to that of builds; degrees of freedom."""
    squared = robust_scale(standardised, 1.0) ** 2
    if squared > limit:
        return limit, freedom
    of_shifts = 0.9 * (np.isfinite(standardised).sum() - 1)
    is_forecast = known.forecast is not None
    of_runs = float(np.median(freedom) if is_forecast else known.measured_freedom.sum())
    if not known.n_history:
        # runs of one side show less than builds
        of_runs = min(of_runs, 2 * of_shifts)
    if special.fdtrc(of_shifts, max(of_runs, 1.0), squared) < _REPLACED:
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
    n_past, enough = len(past), n_history > FEW_RUNS
    reference = expected_levels(past, len(levels.target)) if enough else nan_mean(levels.baseline)
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
    raw = np.zeros(len(runs))
    for at in np.flatnonzero(is_complete):
        raw[at] = _bisquare_location(runs[at], scales[at])
    chance = 1.1 * scales**2 / np.maximum(np.isfinite(runs).sum(axis=1), 1)
    squared, usual = raw**2, 0.0
    if enough:
        distances = np.abs(raw[:n_past] - np.median(raw[:n_past]))
        limited = np.minimum(distances, CUT * np.median(distances) / MAD)
        usual = max(float(np.mean(limited**2)) * n_past / (n_past - 1) - chance[0], 0.0)
        beyond = squared > _CLEARLY * (chance + usual)
        excess = np.where(beyond, np.maximum(squared - 2 * chance, 0.0), 0.0)
        kept = np.maximum(usual / (usual + chance), excess / (excess + chance))
    else:
        kept = np.maximum(1 - 2 * chance / np.maximum(squared, TINY), 0.0)
    shared = raw * kept
    moved = moved - shared[:, None]
    inflation = 1 + 1.1 * float(np.mean(kept[n_past:])) / levels.n_operations
    whole = _whole_shift(raw[:n_past], raw[n_past:], chance, n_history, None if enough else assumed)
    removed = float(np.mean(shared[n_past:]) - np.mean(shared[n_history:n_past]))
    return moved[:n_past], moved[n_past:], whole, removed, inflation


def _whole_shift(
    before: Floats, after: Floats, chance: Floats, n_history: int, assumed: float | None
) -> Shifts:
    """Return the shift of the target's runs as a whole; `assumed`: between-run spread without history."""
    known = EarlierRuns.estimate(before[:, None], after[:, None], n_history)
    value, runs = known.level_shift(after[:, None])
    if assumed is None:
        error = np.sqrt((known.variance + chance[-1]) * runs)
        return Shifts(value, error, known.freedom, error)
    error, usual = (np.sqrt((spread**2 + chance[-1:]) * runs) for spread in (_WHOLE_RUNS * assumed, assumed))
    return Shifts(value, error, np.full(1, _KNOWN), usual)


def share_of_baseline(shift: float, sign: float) -> float:
    """Return a shift as a share of the baseline (0.05 is 5 %), negative if the target is worse.

    `sign`: -1 if lower values are better, else 1. `shift` is `sign` times the natural logarithm of target /
    baseline, so it is negative, too, if the target is worse. Shifts below -20 or above 20 count as -20 or 20.
    """
    limited = np.clip(shift, -FARTHEST, FARTHEST)
    return float(-np.expm1(-limited) if sign < 0 else np.expm1(limited))
