"""Templates become pages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from lxml import html
from markupsafe import Markup, escape

from data.errors import visible
from serving.reports.charts import counted, figures, percent, plain, whole


def stacked(table: str) -> Markup:
    """Return a ``table`` element whose cells have the names of their columns, for the style sheet.

    Cells of the body that are not headings get ``data-label``, and the table the class ``stacked``. Column
    names of
    several rows, with ``colspan`` and ``rowspan``, are joined.
    """
    root: Any = html.fragment_fromstring(table.strip())
    root.classes.add("stacked")
    names = _names(root.xpath("./thead/tr"))
    for row in root.xpath("./tbody/tr"):
        for place, cell in _placed(row):
            named = place < len(names) and names[place] and cell.get("colspan") is None
            if cell.tag == "td" and named and "data-label" not in cell.attrib:
                cell.set("data-label", names[place])
    return Markup(html.tostring(root, encoding="unicode"))  # noqa: S704 - it was markup, and is parsed


def _placed(row: Any) -> Sequence[tuple[int, Any]]:
    """Return the cells of a row, each with the number of its first column."""
    place, placed = 0, []
    for cell in row.xpath("./th|./td"):
        placed.append((place, cell))
        place += int(cell.get("colspan", 1))
    return placed


def _names(heads: Sequence[Any]) -> list[str]:
    """Return the name of every column, from top to bottom."""
    grid: dict[tuple[int, int], str] = {}
    for down, row in enumerate(heads):
        across = 0
        for cell in row.xpath("./th|./td"):
            while (down, across) in grid:
                across += 1
            told = " ".join(cell.text_content().split())
            wide, high = (int(cell.get(name, 1)) for name in ("colspan", "rowspan"))
            grid |= {(down + y, across + x): told for y in range(high) for x in range(wide)}
            across += wide
    columns = sorted({across for _, across in grid})
    found = [[grid.get((down, across), "") for down in range(len(heads))] for across in columns]
    return [": ".join(dict.fromkeys(filter(None, told))) for told in found]


@dataclass(frozen=True)
class Paper:
    """A paper: its short title in the text, and its citation."""

    short: str
    cited: str


THESIS = Paper(
    "the scheduler thesis",
    "J. Vozár, Performance Testing of Linux Kernel Scheduler. Bachelor's thesis, Brno University of "
    "Technology, Faculty of Information Technology, 2019",
)
ENGINE = Paper(
    "the analysis engine paper",
    "Experience in Building a Comparative Performance Analysis Engine for a Commercial System; "
    "of a data warehouse, at Teradata",
)
CORUN = Paper(
    "the co-run paper",
    "S. Ren, L. He, J. Li, Z. Chen, P. Jiang and C.-T. Li, Contention-aware prediction for performance "
    "impact of task co-running in multicore computers",
)
QUIHO = Paper(
    "the quiho paper",
    "I. Jimenez and others, quiho: Automated Performance Regression Testing Using Inferred Resource "
    "Utilization Profiles. University of California, Santa Cruz",
)
#: As files of stages number them.
_NUMBERED = {"seed 000": THESIS, "seed 001": ENGINE, "seed 002": CORUN, "seed 003": QUIHO}
_EXPONENT = re.compile(r"(?<![\w.])([-\u2212]?\d+(?:\.\d+)?e[+-]?\d+)(?!\w)")


def worded(text: str) -> str:
    """Return text with short titles of papers and with numbers without exponents, for a page."""
    for number, paper in _NUMBERED.items():
        text = text.replace(number, paper.short)
    text = text.replace("the seed's", "the paper's").replace("The seed's", "The paper's")
    return _EXPONENT.sub(lambda found: plain(float(found[0].replace("\u2212", "-"))), text)


_SCRIPTS = re.compile(r"(<script\b.*?</script>)", re.DOTALL)


def render(template: str, **content: Any) -> str:
    """Fill a template of ``serving/reports/templates``; text not marked as safe is escaped.

    Control and invisible characters are shown as escapes, except in scripts, whose hashes must not change.
    """
    parts = _SCRIPTS.split(environment().get_template(template).render(**content))
    return "".join(part if place % 2 else visible(part) for place, part in enumerate(parts))


def environment() -> Environment:
    """Return the templates of ``serving/reports/templates``, with the filters that they use."""
    made = Environment(
        loader=PackageLoader("serving.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "percent": percent, "counted": counted, "figures": figures, "whole": whole, "plain": plain,
        "worded": worded, "stacked": stacked, "coded": coded,
    }  # fmt: skip
    made.globals["script"] = script()
    return made


def coded(text: str) -> Markup:
    """Return text in which parts between backticks are ``code`` elements."""
    parts = text.split("`")
    shown = (
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(parts)
    )
    return Markup().join(shown)


@cache
def script() -> Markup:
    """Return the script that all reports embed."""
    return Markup((files("serving.reports") / "templates/report.js").read_text(encoding="utf-8"))  # noqa: S704 - ours
