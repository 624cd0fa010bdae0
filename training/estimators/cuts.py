"""Where to cut numbers into levels: by frequency, or as the classes ask for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.estimators.inputs import Labelled

Floats = NDArray[np.float64]
Codes = NDArray[np.uint8]

#: Cells of the grid on which class-dependent cuts are sought.
_CELLS = 64
#: More levels of one feature are not considered.
_MOST = 12
#: Features that are cut at once.
_FEATURES = 8
#: Values that are coded at once: half a megabyte of them stays in the cache.
_AT_ONCE = 1 << 16


def frequency_cuts(rows: Labelled, levels: int) -> Floats:
    """Cut every feature into `levels` of the same frequency.

    A feature of no more than `levels` distinct values keeps them all.

    Returns
    -------
    ndarray of shape (n_features, levels - 1)
        Ascending, infinite where a feature has fewer levels. A value belongs to the level of as many cuts as
        lie below it.
    """
    weights = None if rows.weights is None else rows.weights[:, None]
    total = float(rows.weighed().sum())
    cuts = np.full((rows.x.shape[1], levels - 1), np.inf)
    places = _even(np.arange(1.0, len(rows.x)), total, levels)
    step = max(1, _AT_ONCE // len(rows.x))
    for start in range(0, len(cuts), step):
        part = slice(start, start + step)
        values = np.sort(rows.x[:, part], axis=0)
        # features whose values all differ, as most do, are cut at the same places
        alike = (values[1:] != values[:-1]).all(axis=0) & (weights is None)
        cuts[part, : len(places)][alike] = _middle(values[places], values[places + 1]).T[alike]
        for feature in start + np.flatnonzero(~alike):
            bounds, below = _bounds(rows.x[:, feature], weights)
            chosen = _even(below[:, 0], total, levels)
            cuts[feature, : len(chosen)] = bounds[chosen]
    return cuts


def class_cuts(rows: Labelled) -> Floats:
    """Cut every feature where its relation to the class changes: the most probable discretisation.

    MODL (Boulle 2006, "MODL: a Bayes optimal discretization method for continuous attributes", Machine
    Learning 65): what it takes to tell the number of intervals, their bounds, the frequency of the classes in
    each, and the classes themselves, is smallest in sum. The minimum is exact (dynamic programming) on a grid
    of 64 cells in which every class has the same total weight, so that a rare class is resolved as finely as
    a frequent one. A feature that tells nothing of the class keeps one level.

    Returns
    -------
    ndarray of shape (n_features, n_cuts)
        As from `frequency_cuts`.
    """
    n_classes = len(rows.classes)
    weights = np.zeros((len(rows.y), n_classes))
    weights[np.arange(len(rows.y)), rows.y] = rows.weighed()
    totals = weights.sum(axis=0)
    grid = np.full((rows.x.shape[1], _CELLS - 1), np.inf)
    counts = np.zeros((len(grid), _CELLS, n_classes))
    for place, column in enumerate(rows.x.T):
        bounds, below = _bounds(column, weights)
        chosen = _even((below / totals).sum(axis=1), float(n_classes), _CELLS)
        grid[place, : len(chosen)] = bounds[chosen]
        counts[place, : len(chosen) + 1] = np.diff(below[chosen], axis=0, prepend=0.0, append=totals[None])
    kept = np.concatenate(
        [_modl(part) for part in np.array_split(counts, range(_FEATURES, len(counts), _FEATURES))]
    )
    cuts = np.sort(np.where(kept, grid, np.inf), axis=1)
    return np.ascontiguousarray(cuts[:, : int(kept.sum(axis=1).max())])


def codes(x: Floats, cuts: Floats) -> Codes:
    """Return the level of every value, counted from zero, shape (n_rows, n_features)."""
    result = np.zeros(x.shape, np.uint8)
    block = max(1, _AT_ONCE // max(1, x.shape[1]))
    for start in range(0, len(x), block):
        part, levels = x[start : start + block], result[start : start + block]
        for cut in cuts.T:
            levels += part > cut
    return result


def _bounds(column: Floats, weights: Floats | None) -> tuple[Floats, Floats]:
    """Return a cut between every two neighbouring values of a feature, and the weight below each.

    Parameters
    ----------
    column : ndarray of shape (n_rows,)
    weights : ndarray of shape (n_rows, n_kinds) or None
        None: one each.

    Returns
    -------
    cuts : ndarray of shape (n_distinct - 1,)
    below : ndarray of shape (n_distinct - 1, n_kinds)
    """
    order = None if weights is None else np.argsort(column, kind="stable")
    values = np.sort(column) if order is None else column[order]
    last = np.flatnonzero(values[1:] != values[:-1])
    below = last[:, None] + 1.0 if weights is None else np.cumsum(weights[order], axis=0)[last]
    return _middle(values[last], values[last + 1]), np.asarray(below, np.float64)


def _middle(low: Floats, high: Floats) -> Floats:
    low, high = low.astype(np.float64), high.astype(np.float64)
    middle = low / 2 + high / 2
    # the middle of two neighbours among floating-point numbers may be the upper one
    return np.where((low <= middle) & (middle < high), middle, low)


def _even(below: Floats, total: float, levels: int) -> NDArray[np.intp]:
    """Choose the bounds that come nearest to `levels` of equal weight; all, if there are fewer."""
    if len(below) < levels:
        return np.arange(len(below))
    wanted = total * np.arange(1, levels) / levels
    right = np.clip(np.searchsorted(below, wanted), 1, len(below) - 1)
    return np.unique(right - (wanted - below[right - 1] <= below[right] - wanted))


def _modl(counts: Floats) -> NDArray[np.bool_]:
    """Choose cuts among the bounds of the cells; shape (n_features, n_cells - 1)."""
    from scipy.special import gammaln

    n_features, n_cells, n_classes = counts.shape
    below = np.zeros((n_features, n_cells + 1, n_classes))
    np.cumsum(counts, axis=1, out=below[:, 1:])
    inside = np.maximum(below[:, None, :, :] - below[:, :, None, :], 0.0)
    total = inside.sum(axis=-1)
    interval = _ways(gammaln, total, n_classes) + gammaln(total + 1) - gammaln(inside + 1).sum(axis=-1)
    interval[:, np.tril_indices(n_cells + 1)[0], np.tril_indices(n_cells + 1)[1]] = np.inf
    best, origins = interval[:, 0], []
    n = total[:, 0, -1]
    costs = [best[:, -1]]
    for levels in range(2, _MOST + 1):
        reached = best[:, :, None] + interval
        origins.append(reached.argmin(axis=1))
        best = reached.min(axis=1)
        costs.append(best[:, -1] + _ways(gammaln, n, levels))
    levels = np.argmin(costs, axis=0) + 1
    chosen = np.zeros((n_features, n_cells + 1), bool)
    at, feature = np.full(n_features, n_cells), np.arange(n_features)
    for step in range(_MOST, 1, -1):
        moving = levels >= step
        at[moving] = origins[step - 2][feature[moving], at[moving]]
        chosen[feature[moving], at[moving]] = True
    return chosen[:, 1:-1]


def _ways(gammaln: Any, n: Floats, parts: int) -> Floats:
    """Return the logarithm of the number of ways to split `n` into `parts`, zeros allowed."""
    return np.asarray(gammaln(n + parts) - gammaln(n + 1) - gammaln(parts))
