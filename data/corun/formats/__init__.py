"""The formats that co-runs come in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from data.corun.flaws import without_flaws
from data.corun.formats import pitot, spec_corun
from data.corun.tables import CorunTables
from data.errors import InputError
from data.tables.formats import Format, Reading, chosen, holds
from data.tables.problems import Problems

FORMATS: dict[str, Format[Callable[[Path], CorunTables]]] = {
    "tables": Format(CorunTables.read, sign="pairs.parquet"),
    "pitot": Format(pitot.read, sign="if2.npz"),
    "spec-corun": Format(spec_corun.read, sign=f"**/{spec_corun.PAIRS}"),
}


def holds_coruns(name: str, path: Path) -> bool:
    """Tell whether `path` holds co-runs; the format ``tables`` belongs to several families."""
    return holds(FORMATS, name, path)


def read(name: str, paths: list[Path], *, keep_going: bool = False) -> Reading[CorunTables]:
    """Read all of `paths`.

    Parameters
    ----------
    name : str
        One of `FORMATS`.
    paths : list of Path
    keep_going : bool
        Leave out what cannot be used, and tell it.

    Raises
    ------
    InputError
        If the format is unknown, a path is missing, a source cannot be read, or there is no co-run; and,
        unless `keep_going`, at the first thing that is wrong.
    """
    reader, problems = chosen(FORMATS, name, paths), Problems(keep_going)
    tables = without_flaws(CorunTables.joined([reader(path) for path in paths]), problems)
    if tables.pairs.empty or tables.tasks.empty:
        lacking = "pair" if tables.pairs.empty else "solo run"
        raise InputError(f"holds no {lacking}", file=paths[0])
    return Reading(tables, tuple(problems.skipped))
