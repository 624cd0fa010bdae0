"""What a model is asked about comparisons, and what is known of them before it answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints, Sides
from features.comparisons.copies import without_copies
from features.comparisons.runs import ORDINARY, Steps, run_steps, within_runs
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
    steps : Steps
        The same against what runs differ by.
    within : ndarray of bool, shape (n_configurations,)
        Whether that is no more than what runs of this operation differ by.
    worst, best : ndarray of shape (n_comparisons,)
        The configuration with the smallest and with the largest change; -1 where there is none.
    """

    sides: Sides
    wild: Wild
    change: Floats
    steps: Steps
    within: NDArray[np.bool_]
    worst: Ints
    best: Ints

    @classmethod
    def of(cls, sides: Sides, run_spread: float = ORDINARY) -> Asked:
        """Leave out copies and wild samples, and compare the medians; `run_spread` as `vectors` takes it."""
        return cls.compared(*without_wild(without_copies(sides)), run_spread)

    @classmethod
    def compared(cls, sides: Sides, wild: Wild, run_spread: float) -> Asked:
        """Compare the medians of what is left when `wild` is left out."""
        before, after = sides.baseline_five[:, 2], sides.target_five[:, 2]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            change = sides.sign * (after - before) / np.abs(before)
            change = np.minimum(np.maximum(change, -FARTHEST, out=change), FARTHEST, out=change)
        order = np.append(np.lexsort((change, sides.comparison)), -1)
        many = sides.per_comparison
        ends = many.cumsum()
        worst, best = (order[np.where(many, at, -1)] for at in (ends - many, ends - 1))
        steps = run_steps(sides, run_spread)
        return cls(sides, wild, change, steps, within_runs(sides, steps), worst, best)

    @cached_property
    def worsened(self) -> Ints:
        """How many configurations of every comparison got worse, shape (n_comparisons,)."""
        return np.bincount(self.sides.comparison[self.change < 0], minlength=self.sides.n_comparisons)

    @property
    def worst_change(self) -> Floats:
        """The smallest change of every comparison's medians, shape (n_comparisons,); NaN if not known.

        What runs differ by anyway counts as no change for the worse.
        """
        many = self.sides.per_comparison
        found, some = np.full(len(many), np.nan), many > 0
        if some.any():
            counted = np.where(self.within, np.fmax(self.change, 0.0), self.change)
            found[some] = np.fmin.reduceat(counted, (many.cumsum() - many)[some])
        return found
