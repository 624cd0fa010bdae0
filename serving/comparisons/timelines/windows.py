"""Which versions of a timeline are compared: every one with the baseline, and with those before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from data.comparisons.sides import Floats, Ints, NamedSides, Samples, Sides, five_numbers
from data.comparisons.timelines.selection import MeasuredOperation, MeasuredVersions
from features.comparisons.lasting_changes import Shift

#: Windows where versions have few samples: as `data.comparisons.params.LabelRules` has them.
BEFORE, AFTER = 10, 5
#: A window that stands for a version holds at least so many.
_FEWEST = 2
#: Earlier versions that tell how much versions vary.
PAST = 20


class Stretch(NamedTuple):
    """Versions from `start` up to, not including, `stop`."""

    start: int
    stop: int

    @property
    def width(self) -> int:
        """How many places it has."""
        return self.stop - self.start


class Ask(NamedTuple):
    """One comparison: of which operation, which version it is told of, beside what, and the windows."""

    operation: int
    version: int
    beside_baseline: bool
    past: Stretch
    baseline: Stretch
    target: Stretch


@dataclass(frozen=True)
class Course:
    """One operation at the versions of which it was measured; places count these.

    Attributes
    ----------
    number : int
        Which operation.
    known : ndarray of shape (n_places,)
        The versions.
    width : int
        How many versions there are in all.
    windowed : bool
        Whether versions have so few samples that windows stand for them.
    turns : tuple of int
        The places from which on the level is another one, ascending.
    losses : tuple of Stretch
        Where a lasting loss began, and where it was complete.
    """

    number: int
    known: Ints
    width: int
    windowed: bool
    turns: tuple[int, ...]
    losses: tuple[Stretch, ...]

    @classmethod
    def of(
        cls, number: int, operation: MeasuredOperation, measured: MeasuredVersions, shifts: Sequence[Shift]
    ) -> Course:
        """Take one operation of what was measured, and the lasting changes of all its configurations."""
        known = np.flatnonzero(measured.known[operation.rows].any(axis=0))
        turns = {at for one in shifts for at in (one.first, one.last)}
        places = np.unique(np.searchsorted(known, sorted(turns))).tolist()
        lost = {(one.first, one.last) for one in shifts if one.kind != "gain"}
        losses = (Stretch(*np.searchsorted(known, ends).tolist()) for ends in sorted(lost))
        windowed = not measured.alone[operation.rows].all()
        return cls(number, known, measured.five.shape[1], windowed, tuple(places), tuple(losses))

    def asks(self, baseline: int) -> Iterator[Ask]:
        """Yield the comparisons of every version with the baseline, and with the versions before it."""
        yield from self._before()
        if not self.windowed:
            yield from self._lasting()
        place = int(np.searchsorted(self.known, baseline))
        if place < len(self.known) and self.known[place] == baseline:
            yield from self._beside(place)

    def _before(self) -> Iterator[Ask]:
        n = len(self.known)
        reach, ahead, least = (BEFORE, AFTER, _FEWEST) if self.windowed else (1, 1, 1)
        for at in range(least, n - least + 1):
            start = max(0, at - reach)
            past = Stretch(max(0, start - PAST), start)
            yield self._ask(at, past, Stretch(start, at), Stretch(at, min(at + ahead, n)), beside=False)

    def _lasting(self) -> Iterator[Ask]:
        """Yield every lasting loss: the level before it beside that behind it, however small its steps."""
        edges = (0, *self.turns, len(self.known))
        for began, complete in self.losses:
            start = max(began - BEFORE, *(edge for edge in edges if edge < began))
            stop = min(complete + AFTER, *(edge for edge in edges if edge > complete))
            if began - start >= _FEWEST and stop - complete >= _FEWEST:
                past = Stretch(max(0, start - PAST), start)
                yield self._ask(began, past, Stretch(start, began), Stretch(complete, stop), beside=False)

    def _beside(self, baseline: int) -> Iterator[Ask]:
        level = self._level(baseline)
        for at in range(len(self.known)):
            target = self._target(at)
            if at == baseline:
                continue
            own = Stretch(baseline, baseline + 1)
            if self.windowed:
                own = self._nearest(level, baseline, (target,), BEFORE)
                past = Stretch(own.start, own.start)
            else:
                past = self._nearest(level, baseline, (own, target), PAST)
            if own.width >= (_FEWEST if self.windowed else 1):
                yield self._ask(at, past, own, target, beside=True)

    def _level(self, place: int) -> Stretch:
        """Return the places around one between which the level does not change."""
        edges = [0, *self.turns, len(self.known)]
        return next(Stretch(*edge) for edge in pairwise(edges) if edge[0] <= place < edge[1])

    def _target(self, at: int) -> Stretch:
        """Return the window that stands for a version: from it on, up to where the level changes."""
        if not self.windowed:
            return Stretch(at, at + 1)
        n = len(self.known)
        stop = min([at + AFTER, n, *(turn for turn in self.turns if turn > at)])
        if stop - at >= _FEWEST:
            return Stretch(at, stop)
        return Stretch(at, at + _FEWEST) if at + _FEWEST <= n else Stretch(max(0, n - _FEWEST), n)

    @staticmethod
    def _nearest(level: Stretch, place: int, without: Sequence[Stretch], most: int) -> Stretch:
        """Return the longest part of a level outside of some spans, and of it what is nearest to a place."""
        edges = [level.start]
        for one in sorted(without):
            if one.stop > level.start and one.start < level.stop:
                edges += [max(one.start, level.start), min(one.stop, level.stop)]
        edges.append(level.stop)
        parts = [Stretch(*edges[at : at + 2]) for at in range(0, len(edges), 2)]
        inside = [part for part in parts if part.start <= place < part.stop and part.width >= _FEWEST]
        start, stop = inside[0] if inside else max(parts, key=lambda part: part.width)
        first = min(max(start, place - most + 1), max(start, stop - most))
        return Stretch(first, min(stop, first + most))

    def _ask(self, at: int, past: Stretch, baseline: Stretch, target: Stretch, *, beside: bool) -> Ask:
        spans = (self._versions(one) for one in (past, baseline, target))
        return Ask(self.number, self._names[at], beside, *spans)

    def _versions(self, places: Stretch) -> Stretch:
        """Return the same in versions."""
        if places.width <= 0:
            return Stretch(0, 0)
        return Stretch(self._names[places.start], self._names[places.stop - 1] + 1)

    @cached_property
    def _names(self) -> list[int]:
        return [int(one) for one in self.known]


@dataclass(frozen=True)
class VersionSides:
    """What was measured, as comparisons take it: where there is only a summary, its median is one sample."""

    measured: MeasuredVersions
    values: Floats
    edges: Ints

    @classmethod
    def of(cls, measured: MeasuredVersions) -> VersionSides:
        """Fill in the medians of summaries where windows of versions are compared."""
        lone = (measured.counts == 0) & measured.known & ~measured.alone[:, None]
        if not lone.any():
            return cls(measured, measured.values, measured.edges)
        values = np.insert(measured.values, measured.edges[:, :-1][lone], measured.five[lone][:, 2])
        counts = (measured.counts + lone).ravel()
        edges = np.append(0, np.cumsum(counts))
        rows, width = lone.shape
        places = np.arange(rows)[:, None] * width + np.arange(width + 1)
        return cls(measured, values, edges[places])

    def sides(self, asks: Sequence[Ask]) -> Sides:
        """Gather comparisons: of the configurations that both sides have."""
        operations = self.measured.operations
        many = np.array([len(operations[one.operation].threads) for one in asks])
        comparison = np.repeat(np.arange(len(asks)), many)
        firsts = np.array([operations[one.operation].first for one in asks])
        rows = firsts[comparison] + np.arange(len(comparison)) - np.repeat(np.cumsum(many) - many, many)
        threads = np.array([count for one in operations for count in one.threads])
        signs = np.repeat([one.sign for one in operations], [len(one.threads) for one in operations])
        values, orders, begin = self._held(rows)
        lists, fives = [], []
        for name in ("past", "baseline", "target"):
            spans = np.array([getattr(one, name) for one in asks], np.int64)[comparison]
            bounds = (self.edges[rows, spans[:, at]] - begin for at in (0, 1))
            samples = Samples(values, orders, *bounds)
            lists.append(samples)
            fives.append(self._five(samples, rows, spans))
        held = np.isfinite(fives[1][:, 2]) & np.isfinite(fives[2][:, 2])
        past, baseline, target = (one.of(held) for one in lists)
        later = Samples(values, orders, target.stops, target.stops)
        return Sides(
            comparison[held],
            len(asks),
            threads[rows[held]],
            signs[rows[held]],
            baseline,
            target,
            past,
            later,
            fives[1][held],
            fives[2][held],
        )

    def named(self, asks: Sequence[Ask]) -> NamedSides:
        """Gather comparisons under the names of their operations."""
        found = [self.measured.operations[one.operation] for one in asks]
        names = [f"{number}" for number in range(len(asks))]
        units = [one.unit for one in found]
        sides = self.sides(asks)
        return NamedSides(
            names, [one.benchmark for one in found], [one.operation for one in found], sides, lambda: units
        )

    def _five(self, samples: Samples, rows: Ints, spans: Ints) -> Floats:
        """Return five numbers of lists; of a summary those that were given."""
        single = spans[:, 1] - spans[:, 0] == 1
        five = np.full((len(rows), 5), np.nan)
        five[single] = self.measured.five[rows[single], spans[single, 0]]
        wide = ~single & (samples.lengths > 0)
        five[wide] = five_numbers(samples.of(wide))
        return five

    def _held(self, rows: Ints) -> tuple[Floats, Ints, int]:
        """Return the samples of all configurations between two, their versions, and where they begin."""
        part = self.edges[rows.min() : rows.max() + 1]
        many = np.tile(np.arange(part.shape[1] - 1), len(part))
        begin = int(part[0, 0])
        return self.values[begin : part[-1, -1]], np.repeat(many, np.diff(part, axis=1).ravel()), begin
