"""Which events, solo runs, co-runs and samples can be learned from, and why the others cannot."""

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
from data.stages import KEPT, WARNINGS, Decisions, by, column_counts, lacking, reasons, said
from data.tables.formats import Reading
from data.tables.problems import Problems
from data.tables.specs import Spec, text

#: Co-runs that anything can be learned from at all.
ENOUGH = 5
#: What a repeated run may differ by where nothing was repeated: the seed's tolerance (section 4).
TOLERANCE = 0.03
#: An interval of the samples that lasts this many times the usual one has a gap before its end.
GAP = 2.5
TASK_KEYS = text("task", "machine") | {"repetition": "int64"}
PAIR_KEYS = text("task", "corunners", "machine") | {"repetition": "int64"}
RUN_KEYS = text("task", "corunners", "machine", "phase") | {"repetition": "int64"}
RUN = list(RUN_KEYS)


@dataclass(frozen=True)
class CorunDecisions(Decisions):
    """Decisions about tables of co-runs; ``reason`` is empty for what is kept.

    ``pairs`` are row by row as the table of pairs; their ``flag`` is set where a kept task was faster than
    alone. ``tasks`` are solo runs, ``samples`` the sampled runs.
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

    def kept(self, tables: CorunTables) -> CorunTables:
        """Return what of `tables` can be learned from; counts that are missing stay missing."""
        out = self.events.loc[~self.events["kept"], "event"]
        runs = self.samples.loc[self.samples["kept"], RUN]
        return CorunTables(
            tables.tasks[self.tasks["kept"].to_numpy()].drop(columns=out).reset_index(drop=True),
            tables.pairs[self.pairs["kept"].to_numpy()]
            .drop(columns=out, errors="ignore")
            .reset_index(drop=True),
            tables.samples.merge(runs, on=RUN).drop(columns=out, errors="ignore"),
            tables.hosts,
        )


def decide(tables: CorunTables, missing: float) -> CorunDecisions:
    """Decide which rows can be learned from.

    An event goes if more than `missing` of the solo runs lack it or all have the same count; then a solo run
    goes if it lacks more than `missing` of the events that are left; then a co-run goes if the task or one of
    its co-runners has no solo run left on that machine; then the samples of a run go if they have a gap or
    the run itself is not there. InputError if no event is left, or fewer than `ENOUGH` co-runs.
    """
    counts = tables.tasks[tables.events]
    events = reasons(column_counts(counts), missing, "solo runs", "counted", "count")
    if not (events == "").any():
        told = f'; "{events.index[0]}" {events.iloc[0]}' if len(events) else ""
        raise InputError(f"no event was counted that differs between solo runs{told}", place="tasks")
    tasks = lacking(counts.loc[:, (events == "").to_numpy()], missing, "the events, such as")
    known = tables.tasks[(tasks == "").to_numpy()]
    why = _pairs(tables.pairs, known)
    if (why == "").sum() < ENOUGH:
        left, out = (why == "").sum(), why[why != ""]
        told = f"{left} of {len(why)} can be learned from; expected at least {ENOUGH}"
        raise InputError(f"{told}; the first left out: {out.iloc[0]}" if len(out) else told, place="pairs")
    impacts, noise = _impacts(tables.pairs, known), _noise(known)
    flags = [f"{impact:.2f} of its solo time" if impact < 1 - noise else "" for impact in impacts]
    runs = tables.pairs[list(TASK_KEYS)]
    pairs = runs.assign(corunners=_joined(tables.pairs), kept=why == "", reason=why, flag=flags)
    return CorunDecisions.told(
        _warnings(pairs, impacts, noise),
        pairs=pairs,
        tasks=tables.tasks[list(TASK_KEYS)].assign(reason=tasks),
        events=by("event", events),
        samples=_samples(tables, pairs),
    )


def _pairs(pairs: pd.DataFrame, solo: pd.DataFrame) -> pd.Series:
    """Say why a co-run cannot be used; empty where it can."""
    known = pd.MultiIndex.from_frame(solo[["machine", "task"]])
    found = pd.Series("", pairs.index, dtype="str")
    for column in ["task", *corunner_columns(pairs)]:
        alone = pd.MultiIndex.from_frame(pairs[["machine", column]]).isin(known)
        unknown = pairs[column].notna().to_numpy(bool) & ~alone & (found == "").to_numpy(bool)
        what = "the task" if column == "task" else "the co-runner"
        lost = pairs.loc[unknown, column]
        found[unknown] = f'{what} "' + lost + '" has no solo run on this machine to learn from'
    return found


def _joined(pairs: pd.DataFrame) -> pd.Series:
    first, *others = corunner_columns(pairs)
    joined = pairs[first]
    for column in others:
        joined = joined + (AND + pairs[column]).fillna("")
    return _unordered(joined)


def _unordered(names: pd.Series) -> pd.Series:
    """Bring joined names into one order, since that of co-runners does not matter."""
    return names.map({joined: AND.join(sorted(joined.split(AND))) for joined in names.unique()})


def _impacts(pairs: pd.DataFrame, solo: pd.DataFrame) -> pd.Series:
    """Return how many times its solo time each task took; missing where it has none."""
    alone = solo.groupby(["machine", "task"])["solo_seconds"].median()
    index = pd.MultiIndex.from_frame(pairs[["machine", "task"]])
    return pairs["corun_seconds"] / alone.reindex(index).to_numpy()


def _noise(solo: pd.DataFrame) -> float:
    """Return what runs may differ by: three standard deviations of repeats, at least the seed's tolerance."""
    runs = solo.groupby(["machine", "task"])["solo_seconds"]
    spread = (runs.std() / runs.mean()).median()
    return TOLERANCE if np.isnan(spread) else max(TOLERANCE, 3 * float(spread))


def _samples(tables: CorunTables, pairs: pd.DataFrame) -> pd.DataFrame:
    """Decide which runs have samples to learn from."""
    runs = tables.samples[[*RUN, "t_seconds"]].sort_values([*RUN, "t_seconds"])
    times = runs.groupby(RUN)["t_seconds"]
    seconds = times.diff().fillna(runs["t_seconds"])
    usual = float(seconds.median())
    longest = (
        runs.assign(seconds=seconds).sort_values("seconds", kind="stable").groupby(RUN).tail(1).set_index(RUN)
    )
    told = [
        f"has a gap of {gap:.1f} s before {end:.1f} s, where intervals last {usual:.1f} s"
        for gap, end in zip(longest["seconds"], longest["t_seconds"], strict=True)
    ]
    table = by(RUN, said(told, longest["seconds"] > GAP * usual))
    solo = tables.tasks[list(TASK_KEYS)].assign(corunners="", phase="solo")[RUN]
    there = pd.concat([solo, pairs.assign(phase="corun")[RUN]])
    known = pd.MultiIndex.from_frame(table[RUN].assign(corunners=_unordered(table["corunners"])))
    table["reason"] = table["reason"].where(known.isin(pd.MultiIndex.from_frame(there)), "belong to no run")
    return table.sort_values(RUN, ignore_index=True)


def _warnings(pairs: pd.DataFrame, impacts: pd.Series, noise: float) -> Iterator[str]:
    flagged = pairs["kept"] & (pairs["flag"] != "")
    if flagged.any():
        worst = pairs.loc[impacts[flagged].idxmin()]
        yield (
            f"{flagged.sum()} of {pairs['kept'].sum()} co-runs took less than the solo run by more than "
            f'{noise:.1%}, the most "{worst["task"]}" beside "{worst["corunners"]}" on "{worst["machine"]}": '
            f"{worst['flag']}; they are kept"
        )


def ingest(section: Corun) -> Reading[CorunTables]:
    """Read the co-runs that params.yaml names."""
    reading = stages.named(SOURCES, section.ingest)
    return replace(reading, tables=of_engines(reading.tables, section.ingest.engines))


def of_engines(tables: CorunTables, engines: Collection[str]) -> CorunTables:
    """Return the tables with co-runs on machines of these engines only; all without engines."""
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


ingest_stage = partial(stages.ingest, Corun, ingest)
validate_stage = partial(
    stages.validate,
    Corun,
    CorunTables,
    lambda tables, section: decide(tables.without_flaws(Problems()), section.checks.missing),
)
