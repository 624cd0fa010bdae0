"""Features from later versions: the step lasts, and is at the boundary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from data.comparisons.sides import HISTORY_VERSIONS, LATER_VERSIONS, Floats, Samples, Sides
from features.comparisons.lasting_changes import Courses, step_near, without_spikes
from features.comparisons.summaries import (
    MAD,
    NOISE_FLOOR,
    first_values,
    last_values,
    over_configurations,
    pack_rows,
    row_mean,
    row_quantile,
    share_where,
    signed_root,
    step_variance,
)

#: Most versions of baseline and of target that are used.
_SIDE = 10
#: Versions on either side of the boundary.
_BEFORE, _AFTER = HISTORY_VERSIONS + _SIDE, LATER_VERSIONS + _SIDE
#: Configurations handled at once, to bound memory.
_BLOCK = 256
#: Versions next to the boundary that are compared with as many before it.
_WINDOWS = (10, 20, 40)
#: Lengths of the windows between which a step is measured in the deviation inside them.
_CONTRASTS = (3, 5, 8)
#: Costs of a step in squared noise: the first finds small steps, the second only plain ones.
_PENALTIES = (6, 20)
#: Values in units of noise are cut off here.
_LARGEST = 1e4

_BY_WINDOW = ("after_t", "after_effect", "after_superiority", "after_gain", "after_sharpness")
_BY_PENALTY = (
    "segment_step", "segment_change", "segment_lasting", "segment_evidence", "segment_excess"
)  # fmt: skip
_LEVELS = ("later_step", "later_change", "soon_step", "soon_change", "soon_range", "recovered", "stayed")
_UNMOVED = ("target_alone", "later_seen")

#: By name: -1 if the feature falls when all versions from the target on get worse, 0 if it does not change.
LATER_DIRECTIONS: Mapping[str, int] = {
    **dict.fromkeys(_LEVELS, -1),
    **{f"{name}_{size}": -1 for size in _WINDOWS for name in _BY_WINDOW},
    **{f"{name}_{size}": -1 for size in _CONTRASTS for name in ("contrast", "contrast_excess")},
    **{f"{name}_{size}": -1 for size in _PENALTIES for name in _BY_PENALTY},
    **{f"{name}_{size}": 0 for size in _PENALTIES for name in ("segment_others", "segment_count")},
    **dict.fromkeys(_UNMOVED, 0),
}
LATER_FEATURES = tuple(LATER_DIRECTIONS)


def later_vectors(sides: Sides) -> Floats:
    """Return features of the step from baseline to target, computed with the versions after the target.

    Every version counts with its median; a feature is the lowest value over the configurations. Lower is
    worse, except where `LATER_DIRECTIONS` is 0. Shape (n_comparisons, len(LATER_FEATURES)), columns in the
    order of `LATER_FEATURES`; NaN where the baseline, the target or the later versions have no samples, or
    too few for the feature.
    """
    values = np.full((len(LATER_FEATURES), len(sides.sign)), np.nan)
    lists = (sides.baseline, sides.target, sides.later)
    rows = np.flatnonzero(np.all([side.lengths > 0 for side in lists], axis=0))
    levels = [side.version_medians for side in (sides.history, *lists)]
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        course = _Course.from_levels(sides.sign[block, None], *(side.select_rows(block) for side in levels))
        described = _describe_course(course)
        values[:, block] = [described[name] for name in LATER_FEATURES]
    values[~np.isfinite(values)] = np.nan
    return over_configurations(values, sides.comparison, sides.n_comparisons).lowest.T


@dataclass(frozen=True)
class _Course:
    """Levels of the versions around a boundary, higher is better; NaN without a version."""

    before: Floats  # shape (n, _BEFORE): The newest on the right
    target: Floats  # shape (n, at most _SIDE)
    after: Floats  # shape (n, _AFTER): The target's and later ones; the oldest on the left
    level: Floats  # shape (n,): Of the baseline: the median of its versions

    @classmethod
    def from_levels(
        cls, sign: Floats, history: Samples, baseline: Samples, target: Samples, later: Samples
    ) -> _Course:
        base, near = last_values(baseline, _SIDE), first_values(target, _SIDE)
        following = first_values(later, LATER_VERSIONS)
        # later versions are not validated: zeros are missing values
        following = np.where(following > 0, following, np.nan)
        past = np.hstack([last_values(history, HISTORY_VERSIONS), base])
        before = _pack_to_width(sign * past, _BEFORE, right=True)
        after = _pack_to_width(sign * np.hstack([near, following]), _AFTER, right=False)
        return cls(before, sign * near, after, row_quantile(sign * base, 0.5))

    @cached_property
    def after_target(self) -> Floats:
        positions = np.arange(self.after.shape[1])
        return np.where(positions >= np.isfinite(self.target).sum(axis=1)[:, None], self.after, np.nan)

    @cached_property
    def soon_median(self) -> Floats:
        """The median of the first versions after the target."""
        return row_quantile(_pack_to_width(self.after_target, _SIDE, right=False), 0.5)

    @cached_property
    def all_levels(self) -> Floats:
        return np.hstack([self.before, self.after])

    @cached_property
    def level_size(self) -> Floats:
        return np.abs(self.level)

    @cached_property
    def least_noise(self) -> Floats:
        return np.asarray(NOISE_FLOOR * self.level_size)

    @cached_property
    def version_noise(self) -> Floats:
        """The standard deviation between neighbouring versions; steps of the level hardly touch it."""
        steps = row_quantile(np.abs(np.diff(self.all_levels, axis=1)), 0.5)
        return np.fmax(steps / (MAD * np.sqrt(2)), self.least_noise)


def _describe_course(course: _Course) -> dict[str, Floats]:
    rows = without_spikes((course.all_levels - course.level[:, None]) / course.version_noise[:, None])
    courses = Courses(np.clip(rows, -_LARGEST, _LARGEST))
    parts = [(size, _compare_windows(course, size)) for size in _WINDOWS]
    parts += [(size, _compare_with_other_steps(course, size)) for size in _CONTRASTS]
    parts += [(penalty, _describe_segments(course, courses, penalty)) for penalty in _PENALTIES]
    return _describe_levels(course) | {
        f"{name}_{size}": values for size, part in parts for name, values in part.items()
    }


def _describe_levels(course: _Course) -> dict[str, Floats]:
    level, noise, size = course.level, course.version_noise, course.level_size
    later = row_quantile(course.after_target, 0.5) - level
    soon = row_quantile(course.after[:, :_SIDE], 0.5) - level
    extent = row_quantile(course.all_levels, 0.95) - row_quantile(course.all_levels, 0.05)
    target = row_quantile(course.target, 0.5) - course.soon_median
    worst = row_quantile(course.before[:, -_SIDE:], 0.1)
    near = course.after[:, : 2 * _SIDE]
    return {
        "later_step": signed_root(later / noise),
        "later_change": signed_root(later / size),
        "soon_step": signed_root((course.soon_median - level) / noise),
        "soon_change": signed_root((course.soon_median - level) / size),
        "soon_range": soon / np.maximum(extent, course.least_noise),
        "recovered": signed_root((_best_median(course.after[:, : 2 * _SIDE + 5]) - level) / noise),
        "stayed": -share_where(near < worst[:, None], near),
        "target_alone": signed_root(target / noise),
        "later_seen": np.isfinite(course.after_target).sum(axis=1).astype(np.float64),
    }


def _compare_windows(course: _Course, size: int) -> dict[str, Floats]:
    before, after = course.before[:, -size:], course.after[:, :size]
    spreads, counts = zip(*map(_spread_and_count, (before, after)), strict=True)
    error = np.sqrt(spreads[0] ** 2 / counts[0] + spreads[1] ** 2 / counts[1])
    pooled = np.sqrt((spreads[0] ** 2 + spreads[1] ** 2) / 2)
    means = row_mean(after) - row_mean(before)
    middles = row_quantile(after, 0.5) - row_quantile(before, 0.5)
    gain, sharpness, sums = step_variance(before, after)
    return {
        "after_t": signed_root(means / np.maximum(error, course.least_noise / np.sqrt(size))),
        "after_effect": signed_root(middles / np.maximum(pooled, course.least_noise)),
        "after_superiority": _share_of_wins(before, after),
        "after_gain": -np.sign(sums) * gain,
        "after_sharpness": -np.sign(sums) * sharpness,
    }


def _compare_with_other_steps(course: _Course, size: int) -> dict[str, Floats]:
    windows = np.lib.stride_tricks.sliding_window_view(course.all_levels, 2 * size, axis=1)
    left, right = windows[..., :size], windows[..., size:]
    steps, place = right.mean(axis=-1) - left.mean(axis=-1), course.before.shape[1] - size
    inside = np.sqrt((left[:, place].var(axis=-1) + right[:, place].var(axis=-1)) / 2)
    others = np.abs(steps)
    others[:, place - size : place + size + 1] = np.nan
    contrast = steps[:, place] / np.fmax(inside, course.least_noise)
    excess = steps[:, place] / np.fmax(row_quantile(others, 0.95), course.least_noise)
    return {
        "contrast": signed_root(np.clip(contrast, -_LARGEST, _LARGEST)),
        "contrast_excess": signed_root(excess),
    }


def _describe_segments(course: _Course, courses: Courses, penalty: float) -> dict[str, Floats]:
    step = step_near(course.before.shape[1], courses, penalty)
    return {
        "segment_step": signed_root(step.size),
        "segment_change": signed_root(step.size * course.version_noise / course.level_size),
        "segment_lasting": signed_root(step.size * np.sqrt(step.lasts)),
        "segment_evidence": signed_root(step.evidence),
        "segment_excess": step.size / (np.abs(step.size) + np.fmax(step.others, 1.0)),
        "segment_others": np.log1p(step.others),
        "segment_count": step.count,
    }


def _pack_to_width(rows: Floats, width: int, *, right: bool) -> Floats:
    packed_rows = pack_rows(rows, right=right)
    packed_rows = packed_rows[:, -width:] if right else packed_rows[:, :width]
    empty = np.full((len(rows), width - packed_rows.shape[1]), np.nan)
    return np.hstack([empty, packed_rows] if right else [packed_rows, empty])


def _best_median(rows: Floats, length: int = 5) -> Floats:
    """Return the largest median of `length` neighbours in every row; NaN where there are too few."""
    middles = np.median(np.lib.stride_tricks.sliding_window_view(rows, length, axis=1), axis=-1)
    return np.fmax.reduce(middles, axis=1)


def _spread_and_count(rows: Floats) -> tuple[Floats, Floats]:
    finite = np.isfinite(rows)
    count = finite.sum(axis=1).astype(np.float64)
    squares = np.where(finite, (rows - row_mean(rows)[:, None]) ** 2, 0.0).cumsum(axis=1)[:, -1]
    return np.sqrt(squares / np.where(count > 1, count - 1, np.nan)), count


def _share_of_wins(before: Floats, after: Floats) -> Floats:
    """Return how often later versions are better, as a share of pairs; ties count half."""
    pairs = np.sign(after[:, :, None] - before[:, None, :]).reshape(len(after), -1)
    return row_mean(pairs) / 2 + 0.5
