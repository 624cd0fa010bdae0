"""The family ``corun`` in the data package: its stages ingest and validate."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import replace

from data.corun import formats as corun_formats
from data.corun import schema as corun_schema
from data.corun.formats import CorunReading
from data.corun.params import Corun
from data.corun.tables import CorunTables
from data.corun.validity import Decisions, decide
from data.errors import InputError
from data.params import load
from data.places import Places
from data.tables.decisions import left_out
from data.tables.problems import told

PLACES = Places("corun")


def ingest(section: Corun) -> CorunReading:
    """Read the co-runs that params.yaml names."""
    reading = corun_formats.read(
        section.ingest.format, [section.ingest.path], keep_going=section.ingest.keep_going
    )
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


def ingest_stage() -> None:
    """Stage ingest: the source becomes the four tables."""
    reading = ingest(load(Corun).section)
    reading.tables.write(PLACES.interim)
    sys.stderr.write(told(reading.skipped))
    print(counted(reading.tables))  # noqa: T201


def counted(tables: CorunTables) -> str:
    """Say how much is in the tables."""
    machines, tasks = tables.tasks["machine"].nunique(), tables.tasks["task"].nunique()
    return (
        f"{machines} machines, {tasks} tasks, {len(tables.events)} events, {len(tables.tasks)} solo runs, "
        f"{len(tables.pairs)} co-runs, {len(tables.samples)} samples"
    )


def validate(tables: CorunTables, section: Corun) -> Decisions:
    """Say what can be learned from.

    Raises
    ------
    InputError
        If a table breaks its schema, or too little is left.
    """
    corun_schema.check(tables)
    return decide(tables, section.checks.missing)


def validate_stage() -> None:
    """Stage validate: which events, solo runs, co-runs and samples can be learned from."""
    decisions = validate(CorunTables.read(PLACES.interim), load(Corun).section)
    decisions.write(PLACES.valid)
    sys.stderr.write(explained(decisions))
    print(kept(decisions))  # noqa: T201


WHAT = {"events": "events", "tasks": "solo runs", "pairs": "co-runs", "samples": "sampled runs"}


def explained(decisions: Decisions) -> str:
    """Tell in a few lines the warnings, what was left out and why."""
    lines = [f"warning: {warning}" for warning in decisions.warnings["warning"]]
    for name, what in WHAT.items():
        lines += left_out(getattr(decisions, name).drop(columns="flag", errors="ignore"), what)
    return "".join(f"{line}\n" for line in lines)


def kept(decisions: Decisions) -> str:
    """Say how much can be learned from."""
    parts = [
        f"{table['kept'].sum()} of {len(table)} {what}"
        for table, what in ((getattr(decisions, name), what) for name, what in WHAT.items())
    ]
    return f"{', '.join(parts)} are kept"
