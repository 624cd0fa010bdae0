"""Features from the five-number summaries (minimum, quartiles, maximum) of two sides."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import (
    Floats,
    Ints,
    Samples,
    Sides,
    are_squarable,
    exponents_of,
    flatten_samples,
)
from data.deferred import special


@dataclass(frozen=True)
class RankTest:
    """Mann-Whitney's test of target against baseline; arrays of shape (n_configurations,)."""

    #: Normal approximation with the correction for ties, without continuity correction; negative: target
    #: worse. 0 if all samples are equal, NaN where a side has none.
    z: Floats
    superiority: Floats  # share of pairs where the target's sample is better; ties count half
    continuity: Floats  # half a rank in units of z: the continuity correction

    def p_values(self) -> Floats:
        """Return the two-sided p, corrected for continuity, shape (n_configurations,); NaN as in `z`."""
        return np.minimum(2 * special.ndtr(self.continuity - np.abs(self.z)), 1.0)


@dataclass(frozen=True)
class Moments:
    """Number, mean and variance (by n - 1) of every list; NaN where there are too few samples."""

    n: Ints
    mean: Floats
    variance: Floats

    def split_halves(self) -> tuple[Moments, Moments]:
        """Return the moments of the first half of the lists, and of the second."""
        n, mean, variance, half = self.n, self.mean, self.variance, len(self.n) // 2
        first = Moments(n[:half], mean[:half], variance[:half])
        return first, Moments(n[half:], mean[half:], variance[half:])


def rank_test(baseline: Samples, target: Samples, sign: Floats) -> RankTest:
    """Return Mann-Whitney's test of target against baseline samples, for each configuration.

    The sides have the same number of lists; sign: shape (n_configurations,), -1 where lower is better, else
    1. Where a side has no samples, ``z`` and ``superiority`` are NaN, and ``continuity`` is 0.
    """
    n_b, n_t = baseline.lengths, target.lengths
    rank_sum, ties = np.zeros(len(sign)), np.zeros(len(sign))
    key = n_b * (n_t.max(initial=0) + 1) + n_t
    for pair in sorted(set(key[(n_b > 0) & (n_t > 0)].tolist())):
        rows = (key == pair).nonzero()[0]
        lists = [
            side.values[side.starts[rows, None] + np.arange(side.lengths[rows[0]])]
            for side in (baseline, target)
        ]
        values = np.concatenate(lists, axis=1) * sign[rows, None]
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


def sample_moments(samples: Samples) -> Moments:
    """Return the moments of every list of samples: arrays of shape (n_lists,)."""
    n = samples.lengths
    owner, place = flatten_samples(samples)
    values = samples.values[place]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(owner, values, minlength=len(n)) / n
        squares = np.bincount(owner, (values - mean[owner]) ** 2, minlength=len(n))
        variance = np.where(n > 1, squares / (n - 1), np.nan)
    return Moments(n, mean, variance)


def welch_t(baseline: Moments, target: Moments, sign: Floats) -> Floats:
    """Return Welch's t of target against baseline, shape (n_configurations,); negative: target worse.

    `sign`, shape (n_configurations,): -1 where lower is better, else 1. NaN where a side has fewer than two
    samples. Where all samples of each side are equal: 0 if the means are, too, else infinite, negative where
    the target is worse.
    """
    error = np.sqrt(baseline.variance / baseline.n.clip(1) + target.variance / target.n.clip(1))
    shift = sign * (target.mean - baseline.mean)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where((error == 0) & (shift == 0), 0.0, shift / error)


def has_samples(sides: Sides) -> NDArray[np.bool_]:
    """Return True where a configuration has samples on both sides, shape (n_configurations,)."""
    return (sides.baseline.lengths > 0) & (sides.target.lengths > 0)


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
    """Return the ranks of each sorted row, their mean for ties, and the sum of t^3 - t over t ties."""
    n, width = len(same), same.shape[1] + 1
    first = np.hstack([np.ones((n, 1), bool), ~same]).ravel()
    start = np.flatnonzero(first)
    count = np.diff(np.r_[start, n * width])
    middle = start % width + (count + 1) / 2
    ties = np.bincount(start // width, count.astype(np.float64) ** 3 - count, minlength=n)
    return np.repeat(middle, count).reshape(n, width).astype(np.float64), ties.astype(np.float64)


#: Up to this many configurations, comparing whole columns is faster than sorting short rows.
_NETWORK = 8


class Extent(NamedTuple):
    """Lowest, middle and highest over the configurations of every comparison.

    Arrays have the shape (n_features, n_comparisons). Unknown values (NaN) are left out; NaN where a
    comparison has no known value.
    """

    lowest: Floats
    middle: Floats  # the median, as defined by ``statistics.median``
    highest: Floats


def over_configurations(values: Floats, comparison: Ints, n_comparisons: int) -> Extent:
    """Return the ``lowest``, ``middle`` (median) and ``highest`` value over each comparison's configurations.

    values: shape (n_features, n_configurations), NaN is ignored. comparison: shape (n_configurations,), the
    comparison of every configuration, ascending.
    """
    counts = np.bincount(comparison, minlength=n_comparisons)
    same = counts.max(initial=0)
    if same > 0 and counts.min() == same:  # the common case, without copies
        return _reduce_planes([values[:, i::same] for i in range(same)])
    firsts = np.cumsum(counts) - counts
    result = Extent(*(np.full((len(values), n_comparisons), np.nan) for _ in range(3)))
    for size in np.unique(counts[counts > 0]):
        rows = np.flatnonzero(counts == size)
        part = _reduce_planes([values[:, firsts[rows] + i] for i in range(size)])
        for whole, values_of_part in zip(result, part, strict=True):
            whole[:, rows] = values_of_part
    return result


def signed_root(values: Floats) -> Floats:
    """Return the square root of every value's size with the value's sign (thesis, figure 6.5, line 37)."""
    size = np.abs(values)
    return np.copysign(np.sqrt(size, out=size), values, out=size)


def _reduce_planes(planes: list[Floats]) -> Extent:
    """Reduce one array per configuration; element ``j`` of each belongs to the same comparison."""
    if len(planes) <= 2:  # noqa: PLR2004 - all three follow from the two ends
        low, high = np.fmin(planes[0], planes[-1]), np.fmax(planes[0], planes[-1])
        return Extent(low, (low + high) / 2 if len(planes) > 1 else low, high)
    gaps = np.array([np.isnan(plane) for plane in planes])
    if gaps.any():
        return _extent_with_gaps(planes, gaps)
    ordered = _sort_planes(planes)
    low, high = ordered[(len(planes) - 1) // 2], ordered[len(planes) // 2]
    return Extent(ordered[0], low if low is high else (low + high) / 2, ordered[-1])


def _extent_with_gaps(planes: list[Floats], gaps: NDArray[np.bool_]) -> Extent:
    """Return the lowest, middle and highest of the known values; gaps are sorted last and not counted."""
    counts = len(planes) - gaps.sum(axis=0)
    filled = [np.where(gap, np.inf, plane) for gap, plane in zip(gaps, planes, strict=True)]
    ordered = np.array(_sort_planes(filled))

    def value_at(index: Ints) -> Floats:
        return np.asarray(np.take_along_axis(ordered, np.maximum(index, 0)[None], axis=0)[0])

    ends = (ordered[0], (value_at((counts - 1) // 2) + value_at(counts // 2)) / 2, value_at(counts - 1))
    return Extent(*(np.where(counts > 0, end, np.nan) for end in ends))


def _sort_planes(planes: list[Floats]) -> list[Floats]:
    if len(planes) > _NETWORK:
        return list(np.sort(np.stack(planes), axis=0))
    ordered = list(planes)
    for end in range(len(ordered) - 1, 0, -1):
        for i in range(end):
            low, high = ordered[i], ordered[i + 1]
            ordered[i], ordered[i + 1] = np.minimum(low, high), np.maximum(low, high)
    return ordered


#: Spreads count as at least this share of the median: five equal readings don't make noise zero.
NOISE_FLOOR = 1e-3
#: The median absolute deviation of a normal distribution in standard deviations.
MAD = 0.6745
#: The interquartile range of a normal distribution in standard deviations.
_IQR = 1.349


def orient_upwards(five: Floats, sign: Floats) -> Floats:
    """Return five numbers as if higher were better: where lower is better, values are mirrored (v -> -v).

    The result ascends as `five` does: min and max, and the quartiles, change places where values are
    mirrored; if nothing is mirrored, it is `five` itself. five: min, q1, median, q3, max, shape (...,
    n_configurations, 5); sign: shape (n_configurations,), -1 where lower is better, else 1.
    """
    lower = sign < 0
    if not lower.any():
        return five
    return np.where(lower[:, None], -five[..., ::-1], five)


def relative_differences(baseline: Floats, target: Floats) -> Floats:
    """Return five differences per configuration, shape (5, n_configurations) (thesis, figure 6.5).

    First the target's median minus the baseline's, divided by the absolute value of the baseline's, negative
    where the target is worse; then the target's median minus the target's min, max, q1 and q3, each divided
    by the absolute value of the target's median. NaN where a divisor is zero or unknown. baseline, target:
    shape (n_configurations, 5), as `orient_upwards` returns them.
    """
    middle = target[:, 2]
    baseline_size, size = (np.abs(median) for median in (baseline[:, 2], middle))
    for median in (baseline_size, size):
        median[median == 0] = np.nan
    differences = np.empty((5, len(middle)))
    np.divide(middle - baseline[:, 2], baseline_size, out=differences[0])
    for row, column in enumerate((0, 4, 1, 3), start=1):
        np.subtract(middle, target[:, column], out=differences[row])
    differences[1:] /= size
    return differences


def robust_spread(five: Floats) -> Floats:
    """Return the standard deviation that the quartiles suggest, at least `NOISE_FLOOR` (0.001) * abs(median).

    `five` has shape (..., 5); the result has shape (...) and the unit of `five`.
    """
    middle = np.abs(five[..., 2])
    return np.maximum((five[..., 3] - five[..., 1]) / _IQR, NOISE_FLOOR * middle)


#: Distance from the median, in ranges from the first to the last octile, beyond which a sample is limited.
_FAR_OUT = 2.0

#: Fewer samples do not show how heavy their tails are.
_FEWEST_WITH_TAILS = 5


def interquartile_mean(ordered: Floats) -> Floats:
    """Return the mean of the middle half of each row; samples at its ends count in part.

    `ordered`, shape (n_rows, n_samples), at least one sample, ascends in each row. Shape (n_rows,); NaN for a
    row with a NaN.
    """
    place = np.arange(length := ordered.shape[1])
    weights = np.minimum(place + 1, 0.75 * length) - np.maximum(place, 0.25 * length)
    with np.errstate(invalid="ignore"):
        level = ordered @ (np.maximum(weights, 0.0) / (0.5 * length))
    return np.where(np.isnan(ordered[:, -1]), np.nan, level)


def _without_overflow(ordered: Floats) -> tuple[Floats, Ints]:
    """Return the rows divided by 2**exponents, shape (n_rows,), so that they can be squared: all or none.

    The division is exact, so that it changes no digit of a ratio, or of a mean that is multiplied again.
    """
    if are_squarable(ordered):
        return ordered, np.zeros(len(ordered), np.int64)
    exponents = exponents_of(np.abs(ordered[:, [0, -1]]).max(axis=1))
    return np.ldexp(ordered, -exponents[:, None]), exponents


def limited_mean(ordered: Floats) -> Floats:
    """Return the mean of each row, of samples limited to a distance from the median: two ranges of octiles.

    A sample farther away counts as if it were at that distance; the range is from an eighth to seven eighths
    of the samples, 2.3 standard deviations of normal ones. Arrays as of `interquartile_mean`.
    """
    ordered, exponents = _without_overflow(ordered)
    low, middle, high = (_quantile(ordered, share) for share in (0.125, 0.5, 0.875))
    with np.errstate(invalid="ignore"):
        reach = _FAR_OUT * (high - low)
        means = np.clip(ordered, middle - reach, middle + reach).mean(axis=1)
    return np.asarray(np.ldexp(means, exponents))


def relative_deviation(ordered: Floats) -> Floats:
    """Return the mean absolute deviation of each row from its middle, in standard deviations (Geary 1935).

    It is 0.80 of normal samples, up to 1 of bimodal ones, and less with heavier tails; 0.11 / n_samples, its
    bias with normal samples, is subtracted. The middle is halfway between mean and median. NaN of equal
    samples and of fewer than five. Arrays as of `interquartile_mean`.
    """
    if (length := ordered.shape[1]) < _FEWEST_WITH_TAILS:
        return np.full(len(ordered), np.nan)
    ordered, _ = _without_overflow(ordered)
    middle = (ordered.mean(axis=1, keepdims=True) + _quantile(ordered, 0.5)) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.abs(ordered - middle).mean(axis=1) / ordered.std(axis=1)
    return np.asarray(ratio - 0.11 / length)


def _quantile(ordered: Floats, share: float) -> Floats:
    """Return a quantile of each row, shape (n_rows, 1)."""
    below, part = divmod(share * (ordered.shape[1] - 1), 1)
    above = ordered[:, [min(int(below) + 1, ordered.shape[1] - 1)]]
    return ordered[:, [int(below)]] * (1 - part) + above * part


#: Samples of a longer row are represented by as many quantiles.
_MOST_PAIRED = 20


def hodges_lehmann(ordered: Floats) -> Floats:
    """Return the median of the means of all pairs of samples of each row, each sample also with itself.

    `ordered`, shape (n_rows, n_samples), at least one sample, ascends in each row; more than 20 samples are
    represented by 20 quantiles. Robust (Hodges and Lehmann 1963). Shape (n_rows,); NaN for a row with a NaN.
    """
    if (length := ordered.shape[1]) > _MOST_PAIRED:
        place = (np.arange(_MOST_PAIRED) + 0.5) / _MOST_PAIRED * length - 0.5
        low, weight = np.floor(place).astype(np.int64), place % 1
        ordered = ordered[:, low] * (1 - weight) + ordered[:, np.minimum(low + 1, length - 1)] * weight
    first, second = _pair_indices(ordered.shape[1])
    means = ordered[:, first] / 2 + ordered[:, second] / 2
    means.sort(axis=1)
    half = means.shape[1] // 2
    middle = means[:, half] if means.shape[1] % 2 else means[:, half - 1] / 2 + means[:, half] / 2
    return np.where(np.isnan(means[:, -1]), np.nan, middle)


#: Indices of the first and the second member of all pairs among a number of samples.
_pair_indices = cache(np.triu_indices)


def range_overlap(baseline: Floats, target: Floats) -> Floats:
    """Return (target maximum - baseline minimum) / range of both sides, shape (n_configurations,).

    1 where neither end of the target is worse or all values are equal, 0 where the target's best value is the
    baseline's worst, towards -1 for a target far below the baseline; NaN where a side has no numbers.
    baseline, target: shape (n_configurations, 5), as `orient_upwards` returns them.
    """
    reach = target[:, 4] - baseline[:, 0]
    whole = np.maximum(baseline[:, 4], target[:, 4]) - np.minimum(baseline[:, 0], target[:, 0])
    return np.where(whole == 0, 1.0, reach / np.where(whole == 0, 1.0, whole))


def estimate_superiority(baseline: Floats, target: Floats) -> Floats:
    """Return the estimated probability that a target value exceeds a baseline value, from five numbers each.

    The quantile functions are taken as linear between the five numbers, so each side is a mixture of four
    uniform distributions, and the result is the mean over the sixteen pairs of them. Ties count half.
    baseline, target: shape (n_configurations, 5), ascending, higher is better, as `orient_upwards` returns
    them; result: (n_configurations,), NaN where a side has no numbers.
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
    inside = np.clip(y, a, b) - a
    width = np.where(b > a, b - a, 1.0)
    return np.asarray(inside**2 / (2 * width) + np.maximum(y - b, 0.0))


def first_values(samples: Samples, width: int) -> Floats:
    """Return the first `width` values of every list, left-aligned, NaN where a list has fewer.

    Shape (n_configurations, length of the longest list, at most `width`).
    """
    longest = min(samples.lengths.max(initial=0), width)
    return _padded_values(samples, samples.starts[:, None] + np.arange(longest))


def last_values(samples: Samples, width: int) -> Floats:
    """Return the last `width` values of every list, right-aligned, NaN where a list has fewer.

    Shape (n_configurations, length of the longest list, at most `width`).
    """
    longest = min(samples.lengths.max(initial=0), width)
    return _padded_values(samples, samples.stops[:, None] + np.arange(-longest, 0))


def _padded_values(samples: Samples, index: Ints) -> Floats:
    """Return the values at `index`, a row per list; NaN outside of the list."""
    if not len(samples.values):
        return np.full(index.shape, np.nan)
    inside = (index >= samples.starts[:, None]) & (index < samples.stops[:, None])
    return np.where(inside, samples.values[np.clip(index, 0, len(samples.values) - 1)], np.nan)


def pack_rows(rows: Floats, *, right: bool) -> Floats:
    """Return each row with its finite values moved to the right (`right`) or left end, in their order.

    Infinite values and NaN are moved to the other end, also in their order.
    """
    finite = np.isfinite(rows)
    place = np.argsort(finite if right else ~finite, axis=1, kind="stable")
    return np.asarray(np.take_along_axis(rows, place, axis=1))


def row_quantile(rows: Floats, share: float) -> Floats:
    """Return a quantile of every row, linearly interpolated, shape (n_rows,).

    `share` is from 0 to 1. Values of `rows`, shape (n_rows, n_columns), are finite or NaN; NaN is ignored,
    and a row without a value gives NaN.
    """
    if rows.shape[1] == 0:
        return np.full(len(rows), np.nan)
    ordered = np.sort(rows, axis=1)
    counts = np.isfinite(rows).sum(axis=1)
    place = np.maximum(counts - 1, 0) * share
    low = np.floor(place).astype(np.int64)
    high = np.ceil(place).astype(np.int64)
    row_numbers = np.arange(len(rows))
    weight = place - low
    return np.asarray(ordered[row_numbers, low] * (1 - weight) + ordered[row_numbers, high] * weight)


def share_where(condition: NDArray[np.bool_], values: Floats) -> Floats:
    """Return the share of the finite values of every row where `condition` is True; NaN without any.

    Both arguments have one shape, the result (n_rows,).
    """
    finite = np.isfinite(values)
    count = finite.sum(axis=1)
    return np.asarray((condition & finite).sum(axis=1) / np.where(count > 0, count, np.nan))


def row_sum(rows: Floats) -> Floats:
    """Return the sum of every row, shape (n_rows,); 0 without columns, NaN if a value of the row is NaN.

    Values are added from left to right, so that further columns of zeros do not change the rounding error.
    """
    return rows.cumsum(axis=1)[:, -1] if rows.shape[1] else np.zeros(len(rows))


def step_variance(before: Floats, after: Floats) -> tuple[Floats, Floats, Floats]:
    """Return how much of the variance of rows a step between `before` and `after` explains.

    `before` and `after` have n_rows rows and at least one column each, NaN where unknown. Three arrays of
    shape (n_rows,): the explained variance as a share of the whole one, and as a share of that which the best
    step at any column explains (both NaN without variance); the sum over the known values of `before` of
    value minus mean of the whole row, positive where `before` is higher. With variance, all are 0
    where a side has no known value.
    """
    values = np.hstack([before, after])
    finite = np.isfinite(values)
    centred = np.where(finite, values - row_mean(values)[:, None], 0.0)
    total, n = row_sum(centred**2), finite.sum(axis=1)[:, None]
    left, sums = finite.cumsum(axis=1)[:, :-1], centred.cumsum(axis=1)[:, :-1]
    inside = (left > 0) & (left < n)
    explained = np.where(inside, sums**2 * n / np.where(inside, left * (n - left), 1), 0.0)
    boundary, best = before.shape[1] - 1, explained.max(axis=1)
    at_boundary = explained[:, boundary]
    return (
        at_boundary / np.where(total > 0, total, np.nan),
        at_boundary / np.where(best > 0, best, np.nan),
        sums[:, boundary],
    )


def row_mean(rows: Floats) -> Floats:
    """Return the mean of the finite values of every row, shape (n_rows,); NaN without finite values."""
    finite = np.isfinite(rows)
    total = row_sum(np.where(finite, rows, 0.0))
    count = finite.sum(axis=1)
    return np.asarray(total / np.where(count > 0, count, np.nan))
