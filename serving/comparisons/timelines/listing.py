"""The list of timelines: the states of all operations and lasting changes, for the index and for JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from serving.comparisons.timelines.assembled import TimelineReport, TimelineVersion
from serving.comparisons.timelines.page import FAIL, operation_names, relative_link
from serving.comparisons.timelines.states import OperationState
from serving.reports.rendering import render


@dataclass(frozen=True)
class ListedOperation:
    """An operation in the list of pages: its state at its newest measured version."""

    benchmark: str
    operation: str
    unit: str
    better: str
    state: dict[str, object]


@dataclass(frozen=True)
class ListedChange:
    """A lasting change in the list of pages, of all operations that it concerns."""

    kind: str  # drop, gain or creep
    first: str  # first, last: names of versions
    last: str
    change: float  # the largest one, as a share of the level before; negative is worse
    operations: tuple[str, ...]


@dataclass(frozen=True)
class ListedReport:
    """A timeline in the index."""

    file: str  # relative path, with slashes
    title: str
    machine: str
    n_versions: int
    newest_version: str  # name of the newest version
    n_operations: int
    n_worse: int  # n_worse, n_unsure: numbers of operations in this state at their newest version
    n_unsure: int
    n_failed: int  # n_failed, n_changed, n_unstable: operations with a version that fails against the
    n_changed: int  # baseline, with a lasting change, with too much noise
    n_unstable: int
    operations: tuple[ListedOperation, ...]  # the most urgent first
    changes: tuple[ListedChange, ...]  # the newest first

    @property
    def href(self) -> str:
        """The quoted relative reference."""
        return relative_link(self.file)


def list_report(report: TimelineReport, file: str) -> ListedReport:
    """Return the entry of a report in the index; `file`: the relative path of its page.

    It has counts, operations by urgency and lasting changes, the newest first. A ``state`` has ``status,
    version``, and if compared ``threads``, ``change`` (a share, negative is worse) with ``low`` and ``high``,
    ``baseline_level, newest_level`` (numbers are None if not finite), ``since`` (the first version of the
    change that still lasts, or None), ``creeping`` (whether that change takes several versions) and
    ``lasting`` (whether a lasting change follows the baseline). Versions are names.
    """
    operations, versions = report.operations, report.versions
    statuses = [operation.state.status for operation in operations]
    return ListedReport(
        file,
        report.title,
        report.machine,
        len(versions),
        versions[-1].name,
        len(operations),
        statuses.count("worse"),
        statuses.count("unsure"),
        sum(bool((operation.against_baseline == FAIL).any()) for operation in operations),
        sum(bool(operation.changes) for operation in operations),
        sum(operation.unstable for operation in operations),
        tuple(
            ListedOperation(
                row.benchmark, row.operation, row.unit, row.better, _state_fields(row.state, versions)
            )
            for row in sorted(operations, key=lambda row: row.state.rank)
        ),
        tuple(
            ListedChange(
                group.kind,
                versions[group.first].name,
                versions[group.last].name,
                group.largest,
                tuple(operation_names(report, group.shares)),
            )
            for group in report.changes
        ),
    )


def _state_fields(state: OperationState, versions: Sequence[TimelineVersion]) -> dict[str, object]:
    fields: dict[str, object] = {"status": state.status, "version": versions[state.version].name}
    if (change := state.change) is None:
        return fields
    numbers = (change.change, change.low, change.high, change.baseline_level, change.newest_level)
    names = ("change", "low", "high", "baseline_level", "newest_level")
    return fields | {
        "threads": state.threads,
        **{name: value if math.isfinite(value) else None for name, value in zip(names, numbers, strict=True)},
        "since": None if change.since is None else versions[change.since].name,
        "creeping": change.creeping,
        "lasting": change.lasting,
    }


def index_page(listed: Sequence[ListedReport]) -> str:
    """Return the index as HTML without scripts; reports with most operations that are worse now first.

    Ties are in descending order of unsure, changed and unstable operations, then by title and machine.
    """
    ordered = sorted(
        listed,
        key=lambda row: (
            -row.n_worse,
            -row.n_unsure,
            -row.n_changed,
            -row.n_unstable,
            row.title,
            row.machine,
        ),
    )
    return render("timelines/contents.html", listed=ordered)
