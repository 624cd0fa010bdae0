"""Verdicts of any family as a table for a terminal, in Markdown, or as JUnit XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count, groupby
from typing import Any, Literal

from data.errors import escape_invisible, one_line
from serving.reports.text_tables import markdown_cell, markdown_line, rich_text, table_text

Answer = Literal["pass", "fail", "unsure", "invalid"]
#: Verdicts in descending order of urgency.
ANSWERS: tuple[Answer, ...] = ("fail", "unsure", "invalid", "pass")
_MARK = {"fail": "red", "unsure": "magenta", "pass": "green", "invalid": "yellow"}


@dataclass(frozen=True)
class VerdictLine:
    """One verdict as text; `probability` of a regression is None if it is invalid.

    `suite`, `name`: the group, such as a benchmark, and the judged case.
    `reason`: the evidence for the verdict, or why it is missing.
    `notes`: remarks of one line; only JUnit XML shows them per verdict.
    `which`: distinguishes verdicts with equal suite and name; shown only if such verdicts exist.
    `details`: further evidence; Markdown folds it, other forms add it to the reason.
    `excused`: why JUnit XML does not report a ``fail`` as a failure; empty: it does.
    """

    verdict: Answer
    probability: float | None
    suite: str
    name: str
    reason: str
    notes: tuple[str, ...] = ()
    which: str = ""
    excused: str = ""
    details: tuple[str, ...] = ()

    @property
    def is_failure(self) -> bool:
        """Whether JUnit XML reports a failure."""
        return self.verdict == "fail" and not self.excused

    @property
    def full_reason(self) -> str:
        """The reason and the details."""
        return "; ".join((self.reason, *self.details))

    @property
    def chance(self) -> str:
        """The probability with three decimals; empty if None."""
        return "" if self.probability is None else f"{self.probability:.3f}"


@dataclass(frozen=True)
class VerdictTable:
    """Verdicts, the headings of suite, name and evidence, a summary line, and notes of one line each.

    `general` holds the notes that apply to all rows.
    """

    rows: Sequence[VerdictLine]
    headings: tuple[str, str, str]
    summary: str
    notes: tuple[str, ...] = ()
    general: tuple[str, ...] = ()

    @cached_property
    def shared_names(self) -> frozenset[tuple[str, str]]:
        """Suites and names that several rows share."""
        rows = Counter((row.suite, row.name) for row in self.rows)
        return frozenset(names for names, number in rows.items() if number > 1)

    @property
    def cell_headings(self) -> tuple[str, ...]:
        """The headings of `row_cells`: suite, name, ``comparison`` if rows share suite and name, evidence."""
        suite, name, reason = self.headings
        return (suite, name, "comparison", reason) if self.shared_names else self.headings

    def row_cells(self, row: VerdictLine, *, details: bool = False) -> tuple[str, ...]:
        """Return the text cells of a row, with `which` if rows share suite and name.

        `details`: add the details to the reason.
        """
        reason = row.full_reason if details else row.reason
        return (row.suite, row.name, *((row.which,) if self.shared_names else ()), reason)


def as_plain(lines: VerdictTable, *, terminal: bool = False) -> str:
    """Return a text table of the verdicts, in their order, with the summary and the notes below.

    `terminal`: in the colours and width of this terminal; else at most 180 characters wide and without
    colours.
    """
    from rich.table import Column, Table

    headings = (Column(rich_text(name)) for name in lines.cell_headings)
    table = Table("verdict", "probability", *headings, caption=rich_text(lines.summary))
    for row in lines.rows:
        cells = map(rich_text, lines.row_cells(row, details=True))
        table.add_row(rich_text(row.verdict, _MARK[row.verdict]), row.chance, *cells)
    return table_text(table, terminal=terminal) + "".join(f"{one_line(note)}\n" for note in lines.notes)


def as_markdown(lines: VerdictTable) -> str:
    """Return the verdicts as a Markdown table below a summary, followed by folded details and the notes.

    Rows are in the order fail, unsure, invalid, pass, and within each in the given order.
    """
    parts = [
        markdown_line(lines.summary),
        "",
        f"| verdict | probability | {' | '.join(map(markdown_cell, lines.cell_headings))} |",
        f"| --- | ---: |{' --- |' * len(lines.cell_headings)}",
    ]
    for row in sorted(lines.rows, key=lambda row: ANSWERS.index(row.verdict)):
        verdict = row.verdict if row.verdict == "pass" else f"**{row.verdict}**"
        parts.append(f"| {verdict} | {row.chance} | {' | '.join(map(markdown_cell, lines.row_cells(row)))} |")
    explained = [row for row in lines.rows if row.details]
    if explained:
        parts += ["", "<details><summary>Why</summary>", ""]
        for row in explained:
            name = " ".join(filter(None, (row.suite, row.name, row.which if lines.shared_names else "")))
            parts.append(f"- **{markdown_line(name)}**: {row.verdict}")
            parts += [f"  - {markdown_line(text)}" for text in row.details]
        parts += ["", "</details>"]
    if lines.notes:
        parts += ["", *(f"- {markdown_line(note)}" for note in lines.notes)]
    return "\n".join(parts) + "\n"


def as_junit(lines: VerdictTable) -> str:
    """Return JUnit XML with a suite per benchmark or other group, sorted by name; cases keep their order.

    Unsure, invalid and excused verdicts are skipped. Cases of a suite get distinct names. Output is a row's
    ``notes`` for its case, and ``general`` for each suite; the ``notes`` of the table are left out.
    """
    from lxml import etree

    root = etree.Element("testsuites", name="perfjudge", tests=str(len(lines.rows)))
    root.set("failures", str(sum(row.is_failure for row in lines.rows)))
    ordered = sorted(lines.rows, key=lambda row: row.suite)
    for name, group in groupby(ordered, key=lambda row: row.suite):
        rows = list(group)
        suite = etree.SubElement(root, "testsuite", name=escape_invisible(name), tests=str(len(rows)))
        suite.set("failures", str(sum(row.is_failure for row in rows)))
        suite.set("errors", "0")
        suite.set("skipped", str(sum(_is_skipped(row) for row in rows)))
        about = etree.SubElement(suite, "properties")
        etree.SubElement(about, "property", name="perfjudge", value=escape_invisible(lines.summary))
        for row, case in zip(rows, _case_names(rows, lines.shared_names), strict=True):
            _add_case(etree, suite, row, case)
        _add_output(etree, suite, lines.general)
    return etree.tostring(root, pretty_print=True, xml_declaration=True, encoding="UTF-8").decode()


def _case_names(rows: Sequence[VerdictLine], alike: Collection[tuple[str, str]]) -> Iterator[str]:
    """Yield a distinct name for every row of a suite; CI systems merge cases with equal names."""
    taken: set[str] = set()
    for row in rows:
        which = f" [{row.which}]" if row.which and (row.suite, row.name) in alike else ""
        name = escape_invisible(f"{row.name}{which}")
        candidates = chain((name,), (f"{name} #{number}" for number in count(2)))
        taken.add(free := next(candidate for candidate in candidates if candidate not in taken))
        yield free


def _add_case(etree: Any, suite: Any, row: VerdictLine, name: str) -> None:
    case = etree.SubElement(suite, "testcase", classname=escape_invisible(row.suite), name=name)
    reason = escape_invisible(row.full_reason)
    # values that were 0 have no probability
    chance = f"regression with probability {row.chance}" if row.chance else ""
    if row.is_failure:
        etree.SubElement(case, "failure", type="regression", message=chance or reason).text = reason
    elif _is_skipped(row):
        prefix = f"{', '.join(filter(None, ('unsure', chance)))}: " if row.verdict == "unsure" else ""
        etree.SubElement(case, "skipped", message=f"{prefix}{reason}")
    _add_output(etree, case, row.notes)


def _is_skipped(row: VerdictLine) -> bool:
    return row.verdict in {"unsure", "invalid"} or bool(row.excused)


def _add_output(etree: Any, parent: Any, notes: Sequence[str]) -> None:
    if notes:
        etree.SubElement(parent, "system-out").text = escape_invisible("\n".join(notes))
