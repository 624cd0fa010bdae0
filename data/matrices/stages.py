"""The family ``matrices`` in the data package: its stages ingest and validate."""

from __future__ import annotations

from functools import partial

from data import stages
from data.matrices import formats
from data.matrices.flaws import without_flaws
from data.matrices.params import Matrices
from data.matrices.tables import MatrixTables
from data.matrices.validity import MatrixDecisions, decide
from data.tables.formats import Reading
from data.tables.problems import Problems


def ingest(section: Matrices) -> Reading[MatrixTables]:
    """Read the matrices that params.yaml names."""
    source = section.ingest
    return formats.read(source.format, [source.path], keep_going=source.keep_going)


def counted(tables: MatrixTables) -> str:
    """Say how much is in the tables."""
    runs = tables.runs
    return (
        f"{len(runs)} runs of {runs['workload'].nunique()} workloads in {runs['group'].nunique()} groups, "
        f"{runs['pair_id'].nunique()} pairs, {len(tables.raw)} raw and {len(tables.summary)} summary metrics"
    )


def validate(tables: MatrixTables, section: Matrices) -> MatrixDecisions:
    """Say what can be learned from and judged.

    Raises
    ------
    InputError
        If a table is wrong, or too little is left.
    """
    return decide(without_flaws(tables, Problems()), section.checks.missing)


ingest_stage = partial(stages.ingest, Matrices, ingest, counted)
validate_stage = partial(stages.validate, Matrices, MatrixTables, validate)
