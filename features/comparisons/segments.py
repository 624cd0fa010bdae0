"""The levels of a series as steps: the cheapest piecewise constant course, and what it says of one place.

A course costs the squared distances from it, and a penalty for every step: optimal partitioning (Jackson et
al., 2005, "An algorithm for optimal partitioning of data on an interval").
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from data.comparisons.sides import Floats, Ints

#: Segments hold at least so many values: fewer are an excursion.
SHORTEST = 3
#: A step counts as one of the place if it is fewer than so many values away.
NEAR = 3
#: Steps looked at on either side of the place.
_STEPS = 12


@dataclass(frozen=True)
class Courses:
    """Many series, and what all their segments cost.

    Attributes
    ----------
    rows : ndarray of shape (n, width)
        In units of their noise; NaN is unknown.
    penalty : float
        Of a step.
    """

    rows: Floats
    penalty: float

    @cached_property
    def weights(self) -> Floats:
        """How many values are known before each place, shape (n, width + 1)."""
        return _summed(np.isfinite(self.rows).astype(np.float64))

    @cached_property
    def _sums(self) -> Floats:
        return _summed(np.nan_to_num(self.rows))

    @cached_property
    def _squares(self) -> Floats:
        return _summed(np.nan_to_num(self.rows) ** 2)

    def cost(self, starts: Ints, stops: Ints) -> Floats:
        """Return what segments cost in every series, infinite where they hold too few values.

        Parameters
        ----------
        starts, stops : ndarray of shape (k,)

        Returns
        -------
        ndarray of shape (n, k)
        """
        weight, total, squares = (
            summed[:, stops] - summed[:, starts] for summed in (self.weights, self._sums, self._squares)
        )
        cost = squares - total**2 / np.where(weight > 0, weight, 1)
        return np.where(weight >= SHORTEST, np.maximum(cost, 0), np.inf)

    @cached_property
    def before(self) -> tuple[Floats, Ints]:
        """What the best course up to each place costs, and where its last segment begins; (n, width + 1)."""
        n, width = self.rows.shape
        best, begins = np.full((n, width + 1), np.inf), np.zeros((n, width + 1), np.int64)
        best[:, 0] = -self.penalty
        for stop in range(1, width + 1):
            starts = np.arange(stop)
            costs = best[:, :stop] + self.cost(starts, np.full(stop, stop)) + self.penalty
            begins[:, stop] = costs.argmin(axis=1)
            best[:, stop] = costs.min(axis=1)
        return best, begins

    @cached_property
    def behind(self) -> tuple[Floats, Ints]:
        """What the best course from each place on costs, and where its first segment ends; (n, width + 1)."""
        n, width = self.rows.shape
        best, ends = np.full((n, width + 1), np.inf), np.full((n, width + 1), width)
        best[:, width] = -self.penalty
        for start in range(width - 1, -1, -1):
            stops = np.arange(start + 1, width + 1)
            costs = best[:, start + 1 :] + self.cost(np.full(len(stops), start), stops) + self.penalty
            ends[:, start] = costs.argmin(axis=1) + start + 1
            best[:, start] = costs.min(axis=1)
        return best, ends

    def level(self, starts: Ints, stops: Ints) -> Floats:
        """Return the mean of one segment of every series, shape (n,)."""
        each = np.arange(len(self.rows))
        weight = self.held(starts, stops)
        total = self._sums[each, stops] - self._sums[each, starts]
        return np.asarray(total / np.where(weight > 0, weight, np.nan))

    def held(self, starts: Ints, stops: Ints) -> Floats:
        """Return how many values one segment of every series holds, shape (n,)."""
        each = np.arange(len(self.rows))
        return np.asarray(self.weights[each, stops] - self.weights[each, starts])


@dataclass(frozen=True)
class Step:
    """The step of the best course that has one near a place, in every series; shape (n,).

    Attributes
    ----------
    size : ndarray
        The level behind it less the level before it; NaN where there are too few values for two segments.
    lasts : ndarray
        How many values the shorter one of the two segments holds.
    evidence : ndarray
        How much more the best course without a step near the place costs, with the sign of the size.
    others : ndarray
        The largest other step of the course.
    count : ndarray
        How many others there are.
    """

    size: Floats
    lasts: Floats
    evidence: Floats
    others: Floats
    count: Floats


def step_near(place: int, courses: Courses) -> Step:
    """Describe the step of every course near the same place: between two values, counted from the left."""
    (best, begins), (rest, ends) = courses.before, courses.behind
    each, near = np.arange(len(courses.rows)), np.arange(place - NEAR + 1, place + NEAR)
    near = near[(near >= 0) & (near < best.shape[1])]
    costs = best[:, near] + rest[:, near] + courses.penalty
    at = near[costs.argmin(axis=1)]
    start, stop = begins[each, at], ends[each, at]
    before, behind = courses.level(start, at), courses.level(at, stop)
    evidence = _without(place, courses) - costs.min(axis=1)
    size = np.where(np.isfinite(costs.min(axis=1)), behind - before, np.nan)
    others, count = _others(courses, (start, before), (stop, behind))
    lasts = np.minimum(courses.held(start, at), courses.held(at, stop))
    return Step(size, lasts, np.where(np.isfinite(evidence), evidence, np.nan) * np.sign(size), others, count)


def _without(place: int, courses: Courses) -> Floats:
    """Return what the best course costs that has no step near a place."""
    (best, _), (rest, _) = courses.before, courses.behind
    starts = np.arange(max(place - NEAR + 1, 1))
    found = np.full(len(courses.rows), np.inf)
    for stop in range(min(place + NEAR, rest.shape[1] - 1), rest.shape[1]):
        costs = best[:, starts] + courses.cost(starts, np.full(len(starts), stop)) + rest[:, [stop]]
        found = np.minimum(found, costs.min(axis=1) + 2 * courses.penalty)
    return found


def _others(
    courses: Courses, before: tuple[Ints, Floats], behind: tuple[Ints, Floats]
) -> tuple[Floats, Floats]:
    """Return the size of the largest step on either side of two segments, and how many there are."""
    to_left = _walked(courses, *before, courses.before[1], 0)
    to_right = _walked(courses, *behind, courses.behind[1], courses.rows.shape[1])
    return np.maximum(to_left[0], to_right[0]), to_left[1] + to_right[1]


def _walked(courses: Courses, at: Ints, level: Floats, turns: Ints, end: int) -> tuple[Floats, Floats]:
    """Return the same of the steps from a place on, towards one end."""
    each = np.arange(len(at))
    largest, count = np.zeros((2, len(at)))
    for _ in range(_STEPS):
        following = turns[each, at]
        there = courses.level(np.minimum(at, following), np.maximum(at, following))
        live = (at != end) & np.isfinite(there)
        largest = np.where(live, np.fmax(largest, np.abs(there - level)), largest)
        count += live
        at, level = np.where(live, following, end), np.where(live, there, level)
    return largest, count


def without_spikes(rows: Floats) -> Floats:
    """Return the running median of three: an excursion of one value disappears, a step stays where it is."""
    left, right = np.hstack([rows[:, :1], rows[:, :-1]]), np.hstack([rows[:, 1:], rows[:, -1:]])
    left, right = (np.where(np.isfinite(side), side, rows) for side in (left, right))
    return np.maximum(np.minimum(left, rows), np.minimum(np.maximum(left, rows), right))


def _summed(values: Floats) -> Floats:
    """Return the sums before each place."""
    return np.hstack([np.zeros((len(values), 1)), np.cumsum(values, axis=1)])
