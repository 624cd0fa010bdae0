"""The run, not only its repetitions: a step against what two runs of the same build differ by."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Sides
from features.comparisons.ranks import Moments, moments
from features.comparisons.summaries import NOISE_FLOOR, first, last, mean, quantile, spread, total_of

#: Runs of one build scatter by this share of their level (a standard deviation), where nothing tells more:
#: two of them differ by 1 %.
ORDINARY = 0.007
#: What is known beforehand counts as so many versions.
PRIOR_VERSIONS = 3.0
#: Versions looked at: the last ones of history and baseline, the first ones of the target.
_PAST, _AFTER = 30, 10
#: A step between two versions counts as at most so many times the ordinary one: it may be a change.
_ORDINARY_STEPS = 3.0
#: The median of the size of a normal value.
_MAD = 0.6745

RUNS = ("run_step", "run_spread")
RUNS_DIRECTIONS = {"run_step": -1, "run_spread": 0}


#: What is known beforehand lies between these, whatever the versions of the training data did: a slow-down of
#: 7 % with tight samples stays plain where nothing else is known.
_LEAST_PRIOR, _MOST_PRIOR = 0.002, 0.007
#: By how much, in what two runs differ by, a step against all runs may exceed that against the last ones.
_LATELY = 1.5
#: A single run that is worse by less than this, in its own error, differs as runs do: of 100 runs of one
#: build against 8 to 30 earlier ones, about one is worse by more.
_SIGNIFICANT = 2.9
#: Fewer versions tell nothing of what is usual.
_ENOUGH = 5


class Yardstick(NamedTuple):
    """What runs of every configuration differ by, and how many versions told so.

    Attributes
    ----------
    spread : ndarray of shape (n_configurations,)
        The standard deviation of one run, as a share of the level.
    versions : ndarray of shape (n_configurations,)
        Of history and baseline; where there is only one, `spread` is what was known beforehand.
    """

    spread: Floats
    versions: Floats


class Steps(NamedTuple):
    """The step of every configuration, as a share of its level; negative is worse.

    Attributes
    ----------
    step, error : ndarray of shape (n_configurations,)
    repeated : ndarray of shape (n_configurations,)
        How many repetitions of the target say no more than one, since they share their run (the design effect
        of clustered samples; Kish 1965, section 5.4).
    runs : ndarray of shape (n_configurations,)
        How many versions the target is.
    yardstick : Yardstick
    """

    step: Floats
    error: Floats
    repeated: Floats
    runs: Floats
    yardstick: Yardstick


def run_features(steps: Steps) -> Floats:
    """Measure the step by the error that repetitions and runs together leave it.

    Returns
    -------
    ndarray of shape (len(RUNS), n_configurations)
    """
    return np.array((steps.step / steps.error, np.log(steps.yardstick.spread)))


def known_spreads(sides: Sides) -> Floats:
    """Return what runs of one build differ by, of each configuration that tells; no label is looked at."""
    yardstick = run_steps(sides).yardstick
    return yardstick.spread[yardstick.versions >= _ENOUGH]


def usual_spread(known: Floats) -> float:
    """Return the middle of what `known_spreads` says; `ORDINARY` where nothing is known."""
    if not len(known):
        return ORDINARY
    return float(np.clip(np.median(known), _LEAST_PRIOR, _MOST_PRIOR))


def within_runs(sides: Sides, steps: Steps) -> NDArray[np.bool_]:
    """Tell where the target is a single run that is not worse by more than runs of its operation differ by.

    Returns
    -------
    ndarray of shape (n_configurations,)
        False where there are too few earlier runs to tell, and where the target is several.
    """
    sampled = (sides.history.lengths > 0) & (sides.target.lengths > 0)
    told = sampled & (steps.yardstick.versions >= _ENOUGH) & (steps.runs == 1)
    return np.asarray(told & (steps.step > -_SIGNIFICANT * steps.error))


def run_steps(sides: Sides, prior: float = ORDINARY) -> Steps:
    """Compare the target with the level of all earlier runs, or with the only one."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return _run_steps(sides.normalized, prior)


def _run_steps(sides: Sides, prior: float) -> Steps:
    size = np.abs(sides.baseline_five[:, 2])
    step, error2 = _of_repetitions(sides, size)
    yardstick, n_past, n_after, long_step = _of_runs(sides, size, prior)
    # a target that is hardly worse than the last runs is no step, whatever was before them
    lately = step - _LATELY * yardstick.spread * np.sqrt(1 / n_after + 1)
    step = np.where(n_past > 1, np.fmax(long_step, lately), step)
    unknown = PRIOR_VERSIONS / (PRIOR_VERSIONS + yardstick.versions - 1)
    runs2 = yardstick.spread**2 * (1 / n_after + 1 / n_past)
    noise2 = (spread(sides.baseline_five) / size) ** 2
    each = sides.target.lengths / n_after
    shared = yardstick.spread**2 / (yardstick.spread**2 + noise2)
    repeated = 1 + np.maximum(each - 1, 0.0) * shared
    return Steps(step, np.sqrt(runs2 + unknown * error2), repeated, n_after, yardstick)


def _of_repetitions(sides: Sides, size: Floats) -> tuple[Floats, Floats]:
    """Return the lesser of what medians and means moved, and the square of its standard error."""
    b5, t5 = sides.baseline_five, sides.target_five
    baseline, target = moments(sides.pooled).halves()
    medians = sides.sign * (t5[:, 2] - b5[:, 2])
    means = sides.sign * (target.mean - baseline.mean)
    step = np.fmax(medians, means) / size
    n_b, n_t = _counts(baseline), _counts(target)
    degrees = np.maximum(n_b + n_t - 2, 3.0)
    error2 = _variance(b5, baseline) / n_b + _variance(t5, target) / n_t
    return step, error2 * (degrees / (degrees - 2)) ** 2 / size**2


def _counts(known: Moments) -> Floats:
    return np.where(known.n > 0, known.n, 5).astype(np.float64)


def _variance(five: Floats, known: Moments) -> Floats:
    return np.asarray(np.fmax(spread(five) ** 2, known.variance))


def _of_runs(sides: Sides, size: Floats, prior: float) -> tuple[Yardstick, Floats, Floats, Floats]:
    sign = sides.sign[:, None] / size[:, None]
    b = sign * last(sides.baseline.levels, _PAST)
    t = sign * first(sides.target.levels, _AFTER)
    h = sign * last(sides.history.levels, _PAST)
    past = np.hstack([h, b])
    n_past = np.maximum(np.isfinite(past).sum(axis=1), 1).astype(np.float64)
    n_after = np.maximum(np.isfinite(t).sum(axis=1), 1).astype(np.float64)
    order = np.argsort(np.isfinite(past), axis=1, kind="stable")
    packed = np.take_along_axis(past, order, axis=1)[:, -_PAST:]
    steps = np.abs(np.diff(packed, axis=1))
    usual = quantile(steps, 0.5) / _MAD
    bound = _ORDINARY_STEPS * np.fmax(usual, NOISE_FLOOR)[:, None]
    squares = np.where(np.isfinite(steps), np.minimum(steps, bound) ** 2, 0.0)
    pairs = np.isfinite(steps).sum(axis=1)
    spread2 = (PRIOR_VERSIONS * prior**2 + total_of(squares) / 2) / (PRIOR_VERSIONS + pairs)
    # `features.comparisons.outliers` has left out a run far outside all others; a mean bounded further, or a
    # median, ranks the failures of other data worse
    level = mean(packed)
    return Yardstick(np.sqrt(spread2), n_past), np.minimum(n_past, _PAST), n_after, mean(t) - level
