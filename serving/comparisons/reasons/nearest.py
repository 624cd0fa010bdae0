"""The labelled comparisons that one is most like, and in what."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from serving.comparisons.reasons.features import percent, shown
from training.comparisons.precedents import Precedents

Floats = NDArray[np.float64]
#: The features that are told of two comparisons side by side, in a word.
_COMPARED = {
    "medians_min": "shift",
    "baseline_noise_max": "noise",
    "superiority_min": "share of better pairs",
    "history_excess_min": "size by earlier steps",
}
#: Values are alike if they differ by less than the first, or by less than the second of the larger one.
_SIMILAR, _OF_LARGER = 0.02, 0.5


class Precedent(NamedTuple):
    """A labelled comparison that is like the one that was judged.

    Attributes
    ----------
    labelled_by, labelled_at : str
        Who gave the label, and when (ISO 8601); empty where that is not known.
    distance : float
        In standard deviations of features, weighted by the model's importance of them.
    near : str
        In what the two are similar, and in what not.
    """

    comparison_id: str
    benchmark: str
    operation: str
    label: str
    labelled_by: str
    labelled_at: str
    distance: float
    near: str

    @property
    def told(self) -> str:
        """In a line."""
        who = f" by {self.labelled_by}" if self.labelled_by else ""
        when = f" on {self.labelled_at[:10]}" if self.labelled_at else ""
        return f"nearest {self.label}: {self.comparison_id}, labelled{who}{when}; {self.near}"


class Neighbour(NamedTuple):
    """One of them by its place, and what is compared: the values there and here, and which are alike."""

    at: int
    distance: float
    there: Sequence[float]
    here: Sequence[float]
    alike: Sequence[bool]


class LabelledNeighbours(NamedTuple):
    """The nearest examples of many comparisons.

    Attributes
    ----------
    names : list of str
        The features that are compared.
    found : list
        For every comparison a `Neighbour` for each label, or None.
    """

    names: Sequence[str]
    found: Sequence[Sequence[Neighbour | None]]

    @classmethod
    def of(cls, precedents: Precedents, asked: Floats, features: Sequence[str]) -> Self:
        """Find them for vectors of shape (n_rows, n_features)."""
        names = [name for name in _COMPARED if name in features]
        places = [features.index(name) for name in names]
        index, distance = precedents.nearest(asked)
        there = precedents.rows[index[..., None], places].astype(np.float64)
        here = np.broadcast_to(asked[:, None, places], there.shape)
        columns = (index, distance, there, here, _alike(names, there, here))
        found = [
            [Neighbour(*one) if one[0] >= 0 else None for one in zip(*row, strict=True)]
            for row in zip(*(column.tolist() for column in columns), strict=True)
        ]
        return cls(names, found)

    def examples(self, precedents: Precedents, row: int, first: int) -> tuple[Precedent, ...]:
        """Return those of one comparison; that of the label `first` is the first."""
        both = self.found[row]
        return tuple(self._example(precedents, one) for one in (both[first], both[1 - first]) if one)

    def _example(self, known: Precedents, one: Neighbour) -> Precedent:
        return Precedent(*known.named[one.at], one.distance, _likeness(self.names, one))


def _alike(names: Sequence[str], there: Floats, here: Floats) -> NDArray[np.bool_]:
    """Tell which values an engineer would call similar, the last axis being the features."""
    rooted = np.array([name.startswith("medians") for name in names], bool)
    one, other = (np.where(rooted, values * np.abs(values), values) for values in (there, here))
    larger = np.maximum(np.abs(one), np.abs(other))
    return np.asarray(np.abs(one - other) <= np.maximum(_SIMILAR, _OF_LARGER * larger))


@lru_cache(8192)
def _known(name: str, value: float) -> str:
    """Write a value of an example, of which there are few."""
    return _shown(name, value)


def _shown(name: str, value: float) -> str:
    if not name.startswith("medians"):
        return shown(name, value)
    return f"{percent(value * value)} {'worse' if value < 0 else 'better'}"


def _likeness(names: Sequence[str], one: Neighbour) -> str:
    """Say in which features two comparisons are similar, and in which they are not: there, and here."""
    told: dict[bool, list[str]] = {True: [], False: []}
    for name, there, here, alike in zip(names, one.there, one.here, one.alike, strict=True):
        if there == there and here == here:  # noqa: PLR0124 - known
            told[alike].append(f"{_COMPARED[name]} {_known(name, there)} (here {_shown(name, here)})")
    words = {True: "similar", False: "other"}
    return "; ".join(f"{words[alike]} {', '.join(own)}" for alike, own in told.items() if own)
