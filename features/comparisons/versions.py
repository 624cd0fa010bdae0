"""Rows of numbers of which some are unknown: what versions come to, of lists that differ in length."""

from __future__ import annotations

import numpy as np

from data.comparisons.sides import Floats, Ints, Samples


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
