"""What a change point tool gets to see of comparisons, and which of its points speak of which comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.human_labels.series import Floats, Ints, VersionedSeries
from data.comparisons.params import LabelRules
from data.comparisons.sides import HISTORY_VERSIONS


@dataclass(frozen=True)
class Stretch:
    """The versions ``first:stop`` of a series."""

    series: VersionedSeries
    first: int
    stop: int

    @property
    def medians(self) -> Floats:
        """The median of every version."""
        return self.series.medians[self.first : self.stop]

    def worsened(self, at: int, rules: LabelRules) -> bool:
        """Tell whether it got worse at a position, by the rule that gives labels their direction."""
        if not 0 < at < self.stop - self.first:
            return False
        middle = self.first + at
        low, high = middle - rules.versions_before, middle + rules.versions_after
        return self.series.worsened(max(low, self.first), middle, min(high, self.stop))


@dataclass(frozen=True)
class Points:
    """What one way of using a tool found; a point each, in its stretch."""

    stretch: Ints
    position: Ints
    strength: Floats


@dataclass(frozen=True)
class View:
    """What is seen of every comparison.

    Attributes
    ----------
    stretches : sequence of Stretch
    owner : ndarray of shape (n_comparisons,)
        The stretch that a comparison lies in.
    place : ndarray of shape (n_comparisons,)
        Where in it the target begins.
    rules : LabelRules
        ``within`` is as far from a boundary as a point may lie to speak of it.
    """

    stretches: Sequence[Stretch]
    owner: Ints
    place: Ints
    rules: LabelRules

    @cached_property
    def worse(self) -> NDArray[np.bool_]:
        """Where around every boundary it got worse, shape (n_comparisons, 2 * within + 1)."""
        around = range(-self.rules.within, self.rules.within + 1)
        pairs = list(zip(self.owner.tolist(), self.place.tolist(), strict=True))
        asked = {(own, place + by) for own, place in pairs for by in around}
        known = {(own, at): self.stretches[own].worsened(at, self.rules) for own, at in asked}
        return np.array([[known[own, place + by] for by in around] for own, place in pairs])

    def evidence(self, points: Points) -> Floats:
        """Return the strongest point at every position around every boundary that got worse there.

        Returns
        -------
        ndarray of shape (n_comparisons, 2 * within + 1)
            NaN where there is none.
        """
        within, strongest = self.rules.within, np.full(self.worse.shape, -np.inf)
        cases = pd.DataFrame({"case": np.arange(len(self.owner)), "stretch": self.owner, "place": self.place})
        found = pd.DataFrame(vars(points)).merge(cases, on="stretch")
        by = found["position"].to_numpy() - found["place"].to_numpy()
        near = np.abs(by) <= within
        at = found["case"].to_numpy()[near], by[near] + within
        np.maximum.at(strongest, at, found["strength"].to_numpy()[near])
        return np.where(self.worse & (strongest > -np.inf), strongest, np.nan)


def windows(series: Mapping[str, VersionedSeries], comparisons: pd.DataFrame, rules: LabelRules) -> View:
    """Show what a comparison has: history, baseline and target, nothing after it."""
    stretches, places = [], []
    for row in comparisons.itertuples():
        one = series[row.operation]
        first = max(one.place(row.baseline_from) - HISTORY_VERSIONS, 0)
        stretches.append(Stretch(one, first, one.place(row.target_to + 1)))
        places.append(one.place(row.target_from) - first)
    return View(stretches, np.arange(len(places)), np.array(places, np.int64), rules)


def whole(series: Mapping[str, VersionedSeries], comparisons: pd.DataFrame, rules: LabelRules) -> View:
    """Show the whole series, and so what came after."""
    known = sorted(comparisons["operation"].unique())
    stretches = [Stretch(series[name], 0, len(series[name].orders)) for name in known]
    places = [series[row.operation].place(row.target_from) for row in comparisons.itertuples()]
    owner = np.searchsorted(known, comparisons["operation"].to_numpy(str))
    return View(stretches, owner, np.array(places, np.int64), rules)


def pieces(view: View, versions: int) -> list[slice]:
    """Divide the stretches of a view, so that each piece has about so many versions."""
    lengths = np.cumsum([one.stop - one.first for one in view.stretches])
    edges = np.unique(np.searchsorted(lengths, np.arange(0, lengths[-1], versions)))
    return [slice(one, two) for one, two in pairwise([*edges.tolist(), len(lengths)]) if one < two]
