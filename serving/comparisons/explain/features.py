"""What every feature stands for: in words, in a unit that people read, and the fact that tells of it."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.resources import files
from math import exp, expm1
from typing import Literal, NamedTuple, cast, get_args

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


_PENALTIES = {"6": ", small steps counted", "20": ", plain steps counted"}
_WHERE = {
    "min": "at its least over the configurations",
    "med": "in the middle of the configurations",
    "max": "at its largest over the configurations",
    "sum": "over all configurations",
}


@cache
def _meanings() -> Mapping[str, Meaning]:
    """Read the table of features, by their names before a reduction, a window or a penalty."""
    text = (files("serving.comparisons.explain") / "features.csv").read_text(encoding="utf-8")
    rows = csv.reader(text.splitlines()[1:])
    return {name: Meaning(phrase, kind, cast("Fact", fact)) for name, phrase, kind, fact in rows}


@cache
def meaning(feature: str) -> Meaning | None:
    """Return what a feature stands for; None of one that nobody described."""
    name, _, where = feature.rpartition("_")
    known = _meanings()
    if where in _WHERE or feature in known:
        return known.get(name if where in _WHERE else feature)
    # of windows the size is named, of penalties which steps count
    word = _PENALTIES.get(where, "") if name.startswith("segment") else where
    return known[name]._replace(phrase=known[name].phrase.replace("{}", word)) if name in known else None


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
