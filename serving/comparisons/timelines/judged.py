"""The verdicts on all versions of a timeline, as marks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from data.comparisons import validity
from data.comparisons.sides import Floats, Samples
from data.comparisons.timelines.selection import MeasuredVersions
from features.comparisons.lasting_changes import Shift
from features.comparisons.prepared import Asked
from serving.comparisons.timelines.timeline import Marks
from serving.comparisons.timelines.windows import AFTER, Ask, Course, VersionSides
from training.comparisons.decision import below_floor

if TYPE_CHECKING:
    from serving.client import Judge as AskedServer
    from serving.comparisons.model import Judge

#: What the marks of `serving.comparisons.timelines.timeline` stand for.
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


Answering = Callable[[VersionSides, Sequence[Ask]], list[SaidOfVersion]]


@dataclass(frozen=True)
class OperationMarks:
    """The marks of one operation; as `serving.comparisons.timelines.timeline.TimelineOperation` has them."""

    against_baseline: Marks
    against_before: Marks
    probability: Floats
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
            change = np.nan if one.moved is None else one.moved.change
            probability = np.nan if one.probability is None else one.probability
            said[place] = SaidOfVersion(MARK[one.verdict], probability, change, _words_of(one))
        return said

    return answer


def _words_of(verdict: Any) -> Callable[[], Sequence[str]]:
    return lambda: verdict.words


def _above_floor(given: VersionSides, asks: Sequence[Ask], served: Judge) -> list[int]:
    """Return which comparisons a model has to be asked of."""
    card = served.model.card
    if card.wish.beneath:
        return list(range(len(asks)))
    sides = given.sides(asks)
    below = below_floor(Asked.of(sides, card.run_spread).worst_change, card.floor)
    return np.flatnonzero(~below | (validity.reasons(sides) != "")).tolist()


def by_server(server: AskedServer) -> Answering:
    """Return how a served model answers; JudgeError if it does not."""

    def answer(given: VersionSides, asks: Sequence[Ask]) -> list[SaidOfVersion]:
        answers = server.comparisons(_posted(given, asks))
        return [
            SaidOfVersion(
                MARK[one.verdict],
                np.nan if one.probability is None else one.probability,
                np.nan if one.moved is None else one.moved.change,
                _words_of(one),
            )
            for one in answers
        ]

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

    Parameters
    ----------
    measured : MeasuredVersions
    baseline : int
        Which version is the baseline.
    shifts : sequence of sequence of Shift
        The lasting changes of every operation, of all configurations: they bound the baseline's level.
    hidden : ndarray of shape (n_configurations,)
        The smallest change of a median that can be told from how versions vary, as a share: a smaller loss
        from one version to the next is not `unsure`.
    answering : callable
        `by_model` or `by_server`.
    advance : callable, optional
        Is told how many of how many operations are judged.

    Returns
    -------
    list of OperationMarks
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
