"""Data of the model family ``comparisons``: baseline and target measurements of an operation."""

from data.families import DataPlugin

PLUGIN = DataPlugin(
    "data.comparisons.stages:ingest_stage",
    "data.comparisons.stages:validate_stage",
    "comparisons",
    "data.comparisons.collect:collect",
)
