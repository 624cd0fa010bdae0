"""What the versions of an operation say: whether the step is real, at the boundary, and new."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints, Samples, Sides
from features.comparisons.ranks import sampled
from features.comparisons.summaries import NOISE_FLOOR, first, last, mean, quantile, signed_root, total_of

#: Versions looked at: the last ones of history and baseline, the first ones of the target.
_VERSIONS = 40
#: Configurations handled at once, to bound memory.
_BLOCK = 20_000
#: The median absolute deviation of a normal distribution in standard deviations.
_MAD = 0.6745
#: Sliding windows of history are at most this many versions long.
_WINDOW = 5
#: Contrasts are cut off beyond these sizes.
_SMALLEST, _LARGEST = 0.01, 1e4
#: A history shorter than this many versions (with the baseline) says nothing about how unusual a step is.
_ENOUGH = 8

HISTORY = (
    "version_t",
    "version_step",
    "boundary_gain",
    "boundary_sharpness",
    "first_version",
    "best_version",
    "last_version",
    "history_step",
    "history_superiority",
    "history_quantile",
    "history_seen",
    "local_contrast",
    "history_excess",
    "history_rank",
    "history_trend",
    "history_range",
)
#: See `features.comparisons.vectors.DIRECTIONS`: all but what happened before the target.
HISTORY_DIRECTIONS = {name: 0 if name == "history_trend" else -1 for name in HISTORY}


def with_versions(sides: Sides) -> Ints:
    """Return which configurations have at least two versions on a side, or history."""
    versions = _several(sides.baseline) | _several(sides.target) | (sides.history.lengths > 0)
    return np.flatnonzero(sampled(sides) & versions)


def version_features(sides: Sides, rows: Ints) -> Floats:
    """Describe the step from baseline to target against what versions do in this series.

    Every version counts with its median.

    Parameters
    ----------
    sides : Sides
    rows : ndarray of int
        What `with_versions` returns; of other configurations nothing is known.

    Returns
    -------
    ndarray of shape (len(HISTORY), n_configurations)
        In the order of `HISTORY`. Negative is worse. NaN where it cannot be known.
    """
    result = np.full((len(HISTORY), len(sides.sign)), np.nan)
    baseline, target, history = (side.levels for side in (sides.baseline, sides.target, sides.history))
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        sign = sides.sign[block, None]
        b = sign * last(_rows(baseline, block), _VERSIONS)
        t = sign * first(_rows(target, block), _VERSIONS)
        h = sign * last(_rows(history, block), _VERSIONS)
        result[:, block] = _described(b, t, h)
    return result


def _several(samples: Samples) -> NDArray[np.bool_]:
    """Return which lists hold more than one version."""
    if not len(samples.orders):
        return samples.lengths > 0
    final = len(samples.orders) - 1
    lowest = samples.orders[np.minimum(samples.starts, final)]
    return (samples.lengths > 0) & (lowest < samples.orders[np.maximum(samples.stops - 1, 0)])


def _rows(samples: Samples, rows: Ints) -> Samples:
    return Samples(samples.values, samples.orders, samples.starts[rows], samples.stops[rows])


def _described(b: Floats, t: Floats, h: Floats) -> Floats:
    past = _packed(np.hstack([h, b]))
    level, target = quantile(b, 0.5), quantile(t, 0.5)
    floor = NOISE_FLOOR * np.abs(level)
    jitter = np.maximum(_jitter(past), floor)
    step = target - level
    long_ago = quantile(past, 0.5)
    scatter = np.maximum(quantile(np.abs(past - long_ago[:, None]), 0.5) / _MAD, floor)
    gain, sharpness = _split(b, t)
    enough = np.where((np.isfinite(past).sum(axis=1) >= _ENOUGH), 1.0, np.nan)
    with_history = np.where(np.isfinite(h).any(axis=1), 1.0, np.nan)
    contrast, excess, rank = _against_past_steps(past, t, jitter, floor)
    extent = quantile(past, 0.95) - quantile(past, 0.05)
    return np.vstack(
        [
            _version_t(b, t, floor),
            step / jitter,
            gain,
            sharpness,
            (_first_known(t) - level) / jitter,
            (quantile(t, 1.0) - level) / jitter,
            (_first_known(t[:, ::-1]) - level) / jitter,
            (target - long_ago) / scatter * with_history,
            _above(past, t) * with_history,
            _share(past <= target[:, None], past) * enough,
            _share(past <= (target - step / 2)[:, None], past) * enough,
            contrast,
            excess * enough,
            rank * enough,
            _trend(past) / jitter * enough,
            step / np.maximum(extent, floor) * enough,
        ]
    )


def _jitter(past: Floats) -> Floats:
    """Return the standard deviation between neighbouring versions; steps of the level hardly touch it."""
    return np.asarray(quantile(np.abs(np.diff(past, axis=1)), 0.5) / (_MAD * np.sqrt(2)))


def _version_t(b: Floats, t: Floats, floor: Floats) -> Floats:
    """Return the t statistic of the versions' medians, with the variance of both sides pooled."""
    n_b, n_t = (np.isfinite(side).sum(axis=1) for side in (b, t))
    mean_b, mean_t = mean(b), mean(t)
    squares = _squares(b - mean_b[:, None]) + _squares(t - mean_t[:, None])
    degrees = n_b + n_t - 2
    deviation = np.sqrt(squares / np.where(degrees > 0, degrees, np.nan))
    return np.asarray((mean_t - mean_b) / (np.maximum(deviation, floor) * np.sqrt(1 / n_b + 1 / n_t)))


def _squares(deviations: Floats) -> Floats:
    """Return the sum of the squares of what is known of every row."""
    return total_of(np.where(np.isnan(deviations), 0.0, deviations) ** 2)


def _split(b: Floats, t: Floats) -> tuple[Floats, Floats]:
    """Find the step that explains most of both windows; negative is worse.

    Returns
    -------
    gain : ndarray
        The share of the versions' variance that a step at the boundary explains, with the step's sign.
    sharpness : ndarray
        The same by what the best step anywhere in the windows explains: of size 1 if that is the boundary.
    """
    both = np.hstack([b, t])
    known = np.isfinite(both)
    centred = np.where(known, both - mean(both)[:, None], 0.0)
    total = _squares(centred)
    n = known.sum(axis=1)[:, None]
    left = np.cumsum(known, axis=1)[:, :-1]
    sums = np.cumsum(centred, axis=1)[:, :-1]
    inside = (left > 0) & (left < n)
    explained = np.where(inside, sums**2 * n / np.where(inside, left * (n - left), 1), 0.0)
    boundary = b.shape[1] - 1
    whole = np.where(total > 0, total, np.nan)
    best = explained.max(axis=1)
    sharpness = explained[:, boundary] / np.where(best > 0, best, np.nan)
    sign = np.sign(mean(t) - mean(b))
    return sign * explained[:, boundary] / whole, sign * sharpness


def _against_past_steps(
    past: Floats, t: Floats, jitter: Floats, floor: Floats
) -> tuple[Floats, Floats, Floats]:
    """Compare the step at the boundary with the steps between all adjacent windows of the past.

    Steps are measured in the deviation inside their two windows, which are as long as the target, at most
    `_WINDOW` versions: a step that stands out from its surroundings is what people mark.

    Returns
    -------
    contrast : ndarray
        The step at the boundary, as a signed root; NaN if the past holds fewer than two such windows.
    excess : ndarray
        Logarithm of 1 + its size by the 95 % quantile of the past steps' sizes, with its sign.
    rank : ndarray
        The share of past steps that were smaller, with its sign.
    """
    contrast, excess, rank = np.full((3, len(past)), np.nan)
    versions = np.minimum(np.isfinite(t).sum(axis=1), _WINDOW)
    known = np.isfinite(past).sum(axis=1)
    for width in sorted(set(versions.tolist()) - {0}):
        rows = np.flatnonzero((versions == width) & (known >= 2 * width))
        if not len(rows):
            continue
        least = (jitter if width == 1 else floor)[rows]
        windows = np.lib.stride_tricks.sliding_window_view(past[rows], 2 * width, axis=1)
        steps = np.abs(_contrast(windows[..., :width], windows[..., width:], least[:, None]))
        here = _contrast(past[rows, -width:], t[rows, :width], least)
        contrast[rows] = signed_root(np.clip(here, -_LARGEST, _LARGEST))
        size, large = np.abs(here), quantile(steps, 0.95)
        excess[rows] = np.sign(here) * np.log1p(np.minimum(size, _LARGEST) / np.maximum(large, _SMALLEST))
        rank[rows] = np.sign(here) * _share(steps < size[:, None], steps)
    return contrast, excess, rank


def _contrast(left: Floats, right: Floats, least: Floats) -> Floats:
    """Return the step between two windows by the deviation inside them, which is at least `least`."""
    deviation = np.sqrt((left.var(axis=-1) + right.var(axis=-1)) / 2)
    return np.asarray((right.mean(axis=-1) - left.mean(axis=-1)) / np.maximum(deviation, least))


def _packed(rows: Floats) -> Floats:
    """Move the known values of every row to its end, without gaps."""
    place = np.argsort(np.isfinite(rows), axis=1, kind="stable")
    return np.asarray(np.take_along_axis(rows, place, axis=1))


def _share(condition: NDArray[np.bool_], values: Floats) -> Floats:
    known = np.isfinite(values)
    count = known.sum(axis=1)
    return np.asarray((condition & known).sum(axis=1) / np.where(count > 0, count, np.nan))


def _above(past: Floats, t: Floats) -> Floats:
    """Return the share of pairs in which the target's version is better than one of the past."""
    wins = np.zeros(len(past))
    pairs = np.zeros(len(past))
    for column in t.T:
        known = np.isfinite(past) & np.isfinite(column)[:, None]
        wins += (known & (column[:, None] > past)).sum(axis=1)
        wins += (known & (column[:, None] == past)).sum(axis=1) / 2
        pairs += known.sum(axis=1)
    return np.asarray(wins / np.where(pairs > 0, pairs, np.nan))


def _trend(past: Floats) -> Floats:
    """Return by how much the last third of the past lies above the first third."""
    known = np.isfinite(past)
    share = np.cumsum(known, axis=1) / np.maximum(known.sum(axis=1), 1)[:, None]
    early = np.where(known & (share <= 1 / 3), past, np.nan)
    late = np.where(known & (share > 2 / 3), past, np.nan)
    return quantile(late, 0.5) - quantile(early, 0.5)


def _first_known(rows: Floats) -> Floats:
    return np.asarray(rows[np.arange(len(rows)), np.isfinite(rows).argmax(axis=1)])
