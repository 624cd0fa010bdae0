"""The formats that fingerprints come in."""

from __future__ import annotations

from pathlib import Path

from data.fingerprints.formats import quiho, sparecores, typed_csv
from data.fingerprints.tables import FingerprintTables
from data.tables.formats import Format, Sources


def _tables(path: Path) -> FingerprintTables:
    return FingerprintTables.read(path) if path.is_dir() else typed_csv.read_machines(path)


SOURCES = Sources(
    {
        "tables": Format(_tables, sign="machines.parquet", suffix=".csv"),
        "quiho": Format(quiho.read, sign="results.csv"),
        "sparecores": Format(sparecores.read, sign="fingerprint.parquet"),
    },
    FingerprintTables,
    {"fingerprint": lambda tables: tables.machines},
)
FORMATS = SOURCES.formats
read = SOURCES.read
