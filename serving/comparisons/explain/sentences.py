"""Measured facts as sentences; which of them are told, and in what order, the model's contributions say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isnan
from typing import NamedTuple

from data.comparisons.pair import counted
from serving.comparisons.explain.facts import Direction, Facts
from serving.comparisons.explain.features import Fact, percent

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
    """A measured fact in words.

    Attributes
    ----------
    words : str
    towards : {1, 0, -1}
        Whether the fact speaks for a regression, neither for nor against it, or against it.
    """

    words: str
    towards: int


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
    facts: Facts,
    direction: Direction,
    answer: str | None,
    leaning: Iterable[tuple[Fact, float]],
    prior: UsualSpread | None,
) -> tuple[str, ...]:
    """Say what a verdict rests on.

    Parameters
    ----------
    facts : Facts
    direction : Direction
    answer : {"pass", "unsure", "fail"} or None
        The verdict; None: the facts speak for nothing, and are listed.
    leaning : iterable of (Fact, float)
        The facts that the model leans on, the strongest first; positive towards ``fail``. Which way a fact
        speaks is measured: a model may take "in 88 % of all pairs slower" for less than a regression shows.
    prior : UsualSpread or None
        The yardstick where nothing is known of other builds.

    Returns
    -------
    tuple of str
        The shift, the yardstick, what else speaks for the verdict, and what speaks against it.
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


def _scatter(facts: Facts, direction: Direction) -> FactInWords:
    del direction
    words = (
        f"samples scatter by {percent(facts.noise_baseline)} in the baseline"
        f" and {percent(facts.noise_target)} in the target"
    )
    return FactInWords(words, _beside(facts.change, max(facts.noise_baseline, facts.noise_target)))


def _spread(facts: Facts, direction: Direction) -> FactInWords:
    del direction
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


def _repetitions(facts: Facts, direction: Direction) -> FactInWords:
    del direction
    fewer = min(facts.n_baseline, facts.n_target)
    if not fewer:
        return FactInWords("only five numbers a side are known, no samples", _BETTER)
    few = fewer < _FEW
    words = f"{'only ' if few else ''}{counted(fewer, 'sample')} a side"
    return FactInWords(words, _BETTER if few else _NEITHER)


def _builds(facts: Facts, direction: Direction) -> FactInWords | None:
    """Say how large the shift is in usual differences."""
    del direction
    if not facts.past.usual > 0:
        return None
    times = abs(facts.change) / facts.past.usual
    words = f"the change is {times:.1f} times the usual difference"
    return FactInWords(words, _beside(facts.change, facts.past.usual))


def _steps(facts: Facts, direction: Direction) -> FactInWords | None:
    del direction
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
