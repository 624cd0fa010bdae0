"""The formats that performance matrices come in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from data import matrix_schema
from data.errors import InputError
from data.matrix_flaws import without_flaws
from data.matrix_tables import MatrixTables
from data.reading import Problems


@dataclass(frozen=True)
class MatrixReading:
    """Tables as read, and what was skipped to read them."""

    tables: MatrixTables
    skipped: tuple[InputError, ...] = ()


def _dbsherlock(path: Path) -> MatrixTables:
    from data import dbsherlock

    return dbsherlock.read(path)


def _petshop(path: Path) -> MatrixTables:
    from data import petshop

    return petshop.read(path)


FORMATS: dict[str, Callable[[Path], MatrixTables]] = {
    "tables": MatrixTables.read,
    "dbsherlock": _dbsherlock,
    "petshop": _petshop,
}


def holds_matrices(name: str, path: Path) -> bool:
    """Tell whether `path` holds matrices; the format ``tables`` belongs to several families."""
    if name == "tables":
        return path.suffix == ".parquet" or (path / "matrices.parquet").exists()
    return name in FORMATS


def read(name: str, paths: list[Path], *, keep_going: bool = False) -> MatrixReading:
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
        If the format is unknown, a path is missing, a source cannot be read, or there is no run or no metric;
        and, unless `keep_going`, at the first thing that is wrong.
    """
    if name not in FORMATS:
        raise InputError(f'format "{name}" is unknown; there are {", ".join(FORMATS)}')
    for path in paths:
        if not path.exists():
            raise InputError("no such file or directory", file=path)
    problems = Problems(keep_going)
    joined = MatrixTables.joined([FORMATS[name](path) for path in paths])
    return checked(joined, paths[0], problems)


def checked(tables: MatrixTables, source: Path | str, problems: Problems) -> MatrixReading:
    """Return what of `tables` can be used.

    Parameters
    ----------
    tables : MatrixTables
    source : path or str
        Where they come from.
    problems : Problems
        Gets what is wrong.

    Raises
    ------
    InputError
        At the first thing that is wrong, unless ``problems.keep_going``; and if there is no run or no metric.
    """
    usable = without_flaws(tables, problems)
    matrix_schema.check(usable)
    if usable.runs.empty or not usable.raw:
        lacking = "run" if usable.runs.empty else "raw metric"
        raise InputError(f"holds no {lacking}", file=source)
    return MatrixReading(usable, tuple(problems.skipped))
