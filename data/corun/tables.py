"""Tables of co-runs: solo runs, co-runs, samples and machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np
import pandas as pd

from data.tables.documents import UNCOUNTED
from data.tables.specs import Rule, Spec, Tables, name_rules, one_of, positive_rule, text_dtypes, with_dtypes

TASK_DTYPES = text_dtypes("task", "family", "machine") | {"solo_seconds": "float64", "repetition": "int64"}
PAIR_DTYPES = text_dtypes("task", "corunner_1", "machine") | {
    "corun_seconds": "float64",
    "repetition": "int64",
}
SAMPLE_DTYPES = text_dtypes("task", "corunners", "machine", "phase") | {
    "repetition": "int64",
    "t_seconds": "float64",
}
HOST_DTYPES = text_dtypes("machine", "device", "engine", "note")
CORUNNER = "corunner_"
#: Separator of the names of co-runners in samples.
AND = "+"
_spec = partial(
    Spec,
    # a task without a family is its own family, a machine without a device its own device
    optional=("family", "device", "engine", "note"),
    # all further columns are counts, except the names of co-runners
    other_dtype=lambda column: "str" if column.startswith(CORUNNER) else "float64",
    blank=UNCOUNTED,
    words={"corunner_1": "beside", "corunners": "beside"},
)
_WITHOUT_SEPARATOR = Rule(
    "task",
    f'without "{AND}", which joins the names in samples',
    lambda names: (names != "") & ~names.str.contains(AND, regex=False),
)

_COUNT = Rule("", "0 or more and finite", lambda count: (count >= 0) & np.isfinite(count), gaps=True)


@dataclass(frozen=True)
class CorunTables(Tables):
    """Solo runs and co-runs of tasks, and the machines (co-run paper, section 3).

    Attributes
    ----------
    tasks : DataFrame
        One row per solo run: the columns of `TASK_DTYPES`, then one per event, its count over the whole run;
        the rate is count / ``solo_seconds``. A missing count was not measured. ``family`` groups the tasks
        that are sizes of one program.
    pairs : DataFrame
        One row per measured task with co-runners: the columns of `PAIR_DTYPES`, then ``corunner_2`` and so on
        for more co-runners (missing if a row has fewer), then any events: counts over the whole co-run.
        Directed: B as co-runner of A and A as co-runner of B are two rows. Two equal tasks that run together
        are two rows with different repetitions.
    samples : DataFrame
        One row per interval of a run: the columns of `SAMPLE_DTYPES`, then one per event, its count within
        the interval. ``corunners`` are the names joined by ``+``, empty for a solo run; ``phase`` is "solo"
        or "corun"; ``t_seconds`` is the end of the interval since the start of the run. Task, co-runners,
        machine and repetition identify the row of ``tasks`` or ``pairs``. May be empty.
    hosts : DataFrame
        One row per machine: the columns of `HOST_DTYPES`, then numbers that describe it. Machines of one
        ``device`` are held out together; ``engine`` runs the tasks, ``note`` is for people.
    """

    SPECS: ClassVar = {
        "tasks": _spec(
            TASK_DTYPES,
            unique=("machine", "task", "repetition"),
            rules=(*name_rules("task", "machine", "family"), positive_rule("solo_seconds")),
        ),
        "pairs": _spec(
            PAIR_DTYPES,
            unique=("machine", "task", "corunner_1", "repetition"),
            rules=(*name_rules("task", "corunner_1", "machine"), positive_rule("corun_seconds")),
        ),
        "samples": _spec(
            SAMPLE_DTYPES,
            unique=("machine", "task", "corunners", "repetition", "t_seconds"),
            rules=(
                _WITHOUT_SEPARATOR,
                *name_rules("machine"),
                one_of("phase", "solo", "corun"),
                positive_rule("t_seconds"),
            ),
            may_lack=True,
        ),
        "hosts": _spec(
            HOST_DTYPES, unique=("machine",), rules=name_rules("machine", "device"), may_lack=True
        ),
    }

    tasks: pd.DataFrame
    pairs: pd.DataFrame
    samples: pd.DataFrame
    hosts: pd.DataFrame

    @property
    def events(self) -> list[str]:
        """The columns of ``tasks`` that are counts of events."""
        return [column for column in self.tasks.columns if column not in TASK_DTYPES]

    def table_spec(self, name: str) -> Spec:
        """Return the spec of a table, with a rule per event: known counts are 0 or more and finite."""
        spec, table = self.SPECS[name], getattr(self, name)
        if name == "hosts":
            return spec
        corunners = corunner_columns(table)
        if name == "pairs":
            spec = replace(spec, unique=("machine", "task", *corunners, "repetition"))
        events = table.columns.difference([*spec.dtypes, *corunners], sort=False)
        counts = [replace(_COUNT, column=event) for event in events]
        return replace(spec, rules=(*spec.rules, *counts))

    def describe_counts(self) -> str:
        """Return a text with the numbers of machines, tasks, events and runs."""
        machines, tasks = self.tasks["machine"].nunique(), self.tasks["task"].nunique()
        return (
            f"{machines} machines, {tasks} tasks, {len(self.events)} events, {len(self.tasks)} solo runs, "
            f"{len(self.pairs)} co-runs, {len(self.samples)} samples"
        )

    @classmethod
    def from_frames(cls, frames: Mapping[str, pd.DataFrame]) -> Self:
        """Return the tables with families, devices and hosts filled in, and ordered columns of co-runners.

        A task without a family is its own family, a machine without a device its own device; a machine that
        is only in ``tasks`` is added to ``hosts``. `frames` has a typed frame per table.
        """
        tasks, pairs, hosts = frames["tasks"], frames["pairs"], frames["hosts"]
        corunners = corunner_columns(pairs)
        first = dict.fromkeys(["task", *corunners, *PAIR_DTYPES])
        pairs = pairs[[*first, *pairs.columns.drop(list(first))]].astype(dict.fromkeys(corunners, "str"))
        unknown = tasks.loc[~tasks["machine"].isin(hosts["machine"]), ["machine"]].dropna().drop_duplicates()
        if len(unknown):
            frames_of_hosts = [hosts, unknown] if len(hosts) else [unknown]
            hosts = with_dtypes(pd.concat(frames_of_hosts, ignore_index=True), HOST_DTYPES)
        return cls(
            tasks.assign(family=tasks["family"].fillna(tasks["task"])),
            pairs,
            frames["samples"].fillna({"corunners": ""}),
            hosts.assign(device=hosts["device"].fillna(hosts["machine"])).fillna({"engine": "", "note": ""}),
        )


def corunner_columns(pairs: pd.DataFrame) -> list[str]:
    """Return those columns of `pairs` that are ``corunner_`` and a number, ascending by number."""
    numbers = {name: name.removeprefix(CORUNNER) for name in pairs if name.startswith(CORUNNER)}
    numbered = [name for name, number in numbers.items() if number.isdecimal()]
    return sorted(numbered, key=lambda name: int(numbers[name]))
