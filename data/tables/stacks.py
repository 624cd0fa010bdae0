"""Rows that belong together, brought side by side in arrays without gaps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.intp]


def stacks(place: Whole, places: int) -> Iterator[tuple[Whole, Whole]]:
    """Yield places with the same number of rows, and these rows.

    Parameters
    ----------
    place : ndarray of shape (n_rows,)
        Where each row belongs, from 0 to `places`, exclusive.
    places : int

    Yields
    ------
    here : ndarray of shape (n_here,)
        Places, rising; those without rows are left out.
    rows : ndarray of shape (n_here, size)
        Their rows, in their order.
    """
    order, sizes = np.argsort(place, kind="stable"), np.bincount(place, minlength=places)
    starts = np.cumsum(sizes) - sizes
    for size in np.unique(sizes[sizes > 0]):
        here = np.flatnonzero(sizes == size)
        yield here, order[starts[here][:, None] + np.arange(size)]


def middle(rows: Floats) -> tuple[Floats, Whole]:
    """Return the median along the second axis, NaN apart, and how many values there are.

    Parameters
    ----------
    rows : ndarray of shape (n_places, size, n_columns)
        Rising along the second axis, NaN last, as ``np.sort`` leaves them.

    Returns
    -------
    middle, count : ndarray of shape (n_places, n_columns)
        The median is NaN where there is no value.
    """
    size = rows.shape[1]
    count = size - np.isnan(rows).sum(axis=1)
    if (count == size).all():
        return (rows[:, (size - 1) // 2] + rows[:, size // 2]) / 2, count
    low, high = (
        np.take_along_axis(rows, place[:, None], axis=1)[:, 0]
        for place in (np.maximum(count - 1, 0) // 2, np.minimum(count // 2, size - 1))
    )
    return (low + high) / 2, count
