"""Rows of a comparison of two sides, as a table, Markdown, HTML, JUnit XML, JSON and annotations."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib.resources import files
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from data.comparisons.pair import MatchedOperations, Missing, list_names, number_with_noun
from data.comparisons.pair import describe_missing as missing_notes
from data.comparisons.sides import Sides
from data.comparisons.tables import ComparisonTables, comparison_units
from data.comparisons.units import readable_unit
from data.errors import InputError, escape_invisible, one_line
from serving.comparisons import render
from serving.comparisons.boxes import BoxDrawing
from serving.comparisons.compare.acknowledging import Excuse
from serving.comparisons.compare.weighing import AdjustedJudgement, Outcome, outcome_of, outcomes_from_zero
from serving.comparisons.explain.features import percent
from serving.comparisons.explain.sentences import describe_change
from serving.comparisons.judge import Judgement, Move, Verdict
from serving.reports.text_tables import markdown_cell, markdown_line, rich_text, table_text
from serving.reports.verdict_lines import Answer, VerdictLine, VerdictTable, as_junit


class OutcomeForm(NamedTuple):
    """How an outcome is shown."""

    plural: str
    colour: str  # in a terminal
    answer: Answer  # in a test report
    annotation: str  # its kind of GitHub annotation; empty: none


#: In descending order of urgency.
OUTCOMES: dict[Outcome, OutcomeForm] = {
    "regression": OutcomeForm("regressions", "red", "fail", "error"),
    "unsure": OutcomeForm("unsure", "magenta", "unsure", "warning"),
    "improvement": OutcomeForm("improvements", "cyan", "pass", "notice"),
    "acknowledged": OutcomeForm("acknowledged", "yellow", "fail", "notice"),
    "invalid": OutcomeForm("invalid", "yellow", "invalid", ""),
    "within_noise": OutcomeForm("within noise", "green", "pass", ""),
    "unchanged": OutcomeForm("unchanged", "green", "pass", ""),
}
#: Outcomes that need no attention.
QUIET: tuple[Outcome, ...] = ("within_noise", "unchanged")
#: Columns of tables; the third and the fourth are left out where they do not distinguish rows.
_HEADINGS = (
    "outcome", "operation", "comparison", "configuration", "baseline", "target", "change (95 % interval)",
    "detectable", "P(fail)", "reason",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ComparedRow:
    """One comparison, adjusted for between-run variation and acknowledgements."""

    outcome: Outcome
    judged: str  # the model's verdict
    verdict: Verdict
    machine: str
    unit: str
    versions: str
    move: Move | None  # the largest improvement of an improvement, else the worst change
    excuse: Excuse | None  # why it need not fail a build
    interval: tuple[float, float]  # of 95 %, of the change as a share (negative is worse); NaN if unknown
    detectable: float  # the smallest slow-down that is found with 80 % probability, as a share; NaN: unknown
    matched: str = ""  # the target's name of the operation, if it differs

    @property
    def operation_names(self) -> str:
        """The operation, such as ``sort``, or ``old -> new`` if the target has another name for it."""
        return f"{self.verdict.operation} -> {self.matched}" if self.matched else self.verdict.operation

    @property
    def shown_probability(self) -> str:
        """The probability of a regression with three decimals; empty if the model did not decide."""
        model_decided = self.outcome != "within_noise" or self.verdict.decided_by == "model"
        probability = self.verdict.probability if model_decided else None
        return "" if probability is None else f"{probability:.3f}"

    @property
    def full_name(self) -> str:
        """Benchmark and operation with a slash between them."""
        return f"{self.verdict.benchmark}/{self.operation_names}"

    @property
    def median_texts(self) -> tuple[str, str]:
        """Baseline's and target's median in a readable unit, such as ``217 us``; empty if unknown."""
        if self.move is None:
            return "", ""
        medians = self.move.baseline_median, self.move.target_median
        unit, factor = readable_unit(min(medians, key=abs), self.unit)
        before, after = (f"{value * factor:.4g} {unit}".rstrip() for value in medians)
        return before, after

    @property
    def medians_text(self) -> str:
        """Both `median_texts` with an arrow between them; empty if unknown."""
        return " -> ".join(filter(None, self.median_texts))

    @property
    def change_text(self) -> str:
        """The change of the median in percent and in words, such as ``7.1 % slower``; empty if unknown."""
        if self.move is None:
            return ""
        return describe_change(self.move.change, self.verdict.explanations.direction(self.verdict.row))

    @property
    def interval_text(self) -> str:
        """The change with its interval of 95 %, such as ``7.1 % slower (6.9 to 8.2)``; negative is better."""
        low, high = (100 * limit for limit in self.interval)
        return self.change_text if math.isnan(low) else f"{self.change_text} ({-high:.1f} to {-low:.1f})"

    @property
    def configuration_text(self) -> str:
        """The configuration of `move`, such as ``4 threads``; empty if unknown."""
        return "" if self.move is None else number_with_noun(self.move.threads, "thread")

    @property
    def reason(self) -> str:
        """The reason of the outcome in one sentence of at most 15 words."""
        if self.excuse is not None:
            return self.excuse.summary
        if self.outcome == "improvement" and self.move != self.verdict.moved:
            return f"{self.change_text} at {self.configuration_text}"
        return self.verdict.reason


@dataclass(frozen=True, kw_only=True)
class ComparedSides:
    """The result of a comparison of two sides."""

    rows: tuple[ComparedRow, ...]  # in the order of the comparisons
    weighed: AdjustedJudgement
    tables: ComparisonTables
    missing: tuple[Missing, ...]
    sides: tuple[str, str]  # names of the two
    notes: tuple[str, ...]

    @cached_property
    def ordered_rows(self) -> Sequence[ComparedRow]:
        """The rows by outcome, in the order of `OUTCOMES`; within one outcome, the largest change first."""
        kinds = list(OUTCOMES)
        return sorted(
            self.rows, key=lambda row: (kinds.index(row.outcome), -abs(row.move.change) if row.move else 0.0)
        )

    @cached_property
    def outcome_counts(self) -> Counter[Outcome]:
        """The number of rows by outcome."""
        return Counter(row.outcome for row in self.rows)

    @property
    def summary(self) -> str:
        """The number of rows by outcome, such as ``2 regressions, 5 unchanged of 7 comparisons``."""
        counts = [
            f"{number} {OUTCOMES[kind].plural if number > 1 else kind.replace('_', ' ')}"
            for kind in OUTCOMES
            if (number := self.outcome_counts[kind])
        ]
        return f"{', '.join(counts)} of {number_with_noun(len(self.rows), 'comparison')}"

    @property
    def judgement(self) -> Judgement:
        """The verdicts, those on values from or to 0 by their outcome."""
        verdicts = [row.verdict._replace(verdict=OUTCOMES[row.outcome].answer) for row in self.rows]
        answers = np.array([verdict.verdict for verdict in verdicts])
        return replace(self.weighed.judgement, answers=answers, iterate_verdicts=lambda: verdicts)

    @property
    def verdict_summary(self) -> str:
        """The number of rows by verdict, as shown, and the model: see `render.judgement_summary`."""
        return render.judgement_summary(self.judgement)

    @cached_property
    def distinguishing_names(self) -> dict[str, str]:
        """Machine and versions of each comparison by its id, as far as they differ between rows."""
        columns = [row.machine for row in self.rows], [row.versions for row in self.rows]
        varying = [column for column in columns if len(set(column)) > 1]
        names = map(", ".join, zip(*varying, strict=True)) if varying else repeat("")
        return dict(zip((row.verdict.comparison_id for row in self.rows), names, strict=False))

    @cached_property
    def headings(self) -> Sequence[str]:
        """The headings of the columns of a table of the rows."""
        is_shown = {
            "comparison": any(self.distinguishing_names.values()),
            "configuration": (self.tables.results["threads"] > 1).any(),
        }
        return [heading for heading in _HEADINGS if is_shown.get(heading, True)]

    def row_cells(self, row: ComparedRow) -> dict[str, str]:
        """Return the texts of a row by `headings`, in their order."""
        name, medians = self.distinguishing_names[row.verdict.comparison_id], row.median_texts
        texts = (
            row.outcome.replace("_", " "), row.full_name, name, row.configuration_text, *medians,
            row.interval_text, "" if math.isnan(row.detectable) else percent(row.detectable),
            row.shown_probability, row.reason,
        )  # fmt: skip
        cells = dict(zip(_HEADINGS, texts, strict=True))
        return {heading: cells[heading] for heading in self.headings}


def compared_rows(
    weighed: AdjustedJudgement,
    tables: ComparisonTables,
    spans: Sequence[str],
    excuses: Sequence[Excuse | None],
    matched: MatchedOperations,
) -> Iterator[ComparedRow]:
    """Yield a `ComparedRow` for each comparison of `tables`, in their order.

    Its ``move`` is the largest improvement of an improved comparison, else the worst change. `weighed`: the
    verdicts. `spans`: the versions of each comparison, such as ``v1 -> v2``. `excuses`: why a comparison need
    not fail a build, or None; one per comparison. `matched`: operations with another name in the target.
    """
    machines, units = tables.comparisons["machine"], comparison_units(tables)
    columns = zip(weighed.judgement.verdicts, units, spans, machines, excuses, strict=True)
    from_zero, changes = outcomes_from_zero(tables), weighed.changes
    for row, (verdict, unit, span, machine, excuse) in enumerate(columns):
        outcome = from_zero.get(row) or outcome_of(verdict, row, weighed)
        if outcome == "regression" and excuse is not None:
            outcome = "acknowledged"
        yield ComparedRow(
            outcome=outcome,
            judged=str(weighed.judged[row]),
            verdict=verdict,
            machine=machine,
            unit="" if unit == "unknown" else unit,
            versions=span,
            move=weighed.faster.get(row, verdict.moved),
            excuse=None if outcome in {"invalid", "improvement"} else excuse,
            interval=(float(changes.low[row]), float(changes.high[row])),
            detectable=float(changes.detectable[row]),
            matched=matched.name_in_target(verdict.benchmark, verdict.operation),
        )


#: Most characters of a comment: GitHub accepts 65,536; less important rows are left out of longer ones.
_LONGEST = 60_000


def as_comment(compared: ComparedSides, name: str) -> str:
    """Return a comment in Markdown: a table of the rows that need attention, and a folded one of the others.

    The others are within noise or unchanged. Both tables are sorted by outcome, regressions first, then by
    size of the change. Parts that only one side has, notes, details and a summary are added. The first line
    is a marker by which the next comment of this `name` finds and replaces this one. Beyond about 60,000
    characters (first table: 30,000), rows are only counted, details omitted.
    """
    urgent = [row for row in compared.ordered_rows if row.outcome not in QUIET]
    quiet = compared.ordered_rows[len(urgent) :]
    counts = compared.outcome_counts
    marker = f"<!-- perfjudge compare {escape_invisible(' '.join(name.replace('--', '').split()))} -->"
    lines = [marker, f"### perfjudge: {compared.summary}", ""]
    lines += _markdown_rows(compared, urgent, _LONGEST // 2)
    # operations of only one side are listed first, instead of their notes
    for side, heading in (("baseline", "vanished"), ("target", "new")):
        names = [str(missing) for missing in compared.missing if missing.only_in == side]
        lines += [f"- {markdown_line(f'{heading}: {list_names(names)}')}"] if names else []
    excluded = {*missing_notes(compared.missing, compared.sides)}
    lines += [f"- {markdown_line(note)}" for note in compared.notes if note not in excluded]
    if quiet:
        table = _markdown_rows(compared, quiet, _LONGEST - sum(len(line) + 1 for line in lines))
        numbers = [f"{counts[kind]} {OUTCOMES[kind].plural}" for kind in QUIET if counts[kind]]
        lines += ["", f"<details><summary>{', '.join(numbers)}</summary>", "", *table, "", "</details>"]
    lines += _markdown_details(urgent, _LONGEST - sum(len(line) + 1 for line in lines))
    summary = markdown_line(compared.verdict_summary)
    return "\n".join([*lines, "", f"<sub>{summary}</sub>"]) + "\n"


def _markdown_rows(compared: ComparedSides, rows: Sequence[ComparedRow], room: int) -> list[str]:
    """Return the lines of a table of as many rows as fit into `room` characters, and the number left out."""
    if not rows:
        return []
    headings = compared.headings
    lines = [f"| {' | '.join(headings)} |", f"|{' --- |' * len(headings)}"]
    for number, row in enumerate(rows):
        outcome, *others = map(markdown_cell, compared.row_cells(row).values())
        line = f"| {outcome if row.outcome in QUIET else f'**{outcome}**'} | {' | '.join(others)} |"
        room -= len(line) + 1
        if room < 0:
            return [*lines, "", f"and {len(rows) - number} more", ""]
        lines.append(line)
    return [*lines, ""]


def _markdown_details(rows: Sequence[ComparedRow], room: int) -> list[str]:
    """Return the lines of a folded list of the rows' details, as many as fit into `room` characters."""
    lines = ["", "<details><summary>details</summary>", ""]
    for row in rows:
        line = f"- **{markdown_line(row.full_name)}**: {markdown_line('; '.join(row.verdict.details))}"
        room -= len(line) + 1
        if row.verdict.details and room > 0:
            lines.append(line)
    return [*lines, "", "</details>"] if len(lines) > 3 else []  # noqa: PLR2004 - the heading


def as_table(compared: ComparedSides, *, terminal: bool, explain: bool = False) -> str:
    """Return the rows, regressions first, as a text table with a summary, then the notes, one line each.

    `terminal`: in the width and colours of this terminal; else at most 180 characters wide, without colours.
    `explain`: with the details of each row that is neither within noise nor unchanged.
    """
    from rich.table import Table

    table, notes = Table(*compared.headings, caption=rich_text(compared.verdict_summary)), [*compared.notes]
    for row in compared.ordered_rows:
        outcome, *others = compared.row_cells(row).values()
        table.add_row(rich_text(outcome, OUTCOMES[row.outcome].colour), *map(rich_text, others))
        if explain and row.outcome not in QUIET:
            notes += [f"{row.full_name}: {phrase}" for phrase in row.verdict.details]
    return table_text(table, terminal=terminal) + "".join(f"{one_line(note)}\n" for note in notes)


def as_junit_xml(compared: ComparedSides) -> str:
    """Return JUnit XML: regressions fail; unsure, invalid and acknowledged rows are skipped; others pass.

    A suite per benchmark, sorted by name, has a case per row, regressions first.
    """
    rows = []
    for row in compared.ordered_rows:
        verdict, answer = row.verdict, OUTCOMES[row.outcome].answer
        head = answer, verdict.probability, verdict.benchmark, row.operation_names
        texts = filter(None, (row.change_text, row.medians_text, row.configuration_text, row.reason))
        which = compared.distinguishing_names[verdict.comparison_id] or verdict.comparison_id
        excused = "" if row.excuse is None else row.excuse.summary
        rows.append(VerdictLine(*head, "; ".join(texts), which=which, excused=excused))
    headings, notes = ("benchmark", "operation", "reasons"), compared.notes
    return as_junit(VerdictTable(rows, headings, compared.summary, notes, notes))


def as_compare_json(compared: ComparedSides) -> str:
    """Return a JSON object: that of `render.as_json` with explanations, and fields about comparisons of runs.

    Its schema is `serving.comparisons.schemas.CompareAnswer`. ``whole_run`` has only machines with five
    operations or more. ModelError if a contribution is not finite.
    """
    content = json.loads(render.as_json(compared.judgement))
    for verdict, row in zip(content["verdicts"], compared.rows, strict=True):
        verdict |= {
            "outcome": row.outcome,
            "model_verdict": row.judged,
            "machine": row.machine,
            "unit": row.unit,
            "versions": row.versions,
            "target_operation": row.matched or verdict["operation"],
            "reason": row.reason,
            "interval": None if math.isnan(row.interval[0]) else list(row.interval),
            "detectable_change": None if math.isnan(row.detectable) else row.detectable,
            "faster": row.move._asdict() if row.outcome == "improvement" and row.move else None,
            "acknowledged": None if row.excuse is None else asdict(row.excuse),
        }
    content["notes"] = list(compared.notes)
    content["missing"] = [{"kind": missing.part_kind, **asdict(missing)} for missing in compared.missing]
    content["counts"] = {kind: compared.outcome_counts[kind] for kind in OUTCOMES}
    content["whole_run"] = compared.weighed.whole
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


#: Annotations per kind and step that GitHub shows.
_MOST = 10


def github_annotations(compared: ComparedSides) -> Iterator[str]:
    """Yield GitHub annotations of rows and of vanished parts, each with its line break.

    First errors (regressions), then warnings (unsure rows, then machines, operations and configurations that
    only the baseline has), then notices (improvements, then acknowledged regressions); rows by size of
    change, the largest first. Other rows have none. Of more than 10 errors, 9 are yielded, then one with the
    number of the others; likewise of warnings and notices.
    """
    annotations: dict[str, list[str]] = {"error": [], "warning": [], "notice": []}
    for row in compared.ordered_rows:
        if kind := OUTCOMES[row.outcome].annotation:
            title = f"{row.outcome}: {row.full_name} {row.change_text}"
            message = "; ".join(filter(None, (row.medians_text, row.reason)))
            annotations[kind].append(_annotation_line(kind, title, message))
    vanished = (str(missing) for missing in compared.missing if missing.only_in == "baseline")
    annotations["warning"] += [_annotation_line("warning", "vanished", name) for name in vanished]
    for kind, lines in annotations.items():
        shown = lines if len(lines) <= _MOST else lines[: _MOST - 1]
        yield from shown
        if len(shown) < len(lines):
            yield _annotation_line(kind, "perfjudge", f"and {len(lines) - len(shown)} more")


def append_step_summary(text: str) -> None:
    """Append Markdown to the summary of this GitHub step, as it is: no line end is added.

    InputError outside a step (without the variable ``GITHUB_STEP_SUMMARY``) or if writing fails.
    """
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        problem = "the variable GITHUB_STEP_SUMMARY is not set; GitHub sets it in a step of a workflow"
        raise InputError(problem)
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as exc:
        raise InputError(exc.strerror or "cannot be written", file=path) from exc


def _annotation_line(kind: str, title: str, message: str) -> str:
    escaped = _escape_text(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} title={escaped}::{_escape_text(message)}\n"


def _escape_text(text: str) -> str:
    return "%0A".join(one_line(line).replace("%", "%25") for line in text.splitlines())


#: Most operations whose box plots are drawn: those that need attention, then the largest changes.
MOST_DRAWN = 200


def as_fragment(compared: ComparedSides, name: str) -> str:
    """Return HTML for inside an element: table, box plots of its first 200 rows, and a comment in Markdown.

    As in `as_page`, regressions come first, and the comment is marked with `name`.
    """
    from serving.reports import rendering

    return rendering.render("compare/answer.html", **_page_content(compared, name))


def as_page(compared: ComparedSides, name: str) -> str:
    """Return a self-contained HTML page: table, box plots of its first 200 rows, and a comment in Markdown.

    Rows are sorted by outcome, regressions first, then by size of the change, the largest first. The comment,
    to be copied into a pull request, is marked with `name`, by which the next comment of the same name
    replaces it.
    """
    from serving.reports import rendering

    copying = (files("serving.reports") / "templates/compare/copy.js").read_text(encoding="utf-8")
    scripts = [rendering.report_script(), Markup(copying)]  # noqa: S704 - a file of ours
    content = _page_content(compared, name) | {"policy": rendering.security_policy(scripts)}
    return rendering.render("compare/page.html", scripts=scripts, **content)


def _page_content(compared: ComparedSides, name: str) -> dict[str, Any]:
    headings = dict.fromkeys(["operation", *compared.headings])
    rows = [{"row": row, "cells": headings | compared.row_cells(row)} for row in compared.ordered_rows]
    return {
        "compared": compared,
        "headings": headings,
        "rows": rows,
        "drawn": list(_with_drawings(compared, rows[:MOST_DRAWN])),
        "markdown": as_comment(compared, name),
        "verdicts": compared.verdict_summary,
    }


def _with_drawings(compared: ComparedSides, rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table with what the macro ``boxes`` needs, and details if they need attention."""
    sides = Sides.from_tables(compared.tables)
    for shown in rows:
        # configurations are sorted by comparison
        row = shown["row"]
        first, stop = np.searchsorted(sides.comparison, row.verdict.row + np.arange(2)).tolist()
        yield shown | {
            "drawing": BoxDrawing.from_sides(sides, slice(first, stop)),
            "unit": row.unit,
            "better": "lower" if first < stop and sides.sign[first] < 0 else "higher",
            "details": () if row.outcome in QUIET else row.verdict.details,
        }
