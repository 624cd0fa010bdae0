"""The table of formats in the documentation. ``python -m`` this module writes it anew."""

from __future__ import annotations

import re
from pathlib import Path

from data.comparisons.formats.tools import TOOLS
from data.comparisons.formats.tools.recognition import ToolFormat
from data.tables.files import write_text

PAGE = Path("docs/formats.md")
_HEAD = ("format", "file", "recognised by", "holds", "which values are better", "versions in a file")
_BETWEEN = re.compile(r"(<!-- formats -->\n).*(<!-- /formats -->)", re.DOTALL)


def table() -> str:
    """Return a row for each format, with links to its test and its samples."""
    rows = [_HEAD, ("---",) * len(_HEAD), *map(_row, TOOLS.values())]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def _row(tool: ToolFormat) -> tuple[str, ...]:
    test = f"../tests/data/comparisons/formats/test_{tool.name.replace('-', '_')}.py"
    # as HTML: to whoever checks the links of pages, files beside them are unknown
    sample = f"samples/formats/{tool.name}"
    links = f'**{tool.name}** (<a href="{test}">test</a>, <a href="{sample}">sample</a>)'
    signs = [str(sign) for sign in tool.signs] + ([f"`{tool.folder}` in a directory"] if tool.folder else [])
    versions = "several" if tool.versions else "one"
    return (links, tool.file, "; ".join(signs), tool.holds, tool.direction, versions)


def renewed(page: str) -> str:
    """Return a page with the table as it has to be."""
    return _BETWEEN.sub(lambda found: found[1] + table() + found[2], page)


def main() -> None:
    """Write the table into the page."""
    write_text(PAGE, renewed(PAGE.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
