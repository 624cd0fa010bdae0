"""Load models of co-runs: the champions of the registry, or models at an address."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.corun.params import Corun
from data.corun.synonyms import EventName
from data.corun.tables import CorunTables
from data.tables.documents import MAX_COUNT
from data.tables.problems import Problems, shorten_names
from data.tables.specs import Rule
from serving.corun.schemas import LONGEST, SHORTEST
from serving.models import ModelRef, Served, Source
from training.corun.estimators.pressure import Named
from training.corun.stored import ImpactCard, KnownTasks, OnlineCard, TrainedImpact, TrainedOnline
from training.registry.champions import (
    CHAMPION,
    Address,
    Version,
    locate_model,
    project_params,
    served_version,
)

#: Number of co-runs up to which compiled arrays are faster than reading the model.
FEW = 5000
#: Rules for solo runs in tables, with the limits of `SoloRun`.
_SECONDS_LIMIT = Rule(
    "solo_seconds",
    f"between {SHORTEST:g} and {LONGEST:g}",
    lambda seconds: seconds.between(SHORTEST, LONGEST),
)
_COUNT_LIMIT = Rule("", "below 2^64", lambda counts: counts < MAX_COUNT, gaps=True)
Floats = NDArray[np.float64]
Online = Served[TrainedOnline]


@dataclass(frozen=True)
class Static:
    """The model that predicts from solo runs, the known solo runs, and the origin of the model.

    ``notes`` concern solo runs that were added.
    """

    card: ImpactCard
    known_tasks: KnownTasks
    ref: ModelRef
    quick: Callable[[], TrainedImpact]
    load: Callable[[], TrainedImpact]
    notes: tuple[str, ...] = ()

    def predict_impacts(self, x: Floats, named: Named) -> Floats:
        """Return co-run time / solo time for rows of `KnownTasks.corun_features`, shape (n_rows,)."""
        model = self.quick() if len(x) <= FEW else self.load()
        return model.predict_impacts(x, named)


def load_static(uri: Address = None, extra_tasks: Path | None = None) -> Static:
    """Return the static model at `uri` (None: champion), to which the solo runs in `extra_tasks` are added.

    `extra_tasks` is a directory of tables; its runs replace those of the same task and machine. Its events
    are renamed as by `match_events`; events that the model does not use, and events of the model without
    counts, are named in ``notes``. InputError if the model or the tables are missing or invalid, also at the
    first row of solo runs or machines that `CorunTables.without_flaws` would remove or `SoloRun` would
    refuse. The trained model itself is read only when it first predicts, which raises the InputError for a
    damaged one.
    """
    with locate_model(static_name, uri) as (directory, version):
        static = _read_static(directory, version)
    if extra_tasks is None:
        return static
    others = CorunTables.read(extra_tasks)
    limits = [_SECONDS_LIMIT, *(replace(_COUNT_LIMIT, column=event) for event in others.events)]
    for name in KnownTasks.SPECS:
        spec = others.table_spec(name)
        spec = replace(spec, rules=(*spec.rules, *(limits if name == "tasks" else ())))
        with Problems().collecting(extra_tasks / f"{name}.parquet"):
            spec.drop_invalid_rows(getattr(others, name), name, Problems())
    names = match_events(others.events, static.known_tasks.counted_events)
    unused = [written for written in others.events if written not in names]
    note = f"{extra_tasks}: events that the model does not use: {shorten_names(unused, 5)}"
    tasks = others.tasks.drop(columns=unused)
    for written, event in names.items():
        if written != event:
            counts = tasks.pop(written)
            tasks[event] = tasks[event].fillna(counts) if event in tasks else counts
    static = replace(static, notes=(note,) if unused else ())
    return add_solo_runs(static, replace(others, tasks=tasks), str(extra_tasks))


def add_solo_runs(static: Static, others: CorunTables, source: str) -> Static:
    """Return a copy of `static` with the solo runs of `others`, as by `KnownTasks.with_others`.

    The columns of counts in `others` must be events of the model. A note, which starts with `source`, names
    events that were counted in no run of a task on a machine.
    """
    known_tasks = static.known_tasks.with_others(others)
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

    def normalized(name: str) -> str:
        return name.casefold().replace("_", "-")

    by_spelling, matched = {normalized(event): event for event in events}, {}
    for name in names:
        parsed = EventName.from_text(name)
        synonym = "" if parsed.pmu or parsed.privileges else parsed.event
        candidates = (name, by_spelling.get(normalized(name)), synonym)
        event = next((candidate for candidate in candidates if candidate in events), None)
        if event is not None:
            matched[name] = event
    return matched


def _read_static(directory: Path, version: Version) -> Static:
    # read later by its version, so that card and model belong together
    def read_version(read: Callable[[Path], TrainedImpact]) -> TrainedImpact:
        with locate_model(static_name, version) as (files, _):
            return read(files)

    card, known_tasks = ImpactCard.read(directory), KnownTasks.read(directory)
    quick = cache(partial(read_version, TrainedImpact.read_quick))
    load = cache(partial(read_version, TrainedImpact.read))
    return Static(card, known_tasks, IMPACTS.make_ref(directory, version, card), quick, load)


def static_name() -> str:
    """Return the registered name of static models: that in the project's params.yaml, else the default.

    The default is used if the file or the entry is missing. The file is read once per process. InputError if
    it is invalid.
    """
    return project_params(Corun).section.promote.name


def online_name() -> str:
    """Return the registered name of online models: that in the project's params.yaml, else the default.

    The file is read once per process; it may be missing. InputError if it is invalid.
    """
    return project_params(Corun).section.online.name


IMPACTS = Source(static_name, TrainedImpact.read, ImpactCard.read)
SECONDS = Source(online_name, TrainedOnline.read, OnlineCard.read)
load_online = SECONDS.load


def known_online(uri: Address = None) -> Online | None:
    """Return the online model at `uri` (None: champion); None if `uri` is None and no champion exists.

    InputError if the model is missing or unreadable, or the registry does not answer.
    """
    if uri is None and served_version(f"models:/{online_name()}@{CHAMPION}") is None:
        return None
    return load_online(uri)
