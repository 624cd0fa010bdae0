"""The family ``fingerprints`` in the data package."""

from data.families import DataPlugin

PLUGIN = DataPlugin(
    "data.fingerprints.validity:ingest_stage",
    "data.fingerprints.validity:validate_stage",
    "fingerprint",
    "data.fingerprints.collect:collect",
)
