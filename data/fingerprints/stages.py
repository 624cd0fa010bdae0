"""The family ``fingerprints`` in the data package: its stages ingest and validate."""

from __future__ import annotations

from functools import partial

from data import stages
from data.fingerprints.formats import SOURCES
from data.fingerprints.params import Fingerprints
from data.fingerprints.tables import FingerprintTables
from data.fingerprints.validity import FingerprintDecisions, decide
from data.tables.formats import Reading
from data.tables.problems import Problems


def ingest(section: Fingerprints) -> Reading[FingerprintTables]:
    """Read the fingerprints that params.yaml names."""
    return stages.named(SOURCES, section.ingest)


def validate(tables: FingerprintTables, section: Fingerprints) -> FingerprintDecisions:
    """Say what can be learned from; an InputError if a table is wrong, or too little is left."""
    return decide(tables.without_flaws(Problems()), section.checks.missing)


ingest_stage = partial(stages.ingest, Fingerprints, ingest)
validate_stage = partial(stages.validate, Fingerprints, FingerprintTables, validate)
