"""The verdicts on all versions of a timeline, as marks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.comparisons import validity
from data.comparisons.sides import Floats, Ints, NamedSides, Samples, Sides, five_numbers
from data.comparisons.timelines.selection import MeasuredOperation, MeasuredVersions
from features.comparisons.lasting_changes import Shift
from features.comparisons.vectors import PreparedComparisons
from training.evaluation.thresholds import below_floor

if TYPE_CHECKING:
    from serving.client import Judge as AskedServer
    from serving.comparisons.judge import Verdict
    from serving.comparisons.model import Judge
    from serving.comparisons.schemas import VerdictAnswer

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
    """One operation at the versions of which it was measured; places count these."""

    number: int  # which operation
    known: Ints  # shape (n_places,), the versions
    width: int  # how many versions there are in all
    windowed: bool  # whether versions have so few samples that windows stand for them
    turns: tuple[int, ...]  # the places from which on the level is another one, ascending
    losses: tuple[Stretch, ...]  # where a lasting loss began, and where it was complete

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


#: A mark per version; 0: not judged.
Marks = NDArray[np.uint8]
MARK = {"pass": 1, "unsure": 2, "fail": 3, "invalid": 4}
_PASS, _UNSURE, _FAIL = 1, 2, 3
#: Comparisons that are judged at once.
_TOGETHER = 20_000
#: Marks of one report whose reasons are told; what is beyond that has none.
_TOLD = 1_500
#: Fails of single versions that follow each other so closely are one.
_BEHIND = 3


class SaidOfVersion(NamedTuple):
    """What is said of one comparison: the mark, the probability, the worst change, and the reasons."""

    mark: int
    probability: float
    change: float
    words: Callable[[], Sequence[str]]

    @classmethod
    def of(cls, verdict: Verdict | VerdictAnswer) -> SaidOfVersion:
        """Take a verdict of a model or of a server; its words are computed when they are called for."""
        probability = np.nan if verdict.probability is None else verdict.probability
        change = np.nan if verdict.moved is None else verdict.moved.change
        return cls(MARK[verdict.verdict], probability, change, lambda: verdict.words)


Answering = Callable[[VersionSides, Sequence[Ask]], list[SaidOfVersion]]


@dataclass(frozen=True)
class OperationMarks:
    """The marks of one operation."""

    against_baseline: Marks  # shape (n_versions,), the verdict on each version beside the baseline
    #: shape (n_versions,), the same beside the versions just before it: where a change began
    against_before: Marks
    probability: Floats  # shape (n_versions,), of a regression against the baseline; NaN where not judged
    #: the reasons in words, by the index of a version, where a mark is unsure or fail
    words: dict[int, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def none(cls, versions: int) -> OperationMarks:
        """Return those of an operation that nobody judged."""
        beside, before = np.zeros((2, versions), np.uint8)
        return cls(beside, before, np.full(versions, np.nan))


def by_model(served: Judge) -> Answering:
    """Return how a model of this machine answers.

    What is below its floor it is not asked of: that is most of all, and passes.
    """
    from serving.comparisons.judge import judged

    def answer(given: VersionSides, asks: Sequence[Ask]) -> list[SaidOfVersion]:
        said = [_PASSED] * len(asks)
        left = _above_floor(given, asks, served)
        judgement = judged(given.named([asks[one] for one in left]), served)
        for place, one in zip(left, judgement.verdicts, strict=True):
            said[place] = SaidOfVersion.of(one)
        return said

    return answer


def _above_floor(given: VersionSides, asks: Sequence[Ask], served: Judge) -> list[int]:
    """Return which comparisons a model has to be asked of."""
    card = served.model.card
    if card.wish.beneath:
        return list(range(len(asks)))
    sides = given.sides(asks)
    below = below_floor(PreparedComparisons.of(sides, card.run_spread).worst_change, card.floor)
    return np.flatnonzero(~below | (validity.reasons(sides) != "")).tolist()


def by_server(server: AskedServer) -> Answering:
    """Return how a served model answers; JudgeError if it does not."""

    def answer(given: VersionSides, asks: Sequence[Ask]) -> list[SaidOfVersion]:
        return [SaidOfVersion.of(one) for one in server.comparisons(_posted(given, asks))]

    return answer


def _posted(given: VersionSides, asks: Sequence[Ask]) -> Iterator[dict[str, Any]]:
    """Yield comparisons as requests have them."""
    sides = given.sides(asks)
    ends = np.cumsum(sides.per_comparison)
    for row, (ask, stop) in enumerate(zip(asks, ends.tolist(), strict=True)):
        one = given.measured.operations[ask.operation]
        configurations = [
            {
                "threads": int(sides.threads[at]),
                "baseline": _side(sides.baseline, sides.baseline_five, at),
                "target": _side(sides.target, sides.target_five, at),
                "history": [found.tolist() for _, found in sides.history.versions(at)],
            }
            for at in range(stop - int(sides.per_comparison[row]), stop)
        ]
        yield {
            "comparison_id": f"{row}",
            "benchmark": one.benchmark,
            "operation": one.operation,
            "unit": one.unit,
            "better": one.better,
            "configurations": configurations,
        }


def _side(samples: Samples, five: Floats, at: int) -> list[Any] | dict[str, float]:
    versions = [found.tolist() for _, found in samples.versions(at)]
    if not versions:
        return dict(zip(("min", "q1", "median", "q3", "max"), five[at].tolist(), strict=True))
    return versions[0] if len(versions) == 1 else versions


_PASSED = SaidOfVersion(_PASS, 0.0, np.nan, tuple)


def judged_versions(
    measured: MeasuredVersions,
    baseline: int,
    shifts: Sequence[Sequence[Shift]],
    hidden: Floats,
    answering: Answering,
    *,
    advance: Callable[[int, int], None] | None = None,
) -> list[OperationMarks]:
    """Judge every version of every operation.

    `baseline`: which version is the baseline.
    `shifts`: the lasting changes of every operation, of all configurations: they bound the baseline's level.
    `hidden`: shape (n_configurations,), the smallest change of a median that can be told from how versions
    vary, as a share: a smaller loss from one version to the next is not `unsure`.
    `answering`: `by_model` or `by_server`.
    `advance`: is told how many of how many operations are judged.
    """
    versions, given = measured.five.shape[1], VersionSides.of(measured)
    found = [OperationMarks.none(versions) for _ in measured.operations]
    told = 0
    for some in _batches(measured, baseline, shifts):
        asks = [ask for _, own in some for ask in own]
        said = iter(answering(given, asks) if asks else ())
        for course, own in some:
            own_said = [(ask, _beyond_noise(next(said), ask, measured, hidden)) for ask in own]
            told += _mark(found[course.number], course, own_said, _TOLD - told)
        if advance is not None:
            advance(some[-1][0].number + 1, len(found))
    return found


def _beyond_noise(one: SaidOfVersion, ask: Ask, measured: MeasuredVersions, hidden: Floats) -> SaidOfVersion:
    """Return a comparison's verdict; `unsure` passes if one version lies within noise of the one before it.

    From one version to the next every series goes down half of the time, also one that is better than its
    baseline, and its few earlier versions do not say yet how far: the whole series does.
    """
    if one.mark != _UNSURE or ask.beside_baseline or ask.baseline.width > 1 or ask.target.width > 1:
        return one
    operation = measured.operations[ask.operation]
    before, after = (measured.five[operation.rows, side.start, 2] for side in (ask.baseline, ask.target))
    loss = operation.sign * (before - after) / np.abs(before)
    within = np.isnan(loss) | (loss <= hidden[operation.rows])
    return one._replace(mark=_PASS) if within.all() else one


def _batches(
    measured: MeasuredVersions, baseline: int, shifts: Sequence[Sequence[Shift]]
) -> Iterator[list[tuple[Course, list[Ask]]]]:
    """Yield operations with their comparisons, about `_TOGETHER` of these at once."""
    held: list[tuple[Course, list[Ask]]] = []
    for number, operation in enumerate(measured.operations):
        course = Course.of(number, operation, measured, shifts[number])
        held.append((course, list(course.asks(baseline))))
        if sum(len(asks) for _, asks in held) >= _TOGETHER:
            yield held
            held = []
    if held:
        yield held


def _mark(marks: OperationMarks, course: Course, said: Sequence[tuple[Ask, SaidOfVersion]], room: int) -> int:
    """Write what was said into the marks; return how many have reasons."""
    beside = [(ask.version, one) for ask, one in said if ask.beside_baseline]
    before = _once(_each([(ask.version, one) for ask, one in said if not ask.beside_baseline]), course)
    for version, one in beside:
        marks.against_baseline[version] = one.mark
        marks.probability[version] = one.probability
    for version, one in before:
        marks.against_before[version] = one.mark
    for what, told in (("the versions before", before), ("the baseline", _begun(beside))):
        for version, one in told:
            if one.mark in {_UNSURE, _FAIL} and len(marks.words) < room:
                known = marks.words.get(version, ())
                marks.words[version] = (*known, f"beside {what}: {'; '.join(one.words())}")
    return len(marks.words)


def _each(said: Sequence[tuple[int, SaidOfVersion]]) -> list[tuple[int, SaidOfVersion]]:
    """Return one verdict of every version in their order, of two the worse one."""
    found: dict[int, SaidOfVersion] = {}
    for version, one in said:
        if version not in found or found[version].mark < one.mark <= _FAIL:
            found[version] = one
    return sorted(found.items())


def _once(said: list[tuple[int, SaidOfVersion]], course: Course) -> list[tuple[int, SaidOfVersion]]:
    """Tell one step once, where it is clearest: of versions near to each other, the others pass.

    Windows see a step from as far as they reach. A single version sees it where it begins; what was before it
    is still in the history of the next few.
    """
    reach = AFTER if course.windowed else _BEHIND
    places = {version: place for place, version in enumerate(course.known.tolist())}
    kept = list(said)
    group: list[int] = []
    for at, (version, one) in enumerate(said):
        if one.mark != _FAIL:
            continue
        if group and places[version] - places[said[group[-1]][0]] > reach:
            _settle(kept, group, course)
            group = []
        group.append(at)
    _settle(kept, group, course)
    return kept


def _settle(kept: list[tuple[int, SaidOfVersion]], group: Sequence[int], course: Course) -> None:
    """Leave one of a group of fails, and of windows nothing doubted beside it."""
    if not group:
        return
    around, left = list(group), group[0]
    if course.windowed:
        left = min(group, key=lambda at: np.nan_to_num(kept[at][1].change))
        around = list(range(max(0, group[0] - AFTER), min(len(kept), group[-1] + AFTER + 1)))
    for at in around:
        version, one = kept[at]
        if at != left and one.mark in {_UNSURE, _FAIL}:
            kept[at] = version, one._replace(mark=_PASS)


def _begun(said: Sequence[tuple[int, SaidOfVersion]]) -> list[tuple[int, SaidOfVersion]]:
    """Return the verdicts with which another one begins."""
    marks = [0, *(one.mark for _, one in said)]
    return [one for place, one in enumerate(said) if marks[place] != marks[place + 1]]
