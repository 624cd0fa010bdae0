"""A result table: shown on the terminal, and kept as Markdown with the command that made it."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from pathlib import Path

from data.tables.files import write_text


@dataclass(frozen=True)
class Table:
    """A benchmark's result.

    Attributes
    ----------
    title : str
        What was measured.
    command : str
        The command that makes the table.
    columns : tuple of str
    rows : list of tuple of str
    notes : list of str
        What a reader must know to believe the numbers.
    """

    title: str
    command: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """Return the table as a Markdown page."""
        lines = [f"# {self.title}", "", f"    {self.command}", ""]
        lines += [_row(self.columns), _row(("---",) * len(self.columns)), *map(_row, self.rows), ""]
        lines += [f"- {note}" for note in self.notes]
        return "\n".join(lines).rstrip() + "\n"

    def show(self) -> None:
        """Print the table."""
        from rich.console import Console
        from rich.table import Table as RichTable

        table = RichTable(*self.columns, title=self.title)
        for row in self.rows:
            table.add_row(*row)
        console = Console()
        console.print(table)
        for note in self.notes:
            console.print(f"- {note}", highlight=False)

    def publish(self, name: str) -> None:
        """Print the table and write it to docs/results/`name`.md."""
        self.show()
        write_text(Path("docs/results") / f"{name}.md", self.markdown())


def machine() -> str:
    """Describe this machine and interpreter in one line."""
    model = next(
        (line.split(":", 1)[1].strip() for line in _cpu_info() if line.startswith("model name")),
        platform.processor() or platform.machine(),
    )
    cores = os.cpu_count()
    system = f"{platform.system()} {platform.machine()}"
    return f"{model}, {cores} cores, {system}, Python {platform.python_version()}"


def _cpu_info() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"
