"""What benchmarks share: result tables, which are Markdown with the command that made them, and the clock."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from benchmarks.pages import PAGES, RESULTS, footer
from data.measure.machine import settings
from data.tables.files import write_text

Result = TypeVar("Result")
SEED = 20261121


def require_programs(*programs: str) -> None:
    """End with exit code 2 and one line if a program is missing; each is in Debian's package of its name."""
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        sys.stderr.write(
            f"not installed: {', '.join(missing)}; on Debian: apt-get install {' '.join(missing)}\n"
        )
        raise SystemExit(2)


@dataclass(frozen=True)
class Table:
    """A benchmark's result.

    Attributes
    ----------
    title : str
        What was measured.
    command : str
        The command that makes the table.
    columns : mapping of str to str
        By heading, how `format` writes the values below it.
    rows : sequence of sequence
        Their values; words are written as they are, and None and NaN not at all.
    notes : sequence of str
        What a reader must know to believe the numbers.
    """

    title: str
    command: str
    columns: Mapping[str, str]
    rows: Sequence[Sequence[object]]
    notes: Sequence[str] = ()

    def cells(self) -> list[list[str]]:
        """Return the rows as text."""
        forms = self.columns.values()
        return [[_told(value, form) for value, form in zip(row, forms, strict=True)] for row in self.rows]

    def markdown(self) -> str:
        """Return the table as a Markdown page."""
        written = [self.columns, ["---"] * len(self.columns), *self.cells()]
        lines = [f"# {self.title}", "", f"    {self.command}", ""]
        lines += [f"| {' | '.join(cells)} |" for cells in written]
        return "\n".join([*lines, "", *(f"- {note}" for note in self.notes)]).rstrip() + "\n"

    def publish(self, name: str) -> None:
        """Print the table and write it to docs/results/`name`.md."""
        publish(name, [self])


def publish(name: str, tables: Sequence[Table]) -> None:
    """Print tables, and write them to docs/results/`name`.md one after the other, with their origin below.

    A page of `PAGES` has the command that stands there.
    """
    command = next((page.command for page in PAGES if page.name == name), None)
    whole = [replace(table, command=command) if command else table for table in tables]
    page = "\n".join(table.markdown() for table in whole) + footer(name)
    print(page)
    write_text(RESULTS / f"{name}.md", page)


def _told(value: object, form: str) -> str:
    if value is None or value != value:  # noqa: PLR0124 - NaN is
        return ""
    return value if isinstance(value, str) else format(value, form)


def clocked(
    work: Callable[[], Result], clock: Callable[[], float] = time.perf_counter
) -> tuple[float, Result]:
    """Return the seconds that `work` takes by a clock, and what it returns."""
    start = clock()
    result = work()
    return clock() - start, result


def best(work: Callable[[], object], rounds: int = 1) -> float:
    """Return the shortest of `rounds` times of `work` in seconds."""
    return min(clocked(work)[0] for _ in range(rounds))


def median_of(run: Callable[[], Any], repeats: int = 3) -> Any:
    """Do the same so many times, and return the result of median ``seconds``."""
    return sorted((run() for _ in range(repeats)), key=lambda one: one.seconds)[repeats // 2]


def machine() -> str:
    """Describe this machine and interpreter in one line."""
    here = settings()
    system = f"{platform.system()} {here['architecture']}"
    return f"{here['processor']}, {here['processors']} cores, {system}, Python {here['python']}"


def load() -> float:
    """Return how many processes wanted a core in the last minute."""
    return os.getloadavg()[0]


def busy(before: float) -> str:
    """Tell this machine, and its load before and now."""
    return f"{machine()}; load average {before:.1f} before and {load():.1f} after."
