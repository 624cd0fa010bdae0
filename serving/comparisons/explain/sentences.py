"""Measured facts as sentences; which of them are told, and in what order, the model's contributions say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import groupby, pairwise
from math import isnan, nan
from operator import itemgetter
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from data.comparisons.pair import counted
from data.comparisons.sides import Floats, Ints, Samples, Sides
from data.comparisons.units import Unit, is_told
from features.comparisons.summaries import oriented, rank_test, superiority
from features.comparisons.vectors import PreparedComparisons
from serving.comparisons.explain.features import Fact, percent

#: The interquartile range of a normal distribution in standard deviations.
_IQR = 1.349
#: Fewer steps between builds don't say what is usual.
_FEWEST_STEPS = 2
#: Fewer builds have no trend.
_FEWEST_FOR_TREND = 6


class Past(NamedTuple):
    """What builds did before the target."""

    steps: int  # how many steps between neighbouring builds are known before the target
    usual: float  # the middle one, as a share
    larger: int  # how many of them were at least as large as the step from the baseline to the target
    #: builds, as_bad: how many builds are known before the target, and how many of them were at least as bad
    builds: int
    as_bad: int
    trend: float  # by how much the last third of them lies above the first, as a share; NaN if there are few
    earlier: int  # how many of the builds lie before the baseline

    @classmethod
    def of(cls, sides: Sides, at: int, change: float) -> Self:
        """Look at one configuration, whose median moved by `change`."""
        earlier = [*_version_medians(sides.history, sides, at)]
        past = [*earlier, *_version_medians(sides.baseline, sides, at)]
        after = _middle([*_version_medians(sides.target, sides, at)])
        steps = [abs((later - before) / before) for before, later in pairwise(past)]
        return cls(
            len(steps),
            _middle(steps) if len(steps) >= _FEWEST_STEPS else nan,
            sum(step >= abs(change) for step in steps),
            len(past),
            sum(level <= after for level in past),
            _builds_trend(past) if len(past) >= _FEWEST_FOR_TREND else nan,
            len(earlier),
        )


class Later(NamedTuple):
    """What builds did after the target."""

    builds: int = 0  # how many are known
    change: float = nan  # the middle one against the baseline's median, as a share; negative is worse

    @classmethod
    def of(cls, sides: Sides, at: int, baseline: float) -> Self:
        """Look at one configuration with later versions, whose baseline has this median."""
        levels = [level for level in _version_medians(sides.later, sides, at) if level * sides.sign[at] > 0]
        return cls(len(levels), (_middle(levels) - baseline) / abs(baseline))


class Facts(NamedTuple):
    """What is measured of one comparison, in the configuration that moved most towards worse."""

    threads: int
    sign: float  # -1 where lower is better
    configurations: int  # configurations, worse: how many the comparison has, and how many of them got worse
    worse: int
    change: float  # the target's median against the baseline's, as a share; negative is worse
    n_baseline: int  # n_baseline, n_target: Samples; 0 where only five numbers are known
    n_target: int
    #: the gap between the sides as a share of the baseline's median: below 0 where all of the target is worse
    #: than all of the baseline, above 0 where all is better, 0 where they overlap
    apart: float
    superior: float  # the share of pairs in which the target's sample is the better one
    #: noise_baseline, noise_target: the spread of either side (from its quartiles, as a standard deviation),
    #: as a share of its median
    noise_baseline: float
    noise_target: float
    low: float  # low, high: the change of the worst and of the best sample, as a share of the baseline's
    high: float
    past: Past
    later: Later = Later()

    @classmethod
    def of(cls, asked: PreparedComparisons, row: int) -> Self:
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


def measured(asked: PreparedComparisons, rows: Ints) -> list[Measured]:
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


def _version_medians(samples: Samples, sides: Sides, at: int) -> Iterator[float]:
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


def _builds_trend(past: list[float]) -> float:
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


#: Facts beside shift and yardstick that speak for the verdict, and against it.
_FOR, _AGAINST = 2, 1
#: Which way a sentence speaks: for a regression, against one, or neither.
_WORSE, _BETTER, _NEITHER = 1, -1, 0
#: A change of so many spreads of the samples, or usual differences of builds, stands out.
_STANDS_OUT = 2.0
#: What contributes less than this share of the strongest fact is not told.
_LEAST = 0.05
#: Spreads that differ by less are alike.
_ALIKE = 1.5
#: A shorter trend is none.
_FLAT = 0.002
#: So few samples a side are told as few.
_FEW = 4


class FactInWords(NamedTuple):
    """A measured fact in words."""

    words: str
    #: one of 1, 0, -1, whether the fact speaks for a regression, neither for nor against it, or against it
    towards: int


class UsualSpread(NamedTuple):
    """How much worse medians got in the training data where people saw no regression, as shares."""

    usual: float  # usual, most: what half of them stay below, and what 19 of 20 do
    most: float


def sentences(
    facts: Facts,
    direction: Direction,
    answer: str | None,
    leaning: Iterable[tuple[Fact, float]],
    prior: UsualSpread | None,
) -> tuple[str, ...]:
    """Say what a verdict rests on.

    `answer`: one of "pass", "unsure", "fail", the verdict; None: the facts speak for nothing, and are listed.
    `leaning`: the facts that the model leans on, the strongest first; positive towards ``fail``. Which way a
    fact speaks is measured: a model may take "in 88 % of all pairs slower" for less than a regression shows.
    `prior`: the yardstick where nothing is known of other builds.
    Returns: the shift, the yardstick, what else speaks for the verdict, and what speaks against it.
    """
    verdict = {"pass": _BETTER, None: _NEITHER}.get(answer, _WORSE)
    speaking = _speaking(facts, direction, verdict, leaning)
    return tuple(filter(None, (_shift(facts, direction), _yardstick(facts, prior), *speaking)))


def _speaking(
    facts: Facts, direction: Direction, verdict: int, leaning: Iterable[tuple[Fact, float]]
) -> list[str]:
    """Say what speaks for a verdict (towards a regression or not), and then what speaks against it."""
    speaks, against, least = list[str](), list[str](), 0.0
    for fact, weight in leaning:
        size = abs(weight)
        least = least or _LEAST * size
        if size <= least or (len(speaks) == _FOR and len(against) == _AGAINST):
            break
        told = _FACTS_IN_WORDS[fact](facts, direction) if fact in _FACTS_IN_WORDS else None
        if told is None:
            continue
        if verdict and told.towards == -verdict:
            against = against or [f"{_AGAINST_WORDS[verdict]}: {told.words}"]
        elif len(speaks) < _FOR and (not verdict or told.towards == verdict or weight * verdict > 0):
            speaks.append(told.words)
    return speaks + against


_AGAINST_WORDS = {_WORSE: "against a regression", _BETTER: "for a regression"}


def shifted(change: float, direction: Direction) -> str:
    """Say how far a median moved, such as ``7.1 % slower``."""
    return (
        f"{percent(abs(change))} {direction.worse if change < 0 else direction.better}"
        if change
        else "unchanged"
    )


def flip_told(change: float, failed: bool, direction: Direction) -> str:
    """Say from which change of the median on the verdict is the other one."""
    told, were = (
        shifted(change, direction),
        "if the median were" if direction.compares or not change else "with",
    )
    if failed:
        least = "" if not change else "at most " if change < 0 else "at least "
        return f"would pass {were} {least}{told}"
    return f"would fail from {told} on" if change else f"would fail {were} {told}"


def _shift(facts: Facts, direction: Direction) -> str:
    told = f"median {shifted(facts.change, direction)}"
    if facts.configurations == 1:
        return told
    worse = f"{facts.worse} of {facts.configurations} configurations got worse"
    return f"{told} at {counted(facts.threads, 'thread')}; {worse}"


def _yardstick(facts: Facts, prior: UsualSpread | None) -> str:
    """Say against what the shift is held: other builds, or else what is usual in the training data."""
    if facts.past.usual == facts.past.usual:
        of = (
            f"{counted(facts.past.earlier, 'earlier build')}"
            if facts.past.earlier
            else f"{facts.past.builds} builds of the baseline"
        )
        return f"builds of this operation usually differ by {percent(facts.past.usual)} ({of})"
    if prior is None:
        return ""
    return (
        "nothing is known of other builds of this operation; medians of the training data got worse by "
        f"{percent(prior.usual)} without a regression, 19 of 20 by less than {percent(prior.most)}"
    )


def _separation(facts: Facts, direction: Direction) -> FactInWords | None:
    if facts.apart and facts.n_baseline and facts.n_target:
        word = direction.sample_worse if facts.apart < 0 else direction.sample_better
        target, verb = _all(facts.n_target, "target")
        words = f"{target} {verb} {word} than {_all(facts.n_baseline, 'baseline')[0]}"
        return FactInWords(words, _WORSE if facts.apart < 0 else _BETTER)
    worse = 1 - facts.superior
    if not 0 <= worse <= 1:
        return None
    words = f"in {percent(worse)} of all pairs the target's sample is {direction.sample_worse}"
    return FactInWords(words, _sign(facts.superior - worse))


def _all(number: int, side: str) -> tuple[str, str]:
    return (f"the one {side} sample", "is") if number == 1 else (f"all {number} {side} samples", "are")


def _sign(change: float) -> int:
    """Return which way a change speaks that is negative where it is for the worse."""
    return _WORSE if change < 0 else _BETTER if change > 0 else _NEITHER


def _beside(change: float, usual: float) -> int:
    """Return which way a change speaks beside what is usual."""
    if abs(change) < usual:
        return _BETTER
    return _sign(change) if abs(change) > _STANDS_OUT * usual else _NEITHER


def _scatter(facts: Facts, _direction: Direction) -> FactInWords:
    words = (
        f"samples scatter by {percent(facts.noise_baseline)} in the baseline"
        f" and {percent(facts.noise_target)} in the target"
    )
    return FactInWords(words, _beside(facts.change, max(facts.noise_baseline, facts.noise_target)))


def _spread(facts: Facts, _direction: Direction) -> FactInWords:
    before, after = facts.noise_baseline, facts.noise_target
    if before <= 0 or after <= 0 or 1 / _ALIKE < after / before < _ALIKE:
        return FactInWords("target and baseline scatter alike", _NEITHER)
    if after > before:
        return FactInWords(f"the target scatters {after / before:.1f} times as much as the baseline", _BETTER)
    return FactInWords(f"the baseline scatters {before / after:.1f} times as much as the target", _NEITHER)


def _edges(facts: Facts, direction: Direction) -> FactInWords:
    best, worst = (shifted(change, direction) for change in (facts.high, facts.low))
    both = _sign(facts.high), _sign(facts.low)
    towards = both[0] if both[0] == both[1] else _NEITHER
    return FactInWords(f"best against best sample {best}, worst against worst {worst}", towards)


def _repetitions(facts: Facts, _direction: Direction) -> FactInWords:
    fewer = min(facts.n_baseline, facts.n_target)
    if not fewer:
        return FactInWords("only five numbers a side are known, no samples", _BETTER)
    few = fewer < _FEW
    words = f"{'only ' if few else ''}{counted(fewer, 'sample')} a side"
    return FactInWords(words, _BETTER if few else _NEITHER)


def _builds(facts: Facts, _direction: Direction) -> FactInWords | None:
    """Say how large the shift is in usual differences."""
    if not facts.past.usual > 0:
        return None
    times = abs(facts.change) / facts.past.usual
    words = f"the change is {times:.1f} times the usual difference"
    return FactInWords(words, _beside(facts.change, facts.past.usual))


def _steps(facts: Facts, _direction: Direction) -> FactInWords | None:
    past = facts.past
    if not past.steps:
        return None
    many = f"{past.larger} were" if past.larger > 1 else f"{past.larger or 'none'} was"
    words = f"of {counted(past.steps, 'step')} between earlier builds {many} as large"
    return FactInWords(words, _rarely(past.larger, past.steps, facts.change))


def _levels(facts: Facts, direction: Direction) -> FactInWords | None:
    past = facts.past
    if past.builds < _FEWEST_BUILDS:
        return None
    many = f"{past.as_bad} were" if past.as_bad > 1 else f"{past.as_bad or 'none'} was"
    words = f"of {past.builds} builds before the target {many} as {_POSITIVE[direction.sample_worse]}"
    return FactInWords(words, _rarely(past.as_bad, past.builds, facts.change))


def _rarely(often: int, of: int, change: float) -> int:
    """Return which way a change speaks that was seen so often before: not at all it stands out, else not."""
    if often:
        return _BETTER if often > of / 2 else _NEITHER
    return _sign(change)


#: Fewer builds say nothing of levels.
_FEWEST_BUILDS = 3
_POSITIVE = {"slower": "slow", "lower": "low", "higher": "high", "worse": "bad"}


def _trend(facts: Facts, direction: Direction) -> FactInWords | None:
    trend = facts.past.trend
    if isnan(trend):
        return None
    if abs(trend) <= _FLAT:
        return FactInWords("the builds before show no trend", _NEITHER)
    word = direction.worse if trend < 0 else direction.better
    return FactInWords(f"the builds before had moved by {percent(abs(trend))} already ({word})", _NEITHER)


def _later(facts: Facts, direction: Direction) -> FactInWords | None:
    if not facts.later.builds:
        return None
    known, change = counted(facts.later.builds, "build"), facts.later.change
    words = f"the median of what came after the target is {shifted(change, direction)} ({known})"
    return FactInWords(words, _sign(change) or _BETTER)


#: Shift and yardstick are always told.
_FACTS_IN_WORDS: dict[Fact, Callable[[Facts, Direction], FactInWords | None]] = {
    "separation": _separation,
    "scatter": _scatter,
    "spread": _spread,
    "edges": _edges,
    "repetitions": _repetitions,
    "builds": _builds,
    "steps": _steps,
    "levels": _levels,
    "trend": _trend,
    "later": _later,
}
