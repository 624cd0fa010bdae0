"""From the runs that rules chose to what a page shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np

from data.comparisons.sides import Floats
from data.comparisons.timelines import heats
from data.comparisons.timelines.selection import (
    ChosenRuns,
    MeasuredOperation,
    MeasuredVersions,
    measured,
    place_and_time,
)
from data.errors import InputError
from data.tables.problems import Problems
from features.comparisons.lasting_changes import WANTED, Shift, instability, shifts
from serving.comparisons.timelines.judged import (
    AFTER,
    BEFORE,
    Answering,
    OperationMarks,
    judged_versions,
)


@dataclass(frozen=True)
class TimelineVersion:
    """One version."""

    name: str
    measured_at: str | None  # as the results say; None if they don't
    source: str  # the path of the result below the folder that was read, with slashes; empty if there is none


@dataclass(frozen=True)
class Change:
    """A lasting change of level over the whole history."""

    #: one of "drop", "gain", "creep", a step to worse, a step to better, or several small losses that add up
    kind: Literal["drop", "gain", "creep"]
    #: first, last: indices of versions: from `first` on it showed, at `last` it was complete. Equal for a
    #: step.
    first: int
    last: int
    share: float  # of the level before; negative is worse
    threads: int  # the configuration


@dataclass(frozen=True, kw_only=True)
class TimelineOperation(OperationMarks, MeasuredOperation):
    """One operation over all versions, with its marks."""

    #: shape (n_configurations, n_versions, 5), Minimum, quartiles, maximum, in `unit`; NaN where nothing was
    #: measured
    five: Floats
    changes: tuple[Change, ...]  # over the whole history, of the configuration where they are greatest
    #: the smallest change that its noise lets one tell, as a share, see
    #: `features.comparisons.lasting_changes`; NaN if unknown
    instability: float

    @property
    def featured(self) -> int:
        """Which configuration is shown first: that of the most threads."""
        return len(self.threads) - 1

    @property
    def unstable(self) -> bool:
        """Whether its noise hides changes of more than 5 %."""
        return self.instability > WANTED


@dataclass(frozen=True, kw_only=True)
class HeatMap(heats.HeatSamples):
    """Samples per core or per node of one run over time (seed 000, section 4.2.2)."""

    title: str
    source: str  # the file, as of `TimelineVersion`
    version: int  # index of the version that ran


@dataclass(frozen=True)
class TimelineReport:
    """One page: one machine under one set of rules."""

    title: str
    machine: str
    rules: tuple[tuple[str, str, str], ...]  # role is baseline, target or start
    versions: tuple[TimelineVersion, ...]  # the oldest first
    baseline: int  # index of the baseline among them
    operations: tuple[TimelineOperation, ...]
    heats: tuple[HeatMap, ...]
    notes: tuple[str, ...]  # what had to be assumed, one line each
    judged_by: str  # which model judged; empty if none


#: Heat maps on one page.
MOST_HEATS = 24
_BASELINE_LEVEL = (
    "beside the baseline, other versions of the baseline's own level tell how much versions differ anyway"
)


@dataclass(frozen=True)
class TimelineJudge:
    """Who judges: how, and what it is called; without one, versions get no marks."""

    answering: Answering | None
    name: str  # empty if nobody does
    note: str = ""  # why nobody does; empty otherwise


def assembled(
    chosen: ChosenRuns,
    results: Path,
    way: str,
    judges: TimelineJudge,
    *,
    problems: Problems,
    notes: Sequence[str] = (),
    advance: Callable[[int, int], None] | None = None,
) -> TimelineReport:
    """Measure, judge and look through the versions of one timeline.

    `results`: the folder that was read.
    `way`: the way there from where the page will be, with slashes.
    `problems`: takes what is wrong with an operation or a file of samples over time.
    `notes`: what was assumed to read the results.
    `advance`: is told how many of how many operations are judged.
    Raises InputError as of `data.comparisons.timelines.selection.measured`.
    """
    found = measured(chosen, problems)
    signs = np.repeat([one.sign for one in found.operations], [len(one.threads) for one in found.operations])
    moved, noise = shifts(found.five[..., 2], signs)
    hidden = instability(found.five, found.counts.astype(np.float64), noise)
    marks = [OperationMarks.none(len(chosen.versions)) for _ in found.operations]
    if judges.answering is not None:
        together = [list(chain.from_iterable(moved[one.rows])) for one in found.operations]
        marks = judged_versions(found, chosen.baseline, together, hidden, judges.answering, advance=advance)
    shown = [
        _operation(one, found, moved[one.rows], own, float(hidden[one.rows][-1]))
        for one, own in zip(found.operations, marks, strict=True)
    ]
    runs = [(name, *place_and_time(chosen.runs[name])) for name in chosen.versions]
    versions = [TimelineVersion(name, moment, _there(way, place)) for name, place, moment in runs]
    heat_maps = list(_heats(chosen, results, way, problems))
    told = [*chosen.notes, *notes, *found.notes, *_judging_notes(chosen, found, judges)]
    if len(heat_maps) > MOST_HEATS:
        told.append(f"{len(heat_maps)} heat maps are there; those of the newest versions are shown")
    return TimelineReport(
        chosen.rules.title,
        chosen.machine,
        tuple((rule.role, rule.name, rule.pattern) for rule in chosen.rules.rules),
        tuple(versions),
        chosen.baseline,
        tuple(shown),
        tuple(heat_maps[-MOST_HEATS:]),
        tuple(told),
        judges.name,
    )


def _operation(
    one: MeasuredOperation,
    found: MeasuredVersions,
    moved: Sequence[Sequence[Shift]],
    marks: OperationMarks,
    hidden: float,
) -> TimelineOperation:
    greatest = max(range(len(moved)), key=lambda row: max((abs(m.share) for m in moved[row]), default=0.0))
    changes = (Change(*shift, one.threads[greatest]) for shift in moved[greatest])
    return TimelineOperation(
        **vars(one), **vars(marks), five=found.five[one.rows], changes=tuple(changes), instability=hidden
    )


def _there(way: str, place: str) -> str:
    return "/".join(part for part in (way, place) if part not in {"", "."})


def _judging_notes(chosen: ChosenRuns, found: MeasuredVersions, judges: TimelineJudge) -> Iterator[str]:
    if judges.note:
        yield judges.note
    if judges.answering is None:
        return
    windowed = sum(not found.alone[one.rows].all() for one in found.operations)
    if windowed:
        yield (
            f"{windowed} of {len(found.operations)} operations have few samples of a version, or summaries: "
            f"up to {BEFORE} versions before and {AFTER} from it on stand for a version, and a step is told "
            "where it is clearest"
        )
    if windowed < len(found.operations):
        yield _BASELINE_LEVEL
    absent = sum(not found.known[one.rows, chosen.baseline].any() for one in found.operations)
    if absent:
        yield f"{absent} operations were not measured of the baseline, and are not judged beside it"


def _heats(chosen: ChosenRuns, results: Path, way: str, problems: Problems) -> Iterator[HeatMap]:
    for version, name in enumerate(chosen.versions):
        for source in dict.fromkeys(run.source for run in chosen.runs[name]):
            for path in heats.beside(results / source):
                below = path.relative_to(results).as_posix()
                try:
                    one = heats.read(path)
                except InputError as error:
                    problems.add(error)
                    continue
                title = f"{path.name}: {one.what} of {name}"
                yield HeatMap(**vars(one), title=title, source=_there(way, below), version=version)
