"""What came later says about a step: whether it stayed, and whether it happened at the boundary at all."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from data.comparisons.sides import Floats, Samples, Sides
from features.comparisons.five_numbers import NOISE_FLOOR
from features.comparisons.reduce import over_configurations, signed_root
from features.comparisons.versions import first, last, levels, quantile

#: Versions looked at on either side of the boundary.
_VERSIONS = 50
#: Configurations handled at once, to bound memory.
_BLOCK = 20_000

#: By name: -1 = the worse all versions from the target on, the smaller; 0 = they don't move it.
LATER_DIRECTIONS: Mapping[str, int] = {
    "later_step_min": -1,
    "later_change_min": -1,
}
LATER_FEATURES = tuple(LATER_DIRECTIONS)


def later_vectors(sides: Sides) -> Floats:
    """Describe what the versions after the target say of the step.

    Returns
    -------
    ndarray of shape (n_comparisons, len(LATER_FEATURES))
        Negative is worse. NaN where no version after the target is known.
    """
    values = np.full((len(LATER_FEATURES), len(sides.sign)), np.nan)
    rows = np.flatnonzero((sides.later.lengths > 0) & (sides.baseline.lengths > 0))
    history, baseline, target, later = map(levels, (sides.history, sides.baseline, sides.target, sides.later))
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        sign = sides.sign[block, None]
        before = sign * np.hstack([last(side.of(block), _VERSIONS) for side in (history, baseline)])
        after = [sign * first(_usable(side.of(block)), _VERSIONS) for side in (target, later)]
        values[:, block] = _described(before, *after)
    values[~np.isfinite(values)] = np.nan
    return over_configurations(values, sides.comparison, sides.n_comparisons).lowest.T


def _usable(levels: Samples) -> Samples:
    """Return the levels without those that were no measurement: what came later nobody has checked."""
    return Samples(
        np.where(levels.values > 0, levels.values, np.nan), levels.orders, levels.starts, levels.stops
    )


def _described(before: Floats, target: Floats, later: Floats) -> Floats:
    level, then = quantile(before[:, -10:], 0.5), quantile(later, 0.5)
    jitter = quantile(np.abs(np.diff(before, axis=1)), 0.5)
    floor = NOISE_FLOOR * np.abs(level)
    return np.vstack(
        [signed_root((then - level) / np.maximum(jitter, floor)), signed_root((then - level) / np.abs(level))]
    )
