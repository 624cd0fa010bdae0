"""What is measured of a comparison, for sentences: of the configuration that moved most towards worse.

Of many at once, but for what builds did before: a few dozen numbers of one comparison, of which plain Python
is quicker than NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import groupby, pairwise
from math import nan
from operator import itemgetter
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints, Samples, Sides
from data.comparisons.units import Unit, is_told
from features.comparisons.prepared import Asked
from features.comparisons.summaries import oriented, rank_test, superiority

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
        """Look at one configuration with later versions, whose baseline has this median."""
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
    def of(cls, asked: Asked, row: int) -> Self:
        """Measure one comparison that can be judged."""
        return cls.told(asked.sides, measured(asked, np.array([row]))[0])

    @classmethod
    def told(cls, sides: Sides, found: Measured) -> Self:
        """Add to what was measured of a comparison what builds did before."""
        at, looks_back, *own = found
        own.append(Past.of(sides, at, own[4]) if looks_back else _NOTHING)
        if sides.later.lengths[at]:
            own.append(Later.of(sides, at, own[1] * float(sides.baseline_five[at, 2])))
        return cls(*own)


#: Of one comparison: its configuration, whether builds are known before, and then what `Facts` has but these.
Measured = tuple[Any, ...]
_NOTHING = Past(0, nan, 0, 0, 0, nan, 0)


def measured(asked: Asked, rows: Ints) -> list[Measured]:
    """Measure comparisons that can be judged, shape (n,): which ones."""
    sides, at = asked.sides.normalized, asked.worst[rows]
    sign, change = sides.sign[at], asked.change[at]
    both = sides.baseline.of(at), sides.target.of(at)
    # beyond what numbers can tell nothing is said
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        b, t = oriented(np.array((sides.baseline_five[at], sides.target_five[at])), sign)
        size = np.abs(b[:, 2])
        apart = (np.minimum(t[:, 4] - b[:, 0], 0.0) + np.maximum(t[:, 0] - b[:, 4], 0.0)) / size
        columns = (
            at,
            (sides.history.lengths[at] > 0) | _several(both[0]),
            sides.threads[at],
            sign,
            sides.per_comparison[rows],
            asked.worsened[rows],
            change,
            *(side.lengths for side in both),
            apart,
            _superior(*both, sign, (b, t), apart),
            (b[:, 3] - b[:, 1]) / _IQR / size,
            (t[:, 3] - t[:, 1]) / _IQR / np.abs(t[:, 2]),
            (t[:, 0] - b[:, 0]) / np.abs(b[:, 0]),
            (t[:, 4] - b[:, 4]) / np.abs(b[:, 4]),
        )
    return [*zip(*(column.tolist() for column in columns), strict=True)]


def _superior(
    baseline: Samples, target: Samples, sign: Floats, five: tuple[Floats, Floats], apart: Floats
) -> Floats:
    """Return the share of pairs in which the target is better, from five numbers if there are no samples."""
    found = (apart > 0).astype(np.float64)
    rows = np.flatnonzero(apart == 0)
    if len(rows):
        found[rows] = rank_test(baseline.of(rows), target.of(rows), sign[rows]).superiority
        given = rows[np.isnan(found[rows])]
        if len(given):
            found[given] = superiority(five[0][given], five[1][given])
    return found


def _several(samples: Samples) -> NDArray[np.bool_]:
    """Tell which lists hold more than one version."""
    found = np.zeros(len(samples.starts), bool)
    rows = np.flatnonzero(samples.lengths > 0)
    if len(rows) and len(samples.orders):
        found[rows] = samples.orders[samples.starts[rows]] != samples.orders[samples.stops[rows] - 1]
    return found


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
    return ordered[half] if len(values) % 2 else ordered[half - 1] / 2 + ordered[half] / 2


def _trend(past: list[float]) -> float:
    """Return by how much the last third of the builds lies above the first third, as a share of that."""
    third = len(past) // 3
    early, late = _middle(past[:third]), _middle(past[-third:])
    return (late - early) / abs(early)


class Direction(NamedTuple):
    """What is said of a change, and of samples, that are worse or better."""

    worse: str
    better: str
    sample_worse: str
    sample_better: str

    @property
    def compares(self) -> bool:
        """Whether a median may be called so, as in "were slower"; else it is "with less"."""
        return self.worse == self.sample_worse


_PLAIN = Direction("worse", "better", "worse", "better")
_TIME = Direction("slower", "faster", "slower", "faster")
_LOW = Direction("lower", "higher", "lower", "higher")
_HIGH = Direction("higher", "lower", "higher", "lower")


@cache
def direction(unit: str, sign: float) -> Direction:
    """Return the words for a unit, where `sign` is -1 if lower values are better.

    Examples
    --------
    >>> direction("ms", -1).worse, direction("ops/s", 1).worse, direction("MiB", -1).worse
    ('slower', 'less throughput', 'more memory')
    """
    if not is_told(unit):
        return _PLAIN
    kind, lower = Unit.of(unit).kind, sign < 0
    if lower and kind.split("/")[0] == "ps":
        return _TIME
    if not lower and kind.endswith("/ps"):
        return Direction("less throughput", "more throughput", *_LOW[:2])
    if lower and kind == "bit" and unit.casefold().endswith(("b", "byte", "bytes")):
        return Direction("more memory", "less memory", *_HIGH[:2])
    return _HIGH if lower else _LOW
