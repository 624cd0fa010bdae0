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
    firsts = np.cumsum(counts) - counts
    same = counts.max(initial=0)
    if same > 0 and counts.min() == same:  # the common case, without copies
        return _extent([values[:, i::same] for i in range(same)])
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
    # A minimum is NaN where anything is, and costs less than asking every value.
    unknown = np.any([np.isnan(plane.min(axis=1, initial=np.inf)) for plane in planes], axis=0)
    if unknown.any():
        return _extent_with_gaps(planes, unknown)
    ordered = _sorted(planes)
    low, high = ordered[(len(planes) - 1) // 2], ordered[len(planes) // 2]
    return Extent(ordered[0], low if low is high else (low + high) / 2, ordered[-1])


def _extent_with_gaps(planes: list[Floats], unknown: NDArray[np.bool_]) -> Extent:
    """Reduce the features that have gaps apart from the others, and leave alone those that nobody knows."""
    somewhere = np.any([np.isfinite(plane).any(axis=1) for plane in planes], axis=0)
    result = Extent(*(np.full(planes[0].shape, np.nan) for _ in range(3)))
    for features, reduce in ((~unknown, _extent), (unknown & somewhere, _extent_of_known)):
        if features.any():
            for whole, own in zip(result, reduce([plane[features] for plane in planes]), strict=True):
                whole[features] = own
    return result


def _extent_of_known(planes: list[Floats]) -> Extent:
    stack = np.stack(planes)
    known = np.isfinite(stack).sum(axis=0)
    ordered = np.sort(stack, axis=0)  # NaN goes last

    def at(index: Ints) -> Floats:
        return np.asarray(np.take_along_axis(ordered, np.maximum(index, 0)[None], axis=0)[0])

    middle = (at((known - 1) // 2) + at(known // 2)) / 2
    middle[known == 0] = np.nan
    return Extent(ordered[0], middle, at(known - 1))


def _sorted(planes: list[Floats]) -> list[Floats]:
    if len(planes) > _NETWORK:
        return list(np.sort(np.stack(planes), axis=0))
    ordered = list(planes)
    for end in range(len(ordered) - 1, 0, -1):
        for i in range(end):
            low, high = ordered[i], ordered[i + 1]
            ordered[i], ordered[i + 1] = np.minimum(low, high), np.maximum(low, high)
    return ordered
