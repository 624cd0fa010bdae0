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
    """

    rows: Floats

    @cached_property
    def weights(self) -> Floats:
        """How many values are known before each place, shape (n, width + 1)."""
        return _summed(np.isfinite(self.rows).astype(np.float64))

    @cached_property
    def costs(self) -> Floats:
        """What the segment from each place to each costs, infinite where it holds too few values.

        Returns
        -------
        ndarray of shape (n, width + 1, width + 1)
        """
        weight, total = (summed[:, None] - summed[:, :, None] for summed in (self.weights, self._sums))
        squares = _summed(np.nan_to_num(self.rows) ** 2)
        total *= total
        total /= np.where(weight > 0, weight, 1)
        cost = np.maximum(squares[:, None] - squares[:, :, None] - total, 0)
        cost[weight < SHORTEST] = np.inf
        return cost

    def best(self, penalty: float) -> Best:
        """Find the best courses up to each place and from each place on, where a step costs so much."""
        n, width = self.rows.shape
        before, behind = np.full((2, n, width + 1), np.inf)
        begins, ends = np.zeros((n, width + 1), np.int64), np.full((n, width + 1), width)
        before[:, 0] = behind[:, width] = -penalty
        each, costs = np.arange(n), self.costs
        for at in range(1, width + 1):
            found = before[:, :at] + costs[:, :at, at]
            begins[:, at] = where = found.argmin(axis=1)
            before[:, at] = found[each, where] + penalty
        for at in range(width - 1, -1, -1):
            found = behind[:, at + 1 :] + costs[:, at, at + 1 :]
            where = found.argmin(axis=1)
            ends[:, at] = where + at + 1
            behind[:, at] = found[each, where] + penalty
        return Best(penalty, before, begins, behind, ends)

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

    @cached_property
    def _sums(self) -> Floats:
        return _summed(np.nan_to_num(self.rows))


@dataclass(frozen=True)
class Best:
    """The best courses of many series where a step costs `penalty`; arrays of shape (n, width + 1).

    Attributes
    ----------
    before, behind : ndarray of float
        What the best course up to each place, and from it on, costs.
    begins, ends : ndarray of int
        Where its last segment begins, and its first one ends.
    """

    penalty: float
    before: Floats
    begins: Ints
    behind: Floats
    ends: Ints


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


def step_near(place: int, courses: Courses, penalty: float) -> Step:
    """Describe the step of every best course near one place: between two values, counted from the left."""
    best = courses.best(penalty)
    each, near = np.arange(len(courses.rows)), np.arange(place - NEAR + 1, place + NEAR)
    near = near[(near >= 0) & (near < best.before.shape[1])]
    costs = best.before[:, near] + best.behind[:, near] + penalty
    at, cost = near[costs.argmin(axis=1)], costs.min(axis=1)
    start, stop = best.begins[each, at], best.ends[each, at]
    before, behind = courses.level(start, at), courses.level(at, stop)
    size = np.where(np.isfinite(cost), behind - before, np.nan)
    evidence = _without(place, courses, best) - cost
    to_left = _walked(courses, start, before, best.begins, 0)
    to_right = _walked(courses, stop, behind, best.ends, courses.rows.shape[1])
    return Step(
        size,
        np.minimum(courses.held(start, at), courses.held(at, stop)),
        np.where(np.isfinite(evidence), evidence, np.nan) * np.sign(size),
        np.maximum(to_left[0], to_right[0]),
        to_left[1] + to_right[1],
    )


def _without(place: int, courses: Courses, best: Best) -> Floats:
    """Return what the best course costs that has no step near a place."""
    starts, width = max(place - NEAR + 1, 1), courses.rows.shape[1]
    stops = min(place + NEAR, width)
    across = courses.costs[:, :starts, stops:]
    total = best.before[:, :starts, None] + across + best.behind[:, None, stops:]
    return np.asarray(total.min(axis=(1, 2)) + 2 * best.penalty)


def _walked(courses: Courses, at: Ints, level: Floats, turns: Ints, end: int) -> tuple[Floats, Floats]:
    """Return the size of the largest step from a place towards one end, and how many there are."""
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
