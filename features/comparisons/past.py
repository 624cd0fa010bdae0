"""The level before the target, where the baseline is one run or few: all earlier runs stand for it, too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from data.comparisons.sides import Ints, Samples, Sides, five_numbers
from features.comparisons.copies import some
from features.comparisons.ranks import flat

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
