"""The family ``matrices`` in the data package: its stages ingest and validate."""

from data.matrices.formats import FORMATS
from data.matrices.params import Matrices
from data.matrices.tables import MatrixTables
from data.matrices.validity import decide
from data.stages import Stages, named
from data.tables.problems import Problems

STAGES = Stages(
    Matrices,
    MatrixTables,
    lambda section: named(FORMATS, section.ingest),
    lambda tables, section: decide(tables.without_flaws(Problems()), section.checks.missing),
)
