"""What a model is asked about comparisons, and what is known of them before it answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints, Samples, Sides, five_numbers
from features.comparisons.history import ORDINARY, Steps, run_steps, within_runs
from features.comparisons.outliers import Wild, some, without_copies, without_wild
from features.comparisons.summaries import flat

#: No change is larger: it could be more than numbers can tell.
FARTHEST = 1e9


@dataclass(frozen=True)
class Asked:
    """Comparisons as they are judged: without copies and wild samples, and with what their medians did."""

    sides: Sides
    wild: Wild  # what was left out of them
    #: Shape (n_configurations,): The target's median against the baseline's, as a share of it, `FARTHEST` at
    #: most; negative is worse.
    change: Floats
    steps: Steps  # the same against what runs differ by
    #: Shape (n_configurations,): Whether that is no more than what runs of this operation differ by.
    within: NDArray[np.bool_]
    #: worst, best: shape (n_comparisons,): The configuration with the smallest and with the largest change;
    #: -1 where there is none.
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


#: A baseline of fewer versions is too short to tell what runs differ by.
_SHORT = 5


def short_of_runs(sides: Sides) -> Ints:
    """Return the configurations whose baseline has few versions, but whose past has enough."""
    if not sides.history.lengths.any():
        return np.zeros(0, np.int64)
    baseline, history = sides.baseline.levels.lengths, sides.history.levels.lengths
    short = (baseline > 0) & (baseline < _SHORT) & (sides.target.lengths > 0)
    return np.flatnonzero(short & (baseline + history >= _SHORT))


def without_past(sides: Sides) -> Sides:
    """Return comparisons as they are if nothing is known of what was before, and of other operations."""
    history = sides.history
    nothing = Samples(history.values, history.orders, history.starts, history.starts)
    return replace(sides, history=nothing, siblings=None, siblings_worse=None)


def with_past(sides: Sides, rows: Ints) -> Sides:
    """Return some configurations with all that was before their target as baseline, and without history."""
    own = some(sides, rows)
    baseline = _joined(own.history, own.baseline)
    nothing = Samples(baseline.values, baseline.orders, baseline.starts, baseline.starts)
    return replace(own, baseline=baseline, history=nothing, baseline_five=five_numbers(baseline))


def _joined(before: Samples, after: Samples) -> Samples:
    parts = [flat(side) for side in (before, after)]
    order = np.argsort(np.concatenate([owner for owner, _ in parts]), kind="stable")
    both = list(zip((before, after), parts, strict=True))
    values = np.concatenate([side.values[place] for side, (_, place) in both])[order]
    orders = np.concatenate([side.orders[place] for side, (_, place) in both])[order]
    stops = np.cumsum(before.lengths + after.lengths)
    return Samples(values, orders, stops - before.lengths - after.lengths, stops)
