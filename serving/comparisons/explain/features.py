"""What every feature stands for: in words, in a unit that people read, and the fact that tells of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from math import exp, expm1
from typing import Literal, NamedTuple, get_args

#: What can be told of a comparison; each is measured, whatever the model says.
Fact = Literal[
    "shift", "separation", "scatter", "spread", "edges", "repetitions",
    "builds", "steps", "levels", "trend", "later",
]  # fmt: skip
FACTS: tuple[Fact, ...] = get_args(Fact)


class Meaning(NamedTuple):
    """What a feature stands for."""

    phrase: str  # the feature in words
    shown: Callable[[float], str]  # writes a value of it for people
    fact: Fact  # what tells of it in the same terms


def _squared(value: float) -> float:
    return abs(value) * value


def percent(share: float) -> str:
    """Write a share with two digits that matter, such as ``7.1 %`` or ``0.03 %``."""
    size = abs(100 * share)
    if size >= 1:
        return f"{100 * share:.1f} %" if size < 100 else f"{100 * share:.0f} %"  # noqa: PLR2004
    return f"{100 * share:.2g} %"


def _rooted_share(value: float) -> str:
    return percent(_squared(value))


def _yes(value: float) -> str:
    return "yes" if value else "no"


def _number(value: float) -> str:
    return f"{value:.3g}"


def _rooted(value: float) -> str:
    return _number(_squared(value))


def _times(value: float) -> str:
    return f"{_number(exp(min(value, 700.0)))} times"


def _exponent(value: float) -> str:
    return percent(exp(min(value, 700.0)))


def _complement(value: float) -> str:
    return percent(1 + value)


def _one_less(value: float) -> str:
    return _number(expm1(min(value, 700.0)))


def _count(value: float) -> str:
    return f"{2.0 ** min(value, 60.0):.0f}"


#: By the name before the reduction over configurations.
_MEANINGS = {
    "medians": Meaning("the change of the median", _rooted_share, "shift"),
    "mins": Meaning("how far the target's least sample lies from its median", _rooted_share, "scatter"),
    "maxes": Meaning("how far the target's largest sample lies from its median", _rooted_share, "scatter"),
    "q1s": Meaning("how far the target's lower quartile lies from its median", _rooted_share, "scatter"),
    "q3s": Meaning("how far the target's upper quartile lies from its median", _rooted_share, "scatter"),
    "rank_z": Meaning("the rank test's z", _number, "separation"),
    "superiority": Meaning(
        "the share of pairs in which the target's sample is better", percent, "separation"
    ),
    "welch_t": Meaning("Welch's t", _rooted, "separation"),
    "baseline_effect": Meaning("the change in spreads of the baseline", _rooted, "scatter"),
    "pooled_effect": Meaning("the change in spreads of both sides", _rooted, "scatter"),
    "lows": Meaning("the change of the worst samples", _rooted_share, "edges"),
    "highs": Meaning("the change of the best samples", _rooted_share, "edges"),
    "overlap": Meaning("how far the ranges of both sides overlap", percent, "separation"),
    "baseline_noise": Meaning("the spread of the baseline's samples", percent, "scatter"),
    "spread_ratio": Meaning("the target's spread by the baseline's", _times, "spread"),
    "repetitions": Meaning("the number of samples a side", _count, "repetitions"),
    "run_step": Meaning("the change in what repetitions and runs leave open", _rooted, "builds"),
    "run_spread": Meaning("what two runs of a build differ by", _exponent, "builds"),
    "past_known": Meaning("whether earlier builds are known", _yes, "builds"),
    "siblings_worse": Meaning("how many other operations got worse at the same version", percent, "steps"),
    "version_t": Meaning("the t statistic of the versions' medians", _number, "builds"),
    "version_step": Meaning("the change in usual steps between builds", _number, "builds"),
    "boundary_gain": Meaning("how much of the versions' variance the step explains", percent, "levels"),
    "boundary_sharpness": Meaning("how sharply the step lies between the sides", percent, "levels"),
    "first_version": Meaning("the first target build in usual steps between builds", _number, "builds"),
    "best_version": Meaning("the best target build in usual steps between builds", _number, "builds"),
    "last_version": Meaning("the last target build in usual steps between builds", _number, "builds"),
    "history_step": Meaning("the target against all earlier builds, in their scatter", _number, "levels"),
    "history_superiority": Meaning("the share of earlier builds that were worse", percent, "levels"),
    "history_quantile": Meaning("the share of earlier builds that were as bad", percent, "levels"),
    "history_seen": Meaning("the share of earlier builds at the target's level", percent, "levels"),
    "local_contrast": Meaning("how far the step stands out from its surroundings", _rooted, "steps"),
    "history_excess": Meaning("the step by the large steps between earlier builds", _times, "steps"),
    "history_rank": Meaning("the share of earlier steps that were as large", percent, "steps"),
    "history_trend": Meaning("the trend of the earlier builds in usual steps", _number, "trend"),
    "history_range": Meaning("the change in ranges of the earlier builds", _number, "levels"),
}
#: By the name of what the versions after the target say.
_LATER = {
    "later_step": Meaning("where all later builds lie, in the builds' noise", _rooted, "later"),
    "later_change": Meaning("how far all later builds lie from the baseline", _rooted_share, "later"),
    "soon_step": Meaning("where the next builds lie, in the builds' noise", _rooted, "later"),
    "soon_change": Meaning("how far the next builds lie from the baseline", _rooted_share, "later"),
    "soon_range": Meaning("the change up to the next builds by the range of all builds", percent, "later"),
    "recovered": Meaning("where the next builds lie at best, in the builds' noise", _rooted, "later"),
    "stayed": Meaning("the share of the next builds that were no worse than before", _complement, "later"),
    "target_alone": Meaning("how far the target stands out from the next builds", _rooted, "later"),
    "later_seen": Meaning("how many later builds are known", _number, "later"),
}
#: Likewise, before the size of the windows that are compared.
_BY_WINDOW = {
    "after_t": Meaning("the t statistic of {} builds on either side", _rooted, "later"),
    "after_effect": Meaning("the change in spreads of {} builds on either side", _rooted, "later"),
    "after_superiority": Meaning(
        "the share of pairs in which the later build is better, of {} builds on either side",
        percent,
        "later",
    ),
    "after_gain": Meaning("how much the step explains of {} builds on either side", percent, "later"),
    "after_sharpness": Meaning(
        "how sharply the step lies at the target, of {} builds on either side", percent, "later"
    ),
    "contrast": Meaning("the step between {} builds and the next {}, in their scatter", _rooted, "later"),
    "contrast_excess": Meaning(
        "the step between {} builds and the next {} by the large steps elsewhere", _rooted, "later"
    ),
}
#: Likewise, before what a step must gain to be one: small steps count, or plain ones only.
_BY_PENALTY = {
    "segment_step": Meaning("the step to the level that stays, in noise{}", _rooted, "later"),
    "segment_change": Meaning("the change to the level that stays{}", _rooted_share, "later"),
    "segment_lasting": Meaning("the step by how long its level lasts{}", _rooted, "later"),
    "segment_evidence": Meaning("what a course without the step would cost{}", _rooted, "later"),
    "segment_excess": Meaning("the step beside all other steps of the course{}", percent, "later"),
    "segment_others": Meaning("the largest other step of the course, in noise{}", _one_less, "later"),
    "segment_count": Meaning("how many steps the course has{}", _number, "later"),
}
_PENALTIES = {"6": ", small steps counted", "20": ", plain steps counted"}
_WHERE = {
    "min": "at its least over the configurations",
    "med": "in the middle of the configurations",
    "max": "at its largest over the configurations",
    "sum": "over all configurations",
}


@cache
def meaning(feature: str) -> Meaning | None:
    """Return what a feature stands for; None of one that nobody described."""
    name, _, where = feature.rpartition("_")
    if where in _WHERE:
        return _MEANINGS.get(name)
    if where in _PENALTIES and name in _BY_PENALTY:
        return _filled(_BY_PENALTY[name], _PENALTIES[where])
    return _filled(_BY_WINDOW[name], where) if name in _BY_WINDOW else _LATER.get(feature)


def _filled(found: Meaning, word: str) -> Meaning:
    return found._replace(phrase=found.phrase.replace("{}", word))


def described(feature: str, configurations: int = 1) -> str:
    """Name a feature in words; of one that nobody described, its own name."""
    found = meaning(feature)
    if found is None:
        return feature
    # of what came later the lowest value is kept
    where = _WHERE.get(feature.rpartition("_")[2], _WHERE["min"])
    return f"{found.phrase} ({where})" if configurations > 1 else found.phrase


def lacking(features: Iterable[str]) -> str:
    """Name what too little is known of where all these features are missing, such as ``other builds``."""
    return " and ".join(dict.fromkeys(map(_source, features)))


def _source(feature: str) -> str:
    found = meaning(feature)
    name = feature.rpartition("_")[0]
    return _SOURCES.get(name, described(feature) if found is None else _OF_FACT.get(found.fact, found.phrase))


#: Where a feature is taken from, if that is not what its fact is taken from.
_SOURCES = {
    **dict.fromkeys(("run_step", "run_spread"), "the scatter of its samples"),
    "siblings_worse": "other operations",
}
_OF_FACT: dict[Fact, str] = {
    **dict.fromkeys(("builds", "steps", "levels", "trend"), "other builds"),
    **dict.fromkeys(("separation", "scatter", "spread", "edges", "repetitions"), "single samples"),
    "later": "later builds",
}


def shown(feature: str, value: float) -> str:
    """Write a value of a feature for people."""
    found = meaning(feature)
    return _number(value) if found is None else found.shown(value)
