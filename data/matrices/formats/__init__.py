"""File formats of performance matrices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from data.errors import InputError
from data.matrices.formats import dbsherlock, petshop
from data.matrices.tables import MatrixTables
from data.tables.formats import Format, Reading, Sources
from data.tables.problems import Problems, shorten_names

#: The reference of a PetShop directory is at most two levels deeper.
_LEVELS = ("", "*/", "*/*/")
SOURCES = Sources(
    {
        "tables": Format(MatrixTables.read, sign="matrices.parquet", suffix=".parquet"),
        "dbsherlock": Format(dbsherlock.read_tables, sign="*.parquet", suffix=".parquet"),
        "petshop": Format(petshop.read_tables, sign=f"**/noissue/{petshop.FILE}"),
    },
    MatrixTables,
    {"run": lambda tables: tables.runs, "raw metric": lambda tables: tables.raw_metrics},
)
FORMATS = SOURCES.formats


def read(name: str, paths: Sequence[Path], *, keep_going: bool = False) -> Reading[MatrixTables]:
    """Return the result of ``SOURCES.read``, with a note on each table that describes metrics of no run."""
    reading = SOURCES.read(name, paths, keep_going=keep_going)
    return replace(reading, notes=_unused_metrics(name, paths, reading.tables))


def _unused_metrics(name: str, paths: Sequence[Path], tables: MatrixTables) -> tuple[str, ...]:
    """Return a note on each table of metrics that has rows for metrics of no run."""
    notes, measured = list[str](), {*tables.all_metrics}
    for path in paths if name == "tables" else ():
        runs = path / "matrices.parquet" if path.is_dir() else path
        file = runs.with_name("metrics.parquet")
        described = MatrixTables.SPECS["metrics"].read(file)["metric"].dropna() if file != runs else ()
        if unused := [metric for metric in dict.fromkeys(described) if metric not in measured]:
            notes.append(f"{file}: unused, as no run has the metric: {shorten_names(unused)}")
    return tuple(notes)


def sniff_format(path: Path) -> str | None:
    """Return the format of matrices at `path`: "tables", "dbsherlock" or "petshop"; None if it has none.

    A directory is "tables" by ``matrices.parquet``, else "dbsherlock" if its first ``*.parquet`` has the
    columns `dbsherlock.KNOWN` and no ``run_id``, else "petshop" by ``noissue/metrics.csv``, also up to two
    levels deeper. A ``.parquet`` file, even a missing or damaged one, is "tables" or, with these columns,
    "dbsherlock". No error is raised.
    """
    if path.is_dir() and not (path / "matrices.parquet").exists():
        inside = sorted(path.glob("*.parquet"))
        if inside and _is_dbsherlock(inside[0]):
            return "dbsherlock"
        is_petshop = any(any(path.glob(f"{level}noissue/{petshop.FILE}")) for level in _LEVELS)
        return "petshop" if is_petshop else None
    if not FORMATS["tables"].matches_path(path):
        return None
    return "dbsherlock" if path.is_file() and _is_dbsherlock(path) else "tables"


def _is_dbsherlock(path: Path) -> bool:
    from data.tables.parquet import open_parquet

    try:
        with open_parquet(path) as file:
            names = set(file.schema_arrow.names)
    except InputError:
        return False
    return names.issuperset(dbsherlock.KNOWN) and "run_id" not in names


#: First bytes of a request; requests of other families begin with other keys.
_REQUEST = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:pairs|units)"')


def recognised(source: Path) -> bool:
    """Return whether `source` is in a format that `sniff_format` names, or begins like a JSON request.

    Such a request is an object whose first key is "pairs" or "units". The content of a ``.parquet`` file is
    not checked, so True also for a missing one; False for another file that cannot be read.
    """
    if sniff_format(source) is not None:
        return True
    try:
        with source.open("rb") as file:
            return _REQUEST.match(file.read(4096)) is not None
    except OSError:
        return False


def read_for_judging(name: str, path: Path, *, keep_going: bool = False) -> Reading[MatrixTables]:
    """Return the matrices at `path` to be judged, with incomparable pairs, which get the verdict ``invalid``.

    The result has ``tables``, ``skipped`` errors and ``notes``. `name` is the format; KeyError if it is
    unknown. In the format "tables", analysts' flags are ignored. InputError if the source cannot be read or
    has no run or raw metric, and at the first wrong run (see `judgeable_runs`); with `keep_going`, wrong runs
    are skipped instead.
    """
    tables = MatrixTables.read(path, flags=False) if name == "tables" else FORMATS[name].read(path)
    reading = judgeable_runs(tables, path, Problems(keep_going))
    return replace(reading, notes=_unused_metrics(name, [path], tables))


def judgeable_runs(tables: MatrixTables, source: Path | str, problems: Problems) -> Reading[MatrixTables]:
    """Return the ``tables`` without wrong runs, and the errors of the ``skipped`` runs.

    Wrong are repetitions of a run (the first stays), and runs without a name, workload, group, pair or side.
    Pairs that cannot be compared stay, and get the verdict ``invalid``. InputError at the first wrong run,
    unless ``problems.keep_going``; and, with the name `source`, if no run or no raw metric is left.
    """
    return SOURCES.make_reading(tables.without_flawed_runs(problems), source, problems)
