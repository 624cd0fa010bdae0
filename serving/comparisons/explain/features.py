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
    transformation: str  # a key of `_WRITERS`
    fact: Fact  # what tells of it in the same terms


def percent(share: float) -> str:
    """Write a share with two digits that matter, such as ``7.1 %`` or ``0.03 %``."""
    size = abs(100 * share)
    if size >= 1:
        return f"{100 * share:.1f} %" if size < 100 else f"{100 * share:.0f} %"  # noqa: PLR2004
    return f"{100 * share:.2g} %"


#: Writes values of features for people, by the features' transformation; logarithms are cut off at overflow.
_WRITERS: dict[str, Callable[[float], str]] = {
    "share": percent,
    "complement": lambda value: percent(1 + value),
    "rooted share": lambda value: percent(abs(value) * value),
    "log share": lambda value: percent(exp(min(value, 700.0))),
    "number": lambda value: f"{value:.3g}",
    "rooted number": lambda value: f"{abs(value) * value:.3g}",
    "log1p number": lambda value: f"{expm1(min(value, 700.0)):.3g}",
    "log2 count": lambda value: f"{2.0 ** min(value, 60.0):.0f}",
    "log ratio": lambda value: f"{exp(min(value, 700.0)):.3g} times",
    "flag": lambda value: "yes" if value else "no",
}


#: By the name before the reduction over configurations.
_MEANINGS = {
    "medians": Meaning("the change of the median", "rooted share", "shift"),
    "mins": Meaning("how far the target's least sample lies from its median", "rooted share", "scatter"),
    "maxes": Meaning("how far the target's largest sample lies from its median", "rooted share", "scatter"),
    "q1s": Meaning("how far the target's lower quartile lies from its median", "rooted share", "scatter"),
    "q3s": Meaning("how far the target's upper quartile lies from its median", "rooted share", "scatter"),
    "rank_z": Meaning("the rank test's z", "number", "separation"),
    "superiority": Meaning(
        "the share of pairs in which the target's sample is better", "share", "separation"
    ),
    "welch_t": Meaning("Welch's t", "rooted number", "separation"),
    "baseline_effect": Meaning("the change in spreads of the baseline", "rooted number", "scatter"),
    "pooled_effect": Meaning("the change in spreads of both sides", "rooted number", "scatter"),
    "lows": Meaning("the change of the worst samples", "rooted share", "edges"),
    "highs": Meaning("the change of the best samples", "rooted share", "edges"),
    "overlap": Meaning("how far the ranges of both sides overlap", "share", "separation"),
    "baseline_noise": Meaning("the spread of the baseline's samples", "share", "scatter"),
    "spread_ratio": Meaning("the target's spread by the baseline's", "log ratio", "spread"),
    "repetitions": Meaning("the number of samples a side", "log2 count", "repetitions"),
    "run_step": Meaning("the change in what repetitions and runs leave open", "rooted number", "builds"),
    "run_spread": Meaning("what two runs of a build differ by", "log share", "builds"),
    "past_known": Meaning("whether earlier builds are known", "flag", "builds"),
    "siblings_worse": Meaning("how many other operations got worse at the same version", "share", "steps"),
    "version_t": Meaning("the t statistic of the versions' medians", "number", "builds"),
    "version_step": Meaning("the change in usual steps between builds", "number", "builds"),
    "boundary_gain": Meaning("how much of the versions' variance the step explains", "share", "levels"),
    "boundary_sharpness": Meaning("how sharply the step lies between the sides", "share", "levels"),
    "first_version": Meaning("the first target build in usual steps between builds", "number", "builds"),
    "best_version": Meaning("the best target build in usual steps between builds", "number", "builds"),
    "last_version": Meaning("the last target build in usual steps between builds", "number", "builds"),
    "history_step": Meaning("the target against all earlier builds, in their scatter", "number", "levels"),
    "history_superiority": Meaning("the share of earlier builds that were worse", "share", "levels"),
    "history_quantile": Meaning("the share of earlier builds that were as bad", "share", "levels"),
    "history_seen": Meaning("the share of earlier builds at the target's level", "share", "levels"),
    "local_contrast": Meaning("how far the step stands out from its surroundings", "rooted number", "steps"),
    "history_excess": Meaning("the step by the large steps between earlier builds", "log ratio", "steps"),
    "history_rank": Meaning("the share of earlier steps that were as large", "share", "steps"),
    "history_trend": Meaning("the trend of the earlier builds in usual steps", "number", "trend"),
    "history_range": Meaning("the change in ranges of the earlier builds", "number", "levels"),
}
#: By the name of what the versions after the target say.
_LATER = {
    "later_step": Meaning("where all later builds lie, in the builds' noise", "rooted number", "later"),
    "later_change": Meaning("how far all later builds lie from the baseline", "rooted share", "later"),
    "soon_step": Meaning("where the next builds lie, in the builds' noise", "rooted number", "later"),
    "soon_change": Meaning("how far the next builds lie from the baseline", "rooted share", "later"),
    "soon_range": Meaning("the change up to the next builds by the range of all builds", "share", "later"),
    "recovered": Meaning("where the next builds lie at best, in the builds' noise", "rooted number", "later"),
    "stayed": Meaning("the share of the next builds that were no worse than before", "complement", "later"),
    "target_alone": Meaning("how far the target stands out from the next builds", "rooted number", "later"),
    "later_seen": Meaning("how many later builds are known", "number", "later"),
}
#: Likewise, before the size of the windows that are compared.
_BY_WINDOW = {
    "after_t": Meaning("the t statistic of {} builds on either side", "rooted number", "later"),
    "after_effect": Meaning("the change in spreads of {} builds on either side", "rooted number", "later"),
    "after_superiority": Meaning(
        "the share of pairs in which the later build is better, of {} builds on either side",
        "share",
        "later",
    ),
    "after_gain": Meaning("how much the step explains of {} builds on either side", "share", "later"),
    "after_sharpness": Meaning(
        "how sharply the step lies at the target, of {} builds on either side", "share", "later"
    ),
    "contrast": Meaning(
        "the step between {} builds and the next {}, in their scatter", "rooted number", "later"
    ),
    "contrast_excess": Meaning(
        "the step between {} builds and the next {} by the large steps elsewhere", "rooted number", "later"
    ),
}
#: Likewise, before what a step must gain to be one: small steps count, or plain ones only.
_BY_PENALTY = {
    "segment_step": Meaning("the step to the level that stays, in noise{}", "rooted number", "later"),
    "segment_change": Meaning("the change to the level that stays{}", "rooted share", "later"),
    "segment_lasting": Meaning("the step by how long its level lasts{}", "rooted number", "later"),
    "segment_evidence": Meaning("what a course without the step would cost{}", "rooted number", "later"),
    "segment_excess": Meaning("the step beside all other steps of the course{}", "share", "later"),
    "segment_others": Meaning("the largest other step of the course, in noise{}", "log1p number", "later"),
    "segment_count": Meaning("how many steps the course has{}", "number", "later"),
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
    return _WRITERS["number" if found is None else found.transformation](value)
