"""Lasting changes over a whole history: steps, and creeping drops that no comparison of two versions shows.

The medians of versions are cut into segments of one level each (`features.comparisons.segments`). Where
several steps to worse follow each other, or one is blurred, and a straight decline explains them better, it
is a creeping drop: several small losses within tolerance that add up (seed 000, chapter 5).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints
from features.comparisons.segments import Courses
from features.comparisons.timelines.noise import scatter
from features.comparisons.versions import quantile

#: What a step costs, in squares of the noise: so much better has a course with it to explain the series.
#: Chosen so that fewer than 1 in 200 series without change has one, whether its noise is white, drifts a
#: little (a correlation of 0.3 from version to version), or has heavy tails.
PENALTY = 28.0
#: By how much better a straight decline has to explain a drop than steps do.
_STRAIGHT = 8.0
#: A decline takes at least so many versions; fewer are a step.
_SHORTEST_DECLINE = 4
#: No smaller change is told, as a share: nor do verdicts, unless a model was trained with another floor.
SMALLEST = 0.005
#: Fewer versions than this have no level before and behind.
_ENOUGH = 8
#: Versions of the running median, and how far from it a single one counts, in noise.
_WINDOW, _FARTHEST = 7, 2.5
#: So often at most the noise is estimated again without the changes found.
_ROUNDS = 3
#: Numbers of a block, to bound memory.
_BLOCK = 4_000_000
#: Places tried for the begin and the end of a decline.
_TRIED = 24


class Shift(NamedTuple):
    """One lasting change of one series.

    Attributes
    ----------
    kind : {"drop", "gain", "creep"}
    first, last : int
        Indices of versions: it shows from `first` on, and is complete at `last`.
    share : float
        Of the level before; negative is worse.
    """

    kind: Literal["drop", "gain", "creep"]
    first: int
    last: int
    share: float


def shifts(medians: Floats, signs: Floats) -> tuple[list[tuple[Shift, ...]], Floats]:
    """Find the lasting changes of many series, and how much each varies beside them.

    The first search takes neighbouring versions for the noise, of which few have a step between them. Then
    the changes found are taken out of the series, the noise is estimated without them, and the search is
    repeated until it finds the same.

    Parameters
    ----------
    medians : ndarray of shape (n, n_versions)
        Above 0; NaN where not measured.
    signs : ndarray of shape (n,)
        1 where higher is better, -1 where lower is.

    Returns
    -------
    changes : list of tuple of Shift
        Of every series, the earliest first; none below `SMALLEST`.
    noise : ndarray of shape (n,)
        As of `scatter`, without the changes.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.where(medians > 0, np.log(medians), np.nan)
    noise = scatter(logs)
    found = _changes(logs, signs, scatter(logs, apart=(1,)))
    left = [row for row, own in enumerate(found) if own]
    for _ in range(_ROUNDS):
        without = scatter(_levelled(logs[left], signs[left], [found[row] for row in left]))
        # the least: so it ends, and whatever changes a course leaves in does not count as noise
        noise[left] = np.fmin(noise[left], without)
        then = zip(left, _changes(logs[left], signs[left], noise[left]), strict=True)
        changed = {row: own for row, own in then if own != found[row]}
        for row, own in changed.items():
            found[row] = own
        left = [*changed]
    return [tuple(one for one in own if abs(one.share) >= SMALLEST) for own in found], noise


def _levelled(logs: Floats, signs: Floats, found: Sequence[Sequence[Shift]]) -> Floats:
    """Return series without their changes."""
    versions, levelled = np.arange(logs.shape[1]), logs.copy()
    for row, (sign, own) in enumerate(zip(signs.tolist(), found, strict=True)):
        for one in own:
            course = np.clip((versions - one.first + 1) / (one.last - one.first + 1), 0, 1)
            levelled[row] -= np.log1p(sign * one.share) * course
    return levelled


def _changes(logs: Floats, signs: Floats, noise: Floats) -> list[tuple[Shift, ...]]:
    """Find the changes of series that vary by this much, the smallest included."""
    known = np.isfinite(logs)
    width = int(known.sum(axis=1).max(initial=0))
    found: list[tuple[Shift, ...]] = [()] * len(logs)
    asked = np.flatnonzero(known.sum(axis=1) >= _ENOUGH)
    each = max(1, _BLOCK // (width + 1) ** 2)
    for start in range(0, len(asked), each):
        rows = asked[start : start + each]
        place = np.argsort(~known[rows], axis=1, kind="stable")[:, :width]
        packed = np.take_along_axis(logs[rows], place, axis=1) * signs[rows, None]
        courses = Courses(_calm(packed / noise[rows, None]))
        cuts = _cuts(courses.best(PENALTY).begins)
        for row, own in enumerate(cuts):
            if len(own) > 2:  # noqa: PLR2004 - the two ends
                series = _Stepped(courses.rows[row], packed[row], own, float(signs[rows[row]]))
                found[rows[row]] = tuple(_placed(one, place[row]) for one in series.shifts())
    return found


def _calm(rows: Floats) -> Floats:
    """Bring single versions nearer that are far from the running median: heavy tails are no levels."""
    half = _WINDOW // 2
    padded = np.pad(rows, ((0, 0), (half, half)), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW, axis=1)
    middle = quantile(windows.reshape(-1, _WINDOW), 0.5).reshape(rows.shape)
    return np.clip(rows, middle - _FARTHEST, middle + _FARTHEST)


def _cuts(begins: Ints) -> list[list[int]]:
    """Return where the segments of the best course of every series begin, and the end."""
    found = []
    for row in begins:
        cuts = [len(row) - 1]
        while cuts[-1] > 0:
            cuts.append(int(row[cuts[-1]]))
        found.append(cuts[::-1])
    return found


def _placed(shift: Shift, place: Ints) -> Shift:
    return shift._replace(first=int(place[shift.first]), last=int(place[shift.last]))


class _Stepped:
    """One series that has steps; positive is better.

    Parameters
    ----------
    calm : ndarray of shape (width,)
        In units of its noise.
    logs : ndarray of shape (width,)
    cuts : sequence of int
        Where segments begin, and the end.
    sign : float
    """

    def __init__(self, calm: Floats, logs: Floats, cuts: Sequence[int], sign: float) -> None:
        self._calm, self._logs, self._cuts, self._sign = calm, logs, cuts, sign
        self._levels = [_middle(logs[start:stop]) for start, stop in pairwise(cuts)]

    def shifts(self) -> Iterator[Shift]:
        """Yield the changes, the earliest first."""
        at = 0
        while at + 1 < len(self._levels):
            declines = (self._decline(at, end) for end in range(self._worse_until(at), at, -1))
            found = next((one for one in declines if one is not None), None)
            shift, at = found if found is not None else (self._step(at), at + 1)
            yield shift

    def _worse_until(self, at: int) -> int:
        """Return the last segment to which the levels fall."""
        end = at
        while end + 1 < len(self._levels) and self._levels[end + 1] < self._levels[end]:
            end += 1
        return end

    def _step(self, at: int) -> Shift:
        share = self._share(self._levels[at], self._levels[at + 1])
        return Shift("gain" if share > 0 else "drop", self._cuts[at + 1], self._cuts[at + 1], share)

    def _share(self, before: float, after: float) -> float:
        return float(self._sign * np.expm1(self._sign * (after - before)))

    def _decline(self, at: int, end: int) -> tuple[Shift, int] | None:
        """Return a creeping drop in place of the steps between two segments, if it explains them better."""
        start, stop = self._cuts[at], self._cuts[end + 1]
        known = np.isfinite(self._calm[start:stop])
        part = self._calm[start:stop][known]
        if len(part) < 2 * _SHORTEST_DECLINE:
            return None
        steps = sum(
            _squares(self._calm[left:right]) + PENALTY for left, right in pairwise(self._cuts[at : end + 2])
        )
        first, last, squares = _straight(part)
        if squares + 2 * PENALTY + _STRAIGHT >= steps or last - first < _SHORTEST_DECLINE:
            return None
        logs = self._logs[start:stop][known]
        share = self._share(_middle(logs[: first + 1]), _middle(logs[last:]))
        return Shift("creep", start + first + 1, start + last, share), end


def _middle(values: Floats) -> float:
    return float(np.median(values[np.isfinite(values)]))


def _squares(values: Floats) -> float:
    return float(np.nanvar(values) * np.isfinite(values).sum())


def _straight(part: Floats) -> tuple[int, int, float]:
    """Find the decline from one level to another that explains values best.

    Returns
    -------
    first, last : int
        The last value of the level before, and the first one of the level behind.
    squares : float
        The sum of the squared distances that are left.
    """
    n = len(part)
    coarse = np.unique(np.linspace(0, n - 1, _TRIED).astype(np.int64))
    first, last, _ = _best_of(part, coarse, coarse)
    reach = np.arange(-(n // _TRIED) - 1, n // _TRIED + 2)
    return _best_of(part, *(np.unique(np.clip(one + reach, 0, n - 1)) for one in (first, last)))


def _best_of(part: Floats, firsts: Ints, lasts: Ints) -> tuple[int, int, float]:
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
