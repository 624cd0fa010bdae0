"""The formats that fingerprints come in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from data.errors import InputError
from data.fingerprints import schema as fingerprint_schema
from data.fingerprints.flaws import without_flaws
from data.fingerprints.tables import FingerprintTables
from data.tables.nearest import unknown
from data.tables.problems import Problems


@dataclass(frozen=True)
class FingerprintReading:
    """Tables as read, and what was skipped to read them."""

    tables: FingerprintTables
    skipped: tuple[InputError, ...] = ()


def _tables(path: Path) -> FingerprintTables:
    if path.is_dir():
        return FingerprintTables.read(path)
    from data.fingerprints.formats import machines_csv as fingerprint_csv

    return fingerprint_csv.read(path)


def _quiho(path: Path) -> FingerprintTables:
    from data.fingerprints.formats import quiho

    return quiho.read(path)


def _sparecores(path: Path) -> FingerprintTables:
    from data.fingerprints.formats import sparecores

    return sparecores.read(path)


FORMATS: dict[str, Callable[[Path], FingerprintTables]] = {
    "tables": _tables,
    "quiho": _quiho,
    "sparecores": _sparecores,
}


def holds_fingerprints(name: str, path: Path) -> bool:
    """Tell whether `path` holds fingerprints; the format ``tables`` belongs to several families."""
    if name == "tables":
        return path.suffix == ".csv" or (path / "machines.parquet").exists()
    return name in FORMATS


def read(name: str, paths: list[Path], *, keep_going: bool = False) -> FingerprintReading:
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
    if name not in FORMATS:
        raise InputError(f'format "{name}" {unknown(name, FORMATS)}')
    for path in paths:
        if not path.exists():
            raise InputError("no such file or directory", file=path)
    problems = Problems(keep_going)
    joined = FingerprintTables.joined([FORMATS[name](path) for path in paths])
    tables = without_flaws(joined, problems)
    fingerprint_schema.check(tables)
    if tables.machines.empty:
        raise InputError("holds no fingerprint", file=paths[0])
    return FingerprintReading(tables, tuple(problems.skipped))
