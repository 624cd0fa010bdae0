"""What must hold in the four tables of co-runs, whatever they were read from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from data.corun.tables import DTYPES, CorunTables, corunner_columns
from data.tables.checks import positive, require

if TYPE_CHECKING:
    import pandas as pd
    import pandera.pandas as pa


def tasks(table: pd.DataFrame) -> pa.DataFrameSchema:
    """Return the schema of solo runs: positive durations, counts of 0 or more or missing, each run once."""
    import pandera.pandas as pa

    return pa.DataFrameSchema(
        {
            **_text("task", "family", "machine"),
            "solo_seconds": pa.Column("float64", positive()),
            "repetition": pa.Column("int64"),
            **_counts(table, "tasks"),
        },
        unique=["task", "machine", "repetition"],
    )


def pairs(table: pd.DataFrame) -> pa.DataFrameSchema:
    """Return the schema of co-runs: positive durations, each measurement once."""
    import pandera.pandas as pa

    first, *others = corunner_columns(table)
    return pa.DataFrameSchema(
        {
            **_text("task", first, "machine"),
            **{column: pa.Column("str", nullable=True) for column in others},
            "corun_seconds": pa.Column("float64", positive()),
            "repetition": pa.Column("int64"),
            **_counts(table, "pairs"),
        },
        unique=["task", first, *others, "machine", "repetition"],
    )


def samples(table: pd.DataFrame) -> pa.DataFrameSchema:
    """Return the schema of intervals: of a solo run or a co-run, each end of an interval once."""
    import pandera.pandas as pa

    return pa.DataFrameSchema(
        {
            **_text("task", "machine"),
            "corunners": pa.Column("str"),
            "phase": pa.Column("str", pa.Check.isin(["solo", "corun"], error='"solo" or "corun"')),
            "repetition": pa.Column("int64"),
            "t_seconds": pa.Column("float64", positive()),
            **_counts(table, "samples"),
        },
        unique=["task", "corunners", "machine", "repetition", "t_seconds"],
    )


def hosts(_: pd.DataFrame) -> pa.DataFrameSchema:
    """Return the schema of the hosts: each machine once."""
    import pandera.pandas as pa

    return pa.DataFrameSchema({"machine": pa.Column("str", unique=True), **_text("device")})


def check(tables: CorunTables) -> None:
    """Check all four tables.

    Raises
    ------
    InputError
        Naming the first table, column, row and value that is wrong.
    """
    for name, make in (("tasks", tasks), ("pairs", pairs), ("samples", samples), ("hosts", hosts)):
        table = getattr(tables, name)
        require(make(table), name, table)


def _text(*columns: str) -> dict[str, pa.Column]:
    import pandera.pandas as pa

    return {column: pa.Column("str", pa.Check.ne("", error="a name")) for column in columns}


def _counts(table: pd.DataFrame, name: str) -> dict[str, pa.Column]:
    import pandera.pandas as pa

    known = {*DTYPES[name], *corunner_columns(table)}
    check = pa.Check.in_range(0, float("inf"), include_max=False, error="0 or more and finite")
    return {
        column: pa.Column("float64", check, nullable=True) for column in table.columns if column not in known
    }
