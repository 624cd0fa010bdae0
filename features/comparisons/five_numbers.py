"""What the five numbers (min, quartiles, max) of two sides say about them."""

from __future__ import annotations

from itertools import product

import numpy as np

from data.comparisons.sides import Floats

#: Spreads count as at least this share of the median: five equal readings don't make noise zero.
NOISE_FLOOR = 1e-3
#: The interquartile range of a normal distribution in standard deviations.
_IQR = 1.349


def oriented(five: Floats, sign: Floats) -> Floats:
    """Return five numbers as if higher were better: where lower is, values are mirrored (v -> -v).

    Parameters
    ----------
    five : ndarray of shape (..., n_configurations, 5)
    sign : ndarray of shape (n_configurations,)

    Returns
    -------
    ndarray of shape (..., n_configurations, 5)
        Ascending, so min and max, and the quartiles, have changed places where values are mirrored.
    """
    lower = sign < 0
    if not lower.any():
        return five
    return np.where(lower[:, None], -five[..., ::-1], five)


def relative_differences(baseline: Floats, target: Floats) -> Floats:
    """Return medians, mins, maxes, q1s and q3s of figure 6.5, per configuration (seed 000, section 6.5).

    Parameters
    ----------
    baseline, target : ndarray of shape (n_configurations, 5)
        As `oriented` gives them.

    Returns
    -------
    ndarray of shape (5, n_configurations)
        The shift of the median by the baseline's median, and the distances of the target's min, max and
        quartiles from its median by that median. Negative medians are a worse target. NaN where a
        median is zero or unknown.
    """
    middle = target[:, 2]
    size = _size(middle)
    differences = np.empty((5, len(middle)))
    np.divide(middle - baseline[:, 2], _size(baseline[:, 2]), out=differences[0])
    for row, column in enumerate((0, 4, 1, 3), start=1):
        np.subtract(middle, target[:, column], out=differences[row])
    differences[1:] /= size
    return differences


def spread(five: Floats) -> Floats:
    """Return the standard deviation that the quartiles suggest, at least `NOISE_FLOOR` of the median."""
    middle = np.abs(five[..., 2])
    return np.maximum((five[..., 3] - five[..., 1]) / _IQR, NOISE_FLOOR * middle)


def overlap(baseline: Floats, target: Floats) -> Floats:
    """Return how far the target's range reaches up into the baseline's, by the range of both together.

    Parameters
    ----------
    baseline, target : ndarray of shape (n_configurations, 5)
        As `oriented` gives them.

    Returns
    -------
    ndarray of shape (n_configurations,)
        1 for a target that is nowhere worse, 0 where its best value is the baseline's worst, towards -1 for a
        target far below; 1 if all is equal. A worse target never has more of it.
    """
    reach = target[:, 4] - baseline[:, 0]
    whole = np.maximum(baseline[:, 4], target[:, 4]) - np.minimum(baseline[:, 0], target[:, 0])
    return np.where(whole == 0, 1.0, reach / np.where(whole == 0, 1.0, whole))


def superiority(baseline: Floats, target: Floats) -> Floats:
    """Estimate the probability that a target value exceeds a baseline value, from five numbers each.

    The quantile functions are taken as linear between the five numbers, so each side is a mixture of four
    uniform distributions, and the result is the mean over the sixteen pairs of them. Ties count half.

    Returns
    -------
    ndarray of shape (n_configurations,)
    """
    total = np.zeros(len(baseline))
    for i, j in product(range(4), range(4)):
        total += _uniform_above(baseline[:, i], baseline[:, i + 1], target[:, j], target[:, j + 1])
    return total / 16


def _uniform_above(a: Floats, b: Floats, c: Floats, d: Floats) -> Floats:
    """Return P(Y > X) + P(Y = X) / 2 for X uniform over [a, b] and Y uniform over [c, d]."""
    width = np.where(d > c, d - c, 1.0)
    spread_out = (_area_below(a, b, d) - _area_below(a, b, c)) / width
    below = np.clip((c - a) / np.where(b > a, b - a, 1.0), 0.0, 1.0)
    return np.where(d > c, spread_out, np.where(b > a, below, 0.5 * (np.sign(c - a) + 1)))


def _area_below(a: Floats, b: Floats, y: Floats) -> Floats:
    """Return the integral of X's distribution function up to `y`."""
    inside = np.clip(y, a, b) - a
    width = np.where(b > a, b - a, 1.0)
    return np.asarray(inside**2 / (2 * width) + np.maximum(y - b, 0.0))


def _size(median: Floats) -> Floats:
    size = np.abs(median)
    if not size.all():
        size[size == 0] = np.nan
    return size
