"""Lasting changes in a whole history: steps, and creeping drops that no comparison of two versions shows.

The medians of versions are divided into segments of constant level. Consecutive steps for the worse, or a
blurred one, are a creeping drop if a linear decline explains them better: several small losses within the
tolerance that add up (thesis, chapter 5).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints
from features.comparisons.summaries import MAD, NOISE_FLOOR, pack_rows, row_quantile

#: Least number of values in a segment; fewer are an excursion.
SHORTEST = 3
#: A step belongs to a place if it is fewer than this many values away.
NEAR = 3
#: Most steps examined on either side of a place.
_STEPS = 12


@dataclass(frozen=True)
class Courses:
    """Series of equal length, and the cost of each of their segments."""

    rows: Floats  # shape (n, width): In units of their noise; NaN is unknown

    @cached_property
    def known_counts(self) -> Floats:
        """Number of known values before each place, shape (n, width + 1)."""
        return _sums_before(np.isfinite(self.rows).astype(np.float64))

    @cached_property
    def segment_costs(self) -> Floats:
        """Cost of the segment between each two places, shape (n, width + 1, width + 1).

        Infinite where the segment has fewer than `SHORTEST` values.
        """
        weight, total = (
            summed[:, None] - summed[:, :, None] for summed in (self.known_counts, self._cumulative_sums)
        )
        squares = _sums_before(np.nan_to_num(self.rows) ** 2)
        total *= total
        total /= np.where(weight > 0, weight, 1)
        cost = np.maximum(squares[:, None] - squares[:, :, None] - total, 0)
        cost[weight < SHORTEST] = np.inf
        return cost

    def best_courses(self, penalty: float) -> BestCourses:
        """Return the courses with least squared noise + `penalty` per step, up to and from each place."""
        n, width = self.rows.shape
        before, behind = np.full((2, n, width + 1), np.inf)
        begins, ends = np.zeros((n, width + 1), np.int64), np.full((n, width + 1), width)
        before[:, 0] = behind[:, width] = -penalty
        row_numbers, costs = np.arange(n), self.segment_costs
        for at in range(1, width + 1):
            totals = before[:, :at] + costs[:, :at, at]
            begins[:, at] = best = totals.argmin(axis=1)
            before[:, at] = totals[row_numbers, best] + penalty
        for at in range(width - 1, -1, -1):
            totals = behind[:, at + 1 :] + costs[:, at, at + 1 :]
            best = totals.argmin(axis=1)
            ends[:, at] = best + at + 1
            behind[:, at] = totals[row_numbers, best] + penalty
        return BestCourses(before, begins, behind, ends)

    def segment_mean(self, starts: Ints, stops: Ints) -> Floats:
        """Return the mean of the known values of one segment of every series, shape (n,); NaN without any."""
        row_numbers = np.arange(len(self.rows))
        weight = self.segment_size(starts, stops)
        total = self._cumulative_sums[row_numbers, stops] - self._cumulative_sums[row_numbers, starts]
        return np.asarray(total / np.where(weight > 0, weight, np.nan))

    def segment_size(self, starts: Ints, stops: Ints) -> Floats:
        """Return the number of known values of one segment of every series, shape (n,)."""
        row_numbers = np.arange(len(self.rows))
        return np.asarray(self.known_counts[row_numbers, stops] - self.known_counts[row_numbers, starts])

    @cached_property
    def _cumulative_sums(self) -> Floats:
        return _sums_before(np.nan_to_num(self.rows))


@dataclass(frozen=True)
class BestCourses:
    """The best piecewise constant courses of series; arrays of shape (n, width + 1)."""

    before: Floats  # cost of the best course up to each place
    begins: Ints  # begin of its last segment
    behind: Floats  # cost of the best course from each place on
    ends: Ints  # end of its first segment


@dataclass(frozen=True)
class Step:
    """The step near a place in the best course with such a step, of every series; arrays of shape (n,)."""

    size: Floats  # level after the step minus level before; NaN with too few values for two segments
    lasts: Floats  # number of values of the shorter one of the two segments
    evidence: Floats  # additional cost of the best course without a step near the place; sign of the size
    others: Floats  # size of the largest other step of the course
    count: Floats  # number of other steps


def step_near(place: int, courses: Courses, penalty: float) -> Step:
    """Return the best step of every series near `place`, the number of columns before the boundary.

    Near means fewer than `NEAR` (3) columns away. `penalty` is the cost of a step in squared noise. A step
    that costs more than it explains is returned too: its ``evidence`` has the opposite sign of its ``size``.
    Both are NaN for series in which no near step has `SHORTEST` (3) known values on each side.
    """
    best = courses.best_courses(penalty)
    row_numbers, near = np.arange(len(courses.rows)), np.arange(place - NEAR + 1, place + NEAR)
    near = near[(near >= 0) & (near < best.before.shape[1])]
    costs = best.before[:, near] + best.behind[:, near] + penalty
    at, cost = near[costs.argmin(axis=1)], costs.min(axis=1)
    start, stop = best.begins[row_numbers, at], best.ends[row_numbers, at]
    before, behind = courses.segment_mean(start, at), courses.segment_mean(at, stop)
    size = np.where(np.isfinite(cost), behind - before, np.nan)
    # the best course without a step near the place
    width = courses.rows.shape[1]
    starts, stops = max(place - NEAR + 1, 1), min(place + NEAR, width)
    across = courses.segment_costs[:, :starts, stops:]
    total = best.before[:, :starts, None] + across + best.behind[:, None, stops:]
    evidence = total.min(axis=(1, 2)) + 2 * penalty - cost
    to_left = _other_steps(courses, start, before, best.begins, 0)
    to_right = _other_steps(courses, stop, behind, best.ends, width)
    return Step(
        size,
        np.minimum(courses.segment_size(start, at), courses.segment_size(at, stop)),
        np.where(np.isfinite(evidence), evidence, np.nan) * np.sign(size),
        np.maximum(to_left[0], to_right[0]),
        to_left[1] + to_right[1],
    )


def _other_steps(courses: Courses, at: Ints, level: Floats, turns: Ints, end: int) -> tuple[Floats, Floats]:
    """Return the size of the largest step from a place towards one end, and the number of steps."""
    row_numbers = np.arange(len(at))
    largest, count = np.zeros((2, len(at)))
    for _ in range(_STEPS):
        following = turns[row_numbers, at]
        next_level = courses.segment_mean(np.minimum(at, following), np.maximum(at, following))
        live = (at != end) & np.isfinite(next_level)
        largest = np.where(live, np.fmax(largest, np.abs(next_level - level)), largest)
        count += live
        at, level = np.where(live, following, end), np.where(live, next_level, level)
    return largest, count


def without_spikes(rows: Floats) -> Floats:
    """Return the running median of three: single outliers disappear, steps keep their place.

    `rows` has shape (n, n_versions), as has the result. A value at either end, or beside a NaN, is unchanged;
    NaN stays NaN.
    """
    left, right = np.hstack([rows[:, :1], rows[:, :-1]]), np.hstack([rows[:, 1:], rows[:, -1:]])
    left, right = (np.where(np.isfinite(side), side, rows) for side in (left, right))
    return np.maximum(np.minimum(left, rows), np.minimum(np.maximum(left, rows), right))


def _sums_before(values: Floats) -> Floats:
    return np.hstack([np.zeros((len(values), 1)), np.cumsum(values, axis=1)])


#: Quantiles of the distance between two values of a normal distribution, in its standard deviations times the
#: root of 2: the median is hardly affected by steps, the other detects noise that is mostly zero.
_DISTANCES = ((0.5, 0.6745), (0.75, 1.1503))
#: Distances of the neighbours that are compared: with drifting noise, farther ones differ more.
_APART = (1, 2, 3)
#: Least number of versions to estimate how they vary.
_ENOUGH = 4
#: An interquartile range of a normal distribution, in standard deviations, and the error of a median of one.
_IQR, _MEDIAN_ERROR = 1.349, 1.2533
#: Repetitions assumed for a summary that does not state them.
_REPETITIONS = 5
#: Two values differ significantly (95 %) from this multiple of their deviation on.
_TOLD = 1.96 * np.sqrt(2)
#: The relative change that people look for (scheduler thesis, section 5.1).
WANTED = 0.05


def version_scatter(rows: Floats, lags: Sequence[int] = _APART) -> Floats:
    """Return the standard deviation between versions, robust to lasting changes, shape (n,).

    For each of `lags` (by default 1, 2 and 3 versions; where noise drifts, direct neighbours are too
    similar), the median and the upper quartile of the distances between versions give an estimate each; the
    largest of all is returned, at least `NOISE_FLOOR` (0.001). NaN with fewer than 4 known versions. rows:
    shape (n, width), logarithms of the medians of versions, NaN where unknown; unknown versions are left out
    before distances are taken.
    """
    ordered = pack_rows(rows, right=False)
    noise = np.full(len(rows), NOISE_FLOOR)
    for lag in lags:
        distances = np.abs(ordered[:, lag:] - ordered[:, :-lag]) / np.sqrt(2)
        if distances.shape[1]:
            for share, deviations in _DISTANCES:
                noise = np.fmax(noise, row_quantile(distances, share) / deviations)
    return np.where(np.isfinite(rows).sum(axis=1) >= _ENOUGH, noise, np.nan)


def detectable_change(five: Floats, counts: Floats, noise: Floats) -> Floats:
    """Return the smallest change of a median that is distinguishable from noise with a confidence of 95 %.

    A share of the median, shape (n,): 1.96 standard deviations of the difference of two versions' medians.
    The standard deviation of one median is the larger of two estimates, or the one that is known; NaN if
    neither is. The first estimate is `noise`. The second is the median, over the versions with several
    repetitions, of 1.2533 x spread / sqrt(repetitions); the spread of a version is that standard deviation,
    as a share of its median, which a normal distribution with the same interquartile range has.

    five: shape (n, n_versions, 5), minimum, quartiles and maximum, NaN where not measured. counts: shape (n,
    n_versions), number of repetitions; 0 if unknown, and then taken as 5. noise: shape (n,), as
    `version_scatter` returns it.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        medians = np.where(five[..., 2] > 0, five[..., 2], np.nan)
        spread = (five[..., 3] - five[..., 1]) / medians / _IQR
    repetitions = np.where(counts > 0, counts, _REPETITIONS)
    errors = np.where(repetitions > 1, _MEDIAN_ERROR * spread / np.sqrt(repetitions), np.nan)
    repeated = row_quantile(errors, 0.5)
    return np.asarray(_TOLD * np.fmax(noise, repeated))


#: Cost of a step in squared noise: with the step, a course has to explain the series so much better. Chosen
#: so that fewer than 1 in 200 series without change has a step, whether the noise is white, drifts a little
#: (a correlation of 0.3 from version to version), or has heavy tails.
PENALTY = 28.0
#: With many series of which few change, the cost of a step grows by so much times the logarithm of
#: `_USUAL_SHARE` / the share that changes: at most 1 in 20 pages of unchanged series has a change.
_PENALTY_GROWTH, _USUAL_SHARE = 4.0, 0.2
#: By how much better a straight decline has to explain a drop than steps do.
_STRAIGHT = 8.0
#: A decline takes at least so many versions; fewer are a step.
_SHORTEST_DECLINE = 4
#: Smallest reported change, as a share; that of verdicts, too, unless a model was trained with another.
SMALLEST = 0.005
#: Fewer versions than this have no level before and behind.
_CHANGES_ENOUGH = 8
#: Versions of the running median, and the most that a single version may differ from it, in noise.
_WINDOW, _FARTHEST = 7, 2.5
#: Most repetitions of the noise estimate without the changes found.
_ROUNDS = 3
#: Repetitions of the fit of levels and of the estimate of its noise, and the variance of normal values that
#: are limited to `_FARTHEST`.
_FITS, _SCALINGS, _LIMITED_VARIANCE = 4, 2, 0.9776
#: Numbers of a block, to bound memory.
_BLOCK = 4_000_000
#: Places tried for the begin and the end of a decline.
_TRIED = 24


class Shift(NamedTuple):
    """One lasting change of one series."""

    kind: Literal["drop", "gain", "creep"]
    first: int  # index of the first version that shows it
    last: int  # index of the version where it is complete; `first` unless the kind is "creep"
    share: float  # of the level before; negative is worse

    def progress(self, n_versions: int) -> Floats:
        """Return the completed part of the change at each version, from 0 to 1, shape (n_versions,)."""
        return np.clip((np.arange(n_versions) - self.first + 1) / (self.last - self.first + 1), 0, 1)


def find_lasting_changes(medians: Floats, signs: Floats) -> tuple[list[tuple[Shift, ...]], Floats]:
    """Return the lasting changes of each series, and the noise of each series around its levels.

    The first search estimates the noise from neighbouring versions. In series where it found changes, these
    are removed, the noise is estimated again, and the search is repeated, until the changes that it finds
    stay the same, at most 3 times after the first search. If there are many series and few of them change,
    these repeated searches only find clearer changes.

    medians: shape (n, n_versions), above 0, NaN where not measured. signs: shape (n,), 1 where higher is
    better, -1 where lower is. Returns the changes of each series, the earliest first, without those below
    `SMALLEST` (0.5 %), and none with fewer than 8 measured versions; and the noise, shape (n,), the standard
    deviation of a version around its level as a share, NaN with fewer than 4 measured versions.
    """
    logs = log_medians(medians)
    noise = version_scatter(logs)
    changes = _find_changes(logs, signs, version_scatter(logs, lags=(1,)), PENALTY)
    left = [row for row, shifts in enumerate(changes) if shifts]
    penalty = PENALTY + _PENALTY_GROWTH * np.log(max(1.0, len(logs) * _USUAL_SHARE / max(1, len(left))))
    for _ in range(_ROUNDS):
        without = version_scatter(_without_changes(logs[left], signs[left], [changes[row] for row in left]))
        # the minimum: so the loop ends, and changes that a course misses do not count as noise
        noise[left] = np.fmin(noise[left], without)
        repeated = zip(left, _find_changes(logs[left], signs[left], noise[left], penalty), strict=True)
        changed = {row: shifts for row, shifts in repeated if shifts != changes[row]}
        for row, shifts_of_row in changed.items():
            changes[row] = shifts_of_row
        left = [*changed]
    for row, (values, sign) in enumerate(zip(logs, signs.tolist(), strict=True)):
        levels = SeriesLevels.fit(values, changes[row])
        noise[row] = np.fmin(noise[row], levels.noise)
        shares = sign * np.expm1(levels.sizes[1:])
        changes[row] = tuple(
            shift._replace(share=share)
            for shift, share in zip(changes[row], shares.tolist(), strict=True)
            if min(abs(shift.share), abs(share)) >= SMALLEST and (share > 0) == (shift.kind == "gain")
        )
    return changes, noise


def log_medians(medians: Floats) -> Floats:
    """Return the natural logarithms of medians, NaN where a median is not above 0; same shape."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(medians > 0, np.log(medians), np.nan)


@dataclass(frozen=True)
class SeriesLevels:
    """A robust least-squares fit of one series: a first level, and a size for each of its changes."""

    progress: Floats  # shape (n_versions, 1 + n_changes): 1, and the completed part of each change
    sizes: Floats  # shape (1 + n_changes,): the first level and the changes, logarithms
    uncertainty: Floats  # shape (1 + n_changes,) * 2: covariance of `sizes` in squared noise
    #: the standard deviation of a version around its level, at least `NOISE_FLOOR`; NaN with fewer than 4
    #: versions, or fewer than 2 more than sizes
    noise: float
    degrees_of_freedom: int

    @classmethod
    def fit(cls, logs: Floats, shifts: Sequence[Shift]) -> SeriesLevels:
        """Return the fit of the logarithms of medians, shape (n_versions,), NaN where not measured.

        Residuals beyond `_FARTHEST` deviations are limited (Huber's proposal 2, two steps from the MAD), so
        that single versions neither move a level nor count as noise.
        """
        progress = np.column_stack([np.ones(len(logs)), *(shift.progress(len(logs)) for shift in shifts)])
        finite = np.isfinite(logs)
        columns, values = progress[finite], logs[finite]
        freedom = int(finite.sum()) - columns.shape[1]
        limited, scale = values, np.inf
        for _ in range(_FITS):
            sizes = np.linalg.lstsq(columns, limited, rcond=None)[0]
            level = columns @ sizes
            if freedom <= 0:
                break
            residuals = values - level
            deviation = float(np.median(np.abs(residuals))) / MAD * np.sqrt(len(values) / freedom)
            scale = max(deviation, NOISE_FLOOR)
            limited = level + np.clip(residuals, -_FARTHEST * scale, _FARTHEST * scale)
        uncertainty = np.linalg.pinv(columns.T @ columns)
        noise = np.nan
        if len(values) >= _ENOUGH and freedom > 1:
            for _ in range(_SCALINGS):
                limit = _FARTHEST * scale
                squares = float((np.clip(values - level, -limit, limit) ** 2).sum())
                scale = max(float(np.sqrt(squares / freedom / _LIMITED_VARIANCE)), NOISE_FLOOR)
            noise = scale
        return cls(progress, np.asarray(sizes, np.float64), uncertainty, noise, freedom)

    @property
    def course(self) -> Floats:
        """The level of each version, shape (n_versions,), logarithms."""
        return self.progress @ self.sizes

    def squared_distance(self, logs: Floats, noise: float) -> float:
        """Return the sum of the squared residuals in units of `noise`, each at most `_FARTHEST`."""
        residuals = (logs - self.course)[np.isfinite(logs)] / noise
        return float((np.clip(residuals, -_FARTHEST, _FARTHEST) ** 2).sum())

    def difference(self, before: int, after: int) -> tuple[float, float]:
        """Return the level at `after` minus the one at `before`, logarithms, and its standard error."""
        contrast = self.progress[after] - self.progress[before]
        error = self.noise * np.sqrt(max(0.0, contrast @ self.uncertainty @ contrast))
        return float(contrast @ self.sizes), float(error)


def _without_changes(logs: Floats, signs: Floats, changes: Sequence[Sequence[Shift]]) -> Floats:
    levelled = logs.copy()
    for row, (sign, shifts) in enumerate(zip(signs.tolist(), changes, strict=True)):
        for shift in shifts:
            levelled[row] -= np.log1p(sign * shift.share) * shift.progress(logs.shape[1])
    return levelled


def _find_changes(logs: Floats, signs: Floats, noise: Floats, penalty: float) -> list[tuple[Shift, ...]]:
    """Return the changes of series with this noise and `penalty`, including those below `SMALLEST`."""
    finite = np.isfinite(logs)
    width = int(finite.sum(axis=1).max(initial=0))
    changes: list[tuple[Shift, ...]] = [()] * len(logs)
    long_enough = np.flatnonzero(finite.sum(axis=1) >= _CHANGES_ENOUGH)
    size = max(1, _BLOCK // (width + 1) ** 2)
    for start in range(0, len(long_enough), size):
        rows = long_enough[start : start + size]
        place = np.argsort(~finite[rows], axis=1, kind="stable")[:, :width]
        ordered = np.take_along_axis(logs[rows], place, axis=1) * signs[rows, None]
        courses = Courses(_without_outliers(ordered / noise[rows, None]))
        for row, begins in enumerate(courses.best_courses(penalty).begins):
            # the begins of the segments of the best course, and the end
            cuts = [len(begins) - 1]
            while cuts[0] > 0:
                cuts.insert(0, int(begins[cuts[0]]))
            if len(cuts) > 2:  # noqa: PLR2004 - the two ends
                series = _SteppedSeries(courses.rows[row], ordered[row], cuts, float(signs[rows[row]]))
                versions = place[row].tolist()
                changes[rows[row]] = tuple(
                    shift._replace(first=versions[shift.first], last=versions[shift.last])
                    for shift in series.iter_changes()
                )
    return changes


def _without_outliers(rows: Floats) -> Floats:
    """Limit the distance of single versions from the running median, as outliers are not levels."""
    half = _WINDOW // 2
    padded = np.pad(rows, ((0, 0), (half, half)), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW, axis=1)
    middle = row_quantile(windows.reshape(-1, _WINDOW), 0.5).reshape(rows.shape)
    return np.clip(rows, middle - _FARTHEST, middle + _FARTHEST)


class _SteppedSeries:
    """One series with steps; positive is better, `calm` is in units of its noise."""

    def __init__(self, calm: Floats, logs: Floats, cuts: Sequence[int], sign: float) -> None:
        self._calm, self._logs, self._cuts, self._sign = calm, logs, cuts, sign
        self._levels = [_finite_median(logs[start:stop]) for start, stop in pairwise(cuts)]

    def iter_changes(self) -> Iterator[Shift]:
        at = 0
        while at + 1 < len(self._levels):
            # the last segment to which the levels fall
            lowest = at
            while lowest + 1 < len(self._levels) and self._levels[lowest + 1] < self._levels[lowest]:
                lowest += 1
            declines = (self._creeping_decline(at, end) for end in range(lowest, at, -1))
            decline = next((shift for shift in declines if shift is not None), None)
            if decline is not None:
                shift, at = decline
            else:
                share = self._relative_change(self._levels[at], self._levels[at + 1])
                cut = self._cuts[at + 1]
                shift, at = Shift("gain" if share > 0 else "drop", cut, cut, share), at + 1
            yield shift

    def _relative_change(self, before: float, after: float) -> float:
        return float(self._sign * np.expm1(self._sign * (after - before)))

    def _creeping_decline(self, at: int, end: int) -> tuple[Shift, int] | None:
        """Return a creeping drop in place of the steps between two segments, if it explains them better."""
        start, stop = self._cuts[at], self._cuts[end + 1]
        finite = np.isfinite(self._calm[start:stop])
        part = self._calm[start:stop][finite]
        if len(part) < 2 * _SHORTEST_DECLINE:
            return None
        segments = (self._calm[left:right] for left, right in pairwise(self._cuts[at : end + 2]))
        steps = sum(float(np.nanvar(values) * np.isfinite(values).sum()) + PENALTY for values in segments)
        first, last, squares = _fit_decline(part)
        if squares + 2 * PENALTY + _STRAIGHT >= steps or last - first < _SHORTEST_DECLINE:
            return None
        logs = self._logs[start:stop][finite]
        share = self._relative_change(_finite_median(logs[: first + 1]), _finite_median(logs[last:]))
        return Shift("creep", start + first + 1, start + last, share), end


def _finite_median(values: Floats) -> float:
    return float(np.median(values[np.isfinite(values)]))


def _fit_decline(part: Floats) -> tuple[int, int, float]:
    """Return the best linear decline between two levels: last value before, first after, residual squares."""
    n = len(part)
    coarse = np.unique(np.linspace(0, n - 1, _TRIED).astype(np.int64))
    first, last, _ = _best_decline(part, coarse, coarse)
    reach = np.arange(-(n // _TRIED) - 1, n // _TRIED + 2)
    return _best_decline(part, *(np.unique(np.clip(place + reach, 0, n - 1)) for place in (first, last)))


def _best_decline(part: Floats, firsts: Ints, lasts: Ints) -> tuple[int, int, float]:
    first, last = (grid.ravel() for grid in np.meshgrid(firsts, lasts))
    later: NDArray[np.bool_] = last > first
    first, last = first[later], last[later]
    course = np.clip((np.arange(len(part)) - first[:, None]) / (last - first)[:, None], 0, 1)
    course -= course.mean(axis=1)[:, None]
    centred = part - part.mean()
    shared = (course * centred).sum(axis=1)
    explained = np.where(shared < 0, shared**2 / (course**2).sum(axis=1), 0.0)
    best = int(explained.argmax())
    return int(first[best]), int(last[best]), float((centred**2).sum() - explained[best])
