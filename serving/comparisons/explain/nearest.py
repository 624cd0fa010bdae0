"""The labelled comparisons that one is most like, and in what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from serving.comparisons.explain.features import percent, shown
from training.comparisons.stored import Precedents

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


@dataclass(frozen=True)
class NearestLabelled:
    """The nearest examples of many comparisons: plain lists, a row after the other.

    Attributes
    ----------
    names : list of str
        The features that are compared.
    index, distance : list, n_rows x 2
        As `Precedents.nearest` returns them.
    there, here, alike : list, n_rows x 2 x n_names
        The values of the examples, those of the comparison, and which are alike.
    """

    names: Sequence[str]
    index: Sequence[int]
    distance: Sequence[float]
    there: Sequence[float]
    here: Sequence[float]
    alike: Sequence[bool]

    @classmethod
    def of(cls, precedents: Precedents, asked: Floats, features: Sequence[str]) -> Self:
        """Find them for vectors of shape (n_rows, n_features)."""
        names = [name for name in _COMPARED if name in features]
        places = [features.index(name) for name in names]
        index, distance = precedents.nearest(asked)
        there = precedents.rows[index[..., None], places].astype(np.float64)
        here = asked[:, places]
        columns = index, distance, there, here, _alike(names, there, here[:, None])
        flat: list[list[Any]] = [column.ravel().tolist() for column in columns]
        return cls(names, *flat)

    def examples(self, precedents: Precedents, row: int, first: int) -> tuple[Precedent, ...]:
        """Return those of one comparison; that of the label `first` is the first."""
        many = len(self.names)
        here = [
            _shown(name, value) if value == value else ""  # noqa: PLR0124 - known
            for name, value in zip(self.names, self.here[row * many : (row + 1) * many], strict=True)
        ]
        places = 2 * row + first, 2 * row + 1 - first
        return tuple(
            Precedent(*precedents.named[self.index[at]], self.distance[at], self._near(at, here))
            for at in places
            if self.index[at] >= 0
        )

    def _near(self, at: int, here: Sequence[str]) -> str:
        """Say in which features two comparisons are similar, and in which they are not: there, and here."""
        similar, other = list[str](), list[str]()
        places = slice(at * len(here), (at + 1) * len(here))
        for name, there, own, alike in zip(
            self.names, self.there[places], here, self.alike[places], strict=True
        ):
            if own and (told := _known(name, there)):
                (similar if alike else other).append(f"{told} (here {own})")
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
