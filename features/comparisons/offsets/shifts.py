"""A target's shift against what runs differ by anyway: of the whole run, and of every operation in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints, Sides
from features.comparisons.offsets.levels import RunLevels, count, mean
from features.comparisons.offsets.spreads import ENOUGH, Variance, between_operations, between_runs

#: Runs of one build scatter by this share (a standard deviation), where nothing tells.
ASSUMED = 0.03
#: So seldom is a comparison without change beyond what runs differ by, and a whole run, of all operations.
LEVEL, LEVEL_WHOLE = 0.006, 0.002

#: Few operations make a limit at most so many times what it would be without them.
_AT_MOST = 2.0

#: What tells by how much runs differ.
Known = Literal["runs", "operations", "assumed"]


@dataclass(frozen=True)
class RunShift:
    """Shifts, and how large they are without a change; as logarithms, negative is worse.

    Attributes
    ----------
    value, limit : ndarray
        What lies within the limit, in either direction, runs of one build differ by.
    known : Known
    """

    value: Floats
    limit: Floats
    known: Known

    @property
    def beyond(self) -> Ints:
        """-1 where the target is worse by more than runs differ by, 1 where it is better by more, else 0."""
        return np.where(np.abs(self.value) > self.limit, np.sign(self.value), 0.0).astype(np.int64)


@dataclass(frozen=True)
class Offsets:
    """What two runs, or several a side, differ by.

    Attributes
    ----------
    whole : RunShift or None
        Of the whole run, of one value; None where too few operations tell.
    own : RunShift
        Of every configuration beside that, shape (n_configurations,).
    """

    whole: RunShift | None
    own: RunShift


def offsets(sides: Sides, assumed: float = ASSUMED) -> Offsets:
    """Divide what the targets moved by into what their run has in common, and what is their own.

    A run's common part is the middle one of its operations. What is usual is told by earlier runs and by
    several runs a side (`ENOUGH` degrees of freedom); where there are too few, by the operations of this
    very pair, most of which did not change; and where these are too few, too, it is assumed. Less than
    enough knowledge can only make it larger.

    Parameters
    ----------
    sides : Sides
        Of one baseline and one target, runs as versions.
    assumed : float
        The standard deviation of a run's level, as a share.

    Returns
    -------
    Offsets
        With limits that a comparison without change is beyond with a probability of `LEVEL`, whatever the
        number of its configurations, and a run with one of `LEVEL_WHOLE`.
    """
    levels = RunLevels.of(sides)
    own = levels.own()
    level = LEVEL / sides.per_comparison[sides.comparison]
    return Offsets(_whole(levels, assumed), _own(own, assumed, level))


def _whole(levels: RunLevels, assumed: float) -> RunShift | None:
    if levels.common is None:
        return None
    history, baseline, target = (moved[:, None] for moved in levels.common)
    told = between_runs(history, baseline, target)
    variance = _measured_or(told, assumed)
    value, runs = _shift(history, baseline, target, variance)
    limit = _quantile(told.freedom, np.array([LEVEL_WHOLE])) * np.sqrt(variance * runs)
    return RunShift(value, limit, "runs" if told.freedom[0] >= ENOUGH else "assumed")


def _own(levels: RunLevels, assumed: float, level: Floats) -> RunShift:
    told = between_runs(*levels.parts).with_others()
    measured = told.freedom >= ENOUGH
    variance = _measured_or(told, assumed)
    value, runs = _shift(*levels.parts, variance)
    limit2 = _quantile(told.freedom, level) ** 2 * (variance * runs + levels.noise)
    alike = between_operations(levels.per_operation(value))
    if not np.isfinite(levels.history).any():
        # runs of two builds don't show what builds differ by
        noisier = np.maximum(levels.noise - np.median(levels.noise), 0.0)
        limit2 = _beside(limit2, alike, level, measured, noisier)
    by_operations = alike.freedom[0] >= ENOUGH
    known: Known = "runs" if measured.all() else "operations" if by_operations else "assumed"
    return RunShift(value, np.sqrt(limit2), known)


def _measured_or(told: Variance, assumed: float) -> Floats:
    """Return what is told where that is enough, else at least what is assumed."""
    least = np.where(told.freedom >= ENOUGH, 0.0, assumed**2)
    return np.maximum(told.value, least)


def _beside(
    limit2: Floats, alike: Variance, level: Floats, measured: NDArray[np.bool_], noisier: Floats
) -> Floats:
    """Let the operations of the pair tell where runs don't, and nothing be less than they tell.

    What is `noisier` than most differs by more than most.
    """
    of_pair = _quantile(alike.freedom, level) ** 2 * (alike.value + noisier)
    if alike.freedom[0] < ENOUGH:
        # of few operations most may have changed
        return np.maximum(limit2, np.minimum(of_pair, _AT_MOST**2 * limit2))
    return np.where(measured, np.maximum(limit2, of_pair), of_pair)


def _shift(history: Floats, baseline: Floats, target: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return how far the target lies from what was before, and by how many runs that scatters.

    Earlier runs count where the baseline lies on their level.
    """
    n_history, n_baseline, n_target = count(history), count(baseline), count(target)
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.abs(mean(history) - mean(baseline))
        usual = _quantile(np.zeros(1), np.array([LEVEL])) * np.sqrt(
            variance * (1 / n_history + 1 / n_baseline)
        )
        same = np.where(apart <= usual, n_history, 0.0)
        before = n_baseline + same
        earlier = np.where(same > 0, mean(history), 0.0)
        level = (n_baseline * mean(baseline) + same * earlier) / before
        return mean(target) - level, 1 / before + 1 / n_target


def _quantile(freedom: Floats, level: Floats) -> Floats:
    """Return how many standard errors are beyond chance: of Student's t where the variance is measured."""
    from scipy.special import ndtri, stdtrit

    student = stdtrit(np.maximum(freedom, ENOUGH), 1 - level)
    return np.where(freedom >= ENOUGH, student, ndtri(1 - level))
