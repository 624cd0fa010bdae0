"""Features in words: phrases, formatted values, and the fact that each feature measures."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.resources import files
from math import exp, expm1
from typing import Literal, NamedTuple, get_args

#: Kinds of measurements that sentences describe.
Fact = Literal[
    "shift", "separation", "scatter", "spread", "edges", "repetitions",
    "builds", "steps", "levels", "trend", "later",
]  # fmt: skip
FACTS: tuple[Fact, ...] = get_args(Fact)


class Meaning(NamedTuple):
    """A row of the table of features."""

    phrase: str
    transformation: str  # a key of `_WRITERS`
    fact: Fact  # the fact that the feature measures
    source: str  # the data that it is computed from


def percent(share: float) -> str:
    """Return a share in percent, such as ``-12.3 %``: one decimal from 1 % on, none from 100 % on.

    Below 1 % it has up to two significant digits: ``0.034 %``, ``0.3 %``. The limits apply to the absolute
    value. NaN gives ``nan %``.
    """
    size = abs(100 * share)
    if size >= 1:
        return f"{100 * share:.1f} %" if size < 100 else f"{100 * share:.0f} %"  # noqa: PLR2004
    return f"{100 * share:.2g} %"


#: Functions that format values by the features' transformation; logarithms are cut off at overflow.
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
#: Phrases of penalties of segmentations, and of reductions over configurations.
_PENALTIES = {"6": ", small steps counted", "20": ", plain steps counted"}
_REDUCTIONS = {
    "min": "smallest over the configurations",
    "med": "median over the configurations",
    "max": "largest over the configurations",
    "sum": "over all configurations",
}


@cache
def _read_meanings() -> Mapping[str, Meaning]:
    text = (files("serving.comparisons.explain") / "features.csv").read_text(encoding="utf-8")
    rows = csv.reader(text.splitlines()[1:])
    return {name: Meaning._make(fields) for name, *fields in rows}


@cache
def feature_meaning(feature: str) -> Meaning | None:
    """Return a feature's ``phrase, transformation, fact, source`` from the table of meanings.

    None without an entry. `feature` is the name of a column, with or without the suffix of its reduction over
    configurations.
    """
    name, _, suffix = feature.rpartition("_")
    table = _read_meanings()
    if suffix in _REDUCTIONS or feature in table:
        return table.get(name if suffix in _REDUCTIONS else feature)
    # the phrase contains the size of a window, or the kind of steps of a penalty
    word = _PENALTIES.get(suffix, "") if name.startswith("segment") else suffix
    return table[name]._replace(phrase=table[name].phrase.replace("{}", word)) if name in table else None


def describe_feature(feature: str, configurations: int = 1) -> str:
    """Return a feature's phrase, with its reduction in brackets if `configurations`, a number, is above 1.

    An example is ``the change of the median (smallest over the configurations)``; features without a suffix
    have this reduction. Features without a phrase give their name unchanged.
    """
    entry = feature_meaning(feature)
    if entry is None:
        return feature
    # features of later versions are reduced to their lowest value
    reduction = _REDUCTIONS.get(feature.rpartition("_")[2], _REDUCTIONS["min"])
    return f"{entry.phrase} ({reduction})" if configurations > 1 else entry.phrase


def needed_sources(features: Iterable[str]) -> str:
    """Return the distinct data sources of `features`, in their order, joined by " and "; "" for no features.

    A feature that is not in the table of meanings gives its name.
    """
    entries = ((feature, feature_meaning(feature)) for feature in features)
    sources = (feature if entry is None else entry.source for feature, entry in entries)
    return " and ".join(dict.fromkeys(sources))


def format_value(feature: str, value: float) -> str:
    """Return a feature's value as text in readable units, not as logarithm or root, such as ``12.3 %``.

    Flags give ``yes`` or ``no``. Without an entry in the table of meanings, it is the value as it is, with
    three significant digits.
    """
    entry = feature_meaning(feature)
    return _WRITERS["number" if entry is None else entry.transformation](value)
