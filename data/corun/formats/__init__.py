"""The formats that co-runs come in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from data.corun import schema as corun_schema
from data.corun.flaws import without_flaws
from data.corun.tables import CorunTables
from data.errors import InputError
from data.tables.nearest import unknown
from data.tables.problems import Problems


@dataclass(frozen=True)
class CorunReading:
    """Tables as read, and what was skipped to read them."""

    tables: CorunTables
    skipped: tuple[InputError, ...] = ()


def _pitot(path: Path) -> CorunTables:
    from data.corun.formats import pitot

    return pitot.read(path)


def _spec_corun(path: Path) -> CorunTables:
    from data.corun.formats import spec_corun

    return spec_corun.read(path)


FORMATS: dict[str, Callable[[Path], CorunTables]] = {
    "tables": CorunTables.read,
    "pitot": _pitot,
    "spec-corun": _spec_corun,
}


def holds_coruns(name: str, path: Path) -> bool:
    """Tell whether `path` holds co-runs; the format ``tables`` belongs to several families."""
    if name == "tables":
        return (path / "pairs.parquet").exists()
    return name in FORMATS


def read(name: str, paths: list[Path], *, keep_going: bool = False) -> CorunReading:
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
    if name not in FORMATS:
        raise InputError(f'format "{name}" {unknown(name, FORMATS)}')
    for path in paths:
        if not path.exists():
            raise InputError("no such file or directory", file=path)
    problems = Problems(keep_going)
    joined = CorunTables.joined([FORMATS[name](path) for path in paths])
    tables = without_flaws(joined, problems)
    corun_schema.check(tables)
    if tables.pairs.empty or tables.tasks.empty:
        lacking = "pair" if tables.pairs.empty else "solo run"
        raise InputError(f"holds no {lacking}", file=paths[0])
    return CorunReading(tables, tuple(problems.skipped))
