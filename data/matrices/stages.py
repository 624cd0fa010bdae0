"""The family ``matrices`` in the data package: its stages ingest and validate."""

from __future__ import annotations

import sys

from data.matrices import formats as matrix_formats
from data.matrices import schema as matrix_schema
from data.matrices.formats import MatrixReading
from data.matrices.params import Matrices
from data.matrices.tables import MatrixTables
from data.matrices.validity import Decisions, decide
from data.params import load
from data.places import Places
from data.tables.decisions import left_out
from data.tables.problems import told

PLACES = Places("matrices")


def ingest(section: Matrices) -> MatrixReading:
    """Read the matrices that params.yaml names."""
    return matrix_formats.read(
        section.ingest.format, [section.ingest.path], keep_going=section.ingest.keep_going
    )


def ingest_stage() -> None:
    """Stage ingest: the source becomes the three tables."""
    reading = ingest(load(Matrices).section)
    reading.tables.write(PLACES.interim)
    sys.stderr.write(told(reading.skipped))
    print(counted(reading.tables))  # noqa: T201


def counted(tables: MatrixTables) -> str:
    """Say how much is in the tables."""
    runs = tables.runs
    return (
        f"{len(runs)} runs of {runs['workload'].nunique()} workloads in {runs['group'].nunique()} groups, "
        f"{runs['pair_id'].nunique()} pairs, {len(tables.raw)} raw and {len(tables.summary)} summary metrics"
    )


def validate(tables: MatrixTables, section: Matrices) -> Decisions:
    """Say what can be learned from and judged.

    Raises
    ------
    InputError
        If a table breaks its schema, or too little is left.
    """
    matrix_schema.check(tables)
    return decide(tables, section.checks.missing)


def validate_stage() -> None:
    """Stage validate: which runs, pairs and metrics can be learned from, by the rules."""
    decisions = validate(MatrixTables.read(PLACES.interim), load(Matrices).section)
    decisions.write(PLACES.valid)
    sys.stderr.write(explained(decisions))
    print(kept(decisions))  # noqa: T201


WHAT = {"metrics": "metrics", "runs": "runs", "pairs": "pairs"}


def explained(decisions: Decisions) -> str:
    """Tell in a few lines the warnings, what was left out and why."""
    lines = [f"warning: {warning}" for warning in decisions.warnings["warning"]]
    for name, what in WHAT.items():
        lines += left_out(getattr(decisions, name).drop(columns="rule", errors="ignore"), what)
    return "".join(f"{line}\n" for line in lines)


def kept(decisions: Decisions) -> str:
    """Say how much can be learned from."""
    parts = [
        f"{table['kept'].sum()} of {len(table)} {what}"
        for table, what in ((getattr(decisions, name), what) for name, what in WHAT.items())
    ]
    return f"{', '.join(parts)} are kept"
