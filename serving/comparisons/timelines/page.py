"""The page of one timeline: self-contained HTML, with charts drawn by scripts from embedded numbers."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike

from data.comparisons.sides import Floats
from data.errors import escape_invisible
from serving.comparisons.timelines.assembled import (
    Change,
    HeatMap,
    TimelineOperation,
    TimelineReport,
    TimelineVersion,
)
from serving.reports.charts import percent, with_noun
from serving.reports.rendering import render

#: Marks, as in `serving.comparisons.timelines.judged.MARK`.
UNSURE, FAIL, INVALID = 2, 3, 4
_SIGNIFICANT = 4
#: Column of the median.
_MEDIAN = 2
#: Probabilities are written in tenths of a percent.
_TENTHS = 1000
#: Number of colours of heat maps.
_COLOURS = 9
#: Scripts, in the order of their dependencies.
NAMES = ("data", "words", "chart", "walk", "table", "heat", "page")
_FOLDER = files("serving.reports") / "templates" / "timelines"


def format_amount(value: float) -> str:
    """Return a value as text with four significant digits, or all before the point; a dash unless finite."""
    if not math.isfinite(value):
        return "\N{EN DASH}"
    whole = math.floor(math.log10(abs(value))) if value else 0
    digits = max(0, _SIGNIFICANT - 1 - whole)
    return f"{value:,.{digits}f}".replace("-", "\u2212")


def describe_share(share: float) -> str:
    """Return a change in words, such as ``12.3 % worse``; negative is worse, 0 is ``0.0 % better``."""
    return f"{percent(abs(share))} {'worse' if share < 0 else 'better'}"


def describe_change(change: Change, versions: Sequence[TimelineVersion], configurations: int) -> str:
    """Return a change in words, such as ``7.1 % worse from v3 to v5``.

    `versions`: all versions of the timeline. `configurations`: their number; the threads are named if above
    1.
    """
    first, last = versions[change.first].name, versions[change.last].name
    crept = "crept " if change.kind == "creep" else ""
    when = f"with {first}" if first == last else f"from {first} to {last}"
    threads = f" (threads:\N{NO-BREAK SPACE}{change.threads})" if configurations > 1 else ""
    return f"{crept}{describe_share(change.share)} {when}{threads}"


def join_first(names: Sequence[str], max_names: int = 3, between: str = ", ") -> str:
    """Return the first names as one text, `max_names` at most, and the number of the others."""
    rest = len(names) - max_names
    return between.join(names[:max_names]) + (f" and {rest:,} more" if rest > 0 else "")


def read_scripts() -> list[Markup]:
    """Return the text of each script: the installed d3, then ours."""
    from xstatic.pkg.d3 import BASE_DIR

    library = Path(BASE_DIR, "d3.js").read_text("utf-8")
    ours = [(_FOLDER / f"{name}.js").read_text("utf-8") for name in NAMES]
    return [Markup(text) for text in (library, *ours)]  # noqa: S704 - trusted files


def security_policy(texts: Sequence[str]) -> str:
    """Return a content security policy that allows only the scripts with these texts, and loads nothing."""
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def embed_json(content: Any) -> Markup:
    """Return JSON for a ``script`` element, without characters that could close it; ValueError for NaN."""
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
    """Return values as base64 of little-endian float32 in row order, with NaN for infinite ones."""
    with np.errstate(over="ignore"):
        narrow = np.asarray(values).astype("<f4")
    return base64.b64encode(np.where(np.isfinite(narrow), narrow, np.float32("nan")).tobytes()).decode()


def relative_link(source: str) -> str:
    """Return the quoted relative reference to the path `source`, from ``./`` on; empty if `source` is."""
    return "./" + quote(source.lstrip("/"), errors="surrogateescape") if source else ""


def operation_data(operation: TimelineOperation) -> Markup:
    """Return the JSON object that the page's scripts draw one operation's chart and table columns from."""
    tenths = np.round(operation.probability * _TENTHS).tolist()
    return embed_json(
        {
            "benchmark": operation.benchmark,
            "name": operation.operation,
            "unit": operation.unit,
            "better": operation.better,
            "threads": operation.threads,
            "featured": operation.featured,
            "five": pack_floats(operation.five),
            "beside": "".join(map(str, operation.against_baseline.tolist())),
            "before": "".join(map(str, operation.against_before.tolist())),
            "probability": [None if math.isnan(value) else int(value) for value in tenths],
            "words": {str(at): list(words) for at, words in operation.words.items()},
            "changes": [(c.kind, c.first, c.last, c.share, c.threads) for c in operation.changes],
        }
    )


@dataclass(frozen=True)
class ListedReport:
    """A timeline in the index."""

    file: str  # relative path, with slashes
    title: str
    machine: str
    versions: int
    operations: int
    fails: int  # fails, changes, unstable: operations with a fail, with a lasting change, with too much noise
    changes: int
    unstable: int

    @property
    def href(self) -> str:
        """The quoted relative reference."""
        return relative_link(self.file)


def index_page(listed: Sequence[ListedReport]) -> str:
    """Return the index as HTML without scripts; reports with most fails first, then most lasting changes."""
    ordered = sorted(
        listed, key=lambda row: (-row.fails, -row.changes, -row.unstable, row.title, row.machine)
    )
    return render("timelines/contents.html", listed=ordered)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The content of one operation's chart in words."""

    number: int  # index of the operation in the report
    operation: TimelineOperation
    #: the largest lasting loss as a share, or the median loss of versions that fail against the baseline, if
    #: that is larger
    severity: float
    worse: tuple[str, ...]  # worse, better: lasting changes, the largest first
    better: tuple[str, ...]
    verdicts: str  # the versions that fail; may be empty
    marked: bool  # whether a version is unsure or fails, or the level changed

    @property
    def got_worse(self) -> bool:
        """Whether the operation has a lasting loss, or a version that fails."""
        return bool(self.worse or self.verdicts)

    @property
    def much(self) -> str:
        """The severity in words."""
        return describe_share(-self.severity) if self.severity > 0 else "not worse in the median"

    @property
    def gain(self) -> float:
        """The largest lasting improvement, as a share; 0 or less without one."""
        return max((change.share for change in self.operation.changes), default=0.0)

    @property
    def words(self) -> str:
        """All changes and verdicts in one line."""
        line = "; ".join(filter(None, [self.listed("worse"), self.listed("better"), self.verdicts]))
        return line[:1].upper() + line[1:]

    def listed(self, which: Literal["worse", "better"]) -> str:
        """Return the three largest lasting changes for `which` in words, and the number of the others."""
        return join_first(getattr(self, which), between="; ")


def list_findings(report: TimelineReport) -> list[Finding]:
    """Return the content of each operation's chart in words, in the report's order."""
    return [
        _operation_finding(report, number, operation) for number, operation in enumerate(report.operations)
    ]


def worst_findings(all_findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings about operations that got worse, in descending order of severity."""
    return sorted(
        (finding for finding in all_findings if finding.got_worse), key=lambda finding: -finding.severity
    )


def improved_findings(all_findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings with a lasting improvement, the largest first."""
    return sorted((finding for finding in all_findings if finding.better), key=lambda finding: -finding.gain)


def unstable_findings(all_findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings about unstable operations, the most unstable first."""
    unstable = (finding for finding in all_findings if finding.operation.unstable)
    return sorted(unstable, key=lambda finding: -np.nan_to_num(finding.operation.instability))


def finding_ranks(all_findings: Sequence[Finding]) -> list[int]:
    """Return the rank of each finding, from 0: those that got worse first, then those with marks."""
    order = sorted(
        range(len(all_findings)),
        key=lambda at: (
            not all_findings[at].got_worse,
            -all_findings[at].severity,
            not all_findings[at].marked,
        ),
    )
    return np.argsort(order).tolist()


def version_losses(operation: TimelineOperation, baseline: int) -> Floats:
    """Return the loss of each version's featured median against the baseline's, as a share; positive: worse.

    Shape (n_versions,); NaN where a median is missing, infinite or NaN if the baseline's is 0. `baseline`:
    index of the baseline's version.
    """
    medians = operation.five[operation.featured, :, _MEDIAN]
    with np.errstate(divide="ignore", invalid="ignore"):
        change = medians / medians[baseline] - 1
    return change if operation.better == "lower" else -change


def _operation_finding(report: TimelineReport, number: int, operation: TimelineOperation) -> Finding:
    changes = sorted(operation.changes, key=lambda change: -abs(change.share))
    words = [
        (change.share, describe_change(change, report.versions, len(operation.threads))) for change in changes
    ]
    marks = np.array([operation.against_baseline, operation.against_before])
    lost = version_losses(operation, report.baseline)[(marks == FAIL).any(axis=0)]
    lost = lost[np.isfinite(lost)]
    usual = float(np.median(lost)) if lost.size else 0.0
    return Finding(
        number=number,
        operation=operation,
        severity=max(0.0, usual, *(-change.share for change in changes)),
        worse=tuple(text for share, text in words if share < 0),
        better=tuple(text for share, text in words if share >= 0),
        verdicts=_describe_verdicts(report, operation),
        marked=bool(changes) or bool(np.isin(marks, (UNSURE, FAIL)).any()),
    )


def _describe_verdicts(report: TimelineReport, operation: TimelineOperation) -> str:
    began, below = (
        [report.versions[at].name for at in np.flatnonzero(marks == FAIL)]
        for marks in (operation.against_before, operation.against_baseline)
    )
    parts = [f"began with {join_first(began)}"] if began else []
    if below:
        probability = np.nanmax(np.append(operation.probability[operation.against_baseline == FAIL], -1))
        surest = f", the surest with {percent(float(probability))}" if probability >= 0 else ""
        parts += [
            f"{with_noun(len(below), 'version')} worse than the baseline ({join_first(below, 1)}{surest})"
        ]
    return "judged fail: " + "; ".join(parts) if parts else ""


def timeline_page(report: TimelineReport) -> str:
    """Return a timeline as one self-contained HTML text (scheduler thesis, figure 5.1).

    A summary, the rules, and per benchmark charts and a table of medians of the featured configuration.
    """
    all_findings, texts = list_findings(report), read_scripts()
    sections = defaultdict[str, list[Finding]](list)
    for finding in all_findings:
        sections[finding.operation.benchmark].append(finding)
    versions = [
        (version.name, version.measured_at or "", relative_link(version.source))
        for version in report.versions
    ]
    colours: list[str] = []
    if report.heats:
        from matplotlib import colormaps
        from matplotlib.colors import to_hex

        # cividis is perceptually uniform, and looks the same to the colour-blind
        colours = [to_hex(colour) for colour in colormaps["cividis"].resampled(_COLOURS)(range(_COLOURS))]
    return render(
        "timelines/page.html",
        report=report,
        sections=sections,
        bad=worst_findings(all_findings),
        good=improved_findings(all_findings),
        unstable=unstable_findings(all_findings),
        ranks=finding_ranks(all_findings),
        configurations=sorted({threads for row in report.operations for threads in row.threads}),
        shared=embed_json({"versions": versions, "baseline": report.baseline, "colours": colours}),
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
    """Return sentences with the range of a heat map, and the rows with the highest and the lowest mean."""
    present = np.isfinite(heat.values)
    counts = present.sum(axis=1)
    if not counts.any():
        return "No sample is known."
    sums = np.where(present, heat.values, 0).sum(axis=1)
    means = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    high, low = int(np.nanargmax(means)), int(np.nanargmin(means))
    return (
        f"{len(heat.rows):,} rows over {format_amount(float(heat.seconds[-1] - heat.seconds[0]))} seconds, "
        "from "
        f"{format_amount(float(np.nanmin(heat.values)))} to {format_amount(float(np.nanmax(heat.values)))} "
        f"{heat.unit}. "
        f"On the whole, {heat.rows[high]} is highest with {format_amount(float(means[high]))}, "
        f"{heat.rows[low]} lowest with {format_amount(float(means[low]))}."
    )
