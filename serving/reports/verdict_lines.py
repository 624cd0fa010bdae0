"""Verdicts of any family as lines of a table: for a terminal, in Markdown, as JUnit XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count, groupby
from typing import TYPE_CHECKING, Any, Literal

from data.errors import one_line, visible
from serving.reports.text_tables import cell, printed, prose, shown

if TYPE_CHECKING:
    from rich.table import Table

Answer = Literal["pass", "fail", "unsure", "invalid"]
#: Verdicts in descending order of urgency.
ANSWERS: tuple[Answer, ...] = ("fail", "unsure", "invalid", "pass")
_MARK = {"fail": "red", "unsure": "magenta", "pass": "green", "invalid": "yellow"}
#: Verdicts that JUnit XML marks as skipped, for a person to review.
_SKIPPED = ("unsure", "invalid")


@dataclass(frozen=True)
class VerdictLine:
    """One verdict in words.

    Attributes
    ----------
    probability : float or None
        Probability of a regression; None where the verdict is invalid.
    suite, name : str
        The group, such as a benchmark, and the judged case.
    why : str
        The evidence for the verdict, or why it is missing.
    notes : tuple of str
        Remarks, one line each; only JUnit XML shows them per verdict.
    which : str
        Distinguishes verdicts with equal suite and name; shown only if there are any.
    excused : str
        Why JUnit XML does not report a ``fail`` as a failure; empty: it does.
    """

    verdict: Answer
    probability: float | None
    suite: str
    name: str
    why: str
    notes: tuple[str, ...] = ()
    which: str = ""
    excused: str = ""

    @property
    def failed(self) -> bool:
        """Whether it is a failure."""
        return self.verdict == "fail" and not self.excused

    @property
    def chance(self) -> str:
        """The probability as text."""
        return "" if self.probability is None else f"{self.probability:.3f}"


@dataclass(frozen=True)
class Lines:
    """Verdicts, the headings of their last three columns, a summary and notes.

    Attributes
    ----------
    summary : str
        One line.
    notes : tuple of str
        Further lines, one each.
    general : tuple of str
        The notes that apply to all rows.
    """

    rows: Sequence[VerdictLine]
    headings: tuple[str, str, str]
    summary: str
    notes: tuple[str, ...] = ()
    general: tuple[str, ...] = ()

    def count(self, answer: Answer) -> int:
        """Return how many lines have this verdict."""
        return sum(row.verdict == answer for row in self.rows)

    @cached_property
    def alike(self) -> frozenset[tuple[str, str]]:
        """Suites and names that several rows share."""
        found = Counter((row.suite, row.name) for row in self.rows)
        return frozenset(names for names, number in found.items() if number > 1)

    @property
    def columns(self) -> tuple[str, ...]:
        """The headings of what `cells` returns."""
        suite, name, why = self.headings
        return (suite, name, "comparison", why) if self.alike else self.headings

    def cells(self, row: VerdictLine) -> tuple[str, ...]:
        """Return the text cells of a row; they include `which` where rows would look equal."""
        return (row.suite, row.name, *((row.which,) if self.alike else ()), row.why)


def as_plain(lines: Lines, *, terminal: bool = False) -> str:
    """Return the verdicts as a table for this terminal, or as a wide one without colours."""
    return printed(_table(lines), terminal=terminal) + "".join(f"{one_line(note)}\n" for note in lines.notes)


def as_markdown(lines: Lines) -> str:
    """Return the verdicts as a Markdown table, the regressions first."""
    told = [
        prose(lines.summary),
        "",
        f"| verdict | probability | {' | '.join(map(cell, lines.columns))} |",
        f"| --- | ---: |{' --- |' * len(lines.columns)}",
    ]
    for row in sorted(lines.rows, key=lambda row: ANSWERS.index(row.verdict)):
        verdict = row.verdict if row.verdict == "pass" else f"**{row.verdict}**"
        told.append(f"| {verdict} | {row.chance} | {' | '.join(map(cell, lines.cells(row)))} |")
    if lines.notes:
        told += ["", *(f"- {prose(note)}" for note in lines.notes)]
    return "\n".join(told) + "\n"


def as_junit(lines: Lines) -> str:
    """Return JUnit XML: a regression fails, what is unsure or invalid is skipped, notes are printed."""
    from lxml import etree

    root = etree.Element("testsuites", name="perfjudge", tests=str(len(lines.rows)))
    root.set("failures", str(sum(row.failed for row in lines.rows)))
    ordered = sorted(lines.rows, key=lambda row: row.suite)
    for name, group in groupby(ordered, key=lambda row: row.suite):
        rows = list(group)
        suite = etree.SubElement(root, "testsuite", name=visible(name), tests=str(len(rows)))
        suite.set("failures", str(sum(row.failed for row in rows)))
        suite.set("errors", "0")
        suite.set("skipped", str(sum(_skipped(row) for row in rows)))
        about = etree.SubElement(suite, "properties")
        etree.SubElement(about, "property", name="perfjudge", value=visible(lines.summary))
        for row, case in zip(rows, _case_names(rows, lines.alike), strict=True):
            _case(etree, suite, row, case)
        _output(etree, suite, lines.general)
    text: bytes = etree.tostring(root, pretty_print=True, xml_declaration=True, encoding="UTF-8")
    return text.decode()


def _table(lines: Lines) -> Table:
    from rich.table import Column, Table

    headings = (Column(shown(name)) for name in lines.columns)
    table = Table("verdict", "probability", *headings, caption=shown(lines.summary))
    for row in lines.rows:
        table.add_row(shown(row.verdict, _MARK[row.verdict]), row.chance, *map(shown, lines.cells(row)))
    return table


def _case_names(rows: Sequence[VerdictLine], alike: Collection[tuple[str, str]]) -> Iterator[str]:
    """Yield a name for every row of a suite; CI systems merge those that are the same."""
    taken: set[str] = set()
    for row in rows:
        which = f" [{row.which}]" if row.which and (row.suite, row.name) in alike else ""
        name = visible(f"{row.name}{which}")
        tries = chain((name,), (f"{name} #{number}" for number in count(2)))
        taken.add(free := next(one for one in tries if one not in taken))
        yield free


def _case(etree: Any, suite: Any, row: VerdictLine, name: str) -> None:
    case = etree.SubElement(suite, "testcase", classname=visible(row.suite), name=name)
    if row.failed:
        message = f"regression with probability {row.chance}"
        etree.SubElement(case, "failure", type="regression", message=message).text = visible(row.why)
    elif _skipped(row):
        told = f"unsure, regression with probability {row.chance}: " if row.verdict == "unsure" else ""
        etree.SubElement(case, "skipped", message=visible(f"{told}{row.why}"))
    _output(etree, case, row.notes)


def _skipped(row: VerdictLine) -> bool:
    return row.verdict in _SKIPPED or bool(row.excused)


def _output(etree: Any, parent: Any, notes: Sequence[str]) -> None:
    if notes:
        etree.SubElement(parent, "system-out").text = visible("\n".join(notes))
