"""The formats that fingerprints come in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from data.errors import InputError
from data.fingerprints.flaws import without_flaws
from data.fingerprints.formats import machines_csv, quiho, sparecores
from data.fingerprints.tables import FingerprintTables
from data.tables.formats import Format, Reading, chosen, holds
from data.tables.problems import Problems


def _tables(path: Path) -> FingerprintTables:
    return FingerprintTables.read(path) if path.is_dir() else machines_csv.read(path)


FORMATS: dict[str, Format[Callable[[Path], FingerprintTables]]] = {
    "tables": Format(_tables, sign="machines.parquet", suffix=".csv"),
    "quiho": Format(quiho.read, sign="results.csv"),
    "sparecores": Format(sparecores.read, sign="fingerprint.parquet"),
}


def holds_fingerprints(name: str, path: Path) -> bool:
    """Tell whether `path` holds fingerprints; the format ``tables`` belongs to several families."""
    return holds(FORMATS, name, path)


def read(name: str, paths: list[Path], *, keep_going: bool = False) -> Reading[FingerprintTables]:
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
        If the format is unknown, a path is missing, a source cannot be read, or there is no fingerprint; and,
        unless `keep_going`, at the first thing that is wrong.
    """
    reader, problems = chosen(FORMATS, name, paths), Problems(keep_going)
    tables = without_flaws(FingerprintTables.joined([reader(path) for path in paths]), problems)
    if tables.machines.empty:
        raise InputError("holds no fingerprint", file=paths[0])
    return Reading(tables, tuple(problems.skipped))
