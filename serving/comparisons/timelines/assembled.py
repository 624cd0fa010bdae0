"""Reports of timelines, from the runs that rules selected: states of operations, and lasting changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from data.comparisons.pair import list_names
from data.comparisons.sides import Floats
from data.comparisons.timelines import heats
from data.comparisons.timelines.selection import (
    ChosenRuns,
    MeasuredOperation,
    MeasuredVersions,
    gather_measurements,
    place_and_time,
)
from data.errors import InputError
from data.tables.problems import Problems
from features.comparisons.lasting_changes import WANTED, Shift, detectable_change, find_lasting_changes
from features.comparisons.newest_change import NewestChange, newest_change, with_first_change
from serving.comparisons.timelines.judged import (
    AFTER,
    BEFORE,
    FAIL,
    PASS,
    UNSURE,
    Answering,
    OperationMarks,
    judged_versions,
)

Status = Literal["worse", "unsure", "not compared", "better", "unchanged"]
#: States, the most urgent first.
STATUSES: tuple[Status, ...] = ("worse", "unsure", "not compared", "better", "unchanged")
#: States that need attention.
URGENT = frozenset({"worse", "unsure"})
#: Largest p-value of a loss that only verdicts show, times the number of operations (Bonferroni).
_LARGEST_P = 0.05


class Change(NamedTuple):
    """A lasting change of level: a step to worse or better, or several small losses that add up."""

    kind: Literal["drop", "gain", "creep"]
    first: int  # first, last: indices of the first changed version, and of the one that completed it
    last: int
    share: float  # of the level before; negative is worse
    threads: int  # the configuration


@dataclass(frozen=True)
class OperationState:
    """One operation at its newest measured version, compared with the baseline."""

    status: Status
    version: int  # index of the newest measured version
    threads: int  # the configuration of `change`: the worst one
    change: NewestChange | None = None  # None if the operation is not compared

    @property
    def rank(self) -> tuple[int, float]:
        """Sorts operations: the most urgent state first, the largest loss first."""
        return STATUSES.index(self.status), 0.0 if self.change is None else self.change.change


def operation_state(
    operation: MeasuredOperation,
    measured: MeasuredVersions,
    shifts: Sequence[Sequence[Shift]],
    hidden: Floats,
    *,
    marks: OperationMarks,
    baseline: int,
) -> OperationState:
    """Return the state of an operation at its newest measured version: the first of these that applies.

    Not compared: no configuration has results of the baseline and of a later version. Worse: lasting changes
    make a configuration worse, or the newest version's verdict against the baseline is fail, the worst
    configuration got worse, and its p-value is unknown or at most 0.05 / the number of operations. Unsure:
    that verdict is unsure or fail. Better: lasting changes make a configuration better, or its newest level
    is better by more than `hidden`. Else unchanged. ``threads`` of the result are those of the worst
    configuration (of those with lasting losses, if any); if better, of the most improved one; if unchanged,
    the largest number that is compared; if not compared, the largest of all.
    `shifts`: the lasting changes per configuration. `hidden`: shape (n_configurations,), the smallest
    detectable change of each, as a share. `marks`: the verdicts. `baseline`: index of the baseline's version.
    IndexError if no version is measured.
    """
    medians = measured.five[operation.row_slice, :, 2]
    newest = int(np.flatnonzero(np.isfinite(medians).any(axis=0))[-1])
    recent = _first_recent_fail(marks, newest, baseline, shifts)
    compared = {
        threads: change
        for threads, row, own in zip(operation.threads, medians, shifts, strict=True)
        if (change := newest_change(row, own, operation.sign, baseline, recent)) is not None
    }
    if not compared:
        return OperationState("not compared", newest, operation.threads[-1])

    shares = {threads: change.change for threads, change in compared.items()}
    lost = [threads for threads, change in compared.items() if change.lost]
    noise = dict(zip(operation.threads, hidden.tolist(), strict=True))
    gained = [at for at, change in compared.items() if change.gained or change.change > noise[at]]
    worst, verdict = min(shares, key=shares.__getitem__), marks.against_baseline[newest]
    is_unlikely = not compared[worst].p_value > _LARGEST_P / len(measured.operations)
    status: Status
    if lost or (verdict == FAIL and shares[worst] < 0 and is_unlikely):
        status, threads = "worse", min(lost or [worst], key=shares.__getitem__)
    elif verdict in {UNSURE, FAIL}:
        status, threads = "unsure", worst
    elif gained:
        status, threads = "better", max(gained, key=shares.__getitem__)
    else:
        status, threads = "unchanged", max(compared)
    return OperationState(status, newest, threads, compared[threads])


def _first_recent_fail(
    marks: OperationMarks, newest: int, baseline: int, shifts: Sequence[Sequence[Shift]]
) -> int | None:
    """Return the version since which an operation fails: against the baseline, or where it began to fail."""
    if any(shift.last > baseline for own in shifts for shift in own):
        began = np.flatnonzero(marks.against_before[: newest + 1] == FAIL)
        return int(began[-1]) if len(began) and began[-1] > baseline else None
    judged = np.flatnonzero(marks.against_baseline[: newest + 1])
    judged = judged[judged > baseline]
    passed = np.flatnonzero(marks.against_baseline[judged] != FAIL)
    failed = judged[passed[-1] + 1 :] if len(passed) else judged
    return int(failed[0]) if len(failed) else None


@dataclass(frozen=True)
class ChangeGroup:
    """Lasting changes of several operations at the same version, which are probably one change."""

    kind: Literal["drop", "gain", "creep"]
    first: int  # first, last: indices of versions, of most of the operations
    last: int
    shares: dict[int, float]  # of the level before, by the index of the operation; the largest change first

    @property
    def largest(self) -> float:
        """The largest change, as a share; negative is worse."""
        return next(iter(self.shares.values()))


def group_changes(changes: Sequence[Sequence[Change]]) -> tuple[ChangeGroup, ...]:
    """Return the changes of all operations, grouped by version, the newest first; empty without changes.

    A group is the change with the most changes near it, and these; its ``kind, first, last`` are those of
    that change. The remaining changes are then grouped likewise. Near are steps in the same direction that
    start at most one version apart, and creeping drops with most of their versions in common. ``shares`` of a
    group maps indices of operations to their changes, the largest first; if several changes of an operation
    are in it, the largest counts. `changes`: per operation, in order.
    """
    entries = [(number, change) for number, own in enumerate(changes) for change in own]
    groups = []
    while entries:
        counts = Counter((change.kind, change.first, change.last) for _, change in entries)
        near = {place: sum(counts[other] for other in counts if _are_near(place, other)) for place in counts}
        anchor = max(counts, key=lambda place: (near[place], counts[place], -place[1]))
        members = [entry for entry in entries if _are_near(anchor, entry[1][:3])]
        entries = [entry for entry in entries if not _are_near(anchor, entry[1][:3])]
        members.sort(key=lambda entry: -abs(entry[1].share))
        shares: dict[int, float] = {}
        for number, change in members:
            shares.setdefault(number, change.share)
        groups.append(ChangeGroup(*anchor, shares))
    return tuple(sorted(groups, key=lambda group: (-group.first, -group.last, -abs(group.largest))))


_Place = tuple[Literal["drop", "gain", "creep"], int, int]


def _are_near(place: _Place, other: _Place) -> bool:
    (kind, first, last), (other_kind, other_first, other_last) = place, other
    if kind != other_kind:
        return False
    if kind != "creep":
        return abs(first - other_first) <= 1
    common = min(last, other_last) - max(first, other_first) + 1
    return 2 * common > max(last, other_last) - min(first, other_first) + 1


@dataclass(frozen=True)
class TimelineVersion:
    """One version."""

    name: str
    measured_at: str | None
    source: str  # relative path of the result, with slashes; empty if unknown


@dataclass(frozen=True, kw_only=True)
class TimelineOperation(OperationMarks, MeasuredOperation):
    """One operation over all versions, with its marks."""

    #: shape (n_configurations, n_versions, 5), minimum, quartiles, maximum, in `unit`; NaN if not measured
    five: Floats
    changes: tuple[Change, ...]  # of the configuration with the largest change
    state: OperationState  # at the newest measured version
    #: the smallest detectable change as a share, see `features.comparisons.lasting_changes`; NaN if unknown
    instability: float

    @property
    def featured(self) -> int:
        """Index of the configuration that is shown first: the one with most threads."""
        return len(self.threads) - 1

    @property
    def unstable(self) -> bool:
        """Whether its noise hides changes of more than 5 %."""
        return self.instability > WANTED


@dataclass(frozen=True, kw_only=True)
class HeatMap(heats.HeatSamples):
    """Samples per core or per node of one run over time (scheduler thesis, section 4.2.2)."""

    title: str
    source: str  # the file, as in `TimelineVersion`
    version: int  # index of the measured version


@dataclass(frozen=True)
class TimelineReport:
    """The content of one page: one machine under one set of rules."""

    title: str
    machine: str
    rules: tuple[tuple[str, str, str], ...]  # role (baseline, target or start), property and pattern
    versions: tuple[TimelineVersion, ...]  # the oldest first
    baseline: int  # index of the baseline's version
    operations: tuple[TimelineOperation, ...]
    changes: tuple[ChangeGroup, ...]  # of all operations, grouped by version, the newest first
    heats: tuple[HeatMap, ...]
    notes: tuple[str, ...]  # assumptions, one line each
    judged_by: str  # the model; empty if none


#: Most heat maps on one page.
MOST_HEATS = 24
_BASELINE_LEVEL = "in comparisons with the baseline, other versions at its level show the usual variation"


@dataclass(frozen=True)
class TimelineJudge:
    """The judge of a timeline and its name; without one, versions get no marks."""

    answering: Answering | None
    name: str  # empty if there is no judge
    note: str = ""  # why there is no judge


def assemble_report(
    chosen: ChosenRuns,
    results: Path,
    way: str,
    judges: TimelineJudge,
    *,
    problems: Problems,
    notes: Sequence[str] = (),
    advance: Callable[[int, int], None] | None = None,
) -> TimelineReport:
    """Return the page content of one timeline: its measured versions, their marks and lasting changes.

    The lasting changes of an operation are those of the configuration with the largest one.
    `results`: the folder of results. `way`: the relative path from the page's folder to it, with slashes.
    `judges`: gives the verdicts; if ``judges.answering`` is None, versions have no marks.
    `problems`: collects errors in measurements and heat maps, or raises the first. Only the last 24 heat maps
    are used; they are in the order of versions.
    `notes`: assumptions made while reading the results. `advance`: takes the number of judged operations and
    of all operations.
    Raises InputError if no operation is left, and the errors of `judges`. A measurement with another
    direction than its operation, or an incompatible unit, is skipped with ``problems.keep_going``, else it
    raises InputError, too.
    """
    versions = gather_measurements(chosen, problems)
    operations, baseline = versions.operations, chosen.baseline
    signs = np.array([operation.sign for operation in operations for _ in operation.threads])
    medians = versions.five[..., 2]
    moved, noise = find_lasting_changes(medians, signs)
    rows = zip(medians, moved, signs.tolist(), strict=True)
    known = [with_first_change(*row, baseline) for row in rows]
    hidden = detectable_change(versions.five, versions.sample_counts.astype(np.float64), noise)
    marks = [OperationMarks.not_judged(len(chosen.versions)) for _ in operations]
    base_rates: list[str] = []
    if judges.answering is not None:
        of_operations = [list(chain.from_iterable(known[operation.row_slice])) for operation in operations]
        answering = partial(judges.answering, notes=base_rates)
        marks = judged_versions(versions, baseline, of_operations, hidden, answering, advance=advance)
    timeline_operations = []
    for operation, own_marks in zip(operations, marks, strict=True):
        noises = hidden[operation.row_slice]
        newest = int(np.flatnonzero(np.isfinite(medians[operation.row_slice]).any(axis=0))[-1])
        # one or two versions do not show the noise of the baseline's level, but verdicts do
        is_passed = own_marks.against_baseline[newest] == PASS
        shifts = [
            own if is_passed and any(shift.kind == "drop" for shift in {*all_shifts} - {*own}) else all_shifts
            for own, all_shifts in zip(moved[operation.row_slice], known[operation.row_slice], strict=True)
        ]
        sizes = [max((abs(shift.share) for shift in row), default=0.0) for row in shifts]
        largest = sizes.index(max(sizes))
        state = operation_state(operation, versions, shifts, noises, marks=own_marks, baseline=baseline)
        timeline_operations.append(
            TimelineOperation(
                **vars(operation),
                **vars(own_marks),
                five=versions.five[operation.row_slice],
                changes=tuple(Change(*shift, operation.threads[largest]) for shift in shifts[largest]),
                state=state,
                instability=float(noises[-1]),
            )
        )
    runs = [(name, *place_and_time(chosen.runs[name])) for name in chosen.versions]
    heat_maps = list(_heat_maps(chosen, results, way, problems))
    all_notes = [*chosen.notes, *notes, *versions.notes, *_judging_notes(chosen, versions, judges)]
    all_notes += base_rates
    if len(heat_maps) > MOST_HEATS:
        all_notes.append(f"{len(heat_maps)} heat maps exist; only those of the newest versions are shown")
    return TimelineReport(
        chosen.rules.title,
        chosen.machine,
        tuple((rule.role, rule.name, rule.pattern) for rule in chosen.rules.rules),
        tuple(TimelineVersion(name, moment, _join_path(way, place)) for name, place, moment in runs),
        chosen.baseline,
        tuple(timeline_operations),
        group_changes([operation.changes for operation in timeline_operations]),
        tuple(heat_maps[-MOST_HEATS:]),
        tuple(all_notes),
        judges.name,
    )


def _join_path(way: str, place: str) -> str:
    return "/".join(part for part in (way, place) if part not in {"", "."})


def _judging_notes(chosen: ChosenRuns, versions: MeasuredVersions, judges: TimelineJudge) -> Iterator[str]:
    if judges.note:
        yield judges.note
    operations, medians = versions.operations, versions.five[..., 2]
    is_later_above = (medians[:, chosen.baseline + 1 :] > 0).any(axis=1)
    from_zero = (medians[:, chosen.baseline] == 0) & is_later_above
    if names := [operation.operation for operation in operations if from_zero[operation.row_slice].any()]:
        yield f"0 at the baseline, above 0 later, and not compared with it: {list_names(names)}"
    if judges.answering is None:
        return
    singles = versions.compares_single_versions
    windowed = sum(not singles[operation.row_slice].all() for operation in operations)
    if windowed:
        yield (
            f"{windowed} of {len(operations)} operations have few samples of a version, or summaries: "
            f"windows of up to {BEFORE} versions before and {AFTER} from it on represent a version, and a "
            "step is marked where it is clearest"
        )
    if windowed < len(operations):
        yield _BASELINE_LEVEL
    has_baseline = versions.is_measured[:, chosen.baseline]
    absent = sum(not has_baseline[operation.row_slice].any() for operation in operations)
    if absent:
        yield f"{absent} operations have no result of the baseline, and are not compared with it"


def _heat_maps(chosen: ChosenRuns, results: Path, way: str, problems: Problems) -> Iterator[HeatMap]:
    for version, name in enumerate(chosen.versions):
        for source in dict.fromkeys(run.source for run in chosen.runs[name]):
            for path in heats.heat_files_beside(results / source):
                try:
                    samples = heats.read_heats(path)
                except InputError as error:
                    problems.add(error)
                    continue
                title = f"{path.name}: {samples.what} of {name}"
                place = _join_path(way, path.relative_to(results).as_posix())
                yield HeatMap(**vars(samples), title=title, source=place, version=version)
