"""What is measured of a comparison, for sentences: of the configuration that moved most towards worse.

Plain Python: of one comparison, a few dozen numbers, that is quicker than NumPy.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from math import nan
from operator import itemgetter
from typing import NamedTuple, Self

import numpy as np

from data.comparisons.sides import Samples, Sides
from features.comparisons.asked import Asked
from features.comparisons.five_numbers import superiority

#: The interquartile range of a normal distribution in standard deviations.
_IQR = 1.349
#: Fewer steps between builds don't say what is usual.
_FEWEST_STEPS = 2
#: Fewer builds have no trend.
_FEWEST_BUILDS = 6


class Past(NamedTuple):
    """What builds did before the target.

    Attributes
    ----------
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

    steps: int
    usual: float
    larger: int
    builds: int
    as_bad: int
    trend: float
    earlier: int

    @classmethod
    def of(cls, sides: Sides, at: int, change: float) -> Self:
        """Look at one configuration, whose median moved by `change`."""
        if not sides.history.lengths[at] and _is_one(sides.baseline, at):
            return cls(0, nan, 0, 0, 0, nan, 0)
        earlier = [*_levels(sides.history, sides, at)]
        past = [*earlier, *_levels(sides.baseline, sides, at)]
        after = _middle([*_levels(sides.target, sides, at)])
        steps = [abs((later - before) / before) for before, later in pairwise(past)]
        return cls(
            len(steps),
            _middle(steps) if len(steps) >= _FEWEST_STEPS else nan,
            sum(step >= abs(change) for step in steps),
            len(past),
            sum(level <= after for level in past),
            _trend(past) if len(past) >= _FEWEST_BUILDS else nan,
            len(earlier),
        )


class Later(NamedTuple):
    """What builds did after the target.

    Attributes
    ----------
    builds : int
        How many are known.
    change : float
        The middle one against the baseline's median, as a share; negative is worse.
    """

    builds: int = 0
    change: float = nan

    @classmethod
    def of(cls, sides: Sides, at: int, baseline: float) -> Self:
        """Look at one configuration, whose baseline has this median."""
        if not sides.later.lengths[at]:
            return cls()
        levels = [level for level in _levels(sides.later, sides, at) if level * sides.sign[at] > 0]
        return cls(len(levels), (_middle(levels) - baseline) / abs(baseline))


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
    past : Past
    later : Later
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
    past: Past
    later: Later = Later()

    @classmethod
    def of(cls, asked: Asked, row: int, first: int) -> Self:
        """Measure one comparison that can be judged.

        Parameters
        ----------
        asked : Asked
        row : int
            Which of its comparisons.
        first : int
            Its first configuration.
        """
        sides, at = asked.sides, int(asked.worst[row])
        many, sign, change = int(sides.per_comparison[row]), float(sides.sign[at]), float(asked.change[at])
        both = (sides.baseline_five[at].tolist(), sides.target_five[at].tolist())
        b, t = both if sign > 0 else ([-value for value in reversed(five)] for five in both)
        samples = sides.baseline.at(at).tolist(), sides.target.at(at).tolist()
        apart = (min(t[4] - b[0], 0.0) + max(t[0] - b[4], 0.0)) / abs(b[2])
        return cls(
            int(sides.threads[at]),
            sign,
            many,
            1 if many == 1 else int(np.count_nonzero(asked.change[first : first + many] < 0)),
            change,
            len(samples[0]),
            len(samples[1]),
            apart,
            float(apart > 0) if apart else _superiority(*samples, sign, (b, t)),
            (b[3] - b[1]) / _IQR / abs(b[2]),
            (t[3] - t[1]) / _IQR / abs(t[2]),
            (t[0] - b[0]) / abs(b[0]),
            (t[4] - b[4]) / abs(b[4]),
            Past.of(sides, at, change),
            Later.of(sides, at, b[2]),
        )


def _superiority(
    baseline: list[float], target: list[float], sign: float, five: tuple[Sequence[float], Sequence[float]]
) -> float:
    """Return the share of pairs in which the target is better, from five numbers if there are no samples."""
    if not baseline or not target:
        before, after = (np.array([numbers]) for numbers in five)
        # beyond what numbers can tell nothing is said
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return float(superiority(before, after)[0])
    ordered = sorted(baseline)
    below = sum(bisect_left(ordered, value) + bisect_right(ordered, value) for value in target)
    higher = below / 2 / (len(baseline) * len(target))
    return higher if sign > 0 else 1 - higher


def _is_one(samples: Samples, at: int) -> bool:
    """Whether a list holds one version, or none."""
    start, stop = samples.starts[at], samples.stops[at]
    return bool(start == stop or samples.orders[start] == samples.orders[stop - 1])


def _levels(samples: Samples, sides: Sides, at: int) -> Iterator[float]:
    """Yield the median of every version in one list, as if higher were better."""
    start, stop = samples.starts[at], samples.stops[at]
    values, orders = samples.values[start:stop].tolist(), samples.orders[start:stop].tolist()
    for _, version in groupby(zip(orders, values, strict=True), key=_ORDER):
        yield float(sides.sign[at]) * _middle([value for _, value in version])


_ORDER = itemgetter(0)


def _middle(values: list[float]) -> float:
    """Return the median; NaN of nothing."""
    ordered, half = sorted(values), len(values) // 2
    if not ordered:
        return nan
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _trend(past: list[float]) -> float:
    """Return by how much the last third of the builds lies above the first third, as a share of that."""
    third = len(past) // 3
    early, late = _middle(past[:third]), _middle(past[-third:])
    return (late - early) / abs(early)
