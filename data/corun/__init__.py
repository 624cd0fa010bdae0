"""The family ``corun`` in the data package."""

from data.families import DataPlugin

PLUGIN = DataPlugin(
    "data.corun.validity:ingest_stage",
    "data.corun.validity:validate_stage",
    "corun",
    "data.corun.collect:collect",
)
