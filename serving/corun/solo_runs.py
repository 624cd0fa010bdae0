"""Add solo runs to those that a model of co-runs was trained on."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pandas as pd

from data.corun.synonyms import EventName, normalize_name
from data.corun.tables import CorunTables
from data.tables.documents import MAX_COUNT
from data.tables.problems import Problems, shorten_names
from data.tables.specs import Rule
from features.corun.rates import Floats, Solo
from serving.corun.model import Static, load_static, static_name
from serving.corun.schemas import LONGEST, SHORTEST
from serving.plugins import naming_kind
from training.corun.stored import KnownTasks
from training.registry.champions import Address

#: Rules for solo runs in tables, with the limits of `SoloRun`.
_SECONDS_LIMIT = Rule(
    "solo_seconds",
    f"between {SHORTEST:g} and {LONGEST:g}",
    lambda seconds: seconds.between(SHORTEST, LONGEST),
)
_COUNT_LIMIT = Rule("", "below 2^64", lambda counts: counts < MAX_COUNT, gaps=True)


def load_with_solo_runs(uri: Address, directory: Path | None) -> Static:
    """Return the static model at `uri` (None: champion) with the solo runs in the tables of `directory`.

    These runs replace those of the same task and machine; `directory` None adds none. Events are renamed as
    by `match_events`; replaced runs, events that the model does not use, and events of the model without
    counts are named in ``notes``. InputError if the model or the tables are missing or invalid, also at the
    first row of solo runs or machines that `CorunTables.without_flaws` would remove or `SoloRun` would
    refuse.
    """
    with naming_kind(uri, static_name()):
        static = load_static(uri)
    if directory is None:
        return static
    others = CorunTables.read(directory)
    limits = [_SECONDS_LIMIT, *(replace(_COUNT_LIMIT, column=event) for event in others.events)]
    for name in KnownTasks.SPECS:
        spec = others.table_spec(name)
        spec = replace(spec, rules=(*spec.rules, *(limits if name == "tasks" else ())))
        with Problems().collecting(directory / f"{name}.parquet"):
            spec.drop_invalid_rows(getattr(others, name), name, Problems())
    events = match_events(others.events, static.known_tasks.counted_events)
    unused = [written for written in others.events if written not in events]
    notes = []
    if unused:
        notes.append(f"{directory}: events that the model does not use: {shorten_names(unused, 5)}")
    known = static.known_tasks.tasks_by_machine
    runs = others.tasks[["task", "machine"]].drop_duplicates().itertuples(index=False)
    replaced = [f'"{task}" on "{machine}"' for task, machine in runs if task in known.get(machine, ())]
    if replaced:
        notes.append(f"{directory}: replaces the model's solo runs of {shorten_names(replaced)}")
    tasks = others.tasks.drop(columns=unused)
    for written, event in events.items():
        if written != event:
            counts = tasks.pop(written)
            tasks[event] = tasks[event].fillna(counts) if event in tasks else counts
    static = replace(static, notes=tuple(notes))
    return add_solo_runs(static, replace(others, tasks=tasks), str(directory))


@dataclass(frozen=True)
class _ExtendedTasks(KnownTasks):
    """The tasks of a model with added solo runs, which do not change what is usual on its machines.

    So the prediction for a co-run does not depend on added solo runs of other tasks.
    """

    trained: KnownTasks

    @cached_property
    def solo_medians(self) -> Solo:
        """Medians of all solo runs; machines of the model keep the quantiles of their solo times."""
        solo = super().solo_medians
        solo.fixed_cost.update(self.trained.solo_medians.fixed_cost)
        return solo

    def usual_features(self, machine: str, n_corunners: int, columns: tuple[str, ...]) -> Floats:
        """Return the medians of features over a machine's tasks, on machines of the model over its own."""
        if machine in self.trained.tasks_by_machine:
            return self.trained.usual_features(machine, n_corunners, columns)
        return super().usual_features(machine, n_corunners, columns)


def add_solo_runs(static: Static, others: CorunTables, source: str) -> Static:
    """Return a copy of `static` with the solo runs of `others`, as by `KnownTasks.with_others`.

    What is usual on the machines of the model, such as quantiles of solo times, does not change.

    The columns of counts in `others` must be events of the model. A note, which starts with `source`, names
    events that were counted in no run of a task on a machine.
    """
    joined = static.known_tasks.with_others(others)
    known_tasks = _ExtendedTasks(joined.tasks, joined.hosts, static.known_tasks)
    runs = pd.MultiIndex.from_frame(others.tasks[["machine", "task"]]).unique()
    lacking = known_tasks.solo_medians.rates.loc[runs].isna()
    events = lacking.columns[lacking.any()].tolist()
    tasks = runs[lacking.any(axis=1)].unique("task").tolist()
    note = (
        f"{source}: lacks counts of {len(events)} of the model's {lacking.shape[1]} events "
        f"({shorten_names(events)}) for {shorten_names(tasks)}; "
        "the model fills them in, and intervals are not wider for it"
    )
    notes = (*static.notes, note) if events else static.notes
    return replace(static, known_tasks=known_tasks, notes=notes)


def match_events(names: Iterable[str], events: Collection[str]) -> dict[str, str]:
    """Return by name the event of `events` that it denotes; names that denote none are left out.

    A name denotes an equal event, else one that differs in case or underscores only, else one that it is a
    synonym of. Counts of one kind of processor or one level of privileges are not those of the event.
    """
    by_spelling, matched = {normalize_name(event): event for event in events}, {}
    for name in names:
        parsed = EventName.from_text(name)
        synonym = "" if parsed.pmu or parsed.privileges else parsed.event
        candidates = (name, by_spelling.get(normalize_name(name)), synonym)
        event = next((candidate for candidate in candidates if candidate in events), None)
        if event is not None:
            matched[name] = event
    return matched
