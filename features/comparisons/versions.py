"""One level per version: the median of a version's samples, which bad single readings don't move."""

from __future__ import annotations

import numpy as np

from data.comparisons.sides import Floats, Ints, Samples


def levels(samples: Samples) -> Samples:
    """Return the median of every version in every list, as lists of one value per version.

    Parameters
    ----------
    samples : Samples
        Lists of whole versions: a list never begins or ends within a version.

    Returns
    -------
    Samples
        With the same lists; the computing is done once per version, however many lists share it.
    """
    values, orders = samples.values, samples.orders
    if not len(values):
        return samples
    held = samples.lengths > 0
    edge = np.zeros(len(values) + 1, bool)
    edge[0] = True
    edge[1:-1] = orders[1:] != orders[:-1]
    edge[samples.starts[held]] = True
    edge[samples.stops[held]] = True
    starts = np.flatnonzero(edge[:-1])
    versions = Samples(values, orders, starts, np.r_[starts[1:], len(values)])
    medians = np.empty(len(starts))
    for rows, ordered in versions.ordered:
        medians[rows] = _medians(ordered)
    before = np.r_[np.cumsum(edge[:-1]) - edge[:-1], len(starts)]
    return Samples(medians, orders[starts], before[samples.starts], before[samples.stops])


def _medians(ordered: Floats) -> Floats:
    """Return what ``numpy.median`` does of ascending rows."""
    low, high = ordered[:, (ordered.shape[1] - 1) // 2], ordered[:, ordered.shape[1] // 2]
    middle = (low + high) / 2 if ordered.shape[1] % 2 == 0 else low
    return np.where(np.isnan(ordered[:, -1]), np.nan, middle)


def first(samples: Samples, width: int) -> Floats:
    """Return the first values of every list, left-aligned, NaN where a list has fewer.

    Returns
    -------
    ndarray of shape (n_configurations, w)
        w is the longest list's length, at most `width`.
    """
    lengths = np.minimum(samples.lengths, width)
    return _filled(samples, samples.starts, lengths, np.arange(lengths.max(initial=0)))


def last(samples: Samples, width: int) -> Floats:
    """Return the last values of every list, right-aligned, NaN where a list has fewer.

    Returns
    -------
    ndarray of shape (n_configurations, w)
        w is the longest list's length, at most `width`.
    """
    lengths = np.minimum(samples.lengths, width)
    longest = lengths.max(initial=0)
    return _filled(samples, samples.stops - longest, lengths, np.arange(longest), lead=longest - lengths)


def _filled(samples: Samples, starts: Ints, lengths: Ints, columns: Ints, lead: Ints | None = None) -> Floats:
    skip = np.zeros_like(lengths) if lead is None else lead
    held = (columns >= skip[:, None]) & (columns < (skip + lengths)[:, None])
    if not len(samples.values):
        return np.full(held.shape, np.nan)
    index = np.clip(starts[:, None] + columns, 0, len(samples.values) - 1)
    return np.where(held, samples.values[index], np.nan)


def quantile(rows: Floats, share: float) -> Floats:
    """Return a quantile of the known values of every row, interpolated linearly; NaN for unknown rows.

    Parameters
    ----------
    rows : ndarray of shape (n, width)
        NaN is unknown.
    share : float
        Between 0 and 1.
    """
    if rows.shape[1] == 0:
        return np.full(len(rows), np.nan)
    ordered = np.sort(rows, axis=1)
    known = np.isfinite(rows).sum(axis=1)
    place = np.maximum(known - 1, 0) * share
    low = np.floor(place).astype(np.int64)
    high = np.ceil(place).astype(np.int64)
    each = np.arange(len(rows))
    weight = place - low
    return np.asarray(ordered[each, low] * (1 - weight) + ordered[each, high] * weight)


def total_of(rows: Floats) -> Floats:
    """Return the sum of every row, from left to right: zeros around it don't change its last digit."""
    return rows.cumsum(axis=1)[:, -1] if rows.shape[1] else np.zeros(len(rows))


def mean(rows: Floats) -> Floats:
    """Return the mean of the known values of every row, NaN for unknown rows."""
    known = np.isfinite(rows)
    total = total_of(np.where(known, rows, 0.0))
    count = known.sum(axis=1)
    return np.asarray(total / np.where(count > 0, count, np.nan))
