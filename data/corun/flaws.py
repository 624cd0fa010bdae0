"""Rows of co-runs that cannot be used as they stand: told one by one, and left out on request."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.corun.tables import AND, DTYPES, CorunTables, corunner_columns
from data.errors import InputError
from data.tables.problems import Problems


def without_flaws(tables: CorunTables, problems: Problems) -> CorunTables:
    """Tell `problems` what is wrong in `tables`; return them without it.

    Wrong are rows without a name, durations that are zero, negative or infinite, counts that are negative or
    infinite, rows that stand twice (the first stays), samples of an unknown phase, and names that cannot be
    told apart in the samples. A missing count is not wrong.

    Raises
    ------
    InputError
        At the first of them, unless ``problems.keep_going``.
    """
    key = {
        "tasks": ["task", "machine", "repetition"],
        "pairs": ["task", *tables.corunners, "machine", "repetition"],
        "samples": ["task", "corunners", "machine", "repetition", "t_seconds"],
    }
    duration = {"tasks": "solo_seconds", "pairs": "corun_seconds", "samples": "t_seconds"}
    sound = {}
    for name, columns in key.items():
        table = _named(getattr(tables, name), name, problems)
        if name == "samples":
            table = _sampled(table, problems)
        table = _counted(_lasting(table, duration[name], problems), name, problems)
        sound[name] = _once(table, columns, problems)
    return CorunTables(**sound, hosts=_once(tables.hosts, ["machine"], problems))


def _named(table: pd.DataFrame, name: str, problems: Problems) -> pd.DataFrame:
    for column in ("task", "corunner_1", "machine"):
        if column not in table:
            continue
        empty = (table[column].isna() | (table[column] == "")).to_numpy(bool)
        for row in table.index[empty]:
            problems.add(InputError(f"has no {column}", place=f"{name} row {row}"))
        table = table[~empty]
    return table


def _sampled(table: pd.DataFrame, problems: Problems) -> pd.DataFrame:
    table = table.assign(corunners=table["corunners"].fillna(""))
    joined = table["task"].str.contains(AND, regex=False).to_numpy(bool)
    table = _left(
        table, joined, "task", f'must be without "{AND}", which joins the names in samples', problems
    )
    unknown = ~table["phase"].isin(["solo", "corun"]).to_numpy(bool)
    return _left(table, unknown, "phase", 'must be "solo" or "corun"', problems)


def _lasting(table: pd.DataFrame, column: str, problems: Problems) -> pd.DataFrame:
    seconds = table[column].to_numpy(np.float64)
    wrong = ~((seconds > 0) & np.isfinite(seconds))
    return _left(table, wrong, column, "must be above 0 and finite", problems)


def _counted(table: pd.DataFrame, name: str, problems: Problems) -> pd.DataFrame:
    known = {*DTYPES[name], *corunner_columns(table)}
    for event in [column for column in table.columns if column not in known]:
        counts = table[event].to_numpy(np.float64)
        wrong = (counts < 0) | np.isinf(counts)
        table = _left(table, wrong, event, "must be 0 or more and finite", problems)
    return table


def _left(
    table: pd.DataFrame, wrong: NDArray[np.bool_], column: str, expected: str, problems: Problems
) -> pd.DataFrame:
    """Tell of the rows that are `wrong`; return the others."""
    if not wrong.any():
        return table
    for row in table[wrong].to_dict("records"):
        value = row[column]
        told = f"{value:g}" if isinstance(value, float) else f'"{value}"'
        problems.add(InputError(f"{column}={told} {expected}", place=_place(row)))
    return table[~wrong]


def _once(table: pd.DataFrame, key: list[str], problems: Problems) -> pd.DataFrame:
    repeated = table.duplicated(key).to_numpy()
    for row in table[repeated].to_dict("records"):
        problems.add(InputError("stands twice", place=_place(row)))
    return table[~repeated].reset_index(drop=True)


def _place(row: dict[str, Any]) -> str:
    """Name a row of any of the tables."""
    words = [f'machine "{row["machine"]}"']
    if "task" in row:
        words.append(f'task "{row["task"]}"')
    beside = [row[name] for name in row if name.startswith("corunner") and isinstance(row[name], str)]
    if any(beside):
        words.append(f'beside "{AND.join(beside)}"')
    words += [f"{name} {row[name]:g}" for name in ("repetition", "t_seconds") if name in row]
    return " ".join(words)
