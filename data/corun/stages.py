"""The family ``corun`` in the data package: its stages ingest and validate."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial

from data import stages
from data.corun import formats
from data.corun.flaws import without_flaws
from data.corun.params import Corun
from data.corun.tables import CorunTables
from data.corun.validity import CorunDecisions, decide
from data.errors import InputError
from data.tables.formats import Reading
from data.tables.problems import Problems


def ingest(section: Corun) -> Reading[CorunTables]:
    """Read the co-runs that params.yaml names."""
    source = section.ingest
    reading = formats.read(source.format, [source.path], keep_going=source.keep_going)
    return replace(reading, tables=of_engines(reading.tables, source.engines))


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


def counted(tables: CorunTables) -> str:
    """Say how much is in the tables."""
    machines, tasks = tables.tasks["machine"].nunique(), tables.tasks["task"].nunique()
    return (
        f"{machines} machines, {tasks} tasks, {len(tables.events)} events, {len(tables.tasks)} solo runs, "
        f"{len(tables.pairs)} co-runs, {len(tables.samples)} samples"
    )


def validate(tables: CorunTables, section: Corun) -> CorunDecisions:
    """Say what can be learned from.

    Raises
    ------
    InputError
        If a table is wrong, or too little is left.
    """
    return decide(without_flaws(tables, Problems()), section.checks.missing)


ingest_stage = partial(stages.ingest, Corun, ingest, counted)
validate_stage = partial(stages.validate, Corun, CorunTables, validate)
