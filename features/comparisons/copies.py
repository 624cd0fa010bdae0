"""Configurations that are copies of another one: they say nothing that it didn't say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Ints, Samples, Sides

_COLUMNS = ("comparison", "threads", "sign", "baseline_five", "target_five")
_LISTS = ("baseline", "target", "history", "later")


def without_copies(sides: Sides) -> Sides:
    """Leave out every configuration with the same samples, versions and summaries as an earlier one.

    Returns
    -------
    Sides
        The same object if there are no copies.
    """
    first: dict[tuple[bytes, ...], int] = {}
    kept = np.ones(len(sides.sign), bool)
    for row in _alike(sides).tolist():
        kept[row] = first.setdefault(_content(sides, row), row) == row
    if kept.all():
        return sides
    return some(sides, kept)


def some(sides: Sides, rows: NDArray[np.bool_] | Ints) -> Sides:
    """Return some configurations of `sides`."""
    return replace(
        sides,
        **{name: getattr(sides, name)[rows] for name in _COLUMNS},
        **{name: getattr(sides, name).of(rows) for name in _LISTS},
    )


def _alike(sides: Sides) -> NDArray[np.intp]:
    """Return the configurations whose medians another one of the same comparison has, too."""
    if len(sides.sign) == len(np.unique(sides.comparison)):
        return np.zeros(0, np.intp)
    medians = sides.baseline_five[:, 2], sides.target_five[:, 2]
    order = np.lexsort((*medians, sides.comparison))
    same = np.ones(len(order) - 1, bool)
    for column in (*medians, sides.comparison):
        same &= column[order[1:]] == column[order[:-1]]
    return np.sort(order[np.append(same, False) | np.insert(same, 0, False)])


def _content(sides: Sides, row: int) -> tuple[bytes, ...]:
    """Return all that is known of one configuration; versions count by their place, not by their order."""
    lists: list[Samples] = [getattr(sides, name) for name in _LISTS]
    known = [sides.comparison[row], sides.baseline_five[row], sides.target_five[row]]
    for one in lists:
        orders = one.orders[one.starts[row] : one.stops[row]]
        known += [one.at(row), np.unique(orders, return_inverse=True)[1]]
    return tuple(array.tobytes() for array in known)
