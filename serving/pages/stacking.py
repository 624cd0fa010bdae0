"""Tables that become cards on a telephone: each cell is told what its column is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lxml import html
from markupsafe import Markup


def stacked(table: str) -> Markup:
    """Return a ``table`` element whose cells bear the names of their columns, for the style to show.

    Cells of the body that are no headings get ``data-label``, and the table the class ``stacked``. Column
    names of several rows, with ``colspan`` and ``rowspan``, are put together.
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
