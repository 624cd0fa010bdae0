"""Tables as text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

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
    from rich.text import Text

    table = Table(caption=caption)
    for name in columns:
        table.add_column(name, justify="right" if name in numbers else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    return printed(table)


def printed(table: Table) -> str:
    """Return `table` for a file or a pipe: wide, without colours."""
    from io import StringIO

    from rich.console import Console

    text = StringIO()
    Console(file=text, width=WIDTH).print(table)
    return text.getvalue()
