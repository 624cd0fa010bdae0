"""What many configurations of one comparison say together: the lowest, the middle and the highest."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints

#: Up to this many configurations, comparing whole columns is faster than sorting short rows.
_NETWORK = 8


class Extent(NamedTuple):
    """Lowest, middle and highest over the configurations of every comparison.

    Attributes
    ----------
    lowest, middle, highest : ndarray of shape (n_features, n_comparisons)
        Middle is the median as ``statistics.median`` defines it. Unknown values (NaN) are left out;
        NaN where a comparison has no known value.
    """

    lowest: Floats
    middle: Floats
    highest: Floats


def over_configurations(values: Floats, comparison: Ints, n_comparisons: int) -> Extent:
    """Reduce values per configuration to values per comparison.

    Parameters
    ----------
    values : ndarray of shape (n_features, n_configurations)
    comparison : ndarray of shape (n_configurations,)
        The comparison of every configuration, ascending.
    n_comparisons : int

    Returns
    -------
    Extent
    """
    counts = np.bincount(comparison, minlength=n_comparisons)
    same = counts.max(initial=0)
    if same > 0 and counts.min() == same:  # the common case, without copies
        return _extent([values[:, i::same] for i in range(same)])
    firsts = np.cumsum(counts) - counts
    result = Extent(*(np.full((len(values), n_comparisons), np.nan) for _ in range(3)))
    for size in np.unique(counts[counts > 0]):
        rows = np.flatnonzero(counts == size)
        part = _extent([values[:, firsts[rows] + i] for i in range(size)])
        for whole, own in zip(result, part, strict=True):
            whole[:, rows] = own
    return result


def signed_root(values: Floats) -> Floats:
    """Return the square root of every value's size with the value's sign (seed 000, figure 6.5, line 37)."""
    size = np.abs(values)
    return np.copysign(np.sqrt(size, out=size), values, out=size)


def _extent(planes: list[Floats]) -> Extent:
    """Reduce one array per configuration; element ``j`` of each belongs to the same comparison."""
    if len(planes) <= 2:  # noqa: PLR2004 - all three follow from the two ends
        low, high = np.fmin(planes[0], planes[-1]), np.fmax(planes[0], planes[-1])
        return Extent(low, (low + high) / 2 if len(planes) > 1 else low, high)
    gaps = np.array([np.isnan(plane) for plane in planes])
    if gaps.any():
        return _extent_with_gaps(planes, gaps)
    ordered = _sorted(planes)
    low, high = ordered[(len(planes) - 1) // 2], ordered[len(planes) // 2]
    return Extent(ordered[0], low if low is high else (low + high) / 2, ordered[-1])


def _extent_with_gaps(planes: list[Floats], gaps: NDArray[np.bool_]) -> Extent:
    """Reduce what has gaps: they go last, as if they were infinite, and are not counted."""
    known = len(planes) - gaps.sum(axis=0)
    filled = [np.where(gap, np.inf, plane) for gap, plane in zip(gaps, planes, strict=True)]
    ordered = np.array(_sorted(filled))

    def at(index: Ints) -> Floats:
        return np.asarray(np.take_along_axis(ordered, np.maximum(index, 0)[None], axis=0)[0])

    ends = (ordered[0], (at((known - 1) // 2) + at(known // 2)) / 2, at(known - 1))
    return Extent(*(np.where(known > 0, end, np.nan) for end in ends))


def _sorted(planes: list[Floats]) -> list[Floats]:
    if len(planes) > _NETWORK:
        return list(np.sort(np.stack(planes), axis=0))
    ordered = list(planes)
    for end in range(len(ordered) - 1, 0, -1):
        for i in range(end):
            low, high = ordered[i], ordered[i + 1]
            ordered[i], ordered[i + 1] = np.minimum(low, high), np.maximum(low, high)
    return ordered
