"""What a model is asked about comparisons, and what is known of them before it answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from data.comparisons.sides import Floats, Ints, Sides
from features.comparisons.copies import without_copies
from features.comparisons.wild import Wild, without_wild

#: No change is larger: it could be more than numbers can tell.
FARTHEST = 1e9


@dataclass(frozen=True)
class Asked:
    """Comparisons as they are judged: without copies and wild samples, and with what their medians did.

    Attributes
    ----------
    sides : Sides
    wild : Wild
        What was left out of them.
    change : ndarray of shape (n_configurations,)
        The target's median against the baseline's, as a share of it, `FARTHEST` at most; negative is worse.
    worst, best : ndarray of shape (n_comparisons,)
        The configuration with the smallest and with the largest change; -1 where there is none.
    """

    sides: Sides
    wild: Wild
    change: Floats
    worst: Ints
    best: Ints

    @classmethod
    def of(cls, sides: Sides) -> Asked:
        """Leave out copies and wild samples, and compare the medians."""
        sides, wild = without_wild(without_copies(sides))
        before, after = sides.baseline_five[:, 2], sides.target_five[:, 2]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            change = sides.sign * (after - before) / np.abs(before)
            change = np.minimum(np.maximum(change, -FARTHEST, out=change), FARTHEST, out=change)
        order = np.append(np.lexsort((change, sides.comparison)), -1)
        many = sides.per_comparison
        ends = many.cumsum()
        worst, best = (order[np.where(many, at, -1)] for at in (ends - many, ends - 1))
        return cls(sides, wild, change, worst, best)

    @property
    def worst_change(self) -> Floats:
        """The smallest change of every comparison's medians, shape (n_comparisons,); NaN if not known."""
        return np.append(self.change, np.nan)[self.worst]
