"""The four tables that every source of co-runs is read into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np
import pandas as pd

from data.tables.documents import UNCOUNTED
from data.tables.specs import Rule, Spec, Tables, named, one_of, positive, text, typed

TASK_DTYPES = text("task", "family", "machine") | {"solo_seconds": "float64", "repetition": "int64"}
PAIR_DTYPES = text("task", "corunner_1", "machine") | {"corun_seconds": "float64", "repetition": "int64"}
SAMPLE_DTYPES = text("task", "corunners", "machine", "phase") | {
    "repetition": "int64",
    "t_seconds": "float64",
}
HOST_DTYPES = text("machine", "device", "engine", "note")
CORUNNER = "corunner_"
#: What joins the names of co-runners in the samples.
AND = "+"


def _further(column: str) -> str:
    """Return the type of a further column: a count, unless it names co-runners."""
    return "str" if column.startswith(CORUNNER) else "float64"


#: A task is its own family, and a machine its own device, where a source does not say.
_spec = partial(
    Spec,
    optional=("family", "device", "engine", "note"),
    further=_further,
    blank=UNCOUNTED,
    words={"corunner_1": "beside", "corunners": "beside"},
)
#: Names of tasks must stay apart when they are joined.
_APART = Rule(
    "task",
    f'without "{AND}", which joins the names in samples',
    lambda found: (found != "") & ~found.str.contains(AND, regex=False),
)


@dataclass(frozen=True)
class CorunTables(Tables):
    """Tasks on their own and beside others, and what the machines are (seed 002, section 3).

    Attributes
    ----------
    tasks : DataFrame
        One row per solo run, with the columns of `TASK_DTYPES`, then one per event: its count over the whole
        run, so that its rate is count / ``solo_seconds`` (equation 1). A missing count: the machine lacks the
        event, or did not count it. ``family`` groups the tasks that are sizes of one program.
    pairs : DataFrame
        One row per measured task beside its co-runners, with the columns of `PAIR_DTYPES`, ``corunner_2`` and
        so on where there are more co-runners (missing where a row has fewer), then any events: counts over
        the whole co-run. Directed: that B runs beside A, too, is another row. Of two equal tasks side by side
        both are rows, with repetitions of their own.
    samples : DataFrame
        One row per interval of a run, with the columns of `SAMPLE_DTYPES`, then one per event: its count
        within the interval. ``corunners`` are the names joined by ``+``, empty for a solo run; ``phase`` is
        "solo" or "corun"; ``t_seconds`` is the end of the interval since the start of the run. Task,
        co-runners, machine and repetition name the row of ``tasks`` or ``pairs``. May be empty.
    hosts : DataFrame
        One row per machine, with the columns of `HOST_DTYPES`, then numbers that describe it. Machines of one
        ``device`` are held out together; ``engine`` is what runs the tasks on it, ``note`` is for people.
    """

    SPECS: ClassVar = {
        "tasks": _spec(
            TASK_DTYPES,
            unique=("machine", "task", "repetition"),
            rules=(*named("task", "machine", "family"), positive("solo_seconds")),
        ),
        "pairs": _spec(
            PAIR_DTYPES,
            unique=("machine", "task", "corunner_1", "repetition"),
            rules=(*named("task", "corunner_1", "machine"), positive("corun_seconds")),
        ),
        "samples": _spec(
            SAMPLE_DTYPES,
            unique=("machine", "task", "corunners", "repetition", "t_seconds"),
            rules=(_APART, *named("machine"), one_of("phase", "solo", "corun"), positive("t_seconds")),
            may_lack=True,
        ),
        "hosts": _spec(HOST_DTYPES, unique=("machine",), rules=named("machine", "device"), may_lack=True),
    }

    tasks: pd.DataFrame
    pairs: pd.DataFrame
    samples: pd.DataFrame
    hosts: pd.DataFrame

    @property
    def events(self) -> list[str]:
        """The events that were counted in solo runs."""
        return [column for column in self.tasks.columns if column not in TASK_DTYPES]

    @property
    def corunners(self) -> list[str]:
        """The columns of co-runners of the pairs."""
        return corunner_columns(self.pairs)

    def spec(self, name: str) -> Spec:
        """Return the rules of a table, with one per event: a count that is there is 0 or more and finite."""
        spec, table = self.SPECS[name], getattr(self, name)
        if name == "pairs":
            spec = replace(spec, unique=("machine", "task", *self.corunners, "repetition"))
        if name == "hosts":
            return spec
        known = {*spec.dtypes, *corunner_columns(table)}
        counts = [_count(column) for column in table.columns if column not in known]
        return replace(spec, rules=(*spec.rules, *counts))

    def counted(self) -> str:
        """Say how much is in the tables."""
        machines, tasks = self.tasks["machine"].nunique(), self.tasks["task"].nunique()
        return (
            f"{machines} machines, {tasks} tasks, {len(self.events)} events, {len(self.tasks)} solo runs, "
            f"{len(self.pairs)} co-runs, {len(self.samples)} samples"
        )

    @classmethod
    def of(cls, frames: Mapping[str, pd.DataFrame]) -> Self:
        """Fill what a source may leave out, and bring columns of co-runners together."""
        tasks, pairs, hosts = frames["tasks"], frames["pairs"], frames["hosts"]
        corunners = corunner_columns(pairs)
        first = dict.fromkeys(["task", *corunners, *PAIR_DTYPES])
        pairs = pairs[[*first, *pairs.columns.drop(list(first))]].astype(dict.fromkeys(corunners, "str"))
        unknown = tasks.loc[~tasks["machine"].isin(hosts["machine"]), "machine"].dropna().unique()
        if len(unknown):
            more = pd.DataFrame({"machine": unknown})
            hosts = typed(pd.concat([hosts, more], ignore_index=True) if len(hosts) else more, HOST_DTYPES)
        return cls(
            tasks.assign(family=tasks["family"].fillna(tasks["task"])),
            pairs,
            frames["samples"].fillna({"corunners": ""}),
            hosts.assign(device=hosts["device"].fillna(hosts["machine"])).fillna({"engine": "", "note": ""}),
        )


def _count(event: str) -> Rule:
    return Rule(event, "0 or more and finite", lambda found: (found >= 0) & np.isfinite(found), gaps=True)


def corunner_columns(pairs: pd.DataFrame) -> list[str]:
    """Return the columns of co-runners: ``corunner_1``, ``corunner_2`` and so on."""
    numbered = {column: column.removeprefix(CORUNNER) for column in pairs if column.startswith(CORUNNER)}
    found = [column for column, number in numbered.items() if number.isdecimal()]
    return sorted(found, key=lambda column: int(numbered[column]))
