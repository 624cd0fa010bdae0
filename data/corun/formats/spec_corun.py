"""Pairs of SPEC CPU2017 programs (MIT, Bruno-Dzk/resource-contention): campaigns become tasks and pairs.

Its events are no counters: they say how a program bears a load on memory and what load it is itself, as
measured beside a program that occupies a given footprint (the reporter). All are scaled so that the rate of
an event, count / solo seconds, is a slow-down: of the program beside that footprint, or of the reporter
beside the program.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from data.corun.tables import CorunTables
from data.errors import InputError
from data.tables.cells import cells, numbers

PAIRS = "validated.csv"
PAIR_COLUMNS = ("name1", "name2", "actual1", "actual2")
CURVES = "sensitivity"
CURVE = "_data.csv"
#: Both campaigns ran on this one machine, each with the frequency governor it is named after.
DEVICE = "spec-corun"
NOTE = "spec-corun: events are seconds beside a load on memory, not hardware counters"


def read(directory: Path) -> CorunTables:
    """Read a directory of campaigns, or one campaign, with ``validated.csv`` and ``sensitivity/``.

    A machine is a campaign. The events of a program are the points of its curve (``beside_<n>mb``: its
    seconds beside a footprint of n MB) and, where the campaign has it, its contentiousness
    (``reporter_slowdown``). Solo seconds are the curve's at 0 MB; a co-run takes solo seconds / actual.
    """
    campaigns = sorted(path.parent for path in directory.glob(f"*/{PAIRS}"))
    if (directory / PAIRS).exists():
        campaigns = [directory]
    if not campaigns:
        told = f"holds no campaign of spec-corun (no {PAIRS} in it or one level below)"
        raise InputError(told, file=directory)
    return CorunTables.joined([_campaign(campaign) for campaign in campaigns])


def _campaign(directory: Path) -> CorunTables:
    tasks, name = _tasks(directory), directory.resolve().name
    pairs = _pairs(directory / PAIRS, tasks).assign(machine=name)
    host = {"machine": name, "device": DEVICE, "engine": f"governor {name}", "note": NOTE}
    return CorunTables.of_rows(tasks.assign(machine=name), pairs, None, [host])


def _tasks(directory: Path) -> pd.DataFrame:
    paths = sorted((directory / CURVES).glob(f"*{CURVE}"))
    if not paths:
        raise InputError(f"holds no *{CURVE}", file=directory / CURVES)
    curves = pd.DataFrame(
        {
            # named as in the pairs: 605_mcf_s_data.csv is 605.mcf_s
            path.name.removesuffix(CURVE).replace("_", ".", 1): _curve(path)
            for path in paths
        }
    ).T
    solo = curves[0].to_numpy(np.float64)
    events = curves.drop(columns=0).rename(columns=lambda footprint: f"beside_{footprint:g}mb")
    tasks = events.rename_axis("task").reset_index()
    tasks.insert(1, "solo_seconds", solo)
    slowdown = _reporter_slowdown(directory)
    if slowdown is not None:
        tasks["reporter_slowdown"] = tasks["task"].map(slowdown) * solo
    return tasks.assign(family=tasks["task"], repetition=1)


def _curve(path: Path) -> pd.Series:
    """Return the seconds of a program by the footprint beside it in MB."""
    table = _read(path, ("footprint_mb", "perf"))
    curve = pd.Series(table["perf"].to_numpy(), table["footprint_mb"].to_numpy())
    if 0 not in curve.index:
        raise InputError("lacks the row footprint_mb=0, which holds the solo seconds", file=path)
    return curve


def _reporter_slowdown(directory: Path) -> dict[str, float] | None:
    """Return how much slower the reporter is beside each program; None where it was not measured."""
    alone, beside = directory / "reporter_sensitivity.csv", directory / "contentiousness.csv"
    if not (alone.exists() and beside.exists()):
        return None
    curve, times = _named(alone, heads=0), _named(beside, heads=1)
    return {str(name): value / curve.iloc[0] for name, value in times.items()}


def _pairs(path: Path, tasks: pd.DataFrame) -> pd.DataFrame:
    table = _read(path, PAIR_COLUMNS)
    solo = tasks.set_index("task")["solo_seconds"]
    directions = [
        pd.DataFrame(
            {
                "task": table[f"name{this}"],
                "corunner_1": table[f"name{other}"],
                "corun_seconds": table[f"name{this}"].map(solo) / table[f"actual{this}"],
            }
        )
        for this, other in ((1, 2), (2, 1))
    ]
    pairs = pd.concat(directions, ignore_index=True)
    unknown = np.flatnonzero(~pairs["task"].isin(solo.index))
    if len(unknown):
        problem = f'the program "{pairs["task"].iloc[unknown[0]]}" has no curve in {CURVES}'
        raise InputError(problem, file=path, line=int(unknown[0] % len(table)) + 2)
    return pairs.assign(repetition=pairs.groupby(["task", "corunner_1"]).cumcount() + 1)


def _read(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    """Read a table separated by spaces; columns that are no names must be numbers."""
    table = _table(path, columns)
    found = {column: numbers(table[column], path) for column in columns if not column.startswith("name")}
    return table.assign(**found)


def _named(path: Path, *, heads: int) -> pd.Series:
    """Read a column of numbers with names, under `heads` lines that say nothing."""
    table = _table(path, names=["name", "value"], skiprows=heads)
    return numbers(table["value"], path, first=1 + heads).set_axis(table["name"])


def _table(path: Path, columns: tuple[str, ...] = (), **options: Any) -> pd.DataFrame:
    # pandas itself tells what are numbers, to the last digit as ever
    return cells(path, columns, sep=r"\s+", dtype=None, keep_default_na=True, **options)
