"""The formats that performance matrices come in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from data.errors import InputError
from data.matrices.flaws import without_flawed_runs, without_flaws
from data.matrices.formats import dbsherlock, petshop
from data.matrices.tables import MatrixTables
from data.tables.formats import Format, Reading, chosen, holds
from data.tables.problems import Problems

#: A directory of PetShop's has its reference two levels further down, at most.
_LEVELS = ("", "*/", "*/*/")
FORMATS: dict[str, Format[Callable[[Path], MatrixTables]]] = {
    "tables": Format(MatrixTables.read, sign="matrices.parquet", suffix=".parquet"),
    "dbsherlock": Format(dbsherlock.read, sign="*.parquet", suffix=".parquet"),
    "petshop": Format(petshop.read, sign=f"**/noissue/{petshop.FILE}"),
}


def holds_matrices(name: str, path: Path) -> bool:
    """Tell whether `path` holds matrices; the format ``tables`` belongs to several families."""
    return holds(FORMATS, name, path)


def sniff(path: Path) -> str | None:
    """Tell the format of the matrices at `path` from what is in it; None if there are none."""
    if path.is_dir() and not (path / "matrices.parquet").exists():
        inside = sorted(path.glob("*.parquet"))
        if inside and _holds_seconds(inside[0]):
            return "dbsherlock"
        return (
            "petshop" if any(any(path.glob(f"{level}noissue/{petshop.FILE}")) for level in _LEVELS) else None
        )
    if not holds_matrices("tables", path):
        return None
    return "dbsherlock" if path.is_file() and _holds_seconds(path) else "tables"


def _holds_seconds(path: Path) -> bool:
    """Tell whether a Parquet file has the columns of DBSherlock's, and not those of matrices."""
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    try:
        names = set(pq.read_schema(path).names)
    except (OSError, ValueError, ArrowException):
        return False
    return names.issuperset(dbsherlock.KNOWN) and "run_id" not in names


def read(name: str, paths: list[Path], *, keep_going: bool = False) -> Reading[MatrixTables]:
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
    reader, problems = chosen(FORMATS, name, paths), Problems(keep_going)
    usable = without_flaws(MatrixTables.joined([reader(path) for path in paths]), problems)
    return _reading(usable, paths[0], problems)


def read_asked(name: str, path: Path, *, keep_going: bool = False) -> Reading[MatrixTables]:
    """Read what is to be judged: as `read` does, but pairs that cannot be compared stay in.

    They get the verdict ``invalid``. What analysts have flagged is not read at all.

    Raises
    ------
    InputError
        As of `read`.
    """
    tables = MatrixTables.read(path, flags=False) if name == "tables" else FORMATS[name].read(path)
    return asked(tables, path, Problems(keep_going))


def asked(tables: MatrixTables, source: Path | str, problems: Problems) -> Reading[MatrixTables]:
    """Return what of `tables` can be judged, or at least be called invalid.

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
        At the first run that is wrong, unless ``problems.keep_going``; and if there is no run or no metric.
    """
    return _reading(without_flawed_runs(tables, problems), source, problems)


def _reading(usable: MatrixTables, source: Path | str, problems: Problems) -> Reading[MatrixTables]:
    if usable.runs.empty or not usable.raw:
        lacking = "run" if usable.runs.empty else "raw metric"
        raise InputError(f"holds no {lacking}", file=source)
    return Reading(usable, tuple(problems.skipped))
