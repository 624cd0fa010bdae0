"""Tables as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

#: Columns of a table that does not go to a terminal.
WIDTH = 180


def printed(table: Table) -> str:
    """Return `table` for a file or a pipe: wide, without colours."""
    from io import StringIO

    from rich.console import Console

    text = StringIO()
    Console(file=text, width=WIDTH).print(table)
    return text.getvalue()
