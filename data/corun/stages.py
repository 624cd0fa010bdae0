"""The family ``corun`` in the data package: its stages ingest and validate."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial

from data import stages
from data.corun.formats import SOURCES
from data.corun.params import Corun
from data.corun.tables import CorunTables
from data.corun.validity import CorunDecisions, decide
from data.errors import InputError
from data.tables.formats import Reading
from data.tables.problems import Problems


def ingest(section: Corun) -> Reading[CorunTables]:
    """Read the co-runs that params.yaml names."""
    reading = stages.named(SOURCES, section.ingest)
    return replace(reading, tables=of_engines(reading.tables, section.ingest.engines))


def of_engines(tables: CorunTables, engines: Collection[str]) -> CorunTables:
    """Return the tables with co-runs on machines of these engines only, or all if there are none.

    Raises
    ------
    InputError
        If no machine has one of the engines.
    """
    if not engines:
        return tables
    hosts, place = tables.hosts, "params.yaml: corun.engines"
    for engine in engines:
        if not hosts["engine"].eq(engine).any():
            known = ", ".join(sorted(filter(None, hosts["engine"].dropna().unique()))) or "none"
            raise InputError(f'no machine has the engine "{engine}"; there are {known}', place=place)
    ours = hosts.loc[hosts["engine"].isin(list(engines)), "machine"]
    names = ("pairs", "samples")
    chosen = {name: getattr(tables, name)[lambda rows: rows["machine"].isin(ours)] for name in names}
    return replace(tables, **{name: rows.reset_index(drop=True) for name, rows in chosen.items()})


def validate(tables: CorunTables, section: Corun) -> CorunDecisions:
    """Say what can be learned from; an InputError if a table is wrong, or too little is left."""
    return decide(tables.without_flaws(Problems()), section.checks.missing)


ingest_stage = partial(stages.ingest, Corun, ingest)
validate_stage = partial(stages.validate, Corun, CorunTables, validate)
