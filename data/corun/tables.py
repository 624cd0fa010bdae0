"""The four tables that every source of co-runs is read into."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from data.comparisons.tables import read_counts, typed
from data.tables.blanks import UNCOUNTED
from data.tables.files import replacing

TASK_DTYPES = {
    "task": "str",
    "family": "str",
    "machine": "str",
    "solo_seconds": "float64",
    "repetition": "int64",
}
PAIR_DTYPES = {
    "task": "str",
    "corunner_1": "str",
    "machine": "str",
    "corun_seconds": "float64",
    "repetition": "int64",
}
SAMPLE_DTYPES = {
    "task": "str",
    "corunners": "str",
    "machine": "str",
    "phase": "str",
    "repetition": "int64",
    "t_seconds": "float64",
}
HOST_DTYPES = {"machine": "str", "device": "str", "engine": "str", "note": "str"}
DTYPES = {"tasks": TASK_DTYPES, "pairs": PAIR_DTYPES, "samples": SAMPLE_DTYPES, "hosts": HOST_DTYPES}
#: Columns that a source may leave out: a task is its own family, and a machine its own device.
OPTIONAL = frozenset({"family", "device", "engine", "note"})
#: Tables that a source may leave out.
OPTIONAL_TABLES = frozenset({"samples", "hosts"})
CORUNNER = "corunner_"
#: What joins the names of co-runners in the samples.
AND = "+"


@dataclass(frozen=True)
class CorunTables:
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

    @classmethod
    def of_rows(
        cls,
        tasks: list[dict[str, Any]],
        pairs: list[dict[str, Any]],
        samples: list[dict[str, Any]] | None = None,
        hosts: list[dict[str, Any]] | None = None,
    ) -> CorunTables:
        """Make the tables from plain rows; a column that no row has is filled as `read` fills it."""
        rows = {"tasks": tasks, "pairs": pairs, "samples": samples or [], "hosts": hosts or []}
        return _filled({name: typed(pd.DataFrame(rows[name]), dtypes) for name, dtypes in DTYPES.items()})

    @classmethod
    def read(cls, directory: Path) -> CorunTables:
        """Read the Parquet files of `directory`; samples and hosts may be absent.

        Raises
        ------
        InputError
            If a file is missing, is no Parquet file, lacks a column, or an event is no number.
        """
        frames = {}
        for name, dtypes in DTYPES.items():
            path = directory / f"{name}.parquet"
            if name in OPTIONAL_TABLES and not path.exists():
                frames[name] = typed(pd.DataFrame(), dtypes)
            else:
                frames[name] = read_counts(path, dtypes, OPTIONAL, further=_dtype, blank=UNCOUNTED)
        return _filled(frames)

    def write(self, directory: Path) -> None:
        """Write the four tables to `directory` as Parquet, each in one piece."""
        for name in DTYPES:
            with replacing(directory / f"{name}.parquet") as path:
                getattr(self, name).to_parquet(path, index=False, compression="zstd")

    @classmethod
    def joined(cls, parts: list[CorunTables]) -> CorunTables:
        """Join the tables of several sources; an event that a source lacks is missing there."""
        if len(parts) == 1:
            return parts[0]
        frames = {}
        for name, dtypes in DTYPES.items():
            tables = [getattr(part, name) for part in parts]
            rows = pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True)
            frames[name] = typed(rows, dtypes)
        return _filled(frames)


def corunner_columns(pairs: pd.DataFrame) -> list[str]:
    """Return the columns of co-runners: ``corunner_1``, ``corunner_2`` and so on."""
    found = [
        column
        for column in pairs.columns
        if column.startswith(CORUNNER) and column.removeprefix(CORUNNER).isdecimal()
    ]
    return sorted(found, key=lambda column: int(column.removeprefix(CORUNNER)))


def _filled(frames: dict[str, pd.DataFrame]) -> CorunTables:
    """Fill what a source may leave out, and bring columns of co-runners together."""
    tasks, pairs, hosts = frames["tasks"], frames["pairs"], frames["hosts"]
    corunners = corunner_columns(pairs)
    first = dict.fromkeys(["task", *corunners, *PAIR_DTYPES])
    pairs = pairs[[*first, *pairs.columns.drop(list(first))]].astype(dict.fromkeys(corunners, "str"))
    unknown = tasks.loc[~tasks["machine"].isin(hosts["machine"]), "machine"].dropna().unique()
    if len(unknown):
        hosts = typed(
            pd.concat([hosts, pd.DataFrame({"machine": unknown})], ignore_index=True)
            if len(hosts)
            else pd.DataFrame({"machine": unknown}),
            HOST_DTYPES,
        )
    families = tasks["family"].fillna(tasks["task"])
    return CorunTables(
        pd.concat([tasks[["task"]], families, tasks.drop(columns=["task", "family"])], axis="columns"),
        pairs,
        frames["samples"],
        hosts.assign(
            device=hosts["device"].fillna(hosts["machine"]),
            engine=hosts["engine"].fillna(""),
            note=hosts["note"].fillna(""),
        ),
    )


def _dtype(column: str) -> str:
    """Return the type of a further column: a count, unless it names co-runners."""
    return "str" if column.startswith(CORUNNER) else "float64"
