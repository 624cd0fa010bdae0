"""The family ``fingerprints`` in the data package: its stages ingest and validate."""

from __future__ import annotations

from functools import partial

from data import stages
from data.fingerprints import formats
from data.fingerprints.flaws import without_flaws
from data.fingerprints.params import Fingerprints
from data.fingerprints.tables import FingerprintTables
from data.fingerprints.validity import FingerprintDecisions, decide
from data.tables.formats import Reading
from data.tables.problems import Problems


def ingest(section: Fingerprints) -> Reading[FingerprintTables]:
    """Read the fingerprints that params.yaml names."""
    source = section.ingest
    return formats.read(source.format, [source.path], keep_going=source.keep_going)


def counted(tables: FingerprintTables) -> str:
    """Say how much is in the tables."""
    machines, applications = tables.machines["machine"], tables.applications["application"]
    return f"{machines.nunique()} machines, {len(machines)} rates, {applications.nunique()} applications"


def validate(tables: FingerprintTables, section: Fingerprints) -> FingerprintDecisions:
    """Say what can be learned from.

    Raises
    ------
    InputError
        If a table is wrong, or too little is left.
    """
    return decide(without_flaws(tables, Problems()), section.checks.missing)


ingest_stage = partial(stages.ingest, Fingerprints, ingest, counted)
validate_stage = partial(stages.validate, Fingerprints, FingerprintTables, validate)
