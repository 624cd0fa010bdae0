"""Reader of pairs of SPEC CPU2017 programs (MIT, Bruno-Dzk/resource-contention).

Its events are not hardware counters. They describe how a program reacts to a load on memory and how much load
it causes, measured together with a program of a given footprint (the reporter). They are scaled so that the
rate of an event, count / solo seconds, is a slow-down: that of the program with that footprint, or that of
the reporter with the program.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from data.corun.tables import CorunTables
from data.errors import InputError
from data.tables.cells import parse_numbers, read_cells

PAIRS = "validated.csv"
PAIR_COLUMNS = ("name1", "name2", "actual1", "actual2")
CURVES = "sensitivity"
CURVE = "_data.csv"
#: Both campaigns ran on one machine; each is named after its frequency governor.
DEVICE = "spec-corun"
# pandas converts numbers itself, which keeps their last digit
_read_cells = partial(read_cells, sep=r"\s+", dtype=None, keep_default_na=True)
NOTE = "spec-corun: events are seconds beside a load on memory, not hardware counters"


def read_tables(directory: Path) -> CorunTables:
    """Return the tables of one campaign, or of all campaigns in a directory.

    A campaign is a directory with ``validated.csv`` (the pairs) and ``sensitivity/`` (a curve per program);
    it becomes a machine with the directory's name. A program's solo seconds are the point of its curve at 0
    MB. The other points are its events ``beside_<n>mb``: its seconds beside a program with a footprint of n
    MB. If the campaign also has ``reporter_sensitivity.csv`` and ``contentiousness.csv``, there is a further
    event, ``reporter_slowdown``: the program's solo seconds, times the reporter's value beside the program
    (``contentiousness.csv``), divided by its value alone (the first in ``reporter_sensitivity.csv``).

    Each pair gives two co-runs, one per program: its seconds are its solo seconds divided by ``actual1`` or
    ``actual2``. InputError if a campaign, a file, a column, a curve or its row for 0 MB is missing, or a
    number is wrong.
    """
    campaigns = sorted(path.parent for path in directory.glob(f"*/{PAIRS}"))
    if (directory / PAIRS).exists():
        campaigns = [directory]
    if not campaigns:
        problem = f"holds no campaign of spec-corun (no {PAIRS} in it or one level below)"
        raise InputError(problem, file=directory)
    return CorunTables.join_tables([_read_campaign(campaign) for campaign in campaigns])


def _read_campaign(directory: Path) -> CorunTables:
    tasks, name = _read_tasks(directory), directory.resolve().name
    pairs = _read_pairs(directory / PAIRS, tasks).assign(machine=name)
    host = {"machine": name, "device": DEVICE, "engine": f"governor {name}", "note": NOTE}
    return CorunTables.from_rows(tasks.assign(machine=name), pairs, None, [host])


def _read_tasks(directory: Path) -> pd.DataFrame:
    paths = sorted((directory / CURVES).glob(f"*{CURVE}"))
    if not paths:
        raise InputError(f"holds no *{CURVE}", file=directory / CURVES)
    curves = {}
    for path in paths:
        table = _read_table(path, ("footprint_mb", "perf"))
        # named as in the pairs: 605_mcf_s_data.csv is 605.mcf_s
        name = path.name.removesuffix(CURVE).replace("_", ".", 1)
        curves[name] = pd.Series(table["perf"].to_numpy(), table["footprint_mb"].to_numpy())
        if 0 not in curves[name].index:
            raise InputError("has no row footprint_mb=0, which holds the solo seconds", file=path)
    seconds = pd.DataFrame(curves).T
    solo = seconds[0].to_numpy(np.float64)
    events = seconds.drop(columns=0).rename(columns=lambda footprint: f"beside_{footprint:g}mb")
    tasks = events.rename_axis("task").reset_index()
    tasks.insert(1, "solo_seconds", solo)
    alone, together = directory / "reporter_sensitivity.csv", directory / "contentiousness.csv"
    if alone.exists() and together.exists():
        baseline, times = _read_series(alone, heads=0), _read_series(together, heads=1)
        slowdown = {str(name): value / baseline.iloc[0] for name, value in times.items()}
        tasks["reporter_slowdown"] = tasks["task"].map(slowdown) * solo
    return tasks.assign(family=tasks["task"], repetition=1)


def _read_pairs(path: Path, tasks: pd.DataFrame) -> pd.DataFrame:
    table = _read_table(path, PAIR_COLUMNS)
    solo = tasks.set_index("task")["solo_seconds"]
    directions = []
    for this, other in ((1, 2), (2, 1)):
        task, corunner = table[f"name{this}"], table[f"name{other}"]
        seconds = task.map(solo) / table[f"actual{this}"]
        directions.append(pd.DataFrame({"task": task, "corunner_1": corunner, "corun_seconds": seconds}))
    pairs = pd.concat(directions, ignore_index=True)
    unknown = np.flatnonzero(~pairs["task"].isin(solo.index))
    if len(unknown):
        problem = f'the program "{pairs["task"].iloc[unknown[0]]}" has no curve in {CURVES}'
        raise InputError(problem, file=path, line=int(table.index[unknown[0] % len(table)]))
    return pairs.assign(repetition=pairs.groupby(["task", "corunner_1"]).cumcount() + 1)


def _read_table(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    """Read a table separated by spaces; all `columns` except names must be numbers."""
    table = _read_cells(path, columns)
    numbers = [column for column in columns if not column.startswith("name")]
    return table.assign(**{column: parse_numbers(table[column], path) for column in numbers})


def _read_series(path: Path, *, heads: int) -> pd.Series:
    """Read a column of numbers by name, below `heads` header lines."""
    table = _read_cells(path, names=["name", "value"], skiprows=heads)
    return parse_numbers(table["value"], path).set_axis(table["name"])
