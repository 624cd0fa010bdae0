"""Verdicts on all versions of a timeline, as marks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.comparisons import validity
from data.comparisons.sides import Floats, Ints, NamedSides, Samples, Sides, five_numbers, numbered_groups
from data.comparisons.tables import FIVE_NUMBERS
from data.comparisons.timelines.selection import MeasuredOperation, MeasuredVersions
from data.errors import InputError
from features.comparisons.lasting_changes import Shift
from features.comparisons.summaries import row_quantile
from features.comparisons.vectors import PreparedComparisons
from training.evaluation.thresholds import below_min_effect

if TYPE_CHECKING:
    from perfjudge_client.schemas import VerdictAnswer
    from serving.comparisons.judge import BaseRateOption, Verdict
    from serving.comparisons.model import Judge
    from training.comparisons.stored import Card

#: Sizes of windows of versions with few samples, before a version and from it on; as in
#: `data.comparisons.params.LabelRules`.
BEFORE, AFTER = 10, 5
#: Least number of versions in a window.
_FEWEST = 2
#: Most versions of a history.
PAST = 20


class VersionComparison(NamedTuple):
    """One comparison of an operation: the version that the verdict belongs to, and the compared windows."""

    operation: int
    version: int
    beside_baseline: bool  # else it is compared with the versions before it
    past: range
    baseline: range
    target: range


@dataclass(frozen=True)
class OperationCourse:
    """One operation at the versions that measured it; places count these versions."""

    number: int  # index of the operation
    versions: Sequence[int]  # of the places
    windowed: bool  # whether windows of versions are compared, as versions have few samples
    turns: tuple[int, ...]  # places where the level changes, ascending
    losses: tuple[tuple[int, int], ...]  # first and last place of each lasting loss

    @classmethod
    def from_shifts(
        cls, number: int, operation: MeasuredOperation, measured: MeasuredVersions, shifts: Sequence[Shift]
    ) -> OperationCourse:
        """Return operation `number`; `shifts`: the lasting changes of all its configurations."""
        versions = np.flatnonzero(measured.is_measured[operation.row_slice].any(axis=0))
        edges = sorted({at for shift in shifts for at in (shift.first, shift.last)})
        turns = np.unique(np.searchsorted(versions, edges)).tolist()
        lost = sorted({(shift.first, shift.last) for shift in shifts if shift.kind != "gain"})
        losses = tuple(tuple(np.searchsorted(versions, ends).tolist()) for ends in lost)
        windowed = not measured.compares_single_versions[operation.row_slice].all()
        return cls(number, versions.tolist(), windowed, tuple(turns), losses)

    def version_comparisons(self, baseline: int) -> Iterator[VersionComparison]:
        """Yield the comparisons of every version with the versions before it, and with a measured baseline.

        `baseline`: index of the baseline's version.
        """
        yield from self._with_previous()
        if not self.windowed:
            yield from self._lasting_losses()
        place = int(np.searchsorted(self.versions, baseline))
        if place < len(self.versions) and self.versions[place] == baseline:
            yield from self._with_baseline(place)

    def _with_previous(self) -> Iterator[VersionComparison]:
        n = len(self.versions)
        before, after, fewest = (BEFORE, AFTER, _FEWEST) if self.windowed else (1, 1, 1)
        for at in range(fewest, n - fewest + 1):
            yield self._version_comparison(at, range(max(0, at - before), at), range(at, min(at + after, n)))

    def _lasting_losses(self) -> Iterator[VersionComparison]:
        """Yield the levels before and after every lasting loss, however small its steps."""
        edges = (0, *self.turns, len(self.versions))
        for began, complete in self.losses:
            start = max(began - BEFORE, *(edge for edge in edges if edge < began))
            stop = min(complete + AFTER, *(edge for edge in edges if edge > complete))
            if began - start >= _FEWEST and stop - complete >= _FEWEST:
                yield self._version_comparison(began, range(start, began), range(complete, stop))

    def _with_baseline(self, baseline: int) -> Iterator[VersionComparison]:
        edges = [0, *self.turns, len(self.versions)]
        level = next(range(*ends) for ends in pairwise(edges) if ends[0] <= baseline < ends[1])
        single = range(baseline, baseline + 1)
        for at in range(len(self.versions)):
            target = self._target_window(at)
            if at == baseline:
                continue
            if not self.windowed:
                past = _nearest_versions(level, baseline, (single, target), PAST)
                yield self._version_comparison(at, single, target, past)
                continue
            window = _nearest_versions(level, baseline, (target,), BEFORE)
            if len(window) >= _FEWEST:
                yield self._version_comparison(at, window, target, range(0))

    def _target_window(self, at: int) -> range:
        if not self.windowed:
            return range(at, at + 1)
        n = len(self.versions)
        stop = min([at + AFTER, n, *(turn for turn in self.turns if turn > at)])
        # where the level soon changes, or the versions end, the fewest versions that are enough
        stop = max(stop, min(at + _FEWEST, n))
        return range(max(0, min(at, stop - _FEWEST)), stop)

    def _version_comparison(
        self, at: int, baseline: range, target: range, past: range | None = None
    ) -> VersionComparison:
        """Return a comparison with the timeline's baseline if `past` is given, else with versions before."""
        earlier = range(max(0, baseline.start - PAST), baseline.start) if past is None else past
        spans = (
            range(self.versions[span.start], self.versions[span.stop - 1] + 1) if span else range(0)
            for span in (earlier, baseline, target)
        )
        return VersionComparison(self.number, self.versions[at], past is not None, *spans)


def _nearest_versions(level: range, place: int, excluded: Sequence[range], width: int) -> range:
    """Return the `width` places nearest to `place` in the part of a level around it, or in the longest part.

    `excluded`: spans that divide the level into parts.
    """
    edges = [level.start]
    for span in sorted(excluded, key=lambda span: span.start):
        if span.stop > level.start and span.start < level.stop:
            edges += [max(span.start, level.start), min(span.stop, level.stop)]
    edges.append(level.stop)
    parts = [range(*edges[at : at + 2]) for at in range(0, len(edges), 2)]
    around = [part for part in parts if place in part and len(part) >= _FEWEST]
    part = around[0] if around else max(parts, key=len)
    first = min(max(part.start, place - width + 1), max(part.start, part.stop - width))
    return range(first, min(part.stop, first + width))


@dataclass(frozen=True)
class VersionSides:
    """Measurements in the form of comparisons; in windows, a summary has its median as one sample."""

    measured: MeasuredVersions
    values: Floats
    edges: Ints

    @classmethod
    def from_measured(cls, measured: MeasuredVersions) -> VersionSides:
        """Return the measurements; where windows are compared, the median of a summary becomes a sample."""
        lone = (measured.sample_counts == 0) & measured.is_measured
        lone &= ~measured.compares_single_versions[:, None]
        if not lone.any():
            return cls(measured, measured.values, measured.edges)
        values = np.insert(measured.values, measured.edges[:, :-1][lone], measured.five[lone][:, 2])
        edges = np.append(0, np.cumsum((measured.sample_counts + lone).ravel()))
        rows, width = lone.shape
        positions = np.arange(rows)[:, None] * width + np.arange(width + 1)
        return cls(measured, values, edges[positions])

    def comparison_sides(self, asks: Sequence[VersionComparison]) -> Sides:
        """Return the sides of comparisons, at least one, with the configurations that both sides have."""
        operations = self.measured.operations
        numbers = np.array([ask.operation for ask in asks])
        counts = np.array([len(operation.threads) for operation in operations])[numbers]
        firsts = np.array([operation.first for operation in operations])[numbers]
        comparison, within = numbered_groups(counts)
        rows = firsts[comparison] + within
        threads = np.array([threads for operation in operations for threads in operation.threads])
        signs = np.array([operation.sign for operation in operations for _ in operation.threads])
        # the samples of all configurations between the first and the last row, and their versions
        edges = self.edges[rows.min() : rows.max() + 1]
        begin = int(edges[0, 0])
        values = self.values[begin : edges[-1, -1]]
        versions = np.tile(np.arange(edges.shape[1] - 1), len(edges))
        orders = np.repeat(versions, np.diff(edges, axis=1).ravel())
        lists, fives = [], []
        for name in ("past", "baseline", "target"):
            spans = [(getattr(ask, name).start, getattr(ask, name).stop) for ask in asks]
            starts, stops = np.array(spans, np.int64)[comparison].T
            bounds = (self.edges[rows, at] - begin for at in (starts, stops))
            lists.append(Samples(values, orders, *bounds))
            if name != "past":
                fives.append(self._five_numbers(lists[-1], rows, starts, stops))
        present = np.isfinite(fives[0][:, 2]) & np.isfinite(fives[1][:, 2])
        past, baseline, target = (samples.select_rows(present) for samples in lists)
        later = Samples(values, orders, target.stops, target.stops)
        return Sides(
            comparison[present], len(asks), threads[rows[present]], signs[rows[present]],
            baseline, target, past, later, fives[0][present], fives[1][present],
        )  # fmt: skip

    def named_sides(self, asks: Sequence[VersionComparison]) -> NamedSides:
        """Return the sides of comparisons with the names of their operations; ids are indices from "0"."""
        operations = [self.measured.operations[ask.operation] for ask in asks]
        return NamedSides(
            [f"{number}" for number in range(len(asks))],
            [operation.benchmark for operation in operations],
            [operation.operation for operation in operations],
            self.comparison_sides(asks),
            lambda: [operation.unit for operation in operations],
        )

    def _five_numbers(self, samples: Samples, rows: Ints, starts: Ints, stops: Ints) -> Floats:
        single = stops - starts == 1
        five = np.full((len(rows), 5), np.nan)
        five[single] = self.measured.five[rows[single], starts[single]]
        wide = ~single & (samples.lengths > 0)
        five[wide] = five_numbers(samples.select_rows(wide))
        return five


#: A mark per version; 0: not judged.
Marks = NDArray[np.uint8]
PASS, UNSURE, FAIL = 1, 2, 3
MARK = {"pass": PASS, "unsure": UNSURE, "fail": FAIL, "invalid": 4}
#: Comparisons per batch.
_BATCH = 20_000
#: Most marks with reasons in one report.
_MOST_REASONS = 1_500
#: Single versions that fail within so many versions are one step.
_STEP_WIDTH = 3


class VersionVerdict(NamedTuple):
    """The verdict on one comparison: mark, probability, worst change; `reason` returns the reason."""

    mark: int
    probability: float
    change: float
    reason: Callable[[], str]

    @classmethod
    def from_verdict(cls, verdict: Verdict | VerdictAnswer) -> VersionVerdict:
        """Return the mark, probability and change of a verdict of a model or a server; NaN where None."""
        probability = np.nan if verdict.probability is None else verdict.probability
        change = np.nan if verdict.moved is None else verdict.moved.change
        return cls(MARK[verdict.verdict], probability, change, lambda: verdict.reason)


#: Takes sides, comparisons and, as `notes`, a list that it appends to; returns the verdicts.
Answering = Callable[..., list[VersionVerdict]]
_VersionVerdicts = list[tuple[int, VersionVerdict]]
_PASSED = VersionVerdict(PASS, 0.0, np.nan, str)


@dataclass(frozen=True)
class OperationMarks:
    """The marks of one operation."""

    against_baseline: Marks  # shape (n_versions,), verdicts of comparisons with the baseline
    against_before: Marks  # shape (n_versions,), verdicts of comparisons with the versions just before
    probability: Floats  # shape (n_versions,), of a regression against the baseline; NaN where not judged
    #: reasons in words, by the index of a version, where a mark is unsure or fail
    words: dict[int, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def not_judged(cls, versions: int) -> OperationMarks:
        """Return marks of 0 and probabilities of NaN for all `versions` (their number)."""
        against_baseline, against_before = np.zeros((2, versions), np.uint8)
        return cls(against_baseline, against_before, np.full(versions, np.nan))


def model_judge(served: Judge, base_rate: BaseRateOption = None) -> Answering:
    """Return a function of sides, comparisons and `notes`, a list, that judges with a local model.

    The function returns a `VersionVerdict` per comparison, in order, and appends to `notes`. Valid
    comparisons below the minimum effect size pass without the model (probability 0, change NaN, no reason),
    unless its guarantee covers them or `base_rate` is given. The function raises ModelError if a number is
    not finite, InputError if the model has no scores for `base_rate`.
    `base_rate`: as for `judge_sides`; with "estimate", comparisons with the baseline and those with the
    versions before have an estimate each, in every call. Without enough comparisons (100), a note says so,
    and the base rate is that of the training data.
    """
    from serving.comparisons.judge import judge_sides

    def judge_with_model(
        sides: VersionSides, asks: Sequence[VersionComparison], notes: list[str]
    ) -> list[VersionVerdict]:
        verdicts = [_PASSED] * len(asks)
        for which, rows in _parts_to_judge(sides, asks, served.model.card, base_rate).items():
            named = sides.named_sides([asks[row] for row in rows])
            try:
                judgement = judge_sides(named, served, base_rate=base_rate)
            except InputError as error:
                if base_rate != "estimate" or served.model.card.training_scores is None:
                    raise
                judgement = judge_sides(named, served, notes=[f"not corrected: {error}"])
            notes += [f"{which}: {note}" for note in judgement.notes]
            for row, verdict in zip(rows, judgement.verdicts, strict=True):
                verdicts[row] = VersionVerdict.from_verdict(verdict)
        return verdicts

    return judge_with_model


def _parts_to_judge(
    sides: VersionSides, asks: Sequence[VersionComparison], card: Card, base_rate: BaseRateOption
) -> dict[str, list[int]]:
    """Return the rows of comparisons to judge together, by the name of the part; the others pass."""
    if base_rate is not None:
        beside = np.array([ask.beside_baseline for ask in asks], bool)
        parts = {"comparisons with the versions before": ~beside, "comparisons with the baseline": beside}
    elif card.policy.allows_unsure_below:
        parts = {"": np.ones(len(asks), bool)}
    else:
        gathered = sides.comparison_sides(asks)
        change = PreparedComparisons.from_sides(gathered, card.run_spread).worst_change
        below = below_min_effect(change, card.min_effect_size)
        parts = {"": ~below | (validity.invalid_reasons(gathered) != "")}
    return {which: np.flatnonzero(judged).tolist() for which, judged in parts.items() if judged.any()}


def server_judge(url: str) -> Answering:
    """Return a function of sides, comparisons and `notes` that judges with the server at `url`.

    The function returns a `VersionVerdict` per comparison, in order. Only it sends requests; it raises an
    InputError if one fails, and ignores `notes`. InputError if `url` is not an address, or the package
    perfjudge-client is not installed.
    """
    try:
        from perfjudge_client import Client, ClientError
    except ModuleNotFoundError as error:
        raise InputError("--server: expected the package perfjudge-client, which is not installed") from error
    try:
        client = Client(url)
    except ClientError as error:
        raise InputError(f"--server: {error}") from error

    def judge_with_server(
        sides: VersionSides, asks: Sequence[VersionComparison], notes: list[str]
    ) -> list[VersionVerdict]:
        del notes
        try:
            verdicts = client.judge_comparisons(_posted_comparisons(sides, asks))
        except ClientError as error:
            raise InputError(f"--server {url}: {error}") from error
        return list(map(VersionVerdict.from_verdict, verdicts))

    return judge_with_server


def _posted_comparisons(
    version_sides: VersionSides, asks: Sequence[VersionComparison]
) -> Iterator[dict[str, Any]]:
    sides = version_sides.comparison_sides(asks)
    ends = np.cumsum(sides.per_comparison)
    for row, (ask, stop) in enumerate(zip(asks, ends.tolist(), strict=True)):
        operation = version_sides.measured.operations[ask.operation]
        configurations = [
            {
                "threads": int(sides.threads[at]),
                "baseline": _posted_side(sides.baseline, sides.baseline_five, at),
                "target": _posted_side(sides.target, sides.target_five, at),
                "history": [samples.tolist() for _, samples in sides.history.iterate_versions(at)],
            }
            for at in range(stop - int(sides.per_comparison[row]), stop)
        ]
        names = {name: getattr(operation, name) for name in ("benchmark", "operation", "unit", "better")}
        yield {"comparison_id": f"{row}", **names, "configurations": configurations}


def _posted_side(samples: Samples, five: Floats, at: int) -> list[Any] | dict[str, float]:
    versions = [values.tolist() for _, values in samples.iterate_versions(at)]
    if not versions:
        return dict(zip(FIVE_NUMBERS, five[at].tolist(), strict=True))
    return versions[0] if len(versions) == 1 else versions


def judged_versions(
    measured: MeasuredVersions,
    baseline: int,
    shifts: Sequence[Sequence[Shift]],
    hidden: Floats,
    answering: Answering,
    *,
    advance: Callable[[int, int], None] | None = None,
) -> list[OperationMarks]:
    """Judge every version of every operation, and return the marks of each operation, in order.

    Marks are 0 (not judged), or those of `MARK`. Versions are compared with the baseline and with the
    versions just before; the first version of a lasting loss also by the levels before and after the loss,
    where the worse mark counts. Where versions have few samples, windows of versions are compared instead.
    Several neighbouring fails against the versions before are one step (`_one_fail_per_step`), and `unsure`
    within noise becomes `pass` (`_ignore_noise`). Reasons are given for `unsure` and `fail` (against the
    baseline, where the mark changes), until 1,500 versions of all operations together have some.
    `baseline`: index of the baseline's version. `shifts`: lasting changes per operation, of all its
    configurations: they bound the baseline's level. `hidden`: the smallest change detectable in the noise
    between versions, as a share, shape (n_configurations,) of all operations together. `answering`: the
    result of `model_judge` or `server_judge`. `advance`: takes the numbers of judged operations and of all.
    """
    marks = [OperationMarks.not_judged(measured.five.shape[1]) for _ in measured.operations]
    sides, n_reasons = VersionSides.from_measured(measured), 0
    batch: list[tuple[OperationCourse, list[VersionComparison]]] = []
    for number, operation in enumerate(measured.operations):
        course = OperationCourse.from_shifts(number, operation, measured, shifts[number])
        batch.append((course, list(course.version_comparisons(baseline))))
        if sum(len(own_asks) for _, own_asks in batch) < _BATCH and number + 1 < len(marks):
            continue
        asks = [ask for _, own_asks in batch for ask in own_asks]
        verdicts = iter(answering(sides, asks) if asks else ())
        for course, own_asks in batch:
            pairs = [(ask, _ignore_noise(next(verdicts), ask, measured, hidden)) for ask in own_asks]
            n_reasons += _write_marks(marks[course.number], course, pairs, _MOST_REASONS - n_reasons)
        batch.clear()
        if advance is not None:
            advance(number + 1, len(marks))
    return marks


def _ignore_noise(
    verdict: VersionVerdict, ask: VersionComparison, measured: MeasuredVersions, hidden: Floats
) -> VersionVerdict:
    """Return the verdict; `unsure` becomes `pass` where the medians give no reason for doubt.

    That is where two versions differ by noise only, at every configuration, and the target is a neighbour of
    the baseline, or better at the featured configuration. Half of all steps between versions go down, and a
    few earlier versions do not show how far noise reaches. Windows of versions have no noise.
    """
    if verdict.mark != UNSURE:
        return verdict
    operation = measured.operations[ask.operation]
    medians, sides = measured.five[operation.row_slice, :, 2], (ask.baseline, ask.target)
    before, after = (row_quantile(medians[:, side.start : side.stop], 0.5) for side in sides)
    loss = operation.sign * (before - after) / np.abs(before)
    single = len(ask.baseline) == len(ask.target) == 1
    limit = hidden[operation.row_slice] if single else 0.0
    noise_only = bool((np.isnan(loss) | (loss <= limit)).all())
    better = bool(loss[-1] <= 0) or (single and not ask.beside_baseline)
    return verdict._replace(mark=PASS) if noise_only and better else verdict


def _write_marks(
    marks: OperationMarks,
    course: OperationCourse,
    verdicts: Sequence[tuple[VersionComparison, VersionVerdict]],
    room: int,
) -> int:
    """Write the verdicts into the marks; return the number of versions with reasons, `room` at most."""
    with_baseline = [(ask.version, verdict) for ask, verdict in verdicts if ask.beside_baseline]
    worst: dict[int, VersionVerdict] = {}
    for ask, verdict in verdicts:
        is_worse = ask.version not in worst or worst[ask.version].mark < verdict.mark <= FAIL
        if is_worse and not ask.beside_baseline:
            worst[ask.version] = verdict
    before = _one_fail_per_step(sorted(worst.items()), course)
    for version, verdict in with_baseline:
        marks.against_baseline[version] = verdict.mark
        marks.probability[version] = verdict.probability
    for version, verdict in before:
        marks.against_before[version] = verdict.mark
    # reasons against the baseline are given where the verdict changes
    previous = [0, *(verdict.mark for _, verdict in with_baseline)]
    changed = [pair for pair, mark in zip(with_baseline, previous, strict=False) if pair[1].mark != mark]
    for reference, pairs in (("the versions before", before), ("the baseline", changed)):
        for version, verdict in pairs:
            if verdict.mark in {UNSURE, FAIL} and len(marks.words) < room:
                reason = f"beside {reference}: {verdict.reason()}"
                marks.words[version] = (*marks.words.get(version, ()), reason)
    return len(marks.words)


def _one_fail_per_step(verdicts: _VersionVerdicts, course: OperationCourse) -> _VersionVerdicts:
    """Return a copy with one fail per step, where it is clearest; neighbouring fails become passes.

    Windows see a step from as far as they reach. Single versions see it where it begins, and in the next few,
    whose history still contains the versions before it.
    """
    reach = AFTER if course.windowed else _STEP_WIDTH
    fails = [at for at, (_, verdict) in enumerate(verdicts) if verdict.mark == FAIL]
    if not fails:
        return verdicts
    positions = np.searchsorted(course.versions, [verdicts[at][0] for at in fails])
    settled = list(verdicts)
    for group in np.split(np.array(fails), np.flatnonzero(np.diff(positions) > reach) + 1):
        around, clearest = group.tolist(), int(group[0])
        if course.windowed:
            # windows near a step are unsure because of it
            clearest = min(around, key=lambda at: np.nan_to_num(settled[at][1].change))
            around = list(range(max(0, group[0] - AFTER), min(len(settled), group[-1] + AFTER + 1)))
        for at in around:
            version, verdict = settled[at]
            if at != clearest and verdict.mark in {UNSURE, FAIL}:
                settled[at] = version, verdict._replace(mark=PASS)
    return settled
