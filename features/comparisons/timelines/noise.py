"""How much a series varies from version to version without changing, and what that hides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from data.comparisons.sides import Floats
from features.comparisons.five_numbers import NOISE_FLOOR
from features.comparisons.versions import quantile

#: Quantiles of the distance between two values of a normal distribution, in its standard deviations times the
#: root of 2: the median hardly notices steps, the other notices noise of which most is nothing.
_DISTANCES = ((0.5, 0.6745), (0.75, 1.1503))
#: Neighbours so far from each other are compared: what drifts for a while varies more between them.
_APART = (1, 2, 3)
#: Fewer versions than this don't tell how they vary.
_ENOUGH = 4
#: An interquartile range of a normal distribution, in standard deviations, and the error of a median of one.
_IQR, _MEDIAN_ERROR = 1.349, 1.2533
#: Repetitions that a summary stands for, which does not say how many there were.
_REPETITIONS = 5
#: A difference of two values is told from noise, 95 times in 100, from so many of their deviations on.
_TOLD = 1.96 * np.sqrt(2)
#: A change of this share is what people look for (seed 000, section 5.1).
WANTED = 0.05


def scatter(rows: Floats, apart: Sequence[int] = _APART) -> Floats:
    """Return the standard deviation between versions that have no lasting changes, or few.

    Parameters
    ----------
    rows : ndarray of shape (n, width)
        Logarithms of the medians of versions; NaN is unknown.
    apart : sequence of int
        How many versions lie between those that are compared, plus 1. The farther, the more pairs have a
        change between them.

    Returns
    -------
    ndarray of shape (n,)
        At least `NOISE_FLOOR`. The largest of what robust distances between such versions say: where noise
        drifts, direct neighbours are more alike. NaN with fewer than 4 versions.
    """
    packed = _packed(rows)
    found = np.full(len(rows), NOISE_FLOOR)
    for lag in apart:
        distances = np.abs(packed[:, lag:] - packed[:, :-lag]) / np.sqrt(2)
        if distances.shape[1]:
            for share, deviations in _DISTANCES:
                found = np.fmax(found, quantile(distances, share) / deviations)
    return np.where(np.isfinite(rows).sum(axis=1) >= _ENOUGH, found, np.nan)


def instability(five: Floats, counts: Floats, noise: Floats) -> Floats:
    """Return the smallest change of a median that can be told from noise, 95 times in 100.

    That is 1.96 times the deviation of the difference of two versions' medians. A version's median varies as
    versions do (`noise`), and at least as the repetitions say: by 1.2533 times the interquartile range (of
    a normal distribution, in deviations) by the root of how many there are, the median over all versions.
    An operation is unstable if that is more than 5 % (`WANTED`): its boxes say nothing beside those lines.

    Parameters
    ----------
    five : ndarray of shape (n, n_versions, 5)
        NaN where nothing was measured.
    counts : ndarray of shape (n, n_versions)
        Repetitions; 0 where they are not known, which count as 5.
    noise : ndarray of shape (n,)
        How much versions vary beside their lasting changes, as `scatter` returns it.

    Returns
    -------
    ndarray of shape (n,)
        As a share of the median; NaN where neither is known.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        medians = np.where(five[..., 2] > 0, five[..., 2], np.nan)
        spread = (five[..., 3] - five[..., 1]) / medians / _IQR
    many = np.where(counts > 0, counts, _REPETITIONS)
    repeated = quantile(np.where(many > 1, _MEDIAN_ERROR * spread / np.sqrt(many), np.nan), 0.5)
    return np.asarray(_TOLD * np.fmax(noise, repeated))


def _packed(rows: Floats) -> Floats:
    """Move the known values of every row to its beginning, without gaps."""
    place = np.argsort(~np.isfinite(rows), axis=1, kind="stable")
    return np.asarray(np.take_along_axis(rows, place, axis=1))
