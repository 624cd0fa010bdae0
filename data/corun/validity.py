"""Which events, solo runs, co-runs and samples can be learned from, and why others are rejected."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
import pandas as pd

from data import stages
from data.corun.formats import SOURCES
from data.corun.params import Corun
from data.corun.tables import AND, CorunTables, corunner_columns
from data.errors import InputError
from data.stages import (
    KEPT,
    WARNINGS,
    Decisions,
    column_counts,
    messages_where,
    missing_value_reasons,
    reason_table,
    useless_column_reasons,
)
from data.tables.formats import Reading
from data.tables.specs import Spec, text_dtypes

#: Least number of co-runs to learn from.
ENOUGH = 5
#: Relative difference of repeated runs without a measured one: the tolerance of the co-run paper, section 4.
TOLERANCE = 0.03
#: An interval of samples longer than this multiple of the median interval has a gap before its end.
GAP = 2.5
TASK_KEYS = text_dtypes("task", "machine") | {"repetition": "int64"}
PAIR_KEYS = text_dtypes("task", "corunners", "machine") | {"repetition": "int64"}
RUN_KEYS = text_dtypes("task", "corunners", "machine", "phase") | {"repetition": "int64"}
RUN = list(RUN_KEYS)


@dataclass(frozen=True)
class CorunDecisions(Decisions):
    """Decisions about tables of co-runs; ``reason`` is empty where a row is kept.

    ``pairs`` has the rows of the table of pairs; its ``flag`` is set for a task that was faster than alone.
    ``tasks`` has the solo runs, ``samples`` the sampled runs.
    """

    SPECS: ClassVar = {
        "pairs": Spec({**PAIR_KEYS, **KEPT, "flag": "str"}, file="valid"),
        "tasks": Spec({**TASK_KEYS, **KEPT}, file="valid_tasks"),
        "events": Spec({"event": "str", **KEPT}, file="valid_events"),
        "samples": Spec({**RUN_KEYS, **KEPT}, file="valid_samples"),
        "warnings": WARNINGS,
    }
    WHAT: ClassVar = {"events": "events", "tasks": "solo runs", "pairs": "co-runs", "samples": "sampled runs"}
    UNTOLD: ClassVar = ("kept", "flag")

    pairs: pd.DataFrame
    tasks: pd.DataFrame
    events: pd.DataFrame
    samples: pd.DataFrame

    def select_kept(self, tables: CorunTables) -> CorunTables:
        """Return the kept rows and events of `tables`, to which the decisions apply; gaps are not filled."""
        events = self.events.loc[~self.events["kept"], "event"]
        runs = self.samples.loc[self.samples["kept"], RUN]
        tasks = tables.tasks[self.tasks["kept"].to_numpy()].reset_index(drop=True)
        pairs = tables.pairs[self.pairs["kept"].to_numpy()].reset_index(drop=True)
        samples = tables.samples.merge(runs, on=RUN)
        tasks, pairs, samples = (
            table.drop(columns=events, errors="ignore") for table in (tasks, pairs, samples)
        )
        return CorunTables(tasks, pairs, samples, tables.hosts)


def decide_validity(tables: CorunTables, missing: float) -> CorunDecisions:
    """Return which events, solo runs, co-runs and sampled runs can be learned from, and why others cannot.

    The tables ``events``, ``tasks`` (solo runs), ``pairs`` (co-runs) and ``samples`` have ``kept`` and
    ``reason`` (empty if kept). Rejected are, in this order: events without a count in more than the share
    `missing` of the solo runs, or with the same count in all; solo runs without a count of more than
    `missing` of the remaining events; co-runs of a task or co-runner without a remaining solo run on that
    machine; sampled runs with an interval above `GAP` (2.5) times the median of all intervals, or that
    neither ``tasks`` nor ``pairs`` of `tables` has. A co-run that was faster than the median solo run, both
    by more than 3 % and by more than three standard deviations of repeated solo runs, has a text in ``flag``,
    which does not reject it; kept ones cause one row of ``warnings``. InputError if no event, or fewer than
    `ENOUGH` (5) co-runs, remain, or two machines have the same engine on the same device.
    """
    _require_one_machine_per_engine(tables)
    counts = tables.tasks[tables.events]
    events = useless_column_reasons(column_counts(counts), missing, "solo runs", "counted", "count")
    if not (events == "").any():
        first = f'; "{events.index[0]}" {events.iloc[0]}' if len(events) else ""
        raise InputError(f"no event was counted that differs between solo runs{first}", place="tasks")
    tasks = missing_value_reasons(counts.loc[:, (events == "").to_numpy()], missing, "the events, such as")
    solo = tables.tasks[(tasks == "").to_numpy()]
    reason = _without_solo_run(tables.pairs, solo)
    rejected = reason[reason != ""]
    left = len(reason) - len(rejected)
    if left < ENOUGH:
        message = f"{left} of {len(reason)} can be learned from; expected at least {ENOUGH}"
        first = f"; the first left out: {rejected.iloc[0]}" if len(rejected) else ""
        raise InputError(f"{message}{first}", place="pairs")
    groups = solo.groupby(["machine", "task"])["solo_seconds"]
    alone = groups.median().reindex(pd.MultiIndex.from_frame(tables.pairs[["machine", "task"]]))
    impacts = tables.pairs["corun_seconds"] / alone.to_numpy()
    # three standard deviations of repeated runs
    noise = max(TOLERANCE, np.nan_to_num(3 * float((groups.std() / groups.mean()).median())))
    flags = [f"{impact:.2f} of its solo time" if impact < 1 - noise else "" for impact in impacts]
    runs = tables.pairs[list(TASK_KEYS)]
    names = _joined_corunners(tables.pairs)
    pairs = runs.assign(corunners=names, kept=reason == "", reason=reason, flag=flags)
    return CorunDecisions.from_reasons(
        _decision_warnings(pairs, impacts, noise),
        pairs=pairs,
        tasks=tables.tasks[list(TASK_KEYS)].assign(reason=tasks),
        events=reason_table("event", events),
        samples=_decide_samples(tables, pairs),
    )


def _require_one_machine_per_engine(tables: CorunTables) -> None:
    """Raise InputError for two machines with runs, one device and one engine: features compare engines."""
    is_measured = tables.hosts["machine"].isin(tables.tasks["machine"])
    hosts = tables.hosts[is_measured & (tables.hosts["engine"] != "")]
    for (device, engine), machines in hosts.groupby(["device", "engine"])["machine"]:
        if len(machines) > 1:
            names = " and ".join(f'"{name}"' for name in machines[:2])
            problem = f'{names} have the device "{device}" and the engine "{engine}"; expected one machine'
            raise InputError(problem, place="hosts")


def _without_solo_run(pairs: pd.DataFrame, solo: pd.DataFrame) -> pd.Series:
    measured = pd.MultiIndex.from_frame(solo[["machine", "task"]])
    reason = pd.Series("", pairs.index, dtype="str")
    for column in ["task", *corunner_columns(pairs)]:
        has_solo = pd.MultiIndex.from_frame(pairs[["machine", column]]).isin(measured)
        unknown = pairs[column].notna().to_numpy(bool) & ~has_solo & (reason == "").to_numpy(bool)
        noun = "the task" if column == "task" else "the co-runner"
        reason[unknown] = f'{noun} "' + pairs[column] + '" has no solo run on this machine to learn from'
    return reason


def _joined_corunners(pairs: pd.DataFrame) -> pd.Series:
    first, *others = corunner_columns(pairs)
    joined = pairs[first]
    for column in others:
        joined = joined + (AND + pairs[column]).fillna("")
    return _sort_corunners(joined)


def _sort_corunners(names: pd.Series) -> pd.Series:
    return names.map({joined: AND.join(sorted(joined.split(AND))) for joined in names.unique()})


def _decide_samples(tables: CorunTables, pairs: pd.DataFrame) -> pd.DataFrame:
    runs = tables.samples[[*RUN, "t_seconds"]].sort_values([*RUN, "t_seconds"])
    times = runs.groupby(RUN)["t_seconds"]
    seconds = times.diff().fillna(runs["t_seconds"])
    usual = float(seconds.median())
    ascending = runs.assign(seconds=seconds).sort_values("seconds", kind="stable")
    longest = ascending.groupby(RUN).tail(1).set_index(RUN)
    gaps = [
        f"has a gap of {row.seconds:.1f} s before {row.t_seconds:.1f} s, where intervals last {usual:.1f} s"
        for row in longest.itertuples()
    ]
    table = reason_table(RUN, messages_where(gaps, longest["seconds"] > GAP * usual))
    solo = tables.tasks[list(TASK_KEYS)].assign(corunners="", phase="solo")[RUN]
    runs = pd.MultiIndex.from_frame(pd.concat([solo, pairs.assign(phase="corun")[RUN]]))
    sampled = pd.MultiIndex.from_frame(table[RUN].assign(corunners=_sort_corunners(table["corunners"])))
    table["reason"] = table["reason"].where(sampled.isin(runs), "belong to no run")
    return table.sort_values(RUN, ignore_index=True)


def _decision_warnings(pairs: pd.DataFrame, impacts: pd.Series, noise: float) -> Iterator[str]:
    flagged = pairs["kept"] & (pairs["flag"] != "")
    if flagged.any():
        worst = pairs.loc[impacts[flagged].idxmin()]
        yield (
            f"in {flagged.sum()} of {pairs['kept'].sum()} measurements, a task was faster beside others than "
            f"alone, by more than {noise:.1%}; they are kept. The largest difference is that of "
            f'"{worst["task"]}" with "{worst["corunners"]}" on "{worst["machine"]}": {worst["flag"]}'
        )


def read_coruns(section: Corun) -> Reading[CorunTables]:
    """Return the tables of the co-run source in params.yaml, and errors of skipped rows (``skipped``).

    Only co-runs and samples on machines with one of ``ingest.engines`` (see `select_engines`) are kept, all
    if that is empty; solo runs are not filtered, and validity is not decided here. InputError if the format
    or an engine is unknown, or the source is missing, cannot be read or has no pairs or solo runs; and at the
    first wrong row, unless ``ingest.keep_going``.
    """
    reading = stages.read_source(SOURCES, section.ingest)
    return replace(reading, tables=select_engines(reading.tables, section.ingest.engines))


def select_engines(tables: CorunTables, engines: Collection[str]) -> CorunTables:
    """Return the tables with only the pairs and samples on machines that have one of the `engines`.

    All are kept if `engines` is empty; solo runs and machines are never filtered. InputError if one of the
    `engines` is that of no machine.
    """
    if not engines:
        return tables
    hosts, place = tables.hosts, "params.yaml: corun.engines"
    for engine in engines:
        if not hosts["engine"].eq(engine).any():
            engine_names = ", ".join(sorted(filter(None, hosts["engine"].dropna().unique()))) or "none"
            raise InputError(f'no machine has the engine "{engine}"; there are {engine_names}', place=place)
    ours = hosts.loc[hosts["engine"].isin(list(engines)), "machine"]
    pairs, samples = (
        table[table["machine"].isin(ours)].reset_index(drop=True) for table in (tables.pairs, tables.samples)
    )
    return replace(tables, pairs=pairs, samples=samples)


ingest_stage = partial(stages.ingest, Corun, read_coruns)
validate_stage = partial(
    stages.run_validate,
    Corun,
    CorunTables,
    lambda tables, section: decide_validity(tables, section.checks.max_missing_fraction),
)
