"""Reports of timelines, from the runs that rules selected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

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
from features.comparisons.lasting_changes import WANTED, detectable_change, find_lasting_changes
from serving.comparisons.timelines.judged import AFTER, BEFORE, Answering, OperationMarks, judged_versions
from serving.comparisons.timelines.states import (
    Change,
    ChangeGroup,
    OperationState,
    group_changes,
    operation_state,
)


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
    operations = versions.operations
    signs = np.array([operation.sign for operation in operations for _ in operation.threads])
    moved, noise = find_lasting_changes(versions.five[..., 2], signs)
    hidden = detectable_change(versions.five, versions.sample_counts.astype(np.float64), noise)
    marks = [OperationMarks.not_judged(len(chosen.versions)) for _ in operations]
    base_rates: list[str] = []
    if judges.answering is not None:
        of_operations = [list(chain.from_iterable(moved[operation.row_slice])) for operation in operations]
        answering = partial(judges.answering, notes=base_rates)
        marks = judged_versions(versions, chosen.baseline, of_operations, hidden, answering, advance=advance)
    timeline_operations = []
    for operation, own_marks in zip(operations, marks, strict=True):
        shifts = moved[operation.row_slice]
        sizes = [max((abs(shift.share) for shift in row), default=0.0) for row in shifts]
        largest = sizes.index(max(sizes))
        timeline_operations.append(
            TimelineOperation(
                **vars(operation),
                **vars(own_marks),
                five=versions.five[operation.row_slice],
                changes=tuple(Change(*shift, operation.threads[largest]) for shift in shifts[largest]),
                state=operation_state(
                    operation,
                    versions,
                    shifts,
                    hidden[operation.row_slice],
                    marks=own_marks,
                    baseline=chosen.baseline,
                ),
                instability=float(hidden[operation.row_slice][-1]),
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
    if judges.answering is None:
        return
    operations = versions.operations
    windowed = sum(
        not versions.compares_single_versions[operation.row_slice].all() for operation in operations
    )
    if windowed:
        yield (
            f"{windowed} of {len(operations)} operations have few samples of a version, or summaries: "
            f"windows of up to {BEFORE} versions before and {AFTER} from it on represent a version, and a "
            "step is marked where it is clearest"
        )
    if windowed < len(operations):
        yield _BASELINE_LEVEL
    absent = sum(
        not versions.is_measured[operation.row_slice, chosen.baseline].any() for operation in operations
    )
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
