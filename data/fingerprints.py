"""The family ``fingerprints`` in the data package: its stages ingest and validate."""

from __future__ import annotations

import sys
from pathlib import Path

from data import fingerprint_formats, params
from data.comparisons import told
from data.fingerprint_formats import FingerprintReading
from data.fingerprint_tables import FingerprintTables

INTERIM = Path("data/interim/fingerprints")
PROCESSED = Path("data/processed/fingerprints")


def ingest(section: params.Fingerprints) -> FingerprintReading:
    """Read the fingerprints that params.yaml names."""
    return fingerprint_formats.read(section.format, [section.path], keep_going=section.keep_going)


def ingest_stage() -> None:
    """Stage ingest: the source becomes the three tables."""
    reading = ingest(params.load().fingerprints)
    reading.tables.write(INTERIM)
    sys.stderr.write(told(reading.skipped))
    print(counted(reading.tables))  # noqa: T201


def counted(tables: FingerprintTables) -> str:
    """Say how much is in the tables."""
    machines, applications = tables.machines["machine"], tables.applications["application"]
    return f"{machines.nunique()} machines, {len(machines)} rates, {applications.nunique()} applications"
