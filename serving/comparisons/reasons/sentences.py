"""Measured facts as sentences; which of them are told, and in what order, the model's contributions say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from data.comparisons.missing import counted
from serving.comparisons.reasons.directions import Direction
from serving.comparisons.reasons.facts import Facts
from serving.comparisons.reasons.features import Fact, percent

#: Facts beside shift and yardstick that speak for the verdict, and against it.
_FOR, _AGAINST = 2, 1
#: What contributes less than this share of the strongest fact is not told.
_LEAST = 0.05
#: Spreads that differ by less are alike.
_ALIKE = 1.5
#: A shorter trend is none.
_FLAT = 0.002
#: So few samples a side are told as few.
_FEW = 4


class UsualSpread(NamedTuple):
    """How much worse medians got in the training data where people saw no regression, as shares.

    Attributes
    ----------
    usual, most : float
        What half of them stay below, and what 19 of 20 do.
    """

    usual: float
    most: float


def sentences(
    facts: Facts, direction: Direction, leaning: Iterable[tuple[Fact, float]], prior: UsualSpread | None
) -> tuple[str, ...]:
    """Say what a verdict rests on.

    Parameters
    ----------
    facts : Facts
    direction : Direction
    leaning : iterable of (Fact, float)
        The facts that the model leans on, the strongest first; positive speaks for the verdict.
    prior : UsualSpread or None
        The yardstick where nothing is known of other builds.

    Returns
    -------
    tuple of str
        The shift, the yardstick, what else speaks for the verdict, and what speaks against it.
    """
    speaking = _speaking(facts, direction, leaning)
    return tuple(filter(None, (_shift(facts, direction), _yardstick(facts, prior), *speaking)))


def _speaking(facts: Facts, direction: Direction, leaning: Iterable[tuple[Fact, float]]) -> list[str]:
    """Say what speaks for the verdict, and then what speaks against it."""
    speaks, against, least = list[str](), list[str](), 0.0
    for fact, weight in leaning:
        size = abs(weight)
        least = least or _LEAST * size
        if size <= least or (len(speaks) == _FOR and len(against) == _AGAINST):
            break
        own, room = (speaks, _FOR) if weight > 0 else (against, _AGAINST)
        if len(own) < room and fact in _TELLS and (told := _TELLS[fact](facts, direction)):
            own.append(told)
    return speaks + [f"against it: {said}" for said in against]


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


def _separation(facts: Facts, direction: Direction) -> str:
    if facts.apart and facts.n_baseline and facts.n_target:
        word = direction.sample_worse if facts.apart < 0 else direction.sample_better
        target, verb = _all(facts.n_target, "target")
        return f"{target} {verb} {word} than {_all(facts.n_baseline, 'baseline')[0]}"
    worse = 1 - facts.superior
    if not 0 <= worse <= 1:
        return ""
    return f"in {percent(worse)} of all pairs the target's sample is {direction.sample_worse}"


def _all(number: int, side: str) -> tuple[str, str]:
    return (f"the one {side} sample", "is") if number == 1 else (f"all {number} {side} samples", "are")


def _scatter(facts: Facts, direction: Direction) -> str:
    del direction
    return (
        f"samples scatter by {percent(facts.noise_baseline)} in the baseline"
        f" and {percent(facts.noise_target)} in the target"
    )


def _spread(facts: Facts, direction: Direction) -> str:
    del direction
    before, after = facts.noise_baseline, facts.noise_target
    if before <= 0 or after <= 0 or 1 / _ALIKE < after / before < _ALIKE:
        return "target and baseline scatter alike"
    if after > before:
        return f"the target scatters {after / before:.1f} times as much as the baseline"
    return f"the baseline scatters {before / after:.1f} times as much as the target"


def _edges(facts: Facts, direction: Direction) -> str:
    best, worst = (shifted(change, direction) for change in (facts.high, facts.low))
    return f"best against best sample {best}, worst against worst {worst}"


def _repetitions(facts: Facts, direction: Direction) -> str:
    del direction
    fewer = min(facts.n_baseline, facts.n_target)
    if not fewer:
        return "only five numbers a side are known, no samples"
    return f"{'only ' if fewer < _FEW else ''}{counted(fewer, 'sample')} a side"


def _builds(facts: Facts, direction: Direction) -> str:
    """Say how large the shift is in usual differences."""
    del direction
    if not facts.past.usual > 0:
        return ""
    return f"the change is {abs(facts.change) / facts.past.usual:.1f} times the usual difference"


def _steps(facts: Facts, direction: Direction) -> str:
    del direction
    if not facts.past.steps:
        return ""
    many = f"{facts.past.larger} were" if facts.past.larger > 1 else f"{facts.past.larger or 'none'} was"
    return f"of {counted(facts.past.steps, 'step')} between earlier builds {many} as large"


def _levels(facts: Facts, direction: Direction) -> str:
    if facts.past.builds < _FEWEST_BUILDS:
        return ""
    many = f"{facts.past.as_bad} were" if facts.past.as_bad > 1 else f"{facts.past.as_bad or 'none'} was"
    return f"of {facts.past.builds} builds before the target {many} as {_POSITIVE[direction.sample_worse]}"


#: Fewer builds say nothing of levels.
_FEWEST_BUILDS = 3
_POSITIVE = {"slower": "slow", "lower": "low", "higher": "high", "worse": "bad"}


def _trend(facts: Facts, direction: Direction) -> str:
    if not abs(facts.past.trend) > _FLAT:
        return "" if facts.past.trend != facts.past.trend else "the builds before show no trend"
    word = direction.worse if facts.past.trend < 0 else direction.better
    return f"the builds before had moved by {percent(abs(facts.past.trend))} already ({word})"


def _later(facts: Facts, direction: Direction) -> str:
    if not facts.later.builds:
        return ""
    known = counted(facts.later.builds, "build")
    return f"the median of what came after the target is {shifted(facts.later.change, direction)} ({known})"


#: Shift and yardstick are always told.
_TELLS: dict[Fact, Callable[[Facts, Direction], str]] = {
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
