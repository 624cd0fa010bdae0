"""Text and Markdown tables that show names from files literally, without markup and control characters."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from data.errors import escape_invisible

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

#: Width of a table that is not for a terminal, in characters.
WIDTH = 180


def text_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Collection[str] = (),
    caption: str | None = None,
) -> str:
    """Return a table as text, at most 180 characters wide, without colours.

    The columns `numbers` are right-aligned. Long cells are wrapped; see `rich_text`. `caption` is written
    below the table. The text ends with a line break.
    """
    from rich.table import Table

    table = Table(caption=None if caption is None else rich_text(caption))
    for name in columns:
        table.add_column(rich_text(name), justify="right" if name in numbers else "left")
    for row in rows:
        table.add_row(*map(rich_text, row))
    return table_text(table)


def rich_text(text: str, style: str = "") -> Text:
    """Return `text` as a rich Text on one line, without markup and with escaped invisible characters.

    White space, also a line break, becomes one space. `style` is one of rich, such as ``red``.
    """
    from rich.text import Text

    return Text(escape_invisible(" ".join(text.split())), style=style)


def table_text(table: Table, *, terminal: bool = False) -> str:
    """Return `table` as lines of text, at most 180 characters wide, without colours.

    With `terminal`, it has the colours and width of standard output. The text ends with a line break.
    """
    from io import StringIO

    from rich.console import Console

    console = Console() if terminal else Console(file=StringIO(), width=WIDTH, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


#: Words of letters and numbers with punctuation that no dialect of Markdown interprets.
_PLAIN = re.compile(
    r"""[("']*[^\W_]*(?:[.,:+/'\u2019\u2212\u2013\u00b1-][^\W_]+)*%?[)"',.;:%?]*|->|\u2192|\u2026|[+\u2212\u2013-]"""
)
#: Text that Markdown viewers turn into links: addresses, hosts, numbers of issues and tickets, commits.
_LINKED = re.compile(
    r"//|www\.|[^\W\d_]\.[^\W\d_]{2}|(?!(?<=\d)e-\d\d)[^\W\d_]\d*-\d|%\d|(?<![^\W_])[0-9a-f]{7,40}(?![^\W_])|^xn--|:[^\W_]+:",
    re.IGNORECASE,
)
#: Characters that start a list or a rule at the start of a line.
_START = re.compile(r"[-+\u2212\u2013]$|\d+[.)]$")


def markdown_line(text: str) -> str:
    """Return plain text as one line of Markdown; words that Markdown would interpret become code.

    White space, also a line break, becomes one space; invisible characters become visible escapes.
    """
    words = escape_invisible(" ".join(text.split())).split(" ")
    plain = [_is_plain(word, first=not place) for place, word in enumerate(words)]
    parts = (
        (is_plain, " ".join(word for _, word in group))
        for is_plain, group in groupby(zip(plain, words, strict=True), key=itemgetter(0))
    )
    return " ".join(
        part.replace("->", "-&gt;") if is_plain else _markdown_code(part) for is_plain, part in parts
    )


def markdown_cell(text: str) -> str:
    """Return `text` as a Markdown table cell: like `markdown_line`, with escaped column separators."""
    return markdown_line(text).replace("|", "\\|")


def _is_plain(word: str, *, first: bool) -> bool:
    return bool(_PLAIN.fullmatch(word)) and not _LINKED.search(word) and not (first and _START.match(word))


def _markdown_code(text: str) -> str:
    """Return `text` as code; its fence is longer than any run of backticks in it."""
    text, end = re.fullmatch(r"(.+?)([).,;:]*)", text).groups()  # type: ignore[union-attr]
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}{end}"
