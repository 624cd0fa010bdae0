"""The page of one timeline, self-contained HTML with charts drawn by scripts, and the index of pages."""

from __future__ import annotations

import base64
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike

from data.errors import escape_invisible
from serving.comparisons.timelines.assembled import (
    URGENT,
    Change,
    ChangeGroup,
    HeatMap,
    OperationState,
    Status,
    TimelineOperation,
    TimelineReport,
    TimelineVersion,
)
from serving.comparisons.timelines.judged import FAIL, UNSURE
from serving.reports.charts import percent, with_noun
from serving.reports.rendering import render, security_policy

_SIGNIFICANT = 4
#: Probabilities are written in tenths of a percent.
_TENTHS = 1000
#: Colours of heat maps: cividis is perceptually uniform, and looks the same to the colour-blind.
_COLOURS = (
    "#00224e", "#1a386f", "#434e6c", "#61656f", "#7d7c78", "#9b9476", "#bcae6c", "#dec958", "#fee838",
)  # fmt: skip
#: Scripts, in the order of their dependencies.
NAMES = ("data", "words", "chart", "walk", "table", "heat", "page")
_FOLDER = files("serving.reports") / "templates" / "timelines"


def format_amount(value: float) -> str:
    """Return a value with 4 significant digits, or more if its integer part has more; a dash unless finite.

    Examples: ``1.500`` and ``12,346``; the minus sign is U+2212.
    """
    if not math.isfinite(value):
        return "\N{EN DASH}"
    whole = math.floor(math.log10(abs(value))) if value else 0
    digits = max(0, _SIGNIFICANT - 1 - whole)
    return f"{value:,.{digits}f}".replace("-", "\u2212")


def describe_share(share: float) -> str:
    """Return a change in words, such as ``12.3 % worse``; negative is worse, 0 is ``0.0 % better``.

    The first space is a no-break space.
    """
    return f"{percent(abs(share))} {'worse' if share < 0 else 'better'}"


def describe_change(change: Change, versions: Sequence[TimelineVersion], configurations: int) -> str:
    """Return a change in words, such as ``7.1 % worse with v3``, or ``crept 7.1 % worse from v3 to v5``.

    `configurations`: number of configurations of the operation; if there are several, the threads of the
    change are added: ``(threads: 4)``.
    """
    first, last = versions[change.first].name, versions[change.last].name
    crept = "crept " if change.kind == "creep" else ""
    when = f"with {first}" if first == last else f"from {first} to {last}"
    return f"{crept}{describe_share(change.share)} {when}{_describe_threads(change.threads, configurations)}"


def _describe_threads(threads: int, configurations: int) -> str:
    return f" (threads:\N{NO-BREAK SPACE}{threads})" if configurations > 1 else ""


def describe_now(state: OperationState) -> str:
    """Return the change from the baseline to now, with its interval: ``7.1 % worse (6.5 to 7.7 %)``.

    A negative limit is in the other direction; unknown limits are omitted. If the state has no change (None),
    the text is "not compared".
    """
    change = state.change
    if change is None:
        return "not compared"
    words = describe_share(change.change)
    if not math.isfinite(change.low + change.high):
        return words
    ends = sorted([change.low, change.high] if change.change >= 0 else [-change.low, -change.high])
    low, high = (f"{100 * end:.1f}".replace("-", "\u2212") for end in ends)
    return f"{words} ({low} to {high}\N{NO-BREAK SPACE}%)"


def describe_levels(state: OperationState, operation: TimelineOperation) -> str:
    """Return the levels at the baseline and now, ``217.3 → 240.1 us (threads: 4)``; "" if not compared.

    The threads are left out if the operation has only one configuration.
    """
    change = state.change
    if change is None:
        return ""
    threads = _describe_threads(state.threads, len(operation.threads))
    levels = f"{format_amount(change.baseline_level)} \u2192 {format_amount(change.newest_level)}"
    return f"{levels}\N{NO-BREAK SPACE}{operation.unit}{threads}"


def describe_since(state: OperationState, versions: Sequence[TimelineVersion]) -> str:
    """Return since which version an operation is in its state: ``v5`` or ``v5, in small steps``.

    If no lasting change shows it: ``v5, by verdicts; not yet lasting``. If ``state.change.since`` is unknown:
    for the states worse and unsure, the newest version that measured it with ``, by its verdict``; else a
    dash.
    """
    change = state.change
    if change is None or change.since is None:
        return f"{versions[state.version].name}, by its verdict" if state.status in URGENT else "\N{EN DASH}"
    name = versions[change.since].name
    if not change.lasting:
        return f"{name}, by verdicts; not yet lasting"
    return f"{name}, in small steps" if change.creeping else name


def join_first(names: Sequence[str], max_names: int = 3, between: str = ", ") -> str:
    """Return `max_names` names at most, joined by `between`, and the number of others.

    Example: ``a, b, c and 2 more``; without others, only the names.
    """
    rest = len(names) - max_names
    return between.join(names[:max_names]) + (f" and {rest:,} more" if rest > 0 else "")


def read_scripts() -> list[Markup]:
    """Return the text of each script: the installed d3, then ours."""
    from xstatic.pkg.d3 import BASE_DIR

    library = Path(BASE_DIR, "d3.js").read_text("utf-8")
    ours = [(_FOLDER / f"{name}.js").read_text("utf-8") for name in NAMES]
    return [Markup(text) for text in (library, *ours)]  # noqa: S704 - trusted files


def embed_json(content: Any) -> Markup:
    """Return JSON for a ``script`` element, ``<`` and invisible characters escaped.

    ValueError for NaN and infinite numbers.
    """
    text = json.dumps(_make_visible(content), separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704 - "<" is the only way to end a script's text


def _make_visible(content: Any) -> Any:
    """Return a copy of JSON content without invisible characters, as scripts show texts unchanged."""
    if isinstance(content, str):
        return escape_invisible(content)
    if isinstance(content, dict):
        return {_make_visible(key): _make_visible(value) for key, value in content.items()}
    return [_make_visible(value) for value in content] if isinstance(content, list | tuple) else content


def pack_floats(values: ArrayLike) -> str:
    """Return values as base64 of little-endian float32 in row order; infinite and too large ones are NaN."""
    with np.errstate(over="ignore"):
        narrow = np.asarray(values).astype("<f4")
    return base64.b64encode(np.where(np.isfinite(narrow), narrow, np.float32("nan")).tobytes()).decode()


def relative_link(source: str) -> str:
    """Return `source` as a reference ``./PATH``, without its leading slashes; "" if `source` is empty.

    All characters but letters, digits and ``_.-~/`` are percent-encoded.
    """
    return "./" + quote(source.lstrip("/"), errors="surrogateescape") if source else ""


def operation_data(operation: TimelineOperation) -> Markup:
    """Return a JSON object of an operation, from which the page's scripts draw its chart and table columns.

    ``five`` is as of `pack_floats`; ``beside`` and ``before`` are the marks against the baseline and against
    the versions just before, each a text with a digit per version; ``probability`` is in whole tenths of a
    percent (0 to 1000), null where not judged.
    """
    tenths = np.round(operation.probability * _TENTHS).tolist()
    return embed_json(
        {
            "benchmark": operation.benchmark,
            "name": operation.operation,
            **{name: getattr(operation, name) for name in ("unit", "better", "threads", "featured")},
            "five": pack_floats(operation.five),
            "beside": "".join(map(str, operation.against_baseline.tolist())),
            "before": "".join(map(str, operation.against_before.tolist())),
            "probability": [None if math.isnan(value) else int(value) for value in tenths],
            "words": operation.words,
            "changes": operation.changes,
        }
    )


def operation_names(report: TimelineReport, numbers: Iterable[int]) -> list[str]:
    """Return the names of the operations with the indices `numbers`, in their order.

    They are ``BENCHMARK, NAME`` if the report has several benchmarks, else ``NAME``.
    """
    chosen = [report.operations[number] for number in numbers]
    several = len({row.benchmark for row in report.operations}) > 1
    return [f"{row.benchmark}, {row.operation}" if several else row.operation for row in chosen]


@dataclass(frozen=True)
class Finding:
    """The content of one operation's chart in words."""

    number: int  # index of the operation in the report
    report: TimelineReport

    @property
    def operation(self) -> TimelineOperation:
        """The operation."""
        return self.report.operations[self.number]

    @property
    def now(self) -> str:
        """The state in words."""
        state = self.operation.state
        if state.status != "unchanged" or state.change is None:
            return f"now {describe_now(state)}"
        ends = (state.change.low, state.change.high)
        span = f" ({' to '.join(map(describe_share, ends))})" if all(map(math.isfinite, ends)) else ""
        return f"now unchanged{span}"

    @property
    def verdicts(self) -> str:
        """The versions that fail, against the versions before and against the baseline; may be empty."""
        operation = self.operation
        began, below = (
            [self.report.versions[at].name for at in np.flatnonzero(marks == FAIL)]
            for marks in (operation.against_before, operation.against_baseline)
        )
        parts = [f"began with {join_first(began)}"] if began else []
        if below:
            probability = np.nanmax(np.append(operation.probability[operation.against_baseline == FAIL], -1))
            surest = f", the surest with {percent(float(probability))}" if probability >= 0 else ""
            versions = with_noun(len(below), "version")
            parts.append(f"{versions} worse than the baseline ({join_first(below, 1)}{surest})")
        return "judged fail: " + "; ".join(parts) if parts else ""

    @property
    def words(self) -> str:
        """The state, the three largest lasting changes and the verdicts in one line."""
        operation = self.operation
        changes = [
            describe_change(change, self.report.versions, len(operation.threads))
            for change in sorted(operation.changes, key=lambda change: -abs(change.share))
        ]
        line = "; ".join(filter(None, [self.now, join_first(changes, between="; "), self.verdicts]))
        return line[:1].upper() + line[1:]

    @property
    def marked(self) -> bool:
        """Whether a version is unsure or fails, or the level changed."""
        marks = np.array([self.operation.against_baseline, self.operation.against_before])
        return bool(self.operation.changes) or bool(np.isin(marks, (UNSURE, FAIL)).any())


def list_findings(report: TimelineReport) -> list[Finding]:
    """Return a finding per operation, in the report's order."""
    return [Finding(number, report) for number in range(len(report.operations))]


def unstable_findings(all_findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings about unstable operations (noise hides changes of 5 %), the most unstable first."""
    unstable = (finding for finding in all_findings if finding.operation.unstable)
    return sorted(unstable, key=lambda finding: -finding.operation.instability)


def finding_ranks(all_findings: Sequence[Finding]) -> list[int]:
    """Return the rank of each finding, in the order of `all_findings`; 0 is the most urgent.

    Operations that are worse or unsure now come before the others. In each of both groups, those come first
    that have a lasting change, or a version that is unsure or fails; ties by `OperationState.rank`.
    """

    def sort_key(at: int) -> tuple[bool, bool, tuple[int, float]]:
        finding = all_findings[at]
        state = finding.operation.state
        return state.status not in URGENT, not finding.marked, state.rank

    return np.argsort(sorted(range(len(all_findings)), key=sort_key)).tolist()


def describe_others(report: TimelineReport) -> str:
    """Return one line on operations neither worse nor unsure: by state, number and first 3 names; or ""."""

    def describe_names(status: Status, word: str = "") -> list[str]:
        numbers = [number for number, row in enumerate(report.operations) if row.state.status == status]
        names = join_first(operation_names(report, numbers))
        return [f"{len(numbers):,}{word} ({names})"] if numbers else []

    fine = ", ".join(describe_names("better", " better") + describe_names("unchanged", " unchanged"))
    sentences = [f"Without a problem: {fine}."] if fine else []
    sentences += [f"Not compared with the baseline: {names}." for names in describe_names("not compared")]
    return " ".join(sentences)


def describe_state(report: TimelineReport) -> str:
    """Return in words how many operations are worse and how many unsure, or that the baseline is the newest.

    The state of an operation is that of the newest version that measured it, compared with the baseline.
    """
    baseline, newest = (report.versions[at].name for at in (report.baseline, -1))
    if baseline == newest:
        return f"No version is newer than the baseline {baseline}."
    statuses = [row.state.status for row in report.operations]
    worse, unsure = statuses.count("worse"), statuses.count("unsure")
    count = f"{worse:,} of {with_noun(len(statuses), 'operation')}" if worse else "No operation"
    verb = "is" if worse <= 1 else "are"
    more = f"; {unsure:,} {'is' if unsure == 1 else 'are'} unsure" if unsure else ""
    return f"{count} {verb} worse now, with {newest}, than at the baseline {baseline}{more}."


def summary_lines(report: TimelineReport, max_operations: int = 5) -> list[str]:
    """Return the state of a timeline as lines of text: its most urgent operations, and the others.

    The first line counts operations that are worse or unsure. Then follow, all indented, a line for each of
    them, at most `max_operations`, the number of further ones, and one line on the other operations.
    """
    urgent, lines = _urgent_numbers(report), [describe_state(report)]
    for at, name in zip(urgent[:max_operations], operation_names(report, urgent), strict=False):
        state = report.operations[at].state
        status = "" if state.status == "worse" else f"{state.status}, "
        since = f" since {describe_since(state, report.versions)}" if state.status == "worse" else ""
        lines.append(f"  {name}: {status}{describe_now(state)}{since}")
    if len(urgent) > max_operations:
        lines.append(f"  and {len(urgent) - max_operations:,} more")
    others = describe_others(report)
    return [*lines, f"  {others}"] if others else lines


def _urgent_numbers(report: TimelineReport) -> list[int]:
    urgent = (at for at, row in enumerate(report.operations) if row.state.status in URGENT)
    return sorted(urgent, key=lambda at: report.operations[at].state.rank)


class ShownChange(NamedTuple):
    """A row of the table of lasting changes."""

    report: TimelineReport
    group: ChangeGroup

    @property
    def when(self) -> str:
        """The version, or the range of versions."""
        first, last = (self.report.versions[at].name for at in (self.group.first, self.group.last))
        return first if first == last else f"{first} to {last}"

    @property
    def much(self) -> str:
        """The change in words; with several operations, the range."""
        shares = [abs(share) for share in self.group.shares.values()]
        low, high = (f"{100 * share:.1f}" for share in (min(shares), max(shares)))
        crept = "crept " if self.group.kind == "creep" else ""
        if low == high:
            return f"{crept}{describe_share(self.group.largest)}"
        return f"{crept}{low} to {high}\N{NO-BREAK SPACE}% {'better' if self.group.largest > 0 else 'worse'}"

    @property
    def operations(self) -> list[tuple[int, str]]:
        """The indices and names of the operations, the largest change first."""
        return list(zip(self.group.shares, operation_names(self.report, self.group.shares), strict=True))


def timeline_page(report: TimelineReport) -> str:
    """Return a timeline as one self-contained HTML text (scheduler thesis, figure 5.1).

    It shows the newest state, lasting changes, unstable operations, heat maps, and per benchmark a chart of
    each operation and a table of medians. The table is of the configuration with most threads; charts show it
    first, others by choice. Charts, tables of medians and heat maps need JavaScript.
    """
    all_findings, texts = list_findings(report), read_scripts()
    sections = defaultdict[str, list[Finding]](list)
    for finding in all_findings:
        sections[finding.operation.benchmark].append(finding)
    versions = [
        (version.name, version.measured_at or "", relative_link(version.source))
        for version in report.versions
    ]
    return render(
        "timelines/page.html",
        report=report,
        sections=sections,
        urgent=[all_findings[number] for number in _urgent_numbers(report)],
        state=describe_state(report),
        others=describe_others(report),
        changes=[ShownChange(report, group) for group in report.changes],
        unstable=unstable_findings(all_findings),
        describe_now=describe_now,
        describe_levels=describe_levels,
        describe_since=describe_since,
        ranks=finding_ranks(all_findings),
        configurations=sorted({threads for row in report.operations for threads in row.threads}),
        shared=embed_json(
            {"versions": versions, "baseline": report.baseline, "colours": _COLOURS if report.heats else ()}
        ),
        data=[operation_data(operation) for operation in report.operations],
        heats=[_heat_content(report, heat) for heat in report.heats],
        scripts=texts,
        policy=security_policy(texts),
    )


def _heat_content(report: TimelineReport, heat: HeatMap) -> dict[str, object]:
    numbers = {"seconds": pack_floats(heat.seconds), "values": pack_floats(heat.values)}
    return {
        "heat": heat,
        "data": embed_json(numbers | {"title": heat.title, "rows": heat.rows, "unit": heat.unit}),
        "words": heat_summary(heat),
        "version": report.versions[heat.version].name,
        "href": relative_link(heat.source),
    }


def heat_summary(heat: HeatMap) -> str:
    """Return a heat map in sentences: its size, its range, and the rows with the highest and the lowest mean.

    The size is the number of rows and the seconds from first to last. NaN is not counted; without a finite
    value, the result is "No sample is known."
    """
    present = np.isfinite(heat.values)
    counts = present.sum(axis=1)
    if not counts.any():
        return "No sample is known."
    sums = np.where(present, heat.values, 0).sum(axis=1)
    means = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    high, low = int(np.nanargmax(means)), int(np.nanargmin(means))
    ends = np.nanmin(heat.values), np.nanmax(heat.values), means[high], means[low]
    least, most, highest, lowest = map(format_amount, map(float, ends))
    return (
        f"{len(heat.rows):,} rows over {format_amount(float(heat.seconds[-1] - heat.seconds[0]))} seconds, "
        f"from {least} to {most} {heat.unit}. On the whole, {heat.rows[high]} is highest with {highest}, "
        f"{heat.rows[low]} lowest with {lowest}."
    )


def list_report(report: TimelineReport, file: str) -> dict[str, Any]:
    """Return the JSON object of a report in the list of pages; `file`: the relative path of its page.

    Numbers of operations are ``n_worse``, ``n_unsure`` (in this state at their newest version), ``n_failed``
    (a version fails against the baseline), ``n_changed`` (a lasting change) and ``n_unstable``. Operations
    come by urgency, lasting changes from the newest on; their ``change`` is the largest one, as a share of
    the level before (negative is worse). A ``state`` has ``status, version``, and if compared ``threads`` and
    the fields of `NewestChange` but the p-value; numbers are None if not finite. Versions are names.
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
    fields["threads"] = state.threads
    for name in ("change", "low", "high", "baseline_level", "newest_level"):
        number = getattr(change, name)
        fields[name] = number if math.isfinite(number) else None
    fields["since"] = None if change.since is None else versions[change.since].name
    return fields | {"creeping": change.creeping, "lasting": change.lasting}


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
