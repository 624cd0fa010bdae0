"""What a person sees who measures: notes, and a bar with the time left; only the notes in a pipe."""

from __future__ import annotations

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from data.plain_text import visible


class Screen:
    """Standard error as a person sees it."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=self._console, disable=not self._console.is_terminal)
        self._line = self._bar.add_task("measuring", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def say(self, note: str) -> None:
        """Print a note above the bar."""
        self._console.print(visible(note), markup=False, highlight=False, soft_wrap=True)

    def advance(self, done: int, of: int, what: str) -> None:
        """Show that `done` of `of` are measured, and what is being measured."""
        self._bar.update(self._line, completed=done, total=of, description=visible(what))
