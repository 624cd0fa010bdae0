"""The reason of a verdict in one sentence, and measured facts as sentences, ordered by contributions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from itertools import pairwise, product
from math import isnan, nan
from typing import Any, NamedTuple, Self

import numpy as np

from data.comparisons.pair import number_with_noun
from data.comparisons.sides import Floats, Ints, Samples, Sides
from data.comparisons.units import Unit, is_known_unit
from features.comparisons.summaries import estimate_superiority, orient_upwards, rank_test
from features.comparisons.vectors import PreparedComparisons
from serving.comparisons.explain.features import Fact, percent

#: The interquartile range of a normal distribution in standard deviations.
_IQR = 1.349
#: Least number of builds to state a trend.
_FEWEST_FOR_TREND = 6


class EarlierBuilds(NamedTuple):
    """Builds before the target."""

    steps: int  # number of steps between neighbouring builds
    larger: int  # number of steps at least as large as the one from the baseline to the target
    builds: int  # number of builds before the target, including the baseline's
    as_bad: int  # number of builds at least as bad as the target
    trend: float  # change from the first to the last third of the builds, as a share; NaN if there are few
    earlier: int  # number of builds before the baseline

    @classmethod
    def from_sides(cls, sides: Sides, at: int, change: float) -> Self:
        """Return the measurements of builds before the target in configuration `at`.

        `change`: from the baseline's median to the target's, as a share.
        """
        earlier, baseline, target = (
            _version_medians(samples, sides, at) for samples in (sides.history, sides.baseline, sides.target)
        )
        past, after = earlier + baseline, _median(target)
        steps = [abs((later - before) / before) for before, later in pairwise(past)]
        trend = nan
        if len(past) >= _FEWEST_FOR_TREND:
            third = len(past) // 3
            early, late = _median(past[:third]), _median(past[-third:])
            trend = (late - early) / abs(early)
        larger = sum(step >= abs(change) for step in steps)
        as_bad = sum(level <= after for level in past)
        return cls(len(steps), larger, len(past), as_bad, trend, len(earlier))


class LaterBuilds(NamedTuple):
    """Builds after the target."""

    builds: int = 0
    change: float = nan  # their median against the baseline's, as a share; negative is worse

    @classmethod
    def from_sides(cls, sides: Sides, at: int, baseline: float) -> Self:
        """Return the number of builds after the target in configuration `at`, and the change of their median.

        `baseline`: the baseline's median, negated where lower is better. Medians below or at 0 are ignored.
        """
        levels = [level for level in _version_medians(sides.later, sides, at) if level * sides.sign[at] > 0]
        return cls(len(levels), (_median(levels) - baseline) / abs(baseline))


class UsualVariation(NamedTuple):
    """By how much two builds usually differ."""

    difference: float  # standard deviation of the difference of two builds, as a share
    is_measured: bool  # whether it is that of this operation, not that of the training data

    def in_words(self, *, short: bool = False) -> str:
        """Return a clause such as ``builds of this operation differ by 0.8 %``.

        `short`: without the words that tell whether it is measured.
        """
        subject = "builds of this operation" if self.is_measured and not short else "builds"
        adverb = "" if self.is_measured or short else "usually "
        return f"{subject} {adverb}differ by {percent(self.difference)}"


class DecisiveFacts(NamedTuple):
    """The numbers that a reason needs, of the configuration with the worst change."""

    change: float  # the target's median against the baseline's, as a share; negative is worse
    scatter: float  # standard deviation by the quartiles, a share, of the side with more scatter
    threads: int
    configurations: int  # number of configurations, and of those that got worse
    worse: int
    variation: UsualVariation


def decisive_facts(prepared: PreparedComparisons, rows: Ints) -> list[DecisiveFacts]:
    """Return the numbers that reasons need, for each of the comparisons `rows`; all must be valid.

    They are ``change, scatter, threads, configurations, worse, variation``: see `DecisiveFacts`.
    """
    sides, at = prepared.sides, prepared.worst[rows]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        fives = np.array((sides.baseline_five[at], sides.target_five[at]))
        scatter = ((fives[..., 3] - fives[..., 1]) / np.abs(fives[..., 2])).max(axis=0) / _IQR
    usual, counts = prepared.steps.yardstick, sides.per_comparison[rows]
    variations = map(UsualVariation, usual.usual_difference[at].tolist(), usual.is_measured[at].tolist())
    columns = prepared.change[at], scatter, sides.threads[at], counts, prepared.n_worsened[rows]
    return [*map(DecisiveFacts, *(column.tolist() for column in columns), variations)]


class Facts(NamedTuple):
    """Measurements of one comparison, in the configuration with the worst change."""

    decisive: DecisiveFacts
    sign: float  # -1 where lower is better
    n_baseline: int  # n_baseline, n_target: number of samples; 0 for summaries
    n_target: int
    #: the gap between the sides as a share of the baseline's median; negative: the whole target is worse,
    #: positive: the whole target is better, 0: the sides overlap
    gap: float
    superior: float  # share of pairs of samples with a better target
    #: noise_baseline, noise_target: standard deviation by the quartiles, as a share of the side's median
    noise_baseline: float
    noise_target: float
    low: float  # low, high: change of the worst and of the best sample, as a share of the baseline's
    high: float
    past: EarlierBuilds
    later: LaterBuilds = LaterBuilds()

    @classmethod
    def from_comparison(cls, prepared: PreparedComparisons, row: int) -> Self:
        """Return the measurements of comparison `row`, which must be valid."""
        return cls.from_measured(prepared.sides, measure_comparisons(prepared, np.array([row]))[0])

    @classmethod
    def from_measured(cls, sides: Sides, row: Measured) -> Self:
        """Return `row`, an item of the result of `measure_comparisons`, with other builds added."""
        decisive, at, looks_back, *values = row
        values.append(EarlierBuilds.from_sides(sides, at, decisive.change) if looks_back else _NO_PAST)
        if sides.later.lengths[at]:
            values.append(LaterBuilds.from_sides(sides, at, values[0] * float(sides.baseline_five[at, 2])))
        return cls(decisive, *values)


#: `Facts.decisive`, the index of the configuration, whether earlier builds are known, and the fields of
#: `Facts` from ``sign`` to ``high``.
Measured = tuple[Any, ...]
_NO_PAST = EarlierBuilds(0, 0, 0, 0, nan, 0)


def measure_comparisons(prepared: PreparedComparisons, rows: Ints) -> list[Measured]:
    """Return the measurements (`Measured`) of each of the comparisons `rows`; all must be valid.

    They describe the configuration with the worst change: a tuple of its `DecisiveFacts`, its index in
    ``prepared.sides``, whether earlier builds are known, and the fields of `Facts` from ``sign`` to ``high``.
    """
    sides, at = prepared.sides.overflow_safe, prepared.worst[rows]
    sign = sides.sign[at]
    baseline, target = sides.baseline.select_rows(at), sides.target.select_rows(at)
    sampled = np.flatnonzero(baseline.lengths > 0) if len(baseline.orders) else np.zeros(0, np.int64)
    looks_back = sides.history.lengths[at] > 0
    # baselines of several versions
    first, last = baseline.starts[sampled], baseline.stops[sampled] - 1
    looks_back[sampled] |= baseline.orders[first] != baseline.orders[last]
    # values that overflow are not mentioned
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        b, t = orient_upwards(np.array((sides.baseline_five[at], sides.target_five[at])), sign)
        gap = np.minimum(t[:, 4] - b[:, 0], 0.0) + np.maximum(t[:, 0] - b[:, 4], 0.0)
        gap /= np.abs(b[:, 2])
        superior = _superior_share(baseline, target, sign, (b, t), gap)
        noises = [(five[:, 3] - five[:, 1]) / _IQR / np.abs(five[:, 2]) for five in (b, t)]
        ends = [(t[:, end] - b[:, end]) / np.abs(b[:, end]) for end in (0, 4)]
    lengths = baseline.lengths, target.lengths
    columns = (at, looks_back, sign, *lengths, gap, superior, *noises, *ends)
    lists = (column.tolist() for column in columns)
    return [*zip(decisive_facts(prepared, rows), *lists, strict=True)]


def _superior_share(
    baseline: Samples, target: Samples, sign: Floats, five: tuple[Floats, Floats], gap: Floats
) -> Floats:
    """Return `Facts.superior`, estimated from five numbers without samples."""
    shares = (gap > 0).astype(np.float64)
    rows = np.flatnonzero(gap == 0)
    if len(rows):
        shares[rows] = rank_test(baseline.select_rows(rows), target.select_rows(rows), sign[rows]).superiority
        summaries = rows[np.isnan(shares[rows])]
        if len(summaries):
            shares[summaries] = estimate_superiority(five[0][summaries], five[1][summaries])
    return shares


def _version_medians(samples: Samples, sides: Sides, at: int) -> list[float]:
    """Return the median of every version in one list, negated where lower is better."""
    medians: list[float] = (sides.sign[at] * samples.version_medians.samples_of_row(at)).tolist()
    return medians


def _median(values: list[float]) -> float:
    """Return the median without overflow; NaN of an empty list."""
    ordered, half = sorted(values), len(values) // 2
    if not ordered:
        return nan
    return ordered[half] if len(values) % 2 else ordered[half - 1] / 2 + ordered[half] / 2


class Direction(NamedTuple):
    """Words for changes, and for samples, that are worse or better."""

    worse: str
    better: str
    sample_worse: str
    sample_better: str

    @property
    def is_comparative(self) -> bool:
        """Whether the words are comparatives, as in "were slower"; else they follow "with"."""
        return self.worse == self.sample_worse


_PLAIN = Direction("worse", "better", "worse", "better")
_TIME = Direction("slower", "faster", "slower", "faster")
_LOW = Direction("lower", "higher", "lower", "higher")
_HIGH = Direction("higher", "lower", "higher", "lower")


@cache
def direction_words(unit: str, sign: float) -> Direction:
    """Return the words for worse and better in a unit; `sign` is -1 if lower values are better, else 1.

    The fields are ``worse, better`` for changes, ``sample_worse, sample_better`` for samples. There are words
    for times, throughput and memory in their usual direction. Other units, and other directions, give
    "higher" and "lower", whichever is worse; a blank unit or "unknown" gives "worse" and "better".

    Examples
    --------
    >>> words = direction_words("ms", -1), direction_words("ops/s", 1), direction_words("MiB", -1)
    >>> [word.worse for word in words]
    ['slower', 'less throughput', 'more memory']
    """
    if not is_known_unit(unit):
        return _PLAIN
    kind, lower = Unit.from_text(unit).kind, sign < 0
    if lower and kind.split("/")[0] == "ps":
        return _TIME
    if not lower and kind.endswith("/ps"):
        return Direction("less throughput", "more throughput", *_LOW[:2])
    if lower and kind == "bit" and unit.casefold().endswith(("b", "byte", "bytes")):
        return Direction("more memory", "less memory", *_HIGH[:2])
    return _HIGH if lower else _LOW


#: Most words of a reason.
MOST_WORDS = 15
_UNLIKE = "unlike the training data"


def write_reason(
    facts: DecisiveFacts,
    direction: Direction,
    answer: str,
    below: float | None = None,
    *,
    out_of_distribution: bool = False,
) -> str:
    """Return the reason of a verdict as one sentence of at most `MOST_WORDS` (15) words.

    `answer`: the verdict. `below`: the minimum effect size, as a share, if it decided; else None. Only used
    for "pass". A larger change passed because the target is within the variation of earlier builds.
    `out_of_distribution`: mention, if there is room, that the comparison is unlike the training data.

    Examples
    --------
    >>> facts = DecisiveFacts(-0.079, 0.01, 8, 1, 1, UsualVariation(0.008, True))
    >>> write_reason(facts, direction_words("ms", -1), "fail")
    '7.9 % slower; builds of this operation differ by 0.8 %'
    >>> write_reason(facts._replace(change=-0.002), direction_words("ms", -1), "pass")
    '0.2 % slower, within the usual variation of 0.8 %'
    """
    head = describe_change(facts.change, direction)
    place = f" at {number_with_noun(facts.threads, 'thread')}" if facts.configurations > 1 else ""
    warning = f"; {_UNLIKE}" if out_of_distribution else ""
    # the most informative of the sentences that are short enough
    for ending, short, where in product((warning, ""), (False, True), (place, "")):
        words = f"{head}{where}{_decisive_clause(facts, answer, below, short=short)}{ending}"
        if words.count(" ") < MOST_WORDS:
            return words
    return head


def _decisive_clause(facts: DecisiveFacts, answer: str, below: float | None, *, short: bool) -> str:
    """Return what follows the change in a reason: what decided, or what the change is compared with."""
    size, variation = abs(facts.change), facts.variation
    if answer == "pass":
        limit = _limit_of_passing(facts, below)
        return f", not significant; {variation.in_words(short=short)}" if limit is None else limit
    if answer == "unsure" and size <= facts.scatter:
        return f"; samples scatter by {percent(facts.scatter)}"
    if answer == "fail" and facts.change >= 0:
        return "; other evidence speaks for a regression"
    if answer == "fail" and size <= variation.difference and facts.configurations > 1:
        return f"; {facts.worse} of {facts.configurations} configurations got worse"
    return f"; {variation.in_words(short=short)}"


def _limit_of_passing(facts: DecisiveFacts, below: float | None) -> str | None:
    """Return the clause with the limit that a passing change is within, empty for no change for the worse."""
    size, usual = abs(facts.change), facts.variation.difference
    if facts.change >= 0:
        return ""
    if below is not None and size <= below:
        return f", below the minimum effect size of {percent(below)}"
    if size <= usual:
        return f", within the usual variation of {percent(usual)}"
    if size <= facts.scatter:
        return f", within the samples' scatter of {percent(facts.scatter)}"
    # see `features.comparisons.history.within_runs`
    words = f", at the level of earlier builds; {facts.variation.in_words(short=True)}"
    return words if below is not None else None


#: Most sentences for the verdict and against it, after the change and the usual variation.
_FOR, _AGAINST = 2, 1
#: Values of the second part of `FactInWords`.
_WORSE, _BETTER, _NEITHER = 1, -1, 0
#: A change is notable from this multiple of the samples' spread or of the usual difference of builds on.
_NOTABLE = 2.0
#: Facts with a smaller share of the largest contribution are left out.
_LEAST_SHARE = 0.05
#: Spreads with a smaller ratio are called alike.
_ALIKE = 1.5
#: Smaller trends are called none.
_FLAT = 0.002
#: Fewer samples per side are called few.
_FEW = 4
#: Least number of builds to compare the target's level with.
_FEWEST_BUILDS = 3
_AGAINST_WORDS = {_WORSE: "against a regression", _BETTER: "for a regression"}
_POSITIVE = {"slower": "slow", "lower": "low", "higher": "high", "worse": "bad"}


#: A measured fact in words, and whether it is evidence for a regression (1), against it (-1), or neither (0).
FactInWords = tuple[str, int]


def write_sentences(
    facts: Facts, direction: Direction, answer: str | None, leaning: Iterable[tuple[Fact, float]]
) -> tuple[str, ...]:
    """Return the evidence in sentences: change, usual variation, facts for the verdict, facts against it.

    At most two facts are for it, and one against it.
    `answer`: the verdict; facts for ``unsure`` are those for a regression. None: list at most two facts
    without taking sides.
    `leaning`: pairs of a fact and the model's contribution by it, the strongest first; positive is towards
    ``fail``. Facts with at most 5 % of the strongest contribution are left out. A fact is for or against the
    verdict by its measured value. Only where that speaks for neither side, the sign of the contribution
    counts: such a fact is for the verdict, or is left out.
    """
    verdict = {"pass": _BETTER, None: _NEITHER}.get(answer, _WORSE)
    decisive = facts.decisive
    change = f"median {describe_change(decisive.change, direction)}"
    if decisive.configurations > 1:
        worse = f"{decisive.worse} of {decisive.configurations} configurations got worse"
        change = f"{change} at {number_with_noun(decisive.threads, 'thread')}; {worse}"
    supporting, against, least = list[str](), list[str](), 0.0
    for fact, weight in leaning:
        size = abs(weight)
        least = least or _LEAST_SHARE * size
        if size <= least or (len(supporting) == _FOR and len(against) == _AGAINST):
            break
        in_words = _FACTS_IN_WORDS[fact](facts, direction) if fact in _FACTS_IN_WORDS else None
        if in_words is None:
            continue
        words, towards = in_words
        if verdict and towards == -verdict:
            against = against or [f"{_AGAINST_WORDS[verdict]}: {words}"]
        elif len(supporting) < _FOR and (not verdict or towards == verdict or weight * verdict > 0):
            supporting.append(words)
    return (change, _describe_variation(facts), *supporting, *against)


def describe_change(change: float, direction: Direction) -> str:
    """Return a change, a share, in words: -0.071 as ``7.1 % slower``; negative is worse, 0 ``unchanged``.

    The number is written as by `percent`.
    """
    if not change:
        return "unchanged"
    return f"{percent(abs(change))} {direction.worse if change < 0 else direction.better}"


def describe_counterfactual(change: float, failed: bool, direction: Direction) -> str:
    """Return a counterfactual in words, such as ``would pass if the median were at most 2.0 % slower``.

    `change` is the change of the median, as a share of the baseline's median, from which the verdict would be
    another; negative is worse. If `failed`, the verdict is ``fail`` and would become ``pass``, as above (``at
    least`` for a positive change). Any other verdict would become ``fail``: ``would fail from 2.0 % slower
    on``. A change of 0 gives ``if the median were unchanged``. If the words of `direction` are no
    comparatives, "if the median were" is replaced by "with": ``would pass with at most 2.0 % more memory``.
    """
    words = describe_change(change, direction)
    were = "if the median were" if direction.is_comparative or not change else "with"
    if failed:
        least = "" if not change else "at most " if change < 0 else "at least "
        return f"would pass {were} {least}{words}"
    return f"would fail from {words} on" if change else f"would fail {were} {words}"


def _describe_variation(facts: Facts) -> str:
    variation, past = facts.decisive.variation, facts.past
    words = variation.in_words()
    if not variation.is_measured:
        return f"few builds of this operation are known; {words}"
    if past.earlier:
        return f"{words} ({number_with_noun(past.earlier, 'earlier build')})"
    return f"{words} ({past.builds} builds of the baseline)"


def _describe_separation(facts: Facts, direction: Direction) -> FactInWords | None:
    if facts.gap and facts.n_baseline and facts.n_target:
        word = direction.sample_worse if facts.gap < 0 else direction.sample_better
        verb = "is" if facts.n_target == 1 else "are"
        target, baseline = _all_samples(facts.n_target, "target"), _all_samples(facts.n_baseline, "baseline")
        return f"{target} {verb} {word} than {baseline}", _evidence_sign(facts.gap)
    worse = 1 - facts.superior
    if not 0 <= worse <= 1:
        return None
    words = f"in {percent(worse)} of all pairs of samples, the target sample is {direction.sample_worse}"
    return words, _evidence_sign(facts.superior - worse)


def _all_samples(number: int, side: str) -> str:
    return f"the one {side} sample" if number == 1 else f"all {number} {side} samples"


def _evidence_sign(change: float) -> int:
    return _WORSE if change < 0 else _BETTER if change > 0 else _NEITHER


def _sign_against(change: float, usual: float) -> int:
    if abs(change) < usual:
        return _BETTER
    return _evidence_sign(change) if abs(change) > _NOTABLE * usual else _NEITHER


def _sign_of_rarity(count: int, total: int, change: float) -> int:
    """Return the evidence of a change that was seen `count` times in `total` builds or steps before."""
    if count:
        return _BETTER if count > total / 2 else _NEITHER
    return _evidence_sign(change)


def _describe_scatter(facts: Facts, _direction: Direction) -> FactInWords:
    before, after = facts.noise_baseline, facts.noise_target
    words = f"samples scatter by {percent(before)} in the baseline and {percent(after)} in the target"
    return words, _sign_against(facts.decisive.change, max(before, after))


def _describe_spread(facts: Facts, _direction: Direction) -> FactInWords:
    before, after = facts.noise_baseline, facts.noise_target
    if before <= 0 or after <= 0 or 1 / _ALIKE < after / before < _ALIKE:
        return "target and baseline scatter alike", _NEITHER
    if after > before:
        return f"the target scatters {after / before:.1f} times as much as the baseline", _BETTER
    return f"the baseline scatters {before / after:.1f} times as much as the target", _NEITHER


def _describe_edges(facts: Facts, direction: Direction) -> FactInWords:
    best, worst = (describe_change(change, direction) for change in (facts.high, facts.low))
    towards = {_evidence_sign(facts.high), _evidence_sign(facts.low)}
    words = f"best against best sample {best}, worst against worst {worst}"
    return words, towards.pop() if len(towards) == 1 else _NEITHER


def _describe_repetitions(facts: Facts, _direction: Direction) -> FactInWords:
    fewer = min(facts.n_baseline, facts.n_target)
    if not fewer:
        return "only five numbers a side are known, no samples", _NEITHER
    samples = f"{number_with_noun(fewer, 'sample')} a side"
    return f"only {samples}" if fewer < _FEW else samples, _NEITHER


def _describe_builds(facts: Facts, _direction: Direction) -> FactInWords | None:
    change, variation = facts.decisive.change, facts.decisive.variation
    if not variation.is_measured:
        return None
    words = f"the change is {abs(change) / variation.difference:.1f} times the usual difference"
    return words, _sign_against(change, variation.difference)


def _describe_steps(facts: Facts, _direction: Direction) -> FactInWords | None:
    past = facts.past
    if not past.steps:
        return None
    steps = f"{number_with_noun(past.steps, 'step')} between earlier builds"
    words = f"of {steps} {_count_with_verb(past.larger)} as large"
    return words, _sign_of_rarity(past.larger, past.steps, facts.decisive.change)


def _describe_levels(facts: Facts, direction: Direction) -> FactInWords | None:
    past = facts.past
    if past.builds < _FEWEST_BUILDS:
        return None
    adjective = _POSITIVE[direction.sample_worse]
    words = f"of {past.builds} builds before the target {_count_with_verb(past.as_bad)} as {adjective}"
    return words, _sign_of_rarity(past.as_bad, past.builds, facts.decisive.change)


def _count_with_verb(count: int) -> str:
    return f"{count} were" if count > 1 else f"{count or 'none'} was"


def _describe_trend(facts: Facts, direction: Direction) -> FactInWords | None:
    trend = facts.past.trend
    if isnan(trend):
        return None
    if abs(trend) <= _FLAT:
        return "the builds before show no trend", _NEITHER
    word = direction.worse if trend < 0 else direction.better
    return f"the builds before had moved by {percent(abs(trend))} already ({word})", _NEITHER


def _describe_later(facts: Facts, direction: Direction) -> FactInWords | None:
    if not facts.later.builds:
        return None
    builds, change = number_with_noun(facts.later.builds, "build"), facts.later.change
    words = f"the median of what came after the target is {describe_change(change, direction)} ({builds})"
    return words, _evidence_sign(change) or _BETTER


#: The fact "shift" is part of every verdict's first sentence.
_FACTS_IN_WORDS: dict[Fact, Callable[[Facts, Direction], FactInWords | None]] = {
    "separation": _describe_separation,
    "scatter": _describe_scatter,
    "spread": _describe_spread,
    "edges": _describe_edges,
    "repetitions": _describe_repetitions,
    "builds": _describe_builds,
    "steps": _describe_steps,
    "levels": _describe_levels,
    "trend": _describe_trend,
    "later": _describe_later,
}
