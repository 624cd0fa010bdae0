"""Tables as text, in which names from files are shown as they are: no markup, no control characters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from data.plain_text import visible

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

#: Columns of a table that does not go to a terminal.
WIDTH = 180


def tabulated(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Collection[str] = (),
    caption: str | None = None,
) -> str:
    """Return a table as `printed` does, a cell a column.

    Parameters
    ----------
    columns : sequence of str
        Their headings.
    rows : iterable of sequence of str
    numbers : collection of str
        The columns that are flush right.
    caption : str, optional
    """
    from rich.table import Table

    table = Table(caption=None if caption is None else shown(caption))
    for name in columns:
        table.add_column(shown(name), justify="right" if name in numbers else "left")
    for row in rows:
        table.add_row(*map(shown, row))
    return printed(table)


def shown(text: str, style: str = "") -> Text:
    """Return text for a cell, a heading or a caption."""
    from rich.text import Text

    return Text(visible(" ".join(text.split())), style=style)


def printed(table: Table) -> str:
    """Return `table` for a file or a pipe: wide, without colours."""
    from io import StringIO

    from rich.console import Console

    text = StringIO()
    Console(file=text, width=WIDTH).print(table)
    return text.getvalue()
