"""Measured facts as sentences; which of them are told, and in what order, the model's contributions say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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


class Prior(NamedTuple):
    """How much medians differ in the training data where people saw no regression, as shares.

    Attributes
    ----------
    usual, most : float
        What half of them stay below, and what 19 of 20 do.
    """

    usual: float
    most: float


def sentences(
    facts: Facts, direction: Direction, leaning: Sequence[tuple[Fact, float]], prior: Prior | None
) -> tuple[str, ...]:
    """Say what a verdict rests on.

    Parameters
    ----------
    facts : Facts
    direction : Direction
    leaning : sequence of (Fact, float)
        The facts that the model leans on, the strongest first; positive speaks for the verdict.
    prior : Prior or None
        The yardstick where nothing is known of other builds.

    Returns
    -------
    tuple of str
        The shift, the yardstick, what else speaks for the verdict, and what speaks against it.
    """
    told = [_shift(facts, direction), _yardstick(facts, prior)]
    least = _LEAST * max((abs(weight) for _, weight in leaning), default=0.0)
    speaking = [
        (weight > 0, said)
        for fact, weight in leaning
        if abs(weight) > least and (tell := _TELLS.get(fact)) and (said := tell(facts, direction))
    ]
    told += [said for speaks_for, said in speaking if speaks_for][:_FOR]
    told += [f"against it: {said}" for speaks_for, said in speaking if not speaks_for][:_AGAINST]
    return tuple(filter(None, told))


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


def _yardstick(facts: Facts, prior: Prior | None) -> str:
    """Say against what the shift is held: other builds, or else what is usual in the training data."""
    if facts.usual == facts.usual:
        of = (
            f"{counted(facts.earlier, 'earlier build')}"
            if facts.earlier
            else f"{facts.builds} builds of the baseline"
        )
        return f"builds of this operation usually differ by {percent(facts.usual)} ({of})"
    if prior is None:
        return ""
    return (
        "nothing is known of other builds of this operation; in the training data medians differ by "
        f"{percent(prior.usual)} without a regression, 19 of 20 by less than {percent(prior.most)}"
    )


def _separation(facts: Facts, direction: Direction) -> str:
    if facts.apart and facts.n_baseline and facts.n_target:
        word = direction.sample_worse if facts.apart < 0 else direction.sample_better
        target, verb = _all(facts.n_target, "target")
        return f"{target} {verb} {word} than {_all(facts.n_baseline, 'baseline')[0]}"
    worse = 1 - facts.superior
    if worse != worse:  # noqa: PLR0124 - unknown
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
    if not facts.usual > 0:
        return ""
    return f"the change is {abs(facts.change) / facts.usual:.1f} times the usual difference"


def _steps(facts: Facts, direction: Direction) -> str:
    del direction
    if not facts.steps:
        return ""
    many = f"{facts.larger} were" if facts.larger > 1 else f"{facts.larger or 'none'} was"
    return f"of {counted(facts.steps, 'step')} between earlier builds {many} as large"


def _levels(facts: Facts, direction: Direction) -> str:
    if facts.builds < _FEWEST_BUILDS:
        return ""
    many = f"{facts.as_bad} were" if facts.as_bad > 1 else f"{facts.as_bad or 'none'} was"
    return f"of {facts.builds} builds before the target {many} as {_POSITIVE[direction.sample_worse]}"


#: Fewer builds say nothing of levels.
_FEWEST_BUILDS = 3
_POSITIVE = {"slower": "slow", "lower": "low", "higher": "high", "worse": "bad"}


def _trend(facts: Facts, direction: Direction) -> str:
    if not abs(facts.trend) > _FLAT:
        return "" if facts.trend != facts.trend else "the builds before show no trend"
    word = direction.worse if facts.trend < 0 else direction.better
    return f"the builds before had moved by {percent(abs(facts.trend))} already ({word})"


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
}


def facts_told(facts: Facts, direction: Direction) -> Iterator[str]:
    """Yield every sentence that the facts allow."""
    yield _shift(facts, direction)
    yield from filter(None, (tell(facts, direction) for tell in _TELLS.values()))
