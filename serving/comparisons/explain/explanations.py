"""What there is to say of verdicts, found out when somebody asks: for many at once, a part at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from features.comparisons.vectors import PreparedComparisons
from serving.comparisons.explain.counterfactuals import Decide, flips
from serving.comparisons.explain.features import FACTS, Fact, described, lacking, meaning, percent, shown
from serving.comparisons.explain.sentences import (
    Direction,
    Facts,
    Measured,
    UsualSpread,
    direction,
    flip_told,
    measured,
    sentences,
)
from training.comparisons.stored import Precedents

#: The features that are told of two comparisons side by side, in a word.
_COMPARED = {
    "medians_min": "shift",
    "baseline_noise_max": "noise",
    "superiority_min": "share of better pairs",
    "history_excess_min": "size by earlier steps",
}
#: Values are alike if they differ by less than the first, or by less than the second of the larger one.
_SIMILAR, _OF_LARGER = 0.02, 0.5


class NearestExample(NamedTuple):
    """A labelled comparison that is like the one that was judged."""

    comparison_id: str
    benchmark: str
    operation: str
    label: str
    #: labelled_by, labelled_at: who gave the label, and when (ISO 8601); empty where that is not known
    labelled_by: str
    labelled_at: str
    distance: float  # in standard deviations of features, weighted by the model's importance of them
    near: str  # in what the two are similar, and in what not

    @property
    def told(self) -> str:
        """In a line."""
        who = f" by {self.labelled_by}" if self.labelled_by else ""
        when = f" on {self.labelled_at[:10]}" if self.labelled_at else ""
        return f"nearest {self.label}: {self.comparison_id}, labelled{who}{when}; {self.near}"


def _near(names: Sequence[str], there: Sequence[float], here: Sequence[str], alike: Sequence[bool]) -> str:
    """Say in which features two comparisons are similar, and in which they are not: there, and here."""
    similar, other = list[str](), list[str]()
    for name, value, own, same in zip(names, there, here, alike, strict=True):
        if own and (told := _known(name, value)):
            (similar if same else other).append(f"{told} (here {own})")
    both = (("similar", similar), ("other", other))
    return "; ".join([f"{word} {', '.join(own)}" for word, own in both if own])


def _alike(names: Sequence[str], there: Floats, here: Floats) -> NDArray[np.bool_]:
    """Tell which values an engineer would call similar, the last axis being the features."""
    rooted = np.array([name.startswith("medians") for name in names], bool)
    one, other = (np.where(rooted, values * np.abs(values), values) for values in (there, here))
    larger = np.maximum(np.abs(one), np.abs(other))
    return np.asarray(np.abs(one - other) <= np.maximum(_SIMILAR, _OF_LARGER * larger))


@lru_cache(8192)
def _known(name: str, value: float) -> str:
    """Write a value of an example, of which there are few; nothing where it is not known."""
    return f"{_COMPARED[name]} {_shown(name, value)}" if value == value else ""  # noqa: PLR0124 - known


def _shown(name: str, value: float) -> str:
    if not name.startswith("medians"):
        return shown(name, value)
    return f"{percent(value * value)} {'worse' if value < 0 else 'better'}"


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: Comparisons whose facts, and whose flips, are found out together.
_BLOCK, _FLIPPED = 1024, 4096
T = TypeVar("T")


class Reason(NamedTuple):
    """One feature of one comparison."""

    feature: str
    value: float | None  # in the feature's own units; None where it cannot be known
    contribution: float  # positive = towards fail, in the judgement's ``contribution_unit``


class Unlike(NamedTuple):
    """That a comparison is unlike what the model was trained on, and in which feature most."""

    feature: str
    value: float | None  # None where it is missing, as it never was in training
    low: float  # low, high: between them lie 98 of 100 training comparisons
    high: float
    words: str


@dataclass(frozen=True)
class Explanations:
    """What verdicts rest on."""

    asked: PreparedComparisons
    units: Callable[[], Sequence[str]]  # returns the unit of every comparison
    answers: NDArray[np.str_]  # shape (n_comparisons,)
    #: shape (n_comparisons,), the row of `columns` that is a comparison's; -1 where the model was not asked
    place: Ints
    columns: Floats  # columns, contributions: shape (n_asked, n_features)
    contributions: Floats
    features: tuple[str, ...]
    count: int  # how many features are told
    decide: Decide  # answers to comparisons that were not measured
    precedents: Precedents | None
    _kept: dict[Callable[..., Any], tuple[int, Sequence[Any]]] = field(default_factory=dict)

    def reasons(self, row: int) -> tuple[Reason, ...]:
        """Return the strongest contributions, the strongest first; none if the model was not asked."""
        found = self._found(row, Explanations._reasons_of, _BLOCK)
        if found is None:
            return ()
        return tuple(
            [
                Reason(self.features[feature], value if value == value else None, amount)  # noqa: PLR0124 - known
                for feature, value, amount in zip(*found, strict=True)
            ]
        )

    def words(self, row: int) -> tuple[str, ...]:
        """Return the sentences; none if the comparison cannot be judged."""
        found = self._found(row, Explanations._measured_of, _BLOCK)
        if found is None:
            return ()
        facts = Facts.told(self.asked.sides, found)
        leaning = self._found(row, Explanations._leaning_of, _BLOCK)
        words = direction(self._named_units[row], facts.sign)
        return sentences(facts, words, str(self.answers[row]), zip(*leaning, strict=True), self._prior)

    def flips_at(self, row: int) -> float | None:
        """Return from which change of the median on the verdict is the other one."""
        found = self._found(row, Explanations._flips_of, _FLIPPED)
        return found if found == found else None  # noqa: PLR0124 - known

    def flip(self, row: int) -> str:
        """Say the same in words; empty if nothing flips the verdict."""
        change = self.flips_at(row)
        if change is None:
            return ""
        return flip_told(change, self.answers[row] == "fail", self._direction(row))

    def examples(self, row: int) -> tuple[NearestExample, ...]:
        """Return the nearest comparison of each label, that of the same verdict first."""
        found = self._found(row, Explanations._examples_of, _BLOCK)
        if found is None or self.precedents is None:
            return ()
        index, distance, there, own, alike = found
        here = [
            _shown(name, value) if value == value else ""  # noqa: PLR0124 - known
            for name, value in zip(self._compared, own, strict=True)
        ]
        first = int(self.answers[row] == "fail")
        return tuple(
            NearestExample(
                *self.precedents.named[int(index[at])],
                distance[at],
                _near(self._compared, there[at], here, alike[at]),
            )
            for at in (first, 1 - first)
            if index[at] >= 0
        )

    def strange(self) -> NDArray[np.bool_]:
        """Tell which comparisons are unlike those in training, shape (n_comparisons,)."""
        return self._strange

    def unlike(self, row: int) -> Unlike | None:
        """Warn of a comparison that is unlike those in training."""
        if self.precedents is None or not self._strange[row]:
            return None
        familiar, values = self.precedents.familiar, self.columns[self.place[row]]
        at = familiar.strangest(values)
        name, value = self.features[at], float(values[at])
        low, high = float(familiar.low[at]), float(familiar.high[at])
        known = value if value == value else None  # noqa: PLR0124 - known
        told = self._lacking(familiar.unseen(values)) or self._beyond(row, name, value, (low, high))
        return Unlike(name, known, low, high, f"unlike the training data: {told}")

    def _lacking(self, unseen: Sequence[int]) -> str:
        if not unseen:
            return ""
        where = lacking(self.features[feature] for feature in unseen)
        return f"too little is known of {where}; no comparison there lacked as much"

    def _beyond(self, row: int, name: str, value: float, usual: tuple[float, float]) -> str:
        low, high = usual
        beside = ", strange beside the other features" if low <= value <= high else ""
        configurations = int(self.asked.sides.per_comparison[row])
        told = f"usually {shown(name, low)} to {shown(name, high)}{beside}"
        return f"{described(name, configurations)} is {shown(name, value)} ({told})"

    def _found(self, row: int, of: Callable[[Explanations, Ints], Sequence[T]], size: int) -> T:
        """Return what is found out of a comparison together with those beside it."""
        start = row - row % size
        known = self._kept.get(of)
        if known is None or known[0] != start:
            rows = np.arange(start, min(start + size, len(self.answers)))
            known = self._kept[of] = (start, of(self, rows))
        found: T = known[1][row - start]
        return found

    def _reasons_of(self, rows: Ints) -> Sequence[tuple[Sequence[Any], ...] | None]:
        known = self.place[rows] >= 0
        own = self.place[rows[known]]
        columns, amounts = self.columns[own], self.contributions[own]
        index = strongest(amounts, self.count)
        each = np.arange(len(index))[:, None]
        return _beside(known, index, columns[each, index], amounts[each, index])

    def _measured_of(self, rows: Ints) -> Sequence[Measured | None]:
        known = self.answers[rows] != "invalid"
        found = iter(measured(self.asked, rows[known]))
        return [next(found) if one else None for one in known.tolist()]

    def _leaning_of(self, rows: Ints) -> Sequence[tuple[tuple[Fact, ...], tuple[float, ...]]]:
        """Return the facts that the model leans on, the strongest first; positive is towards ``fail``."""
        known = self.place[rows] >= 0
        weights = self.contributions[self.place[rows[known]]] @ self._by_fact
        order = np.argsort(-np.abs(weights), axis=1, kind="stable")
        facts = (map(FACTS.__getitem__, column.tolist()) for column in order.T)
        sizes = (column.tolist() for column in np.take_along_axis(weights, order, axis=1).T)
        found = zip(zip(*facts, strict=True), zip(*sizes, strict=True), strict=True)
        return [next(found) if one else ((), ()) for one in known.tolist()]

    def _flips_of(self, rows: Ints) -> Sequence[float]:
        found = np.full(len(rows), np.nan)
        own = np.flatnonzero(self.answers[rows] != "invalid")
        if len(own):
            found[own] = flips(self.asked, rows[own], self.answers[rows[own]], self.decide)
        return found.tolist()

    def _examples_of(self, rows: Ints) -> Sequence[tuple[Sequence[Any], ...] | None]:
        place = self.place[rows]
        known = place >= 0
        if self.precedents is None or not known.any():
            return [None] * len(rows)
        asked = self.columns[place[known]]
        places = [self.features.index(name) for name in self._compared]
        index, distance = self.precedents.nearest(asked)
        there = self.precedents.rows[index[..., None], places].astype(np.float64)
        here = asked[:, places]
        return _beside(known, index, distance, there, here, _alike(self._compared, there, here[:, None]))

    @cached_property
    def _compared(self) -> Sequence[str]:
        """The features that are told of two comparisons side by side."""
        return [name for name in _COMPARED if name in self.features]

    @cached_property
    def _by_fact(self) -> Floats:
        """Which fact each feature stands for, shape (n_features, n_facts)."""
        found = np.zeros((len(self.features), len(FACTS)))
        for place, feature in enumerate(self.features):
            if (known := meaning(feature)) is not None:
                found[place, FACTS.index(known.fact)] = 1.0
        return found

    @cached_property
    def _strange(self) -> NDArray[np.bool_]:
        strange = np.zeros(len(self.answers), bool)
        if self.precedents is not None:
            known = self.place >= 0
            strange[known] = self.precedents.familiar.strange(self.columns[self.place[known]])
        return strange

    @cached_property
    def _named_units(self) -> Sequence[str]:
        return self.units()

    @cached_property
    def _prior(self) -> UsualSpread | None:
        if self.precedents is None or not self.precedents.prior.any():
            return None
        return UsualSpread(*self.precedents.prior.tolist())

    def _direction(self, row: int) -> Direction:
        at = self.asked.worst[row]
        return direction(self._named_units[row], float(self.asked.sides.sign[at]))


def _beside(known: NDArray[np.bool_], *columns: NDArray[Any]) -> Sequence[tuple[Sequence[Any], ...] | None]:
    """Return for each comparison its row of `columns`, which hold those that are known."""
    found = zip(*(column.tolist() for column in columns), strict=True)
    return [next(found) if one else None for one in known.tolist()]


def strongest(values: NDArray[np.float64], count: int) -> Ints:
    """Return which features contribute most, the strongest first, shape (n_comparisons, <= count).

    Strong is a large contribution in either direction; its sign tells which.
    """
    n_features = values.shape[1]
    count = min(count, n_features)
    if count == 0 or not len(values):
        return np.zeros((len(values), count), np.int64)
    size = np.abs(values)
    top = np.argpartition(size, n_features - count, axis=1)[:, n_features - count :]
    each = np.arange(len(values))[:, None]
    return np.asarray(top[each, np.argsort(-size[each, top], axis=1, kind="stable")])
