"""The family ``fingerprints`` in the data package: its stages ingest and validate."""

from data.fingerprints.formats import FORMATS
from data.fingerprints.params import Fingerprints
from data.fingerprints.tables import FingerprintTables
from data.fingerprints.validity import decide
from data.stages import Stages, named
from data.tables.problems import Problems

STAGES = Stages(
    Fingerprints,
    FingerprintTables,
    lambda section: named(FORMATS, section.ingest),
    lambda tables, section: decide(tables.without_flaws(Problems()), section.checks.missing),
)
