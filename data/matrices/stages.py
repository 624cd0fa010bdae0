"""The family ``matrices`` in the data package: its stages ingest and validate."""

from __future__ import annotations

from functools import partial

from data import stages
from data.matrices.formats import SOURCES
from data.matrices.params import Matrices
from data.matrices.tables import MatrixTables
from data.matrices.validity import MatrixDecisions, decide
from data.tables.formats import Reading
from data.tables.problems import Problems


def ingest(section: Matrices) -> Reading[MatrixTables]:
    """Read the matrices that params.yaml names."""
    return stages.named(SOURCES, section.ingest)


def validate(tables: MatrixTables, section: Matrices) -> MatrixDecisions:
    """Say what can be learned from; an InputError if a table is wrong, or too little is left."""
    return decide(tables.without_flaws(Problems()), section.checks.missing)


ingest_stage = partial(stages.ingest, Matrices, ingest)
validate_stage = partial(stages.validate, Matrices, MatrixTables, validate)
