"""Rows of co-runs that cannot be used as they stand: told one by one, and left out on request."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from data.corun.tables import AND, DTYPES, CorunTables, corunner_columns
from data.tables.checks import names, one_of, positive, sound
from data.tables.problems import Problems

if TYPE_CHECKING:
    import pandas as pd
    import pandera.pandas as pa


def without_flaws(tables: CorunTables, problems: Problems) -> CorunTables:
    """Tell `problems` what is wrong in `tables`; return them without it.

    Wrong are rows without a name, durations that are missing, zero, negative or infinite, counts that are
    negative or infinite, rows that stand twice (the first stays), samples of an unknown phase, and names that
    cannot be told apart in the samples. A missing count is not wrong.

    Raises
    ------
    InputError
        At the first of them, unless ``problems.keep_going``.
    """
    import pandera.pandas as pa

    first, *others = tables.corunners
    specs = dict(CorunTables.SPECS)
    specs["pairs"] = replace(specs["pairs"], unique=("machine", "task", first, *others, "repetition"))
    columns = {
        "tasks": names("task", "machine", "family") | _seconds("solo_seconds"),
        "pairs": names("task", first, "machine") | _seconds("corun_seconds"),
        "samples": names("task", "machine")
        | {"task": _apart(), "phase": one_of("solo", "corun")}
        | _seconds("t_seconds"),
        "hosts": names("machine", "device"),
    }
    found = {}
    for name, known in columns.items():
        table = getattr(tables, name)
        counts = {} if name == "hosts" else _counts(table, name)
        found[name] = sound(table, specs[name], pa.DataFrameSchema(known | counts, name=name), problems)
    return CorunTables(**found)


def _apart() -> pa.Column:
    """Return the column of tasks of the samples, whose names must stay apart when they are joined."""
    import pandera.pandas as pa

    told = f'without "{AND}", which joins the names in samples'
    joins_none = pa.Check(lambda task: ~task.str.contains(AND, regex=False), error=told)
    return pa.Column("str", [pa.Check.ne(""), joins_none])


def _seconds(column: str) -> dict[str, pa.Column]:
    import pandera.pandas as pa

    return {column: pa.Column("float64", positive())}


def _counts(table: pd.DataFrame, name: str) -> dict[str, pa.Column]:
    import pandera.pandas as pa

    known = {*DTYPES[name], *corunner_columns(table)}
    check = pa.Check.in_range(0, float("inf"), include_max=False, error="0 or more and finite")
    return {
        column: pa.Column("float64", check, nullable=True) for column in table.columns if column not in known
    }
