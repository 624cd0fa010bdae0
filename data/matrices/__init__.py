"""The family ``matrices`` in the data package."""

from data.families import DataPlugin

PLUGIN = DataPlugin(
    "data.matrices.validity:ingest_stage",
    "data.matrices.validity:validate_stage",
    "matrix",
    "data.matrices.collect:collect",
)
