"""What the samples of two sides say beyond five numbers: rank test, superiority, Welch's t."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints, Samples, Sides


@dataclass(frozen=True)
class RankTest:
    """Mann-Whitney's test of target against baseline, per configuration.

    Attributes
    ----------
    z : ndarray of shape (n_configurations,)
        Normal approximation with the correction for ties, without continuity correction; negative: target
        worse. 0 if all samples are equal, NaN where a side has none.
    superiority : ndarray of shape (n_configurations,)
        The share of pairs in which the target's sample is the better one, ties counting half.
    continuity : ndarray of shape (n_configurations,)
        Half a rank in the unit of z: what the continuity correction takes off its size.
    """

    z: Floats
    superiority: Floats
    continuity: Floats

    def p_values(self) -> Floats:
        """Return the two-sided p with continuity correction; NaN where a side has no samples."""
        from scipy.special import ndtr

        return np.minimum(2 * ndtr(self.continuity - np.abs(self.z)), 1.0)


@dataclass(frozen=True)
class Moments:
    """Number, mean and variance (by n - 1) of every list; NaN where there are too few samples."""

    n: Ints
    mean: Floats
    variance: Floats

    def halves(self) -> tuple[Moments, Moments]:
        """Return those of the first half of the lists, and of the second."""
        half = len(self.n) // 2
        first, second = slice(half), slice(half, None)
        return self._of(first), self._of(second)

    def _of(self, rows: slice) -> Moments:
        return Moments(self.n[rows], self.mean[rows], self.variance[rows])


def rank_test(baseline: Samples, target: Samples, sign: Floats) -> RankTest:
    """Compare the samples of both sides by rank, all configurations in one sort.

    Parameters
    ----------
    baseline, target : Samples
        With the same number of lists.
    sign : ndarray of shape (n_configurations,)
        -1 where lower is better.
    """
    n_b, n_t = baseline.lengths, target.lengths
    rank_sum, ties = np.zeros(len(sign)), np.zeros(len(sign))
    key = n_b * (n_t.max(initial=0) + 1) + n_t
    for pair in sorted(set(key[(n_b > 0) & (n_t > 0)].tolist())):
        rows = (key == pair).nonzero()[0]
        values = np.concatenate((_matrix(baseline, rows), _matrix(target, rows)), axis=1) * sign[rows, None]
        rank_sum[rows], ties[rows] = _rank_sums(values, int(n_b[rows[0]]))
    with np.errstate(invalid="ignore", divide="ignore"):
        wins = rank_sum - n_t * (n_t + 1) / 2
        pairs = n_b * n_t.astype(np.float64)
        n = (n_b + n_t).astype(np.float64)
        deviation = np.sqrt(pairs / 12 * ((n + 1) - ties / (n * (n - 1))))
        z = np.where(deviation > 0, (wins - pairs / 2) / deviation, 0.0)
        return RankTest(
            np.where(pairs > 0, z, np.nan),
            wins / np.where(pairs > 0, pairs, np.nan),
            np.where(deviation > 0, 0.5 / deviation, 0.0),
        )


def moments(samples: Samples) -> Moments:
    """Return mean and variance of every list."""
    n = samples.lengths
    owner, place = flat(samples)
    values = samples.values[place]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(owner, values, minlength=len(n)) / n
        squares = np.bincount(owner, (values - mean[owner]) ** 2, minlength=len(n))
        variance = np.where(n > 1, squares / (n - 1), np.nan)
    return Moments(n, mean, variance)


def welch_t(baseline: Moments, target: Moments, sign: Floats) -> Floats:
    """Return Welch's t of target against baseline; negative: target worse.

    Returns
    -------
    ndarray of shape (n_configurations,)
        NaN where a side has fewer than two samples; infinite where means differ and no sample does; 0
        where nothing differs.
    """
    error = np.sqrt(baseline.variance / baseline.n.clip(1) + target.variance / target.n.clip(1))
    shift = sign * (target.mean - baseline.mean)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where((error == 0) & (shift == 0), 0.0, shift / error)


def sampled(sides: Sides) -> NDArray[np.bool_]:
    """Return which configurations have samples on both sides."""
    return (sides.baseline.lengths > 0) & (sides.target.lengths > 0)


def flat(samples: Samples) -> tuple[Ints, Ints]:
    """Return all lists one after the other: which list a sample belongs to, and its place in the values."""
    lengths = samples.lengths
    owner = np.repeat(np.arange(len(lengths)), lengths)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return owner, samples.starts[owner] + within


def _matrix(samples: Samples, rows: Ints) -> Floats:
    """Return lists of equal length as the rows of a matrix."""
    return samples.values[samples.starts[rows, None] + np.arange(samples.lengths[rows[0]])]


def _rank_sums(values: Floats, n_baseline: int) -> tuple[Floats, Floats]:
    """Sum the midranks of the target, which follows the baseline in every row, and t^3 - t over its ties."""
    order = np.argsort(values, axis=1)
    ordered = values[np.arange(len(values))[:, None], order]
    is_target = order >= n_baseline
    same = ordered[:, 1:] == ordered[:, :-1]
    ranks = np.arange(1.0, values.shape[1] + 1)
    rank_sum, ties = is_target.astype(np.float64) @ ranks, np.zeros(len(values))
    tied = np.flatnonzero(same.any(axis=1))
    if len(tied):
        midranks, ties[tied] = _midranks(same[tied])
        rank_sum[tied] = (midranks * is_target[tied]).sum(axis=1)
    return rank_sum, ties


def _midranks(same: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Give tied neighbours their mean rank.

    Parameters
    ----------
    same : ndarray of shape (n, width - 1)
        Whether a value equals the next one in its sorted row.

    Returns
    -------
    midranks : ndarray of shape (n, width)
    ties : ndarray of shape (n,)
        t^3 - t summed over the groups of t equal values.
    """
    n, width = len(same), same.shape[1] + 1
    first = np.hstack([np.ones((n, 1), bool), ~same]).ravel()
    start = np.flatnonzero(first)
    count = np.diff(np.r_[start, n * width])
    middle = start % width + (count + 1) / 2
    ties = np.bincount(start // width, count.astype(np.float64) ** 3 - count, minlength=n)
    return np.repeat(middle, count).reshape(n, width).astype(np.float64), ties.astype(np.float64)
