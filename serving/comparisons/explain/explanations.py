"""What there is to say of verdicts, found out when somebody asks: for many at once, a part at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from features.comparisons.prepared import Asked
from serving.comparisons.explain.counterfactuals import Decide, flips
from serving.comparisons.explain.facts import Direction, Facts, Measured, direction, measured
from serving.comparisons.explain.features import FACTS, Fact, described, lacking, meaning, shown
from serving.comparisons.explain.nearest import NearestLabelled, Precedent
from serving.comparisons.explain.sentences import UsualSpread, flip_told, sentences
from training.comparisons.stored import Precedents

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: Comparisons whose facts, and whose flips, are found out together.
_BLOCK, _FLIPPED = 1024, 4096
T = TypeVar("T")


class Reason(NamedTuple):
    """One feature of one comparison.

    Attributes
    ----------
    value : float or None
        In the feature's own units; None where it cannot be known.
    contribution : float
        Positive = towards fail, in the judgement's ``contribution_unit``.
    """

    feature: str
    value: float | None
    contribution: float


class Unlike(NamedTuple):
    """That a comparison is unlike what the model was trained on, and in which feature most.

    Attributes
    ----------
    value : float or None
        None where it is missing, as it never was in training.
    low, high : float
        Between them lie 98 of 100 training comparisons.
    words : str
    """

    feature: str
    value: float | None
    low: float
    high: float
    words: str


@dataclass(frozen=True)
class Telling:
    """What verdicts rest on.

    Attributes
    ----------
    asked : Asked
    units : callable
        Returns the unit of every comparison.
    answers : ndarray of str, shape (n_comparisons,)
    place : ndarray of int, shape (n_comparisons,)
        The row of `columns` that is a comparison's; -1 where the model was not asked.
    columns, contributions : ndarray of shape (n_asked, n_features)
    features : tuple of str
    count : int
        How many features are told.
    decide : Decide
        Answers to comparisons that were not measured.
    precedents : Precedents or None
    """

    asked: Asked
    units: Callable[[], Sequence[str]]
    answers: NDArray[np.str_]
    place: Ints
    columns: Floats
    contributions: Floats
    features: tuple[str, ...]
    count: int
    decide: Decide
    precedents: Precedents | None
    _kept: dict[Callable[..., Any], tuple[int, Sequence[Any]]] = field(default_factory=dict)

    def reasons(self, row: int) -> tuple[Reason, ...]:
        """Return the strongest contributions, the strongest first; none if the model was not asked."""
        found = self._found(row, Telling._reasons_of, _BLOCK)
        if found is None:
            return ()
        told, at = found
        part = slice(at * told.many, (at + 1) * told.many)
        of_each = zip(told.places[part], told.values[part], told.amounts[part], strict=True)
        return tuple(
            [
                Reason(self.features[feature], value if value == value else None, amount)  # noqa: PLR0124 - known
                for feature, value, amount in of_each
            ]
        )

    def words(self, row: int) -> tuple[str, ...]:
        """Return the sentences; none if the comparison cannot be judged."""
        found = self._found(row, Telling._measured_of, _BLOCK)
        if found is None:
            return ()
        facts = Facts.told(self.asked.sides, found)
        leaning = self._found(row, Telling._leaning_of, _BLOCK)
        words = direction(self._named_units[row], facts.sign)
        return sentences(facts, words, str(self.answers[row]), zip(*leaning, strict=True), self._prior)

    def flips_at(self, row: int) -> float | None:
        """Return from which change of the median on the verdict is the other one."""
        found = self._found(row, Telling._flips_of, _FLIPPED)
        return found if found == found else None  # noqa: PLR0124 - known

    def flip_told(self, row: int) -> str:
        """Say the same in words; empty if nothing flips the verdict."""
        change = self.flips_at(row)
        if change is None:
            return ""
        return flip_told(change, self.answers[row] == "fail", self._direction(row))

    def examples(self, row: int) -> tuple[Precedent, ...]:
        """Return the nearest comparison of each label, that of the same verdict first."""
        found = self._found(row, Telling._examples_of, _BLOCK)
        if found is None or self.precedents is None:
            return ()
        neighbours, at = found
        return neighbours.examples(self.precedents, at, int(self.answers[row] == "fail"))

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

    def _found(self, row: int, of: Callable[[Telling, Ints], Sequence[T]], size: int) -> T:
        """Return what is found out of a comparison together with those beside it."""
        start = row - row % size
        known = self._kept.get(of)
        if known is None or known[0] != start:
            rows = np.arange(start, min(start + size, len(self.answers)))
            known = self._kept[of] = (start, of(self, rows))
        found: T = known[1][row - start]
        return found

    def _reasons_of(self, rows: Ints) -> Sequence[tuple[_Strongest, int] | None]:
        known = self.place[rows] >= 0
        own = self.place[rows[known]]
        columns, amounts = self.columns[own], self.contributions[own]
        index = strongest(amounts, self.count)
        each = np.arange(len(index))[:, None]
        of_each = index, columns[each, index], amounts[each, index]
        told: list[list[Any]] = [one.ravel().tolist() for one in of_each]
        return _beside(known, _Strongest(index.shape[1], *told))

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

    def _examples_of(self, rows: Ints) -> Sequence[tuple[NearestLabelled, int] | None]:
        place = self.place[rows]
        known = place >= 0
        if self.precedents is None or not known.any():
            return [None] * len(rows)
        return _beside(known, NearestLabelled.of(self.precedents, self.columns[place[known]], self.features))

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


class _Strongest(NamedTuple):
    """The features that contribute most: plain lists of so many a comparison, one after the other."""

    many: int
    places: Sequence[int]
    values: Sequence[float]
    amounts: Sequence[float]


def _beside(known: NDArray[np.bool_], found: T) -> Sequence[tuple[T, int] | None]:
    """Return what was found of all that are known, and which of them each one is."""
    own = (known.cumsum() - 1).tolist()
    return [(found, at) if one else None for at, one in zip(own, known.tolist(), strict=True)]


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


class Why:
    """What there is to say of one verdict; found out when somebody asks."""

    __slots__ = ("_row", "_telling")

    def __init__(self, telling: Telling, row: int) -> None:
        self._telling, self._row = telling, row

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The strongest contributions, the strongest first; empty unless the model decided."""
        return self._telling.reasons(self._row)

    @property
    def words(self) -> tuple[str, ...]:
        """What the verdict rests on, in sentences; empty if the comparison cannot be judged."""
        return self._telling.words(self._row)

    @property
    def examples(self) -> tuple[Precedent, ...]:
        """The most similar labelled comparison of each label, that of the verdict first."""
        return self._telling.examples(self._row)

    @property
    def flips_at(self) -> float | None:
        """From which change of the worst median on the verdict is the other one, of the baseline's."""
        return self._telling.flips_at(self._row)

    @property
    def flip_told(self) -> str:
        """The same in words; empty if nothing flips the verdict."""
        return self._telling.flip_told(self._row)

    @property
    def unlike(self) -> Unlike | None:
        """A warning where it is unlike the training data."""
        return self._telling.unlike(self._row)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Why) and self._all == other._all

    def __hash__(self) -> int:
        return hash(self._all)

    @property
    def _all(self) -> tuple[object, ...]:
        return self.reasons, self.words, self.examples, self.flips_at, self.unlike
