"""The family ``fingerprints`` in the data package: its stages ingest and validate."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pandas as pd

from data.fingerprints import formats as fingerprint_formats
from data.fingerprints import schema as fingerprint_schema
from data.fingerprints.formats import FingerprintReading
from data.fingerprints.params import Fingerprints
from data.fingerprints.tables import FingerprintTables
from data.fingerprints.validity import Decisions, decide
from data.params import load
from data.places import Places
from data.tables.decisions import left_out
from data.tables.problems import SHOWN, told

PLACES = Places("fingerprints")


def ingest(section: Fingerprints) -> FingerprintReading:
    """Read the fingerprints that params.yaml names."""
    return fingerprint_formats.read(
        section.ingest.format, [section.ingest.path], keep_going=section.ingest.keep_going
    )


def ingest_stage() -> None:
    """Stage ingest: the source becomes the three tables."""
    reading = ingest(load(Fingerprints).section)
    reading.tables.write(PLACES.interim)
    sys.stderr.write(told(reading.skipped))
    print(counted(reading.tables))  # noqa: T201


def counted(tables: FingerprintTables) -> str:
    """Say how much is in the tables."""
    machines, applications = tables.machines["machine"], tables.applications["application"]
    return f"{machines.nunique()} machines, {len(machines)} rates, {applications.nunique()} applications"


def validate(tables: FingerprintTables, section: Fingerprints) -> Decisions:
    """Say what can be learned from.

    Raises
    ------
    InputError
        If a table breaks its schema, or too little is left.
    """
    fingerprint_schema.check(tables)
    return decide(tables, section.checks.missing)


def validate_stage() -> None:
    """Stage validate: which machines, stressors and applications can be learned from."""
    decisions = validate(FingerprintTables.read(PLACES.interim), load(Fingerprints).section)
    decisions.write(PLACES.valid)
    sys.stderr.write(explained(decisions))
    print(kept(decisions))  # noqa: T201


def explained(decisions: Decisions, shown: int = SHOWN) -> str:
    """Tell the warnings, what was left out and why, a line each; of each kind, at most `shown`."""
    lines = [f"warning: {warning}" for warning in decisions.warnings["warning"]]
    for what, table in _tables(decisions):
        lines += left_out(table, what, shown)
    return "".join(f"{line}\n" for line in lines)


def kept(decisions: Decisions) -> str:
    """Say how much can be learned from."""
    parts = [f"{table['kept'].sum()} of {len(table)} {what}" for what, table in _tables(decisions)]
    return f"{', '.join(parts)} are kept, {len(decisions.imputed)} gaps left to the model"


def _tables(decisions: Decisions) -> Iterator[tuple[str, pd.DataFrame]]:
    for what in ("machines", "runs", "stressors", "applications"):
        yield what, getattr(decisions, what)
