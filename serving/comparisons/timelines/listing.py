"""The list of timelines: the states of all operations and lasting changes, for the index and for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from serving.comparisons.timelines.assembled import TimelineReport, TimelineVersion
from serving.comparisons.timelines.judged import FAIL
from serving.comparisons.timelines.page import operation_names, relative_link
from serving.comparisons.timelines.states import OperationState
from serving.reports.rendering import render


def list_report(report: TimelineReport, file: str) -> dict[str, Any]:
    """Return the JSON object of a report in the list of pages; `file`: the relative path of its page.

    ``n_...`` are numbers of versions and operations: ``n_worse``, ``n_unsure`` in this state at their newest
    version; ``n_failed`` with a version that fails against the baseline, ``n_changed`` with a lasting change,
    ``n_unstable`` with too much noise. Operations come by urgency, lasting changes the newest first; the
    ``change`` of these is the largest one, as a share of the level before (negative is worse). A ``state``
    has ``status, version``, and if compared ``threads``, ``change`` (a share, negative is worse) with ``low``
    and ``high``, ``baseline_level, newest_level`` (numbers are None if not finite), ``since`` (the first
    version of the change that still lasts, or None), ``creeping`` (whether that change takes several
    versions) and ``lasting`` (whether a lasting change follows the baseline). Versions are names.
    """
    operations, versions = report.operations, report.versions
    statuses = [operation.state.status for operation in operations]
    return {
        "file": file,
        "title": report.title,
        "machine": report.machine,
        "n_versions": len(versions),
        "newest_version": versions[-1].name,
        "n_operations": len(operations),
        "n_worse": statuses.count("worse"),
        "n_unsure": statuses.count("unsure"),
        "n_failed": sum(bool((operation.against_baseline == FAIL).any()) for operation in operations),
        "n_changed": sum(bool(operation.changes) for operation in operations),
        "n_unstable": sum(operation.unstable for operation in operations),
        "operations": [
            {
                **{name: getattr(row, name) for name in ("benchmark", "operation", "unit", "better")},
                "state": _state_fields(row.state, versions),
            }
            for row in sorted(operations, key=lambda row: row.state.rank)
        ],
        "changes": [
            {
                "kind": group.kind,
                "first": versions[group.first].name,
                "last": versions[group.last].name,
                "change": group.largest,
                "operations": operation_names(report, group.shares),
            }
            for group in report.changes
        ],
    }


def _state_fields(state: OperationState, versions: Sequence[TimelineVersion]) -> dict[str, object]:
    fields: dict[str, object] = {"status": state.status, "version": versions[state.version].name}
    if (change := state.change) is None:
        return fields
    numbers = {
        name: getattr(change, name) for name in ("change", "low", "high", "baseline_level", "newest_level")
    }
    return fields | {
        "threads": state.threads,
        **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
        "since": None if change.since is None else versions[change.since].name,
        "creeping": change.creeping,
        "lasting": change.lasting,
    }


def index_page(listed: Sequence[Mapping[str, Any]]) -> str:
    """Return the index as HTML without scripts; reports with most operations that are worse now first.

    `listed`: results of `list_report`. Ties are in descending order of unsure, changed and unstable
    operations, then by title and machine.
    """
    counts = ("n_worse", "n_unsure", "n_changed", "n_unstable")
    ordered = sorted(
        listed, key=lambda row: (*(-row[count] for count in counts), row["title"], row["machine"])
    )
    return render("timelines/contents.html", listed=ordered, relative_link=relative_link)
