"""Render pages from the templates."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from lxml import html
from markupsafe import Markup, escape

from data.errors import escape_invisible
from serving.reports.charts import percent, plain_number, two_decimals, whole_number, with_noun


def responsive_table(table: str) -> Markup:
    """Return the HTML element `table` with class ``stacked`` and ``data-label`` in each ``td`` of ``tbody``.

    This attribute, which the style sheet shows, is the name of the cell's column: the different texts of its
    cells in all rows of ``thead``, joined by ": ". Existing ones stay, and cells with ``colspan``, or in a
    column without a name, get none. In ``tbody``, ``rowspan`` is ignored.
    """
    root: Any = html.fragment_fromstring(table.strip())
    root.classes.add("stacked")
    names = _column_names(root.xpath("./thead/tr"))
    for row in root.xpath("./tbody/tr"):
        column = 0
        for cell in row.xpath("./th|./td"):
            name = names[column] if column < len(names) and cell.get("colspan") is None else ""
            if cell.tag == "td" and name and "data-label" not in cell.attrib:
                cell.set("data-label", name)
            column += int(cell.get("colspan", 1))
    return Markup(html.tostring(root, encoding="unicode"))  # noqa: S704 - it was markup, and is parsed


def _column_names(heads: list[Any]) -> list[str]:
    grid: dict[tuple[int, int], str] = {}
    for down, row in enumerate(heads):
        across = 0
        for cell in row.xpath("./th|./td"):
            while (down, across) in grid:
                across += 1
            text = " ".join(cell.text_content().split())
            wide, high = (int(cell.get(name, 1)) for name in ("colspan", "rowspan"))
            grid |= {(down + y, across + x): text for y in range(high) for x in range(wide)}
            across += wide
    columns = sorted({across for _, across in grid})
    texts = [[grid.get((down, across), "") for down in range(len(heads))] for across in columns]
    return [": ".join(dict.fromkeys(filter(None, column))) for column in texts]


@dataclass(frozen=True)
class Paper:
    """A paper: its short title in running text, and its citation."""

    short: str
    cited: str


_CITED = json.loads(Path(__file__).with_name("papers.json").read_text("utf-8"))
#: Papers by their names in files of stages.
_NUMBERED = {number: Paper(**paper) for number, paper in _CITED.items()}
THESIS, ENGINE, CORUN, QUIHO = _NUMBERED.values()
_EXPONENT = re.compile(r"(?<![\w.])([-\u2212]?\d+(?:\.\d+)?e[+-]?\d+)(?!\w)")


def reword_text(text: str) -> str:
    """Return text of stages for a page, with papers by short title and numbers without exponents.

    ``seed 000`` to ``seed 003`` become titles such as ``the quiho paper``, ``the seed's`` becomes
    ``the paper's``, and ``1e-05`` becomes ``0.00001`` (see `plain_number`).
    """
    for number, paper in _NUMBERED.items():
        text = text.replace(number, paper.short)
    text = text.replace("the seed's", "the paper's").replace("The seed's", "The paper's")

    def reword_number(match: re.Match[str]) -> str:
        number = float(match[0].replace("\u2212", "-"))
        return plain_number(number) if isfinite(number) else match[0]

    return _EXPONENT.sub(reword_number, text)


def security_policy(scripts: Sequence[str]) -> str:
    """Return a content security policy that allows these scripts, inline styles, and ``data:`` images."""
    return (
        f"default-src 'none'; script-src {' '.join(map(hash_source, scripts))}; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def hash_source(text: str) -> str:
    """Return the source by which a content security policy allows this inline code, with its quotes."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


_SCRIPTS = re.compile(r"(<script\b.*?</script>)", re.DOTALL)


def render(template: str, **content: Any) -> str:
    """Return a filled template of ``serving/reports/templates``; text not marked as safe is escaped.

    A missing variable raises jinja2's UndefinedError. Control and invisible characters become visible
    escapes, except in scripts, whose hashes must not change.
    """
    parts = _SCRIPTS.split(template_environment().get_template(template).render(**content))
    return "".join(part if place % 2 else escape_invisible(part) for place, part in enumerate(parts))


def template_environment() -> Environment:
    """Return a new jinja2 environment for ``serving/reports/templates``, with autoescape and filters."""
    made = Environment(
        loader=PackageLoader("serving.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "percent": percent, "counted": with_noun, "figures": two_decimals, "whole": whole_number,
        "plain": plain_number,
        "worded": reword_text, "stacked": responsive_table, "coded": code_spans,
    }  # fmt: skip
    made.globals["script"] = report_script()
    return made


def code_spans(text: str) -> Markup:
    """Return escaped text with parts between backticks as ``code``; an unpaired one reaches to the end."""
    return Markup().join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(text.split("`"))
    )


@cache
def report_script() -> Markup:
    """Return the JavaScript that all reports embed, as text that templates do not escape (cached)."""
    return Markup((files("serving.reports") / "templates/report.js").read_text(encoding="utf-8"))  # noqa: S704 - ours
