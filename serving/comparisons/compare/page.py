"""A comparison of two sides in HTML: table, box plots and Markdown, as a part of a page or a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from markupsafe import Markup

from data.comparisons.sides import Sides
from serving.comparisons import render
from serving.comparisons.boxes import BoxDrawing
from serving.comparisons.compare.rows import QUIET, ComparedRow, ComparedSides, as_comment
from serving.reports import rendering

#: Most operations whose box plots are drawn: those that need attention, then the largest changes.
MOST_DRAWN = 200


@dataclass(frozen=True)
class PageRow:
    """A row of the table."""

    row: ComparedRow
    cells: Mapping[str, str]  # by the heading of their column, the operation first

    @property
    def unit(self) -> str:
        """The unit of the samples; empty if unknown."""
        return self.row.unit


@dataclass(frozen=True)
class DrawnRow(PageRow):
    """A row of the table with its box plots."""

    drawing: BoxDrawing
    better: str  # "lower" or "higher"
    details: Sequence[str]  # of a row that needs attention


def as_fragment(compared: ComparedSides, name: str) -> str:
    """Return HTML for inside an element: table, box plots of its first 200 rows, and a comment in Markdown.

    Rows and `name` are as in `as_page`.
    """
    return rendering.render("compare/answer.html", **_page_content(compared, name))


def as_page(compared: ComparedSides, name: str) -> str:
    """Return a self-contained HTML page: table, box plots of its first 200 rows, and a comment in Markdown.

    Rows are sorted by outcome, regressions first, then by size of the change, the largest first. The comment,
    to be copied into a pull request, is marked with `name`, by which the next comment of the same name
    replaces it.
    """
    copying = (files("serving.reports") / "templates/compare/copy.js").read_text(encoding="utf-8")
    scripts = [rendering.report_script(), Markup(copying)]  # noqa: S704 - a file of ours
    content = _page_content(compared, name)
    return rendering.render(
        "compare/page.html", scripts=scripts, policy=rendering.security_policy(scripts), **content
    )


def _page_content(compared: ComparedSides, name: str) -> dict[str, Any]:
    headings = list(compared.cell_functions)
    order = ["operation", *(heading for heading in headings if heading != "operation")]
    rows = []
    for row in compared.ordered_rows:
        cells = dict(zip(headings, compared.row_cells(row), strict=True))
        rows.append(PageRow(row, {heading: cells[heading] for heading in order}))
    return {
        "compared": compared,
        "headings": order,
        "rows": rows,
        "drawn": _drawn_rows(compared, rows[:MOST_DRAWN]),
        "markdown": as_comment(compared, name),
        "verdicts": render.judgement_summary(compared.weighed.judgement),
    }


def _drawn_rows(compared: ComparedSides, rows: Sequence[PageRow]) -> list[DrawnRow]:
    sides = Sides.from_tables(compared.tables)
    position = {id(row): place for place, row in enumerate(compared.rows)}
    drawn = []
    for shown in rows:
        # configurations are sorted by comparison
        place, row = position[id(shown.row)], shown.row
        first, stop = np.searchsorted(sides.comparison, [place, place + 1]).tolist()
        better = "lower" if first < stop and sides.sign[first] < 0 else "higher"
        details = () if row.outcome in QUIET else row.details
        drawing = BoxDrawing.from_sides(sides, slice(first, stop))
        drawn.append(DrawnRow(row, shown.cells, drawing, better, details))
    return drawn
