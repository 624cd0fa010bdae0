"""The newest state of each operation, and lasting changes grouped over operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from data.comparisons.sides import Floats
from data.comparisons.timelines.selection import MeasuredOperation, MeasuredVersions
from features.comparisons.lasting_changes import Shift
from features.comparisons.newest_change import NewestChange, newest_change
from serving.comparisons.timelines.judged import FAIL, UNSURE, OperationMarks

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
    is better by more than `hidden`. Else unchanged. The result has ``status``, ``version`` (its index),
    ``change`` (a `NewestChange`; None if not compared) and the ``threads`` of that: of the worst
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

    def least(threads: int) -> float:
        return compared[threads].change

    lost = [threads for threads, change in compared.items() if change.lost]
    noise = dict(zip(operation.threads, hidden.tolist(), strict=True))
    gained = [at for at, change in compared.items() if change.gained or change.change > noise[at]]
    worst, verdict = min(compared, key=least), marks.against_baseline[newest]
    is_unlikely = not compared[worst].p_value > _LARGEST_P / len(measured.operations)
    status: Status
    if lost or (verdict == FAIL and least(worst) < 0 and is_unlikely):
        status, threads = "worse", min(lost or [worst], key=least)
    elif verdict in {UNSURE, FAIL}:
        status, threads = "unsure", worst
    elif gained:
        status, threads = "better", max(gained, key=least)
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
        anchor = max(counts, key=lambda key: (sum(_near_counts(key, counts)), counts[key], -key[1]))
        members = [entry for entry in entries if _are_near(anchor, entry[1][:3])]
        entries = [entry for entry in entries if not _are_near(anchor, entry[1][:3])]
        members.sort(key=lambda entry: -abs(entry[1].share))
        shares: dict[int, float] = {}
        for number, change in members:
            shares.setdefault(number, change.share)
        groups.append(ChangeGroup(*anchor, shares))
    return tuple(sorted(groups, key=lambda group: (-group.first, -group.last, -abs(group.largest))))


_Place = tuple[Literal["drop", "gain", "creep"], int, int]


def _near_counts(place: _Place, counts: Counter[_Place]) -> Iterator[int]:
    return (count for other, count in counts.items() if _are_near(place, other))


def _are_near(place: _Place, other: _Place) -> bool:
    if place[0] != other[0]:
        return False
    if place[0] != "creep":
        return abs(place[1] - other[1]) <= 1
    common = min(place[2], other[2]) - max(place[1], other[1]) + 1
    return 2 * common > max(place[2], other[2]) - min(place[1], other[1]) + 1
