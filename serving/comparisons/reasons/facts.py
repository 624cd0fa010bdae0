"""What is measured of comparisons, for sentences: of many at once, from the configuration that moved most."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from data.comparisons.sides import Floats, Ints, Samples
from features.comparisons.asked import Asked
from features.comparisons.five_numbers import oriented, superiority
from features.comparisons.ranks import rank_test
from features.comparisons.versions import first, last, levels, quantile
from serving.comparisons.reasons.flips import packed

#: Builds looked at.
_BUILDS = 40
#: The interquartile range of a normal distribution in standard deviations.
_IQR = 1.349
#: Fewer steps between builds don't say what is usual.
_FEWEST_STEPS = 2
#: Fewer builds have no trend.
_FEWEST_BUILDS = 6


class Facts(NamedTuple):
    """What is measured of one comparison, in the configuration that moved most towards worse.

    Attributes
    ----------
    threads : int
    sign : float
        -1 where lower is better.
    configurations, worse : int
        How many the comparison has, and how many of them got worse.
    change : float
        The target's median against the baseline's, as a share; negative is worse.
    n_baseline, n_target : int
        Samples; 0 where only five numbers are known.
    apart : float
        The gap between the sides as a share of the baseline's median: below 0 where all of the target is
        worse than all of the baseline, above 0 where all is better, 0 where they overlap.
    superior : float
        The share of pairs in which the target's sample is the better one.
    noise_baseline, noise_target : float
        The spread of either side (from its quartiles, as a standard deviation), as a share of its median.
    low, high : float
        The change of the worst and of the best sample, as a share of the baseline's.
    steps : int
        How many steps between neighbouring builds are known before the target.
    usual : float
        The middle one, as a share.
    larger : int
        How many of them were at least as large as the step from the baseline to the target.
    builds, as_bad : int
        How many builds are known before the target, and how many of them were at least as bad.
    trend : float
        By how much the last third of them lies above the first, as a share; NaN if there are few.
    earlier : int
        How many of the builds lie before the baseline.
    """

    threads: int
    sign: float
    configurations: int
    worse: int
    change: float
    n_baseline: int
    n_target: int
    apart: float
    superior: float
    noise_baseline: float
    noise_target: float
    low: float
    high: float
    steps: int
    usual: float
    larger: int
    builds: int
    as_bad: int
    trend: float
    earlier: int

    @classmethod
    def of(cls, asked: Asked, rows: Ints) -> list[Self]:
        """Measure comparisons that can be judged.

        Parameters
        ----------
        asked : Asked
        rows : ndarray of int
            Which of its comparisons; each has a configuration with both sides.
        """
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            columns = _columns(asked, rows)
        return [cls(*one) for one in zip(*(column.tolist() for column in columns), strict=True)]


def _columns(asked: Asked, rows: Ints) -> tuple[Floats | Ints, ...]:
    sides, at = asked.sides, asked.worst[rows]
    sign = sides.sign[at]
    b, t = oriented(np.array((sides.baseline_five[at], sides.target_five[at])), sign)
    size, target_size = np.abs(b[:, 2]), np.abs(t[:, 2])
    baseline, target = packed(sides.baseline.of(at)), packed(sides.target.of(at))
    moved = np.add.reduceat(asked.change < 0, _starts(asked)) if len(asked.change) else np.zeros(0, np.int64)
    of_samples = rank_test(baseline, target, sign).superiority
    return (
        sides.threads[at],
        sign,
        sides.per_comparison[rows],
        moved[_place(asked)[rows]],
        asked.change[at],
        baseline.lengths,
        target.lengths,
        (np.minimum(t[:, 4] - b[:, 0], 0.0) + np.maximum(t[:, 0] - b[:, 4], 0.0)) / size,
        np.where(np.isnan(of_samples), superiority(b, t), of_samples),
        (b[:, 3] - b[:, 1]) / _IQR / size,
        (t[:, 3] - t[:, 1]) / _IQR / target_size,
        (t[:, 0] - b[:, 0]) / np.abs(b[:, 0]),
        (t[:, 4] - b[:, 4]) / np.abs(b[:, 4]),
        *_of_builds(baseline, target, packed(sides.history.of(at)), sign, asked.change[at]),
    )


def _starts(asked: Asked) -> Ints:
    """Return where the configurations of each comparison that has any begin."""
    many = asked.sides.per_comparison
    return (many.cumsum() - many)[many > 0]


def _place(asked: Asked) -> Ints:
    """Return which of those every comparison is."""
    return np.asarray((asked.sides.per_comparison > 0).cumsum() - 1)


def _of_builds(
    baseline: Samples, target: Samples, history: Samples, sign: Floats, change: Floats
) -> tuple[Floats | Ints, ...]:
    """Return from `Facts.steps` to `Facts.earlier`."""
    earlier = last(levels(history), _BUILDS)
    past = np.hstack((earlier, first(levels(baseline), _BUILDS))) * sign[:, None]
    after = quantile(first(levels(target), _BUILDS) * sign[:, None], 0.5)
    jumps = np.abs(np.diff(past, axis=1) / past[:, :-1]) if past.shape[1] else past
    known = np.isfinite(past)
    builds, steps = known.sum(axis=1), np.isfinite(jumps).sum(axis=1)
    return (
        steps,
        np.where(steps >= _FEWEST_STEPS, quantile(jumps, 0.5), np.nan),
        (jumps >= np.abs(change)[:, None]).sum(axis=1),
        builds,
        (past <= after[:, None]).sum(axis=1),
        np.where(builds >= _FEWEST_BUILDS, _trend(past, known, builds), np.nan),
        np.isfinite(earlier).sum(axis=1),
    )


def _trend(past: Floats, known: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], builds: Ints) -> Floats:
    """Return by how much the last third of the builds lies above the first third, as a share of that."""
    share = known.cumsum(axis=1) / np.maximum(builds, 1)[:, None]
    early = quantile(np.where(known & (share <= 1 / 3), past, np.nan), 0.5)
    late = quantile(np.where(known & (share > 2 / 3), past, np.nan), 0.5)
    return (late - early) / np.abs(early)
