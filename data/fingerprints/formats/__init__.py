"""File formats of fingerprints."""

from __future__ import annotations

from data.fingerprints.formats import quiho, sparecores, typed_csv
from data.fingerprints.tables import FingerprintTables
from data.tables.formats import Format, Sources

SOURCES = Sources(
    {
        "tables": Format(
            lambda path: FingerprintTables.read(path) if path.is_dir() else typed_csv.read_machines(path),
            sign="machines.parquet",
            suffix=".csv",
        ),
        "quiho": Format(quiho.read_tables, sign="results.csv"),
        "sparecores": Format(sparecores.read_tables, sign="fingerprint.parquet"),
    },
    FingerprintTables,
    {"fingerprint": lambda tables: tables.machines},
)
FORMATS = SOURCES.formats
read = SOURCES.read
