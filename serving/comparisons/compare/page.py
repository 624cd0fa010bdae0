"""A comparison of two sides in HTML: table, box plots and Markdown, as a part of a page or a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
from markupsafe import Markup

from data.comparisons.sides import Sides
from serving.comparisons import render
from serving.comparisons.boxes import BoxDrawing
from serving.comparisons.compare.rows import QUIET, ComparedSides, as_comment
from serving.reports import rendering

#: Most operations whose box plots are drawn: those that need attention, then the largest changes.
MOST_DRAWN = 200


def as_fragment(compared: ComparedSides, name: str) -> str:
    """Return HTML for inside an element: table, box plots of its first 200 rows, and a comment in Markdown.

    As in `as_page`, regressions come first, and the comment is marked with `name`.
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
    headings = dict.fromkeys(["operation", *compared.headings])
    rows = [{"row": row, "cells": headings | compared.row_cells(row)} for row in compared.ordered_rows]
    return {
        "compared": compared,
        "headings": headings,
        "rows": rows,
        "drawn": list(_with_drawings(compared, rows[:MOST_DRAWN])),
        "markdown": as_comment(compared, name),
        "verdicts": render.judgement_summary(compared.weighed.judgement),
    }


def _with_drawings(compared: ComparedSides, rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table with what the macro ``boxes`` needs, and details if they need attention."""
    sides = Sides.from_tables(compared.tables)
    position = {id(row): place for place, row in enumerate(compared.rows)}
    for shown in rows:
        # configurations are sorted by comparison
        row = shown["row"]
        first, stop = np.searchsorted(sides.comparison, position[id(row)] + np.arange(2)).tolist()
        yield shown | {
            "drawing": BoxDrawing.from_sides(sides, slice(first, stop)),
            "unit": row.unit,
            "better": "lower" if first < stop and sides.sign[first] < 0 else "higher",
            "details": () if row.outcome in QUIET else row.verdict.details,
        }
