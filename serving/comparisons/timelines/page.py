"""The page of one timeline: self-contained, drawn by scripts of its own from numbers that it has inside."""

from __future__ import annotations

import base64
import hashlib
import json
import math
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
from data.errors import visible
from serving.comparisons.timelines.assembled import (
    Change,
    HeatMap,
    TimelineOperation,
    TimelineReport,
    TimelineVersion,
)
from serving.comparisons.timelines.judged import Marks
from serving.reports.charts import counted, percent
from serving.reports.rendering import render

_SIGNIFICANT = 4


def amount(value: float) -> str:
    """Write a value with four significant digits, or all before the point; NaN as a dash."""
    if not math.isfinite(value):
        return "\N{EN DASH}"
    whole = math.floor(math.log10(abs(value))) if value else 0
    digits = max(0, _SIGNIFICANT - 1 - whole)
    return f"{value:,.{digits}f}".replace("-", "\u2212")


def moved(share: float) -> str:
    """Write a change whose sign says whether it is for the better: ``12.3 % worse``."""
    return f"{percent(abs(share))} {'worse' if share < 0 else 'better'}"


def told(change: Change, versions: Sequence[TimelineVersion], configurations: int) -> str:
    """Say what changed, when, and at how many threads if there are several configurations."""
    first, last = versions[change.first].name, versions[change.last].name
    crept = "crept " if change.kind == "creep" else ""
    when = f"with {first}" if first == last else f"from {first} to {last}"
    where = f" (threads:\N{NO-BREAK SPACE}{change.threads})" if configurations > 1 else ""
    return f"{crept}{moved(change.share)} {when}{where}"


def some(names: Sequence[str], most: int = 3, between: str = ", ") -> str:
    """Name the first few, and say how many there are beside them."""
    rest = len(names) - most
    return between.join(names[:most]) + (f" and {rest:,} more" if rest > 0 else "")


#: In this order: each uses those before it.
NAMES = ("data", "words", "chart", "walk", "table", "heat", "page")
_FOLDER = files("serving.reports") / "templates" / "timelines"


def scripts() -> list[Markup]:
    """Return the text of each script: d3 as it is installed, then our own."""
    from xstatic.pkg.d3 import BASE_DIR

    library = Path(BASE_DIR, "d3.js").read_text("utf-8")
    own = [(_FOLDER / f"{name}.js").read_text("utf-8") for name in NAMES]
    return [Markup(text) for text in (library, *own)]  # noqa: S704 - our own files


def policy(texts: Sequence[str]) -> str:
    """Return a content security policy: these scripts run, nothing else, and nothing is loaded."""
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


#: Probabilities are written in tenths of a percent.
_TENTHS = 1000
_STOPS = 9


def embedded(content: Any) -> Markup:
    """Return JSON for a ``script`` element, which nothing in it can close."""
    text = json.dumps(_visible(content), separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704 - a script element's text has no other way out


def _visible(content: Any) -> Any:
    """Return the same with names as they are shown: scripts put them on the page as they are."""
    if isinstance(content, str):
        return visible(content)
    if isinstance(content, dict):
        return {_visible(key): _visible(value) for key, value in content.items()}
    return [_visible(value) for value in content] if isinstance(content, list | tuple) else content


def packed(values: ArrayLike) -> str:
    """Return values as base64 of little-endian float32 in row order; what is not finite is NaN."""
    with np.errstate(over="ignore"):
        narrow = np.asarray(values).astype("<f4")
    return base64.b64encode(np.where(np.isfinite(narrow), narrow, np.float32("nan")).tobytes()).decode()


def link(source: str) -> str:
    """Return a relative reference to a result, quoted whatever it is called; empty if there is none."""
    return "./" + quote(source.lstrip("/"), errors="surrogateescape") if source else ""


def operation_data(operation: TimelineOperation) -> Markup:
    """Return what one operation's chart and columns show."""
    tenths = np.round(operation.probability * _TENTHS)
    return embedded(
        {
            "benchmark": operation.benchmark,
            "name": operation.operation,
            "unit": operation.unit,
            "better": operation.better,
            "threads": operation.threads,
            "featured": operation.featured,
            "five": packed(operation.five),
            "beside": _digits(operation.against_baseline),
            "before": _digits(operation.against_before),
            "probability": [None if one != one else int(one) for one in tenths.tolist()],  # noqa: PLR0124 - NaN
            "words": {str(at): list(words) for at, words in operation.words.items()},
            "changes": [(c.kind, c.first, c.last, c.share, c.threads) for c in operation.changes],
        }
    )


def _digits(marks: Marks) -> str:
    return (np.asarray(marks, np.uint8) + ord("0")).tobytes().decode("ascii")


def _colours(report: TimelineReport) -> list[str]:
    """Return stops of cividis: perceptually uniform, and the same to the colour-blind."""
    if not report.heats:
        return []
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colour) for colour in colormaps["cividis"].resampled(_STOPS)(range(_STOPS))]


@dataclass(frozen=True)
class ListedReport:
    """A timeline in the list."""

    file: str  # its path beside the list, with slashes
    title: str
    machine: str
    versions: int
    operations: int
    #: fails, changes, unstable: how many operations have a version judged fail, a lasting change, or too much
    #: noise
    fails: int
    changes: int
    unstable: int

    @property
    def href(self) -> str:
        """Its quoted, relative reference."""
        return link(self.file)


def contents(listed: Sequence[ListedReport]) -> str:
    """Return the list as one HTML text without scripts; where most has to be looked at comes first."""
    ordered = sorted(
        listed, key=lambda one: (-one.fails, -one.changes, -one.unstable, one.title, one.machine)
    )
    return render("timelines/contents.html", listed=ordered)


UNSURE, FAIL, INVALID = 2, 3, 4
_MEDIAN = 2


@dataclass(frozen=True)
class Finding:
    """What one operation's chart shows, in words."""

    number: int  # index of the operation in the report
    operation: TimelineOperation
    #: as a share, the greatest loss of its lasting changes, or, if that is more, the usual one beside the
    #: baseline of the versions judged fail
    severity: float
    worse: tuple[str, ...]  # worse, better: its lasting changes, the greatest first
    better: tuple[str, ...]
    verdicts: str  # which versions were judged fail; empty if none was
    marked: bool  # whether a verdict is unsure or fail, or something changed for good

    @property
    def bad(self) -> bool:
        """Whether it belongs to what to look at first."""
        return bool(self.worse or self.verdicts)

    @property
    def much(self) -> str:
        """How much worse it became, in words."""
        return moved(-self.severity) if self.severity > 0 else "not worse in the median"

    @property
    def gain(self) -> float:
        """The greatest lasting change for the better, as a share."""
        return max((change.share for change in self.operation.changes), default=0.0)

    @property
    def words(self) -> str:
        """All of it in one line."""
        line = "; ".join(filter(None, [self.listed("worse"), self.listed("better"), self.verdicts]))
        return line[:1].upper() + line[1:]

    def listed(self, which: Literal["worse", "better"]) -> str:
        """Name the greatest few of its lasting changes."""
        return some(getattr(self, which), between="; ")


def findings(report: TimelineReport) -> list[Finding]:
    """Return a finding per operation, in the report's order."""
    return [_finding(report, number, one) for number, one in enumerate(report.operations)]


def worst(found: Sequence[Finding]) -> list[Finding]:
    """Return those that got worse, the worst first."""
    return sorted((one for one in found if one.bad), key=lambda one: -one.severity)


def gained(found: Sequence[Finding]) -> list[Finding]:
    """Return those that became better for good, the greatest gain first."""
    return sorted((one for one in found if one.better), key=lambda one: -one.gain)


def shaky(found: Sequence[Finding]) -> list[Finding]:
    """Return the unstable ones, the most unstable first."""
    unstable = (one for one in found if one.operation.unstable)
    return sorted(unstable, key=lambda one: -np.nan_to_num(one.operation.instability))


def ranked(found: Sequence[Finding]) -> list[int]:
    """Return each operation's place when the worst come first, then what has marks, then the others."""
    order = sorted(
        range(len(found)), key=lambda at: (not found[at].bad, -found[at].severity, not found[at].marked)
    )
    return np.argsort(order).tolist()


def losses(operation: TimelineOperation, baseline: int) -> Floats:
    """Return how much worse each version's featured median is than the baseline's, as a share."""
    medians = operation.five[operation.featured, :, _MEDIAN]
    with np.errstate(divide="ignore", invalid="ignore"):
        change = medians / medians[baseline] - 1
    return change if operation.better == "lower" else -change


def _finding(report: TimelineReport, number: int, operation: TimelineOperation) -> Finding:
    changes = sorted(operation.changes, key=lambda change: -abs(change.share))
    many = len(operation.threads)
    bad = tuple(told(change, report.versions, many) for change in changes if change.share < 0)
    good = tuple(told(change, report.versions, many) for change in changes if change.share >= 0)
    both = operation.against_baseline, operation.against_before
    fails = (both[0] == FAIL) | (both[1] == FAIL)
    lost = losses(operation, report.baseline)[fails]
    known = lost[np.isfinite(lost)]
    usual = float(np.median(known)) if known.size else 0.0
    severity = max(0.0, usual, *(-change.share for change in changes))
    marked = bool(changes) or any(np.isin(one, (UNSURE, FAIL)).any() for one in both)
    return Finding(number, operation, severity, bad, good, _verdicts(report, operation), marked)


def _verdicts(report: TimelineReport, operation: TimelineOperation) -> str:
    began, below = _named(report, operation.against_before), _named(report, operation.against_baseline)
    told_of = [f"began with {some(began)}"] if began else []
    if below:
        sure = np.nanmax(np.append(operation.probability[operation.against_baseline == FAIL], -1))
        likely = f", the surest with {percent(float(sure))}" if sure >= 0 else ""
        told_of += [f"{counted(len(below), 'version')} worse than the baseline ({some(below, 1)}{likely})"]
    return "judged fail: " + "; ".join(told_of) if told_of else ""


def _named(report: TimelineReport, marks: Marks) -> list[str]:
    return [report.versions[at].name for at in np.flatnonzero(marks == FAIL)]


def page(report: TimelineReport) -> str:
    """Return a timeline as one self-contained HTML text.

    Seed 000, section 5.1 and figure 5.1: the rules, per benchmark a chart per operation and the table of
    medians of the featured configuration; before them what to look at first.
    """
    found, texts = findings(report), scripts()
    sections: dict[str, list[Finding]] = {}
    for one in found:
        sections.setdefault(one.operation.benchmark, []).append(one)
    versions = [(one.name, one.measured_at or "", link(one.source)) for one in report.versions]
    return render(
        "timelines/page.html",
        report=report,
        sections=sections,
        bad=worst(found),
        good=gained(found),
        unstable=shaky(found),
        ranks=ranked(found),
        configurations=sorted({threads for one in report.operations for threads in one.threads}),
        shared=embedded({"versions": versions, "baseline": report.baseline, "colours": _colours(report)}),
        data=[operation_data(one) for one in report.operations],
        heats=[_heat(report, heat) for heat in report.heats],
        scripts=texts,
        policy=policy(texts),
    )


def _heat(report: TimelineReport, heat: HeatMap) -> dict[str, object]:
    """Return a heat map, the data of its chart, and its summary, for the template."""
    numbers = {"seconds": packed(heat.seconds), "values": packed(heat.values)}
    return {
        "heat": heat,
        "data": embedded(numbers | {"title": heat.title, "rows": heat.rows, "unit": heat.unit}),
        "words": summary(heat),
        "version": report.versions[heat.version].name,
        "href": link(heat.source),
    }


def summary(heat: HeatMap) -> str:
    """Say what a heat map shows: its range, and which rows are highest and lowest on the whole."""
    known = np.isfinite(heat.values)
    counts = known.sum(axis=1)
    if not counts.any():
        return "No sample is known."
    sums = np.where(known, heat.values, 0).sum(axis=1)
    means = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    high, low = int(np.nanargmax(means)), int(np.nanargmin(means))
    return (
        f"{len(heat.rows):,} rows over {amount(float(heat.seconds[-1] - heat.seconds[0]))} seconds, from "
        f"{amount(float(np.nanmin(heat.values)))} to {amount(float(np.nanmax(heat.values)))} {heat.unit}. "
        f"On the whole, {heat.rows[high]} is highest with {amount(float(means[high]))}, "
        f"{heat.rows[low]} lowest with {amount(float(means[low]))}."
    )
