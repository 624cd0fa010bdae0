"""The formats that performance matrices come in."""

from __future__ import annotations

from pathlib import Path

from data.errors import InputError
from data.matrices.formats import dbsherlock, petshop
from data.matrices.tables import MatrixTables
from data.tables.formats import Format, Reading, Sources
from data.tables.parquet import opened
from data.tables.problems import Problems

#: A directory of PetShop's has its reference two levels further down, at most.
_LEVELS = ("", "*/", "*/*/")
SOURCES = Sources(
    {
        "tables": Format(MatrixTables.read, sign="matrices.parquet", suffix=".parquet"),
        "dbsherlock": Format(dbsherlock.read, sign="*.parquet", suffix=".parquet"),
        "petshop": Format(petshop.read, sign=f"**/noissue/{petshop.FILE}"),
    },
    MatrixTables,
    {"run": lambda tables: tables.runs, "raw metric": lambda tables: tables.raw},
)
FORMATS = SOURCES.formats
read = SOURCES.read


def sniff(path: Path) -> str | None:
    """Tell the format of the matrices at `path` from what is in it; None if there are none."""
    if path.is_dir() and not (path / "matrices.parquet").exists():
        inside = sorted(path.glob("*.parquet"))
        if inside and _holds_seconds(inside[0]):
            return "dbsherlock"
        return (
            "petshop" if any(any(path.glob(f"{level}noissue/{petshop.FILE}")) for level in _LEVELS) else None
        )
    if not FORMATS["tables"].recognises(path):
        return None
    return "dbsherlock" if path.is_file() and _holds_seconds(path) else "tables"


def _holds_seconds(path: Path) -> bool:
    """Tell whether a Parquet file has the columns of DBSherlock's, and not those of matrices."""
    try:
        with opened(path) as file:
            names = set(file.schema_arrow.names)
    except InputError:
        return False
    return names.issuperset(dbsherlock.KNOWN) and "run_id" not in names


def read_asked(name: str, path: Path, *, keep_going: bool = False) -> Reading[MatrixTables]:
    """Read measurements to be judged: pairs that cannot be compared stay in, flags of analysts are not read.

    Such pairs get the verdict ``invalid``. InputError as of `read`.
    """
    tables = MatrixTables.read(path, flags=False) if name == "tables" else FORMATS[name].read(path)
    return asked(tables, path, Problems(keep_going))


def asked(tables: MatrixTables, source: Path | str, problems: Problems) -> Reading[MatrixTables]:
    """Return the part of `tables` that can be judged, or at least be called invalid.

    InputError at the first wrong run, unless ``problems.keep_going``; and if there is no run or no metric.
    """
    return SOURCES.reading(tables.without_flawed_runs(problems), source, problems)
