"""What must hold in the three tables of fingerprints, whatever they were read from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from data.fingerprints.tables import FingerprintTables
from data.tables.checks import positive, require

if TYPE_CHECKING:
    import pandera.pandas as pa


def machines() -> pa.DataFrameSchema:
    """Return the schema of the rates: positive or missing, each cell of a run once."""
    import pandera.pandas as pa

    return pa.DataFrameSchema(
        {
            "machine": pa.Column("str"),
            "stressor": pa.Column("str"),
            "threads": pa.Column("int64", pa.Check.isin([0, 1], error="0 (all threads) or 1")),
            "repetition": pa.Column("int64"),
            "bogo_ops_per_second": pa.Column("float64", positive(), nullable=True),
        },
        unique=["machine", "stressor", "threads", "repetition"],
    )


def applications() -> pa.DataFrameSchema:
    """Return the schema of the applications: positive or missing, each repetition once."""
    import pandera.pandas as pa

    return pa.DataFrameSchema(
        {
            "machine": pa.Column("str"),
            "application": pa.Column("str"),
            "metric": pa.Column("str"),
            "better": pa.Column("str", pa.Check.isin(["lower", "higher"], error='"lower" or "higher"')),
            "repetition": pa.Column("int64"),
            "value": pa.Column("float64", positive(), nullable=True),
        },
        unique=["machine", "application", "repetition"],
    )


def hosts() -> pa.DataFrameSchema:
    """Return the schema of the hosts: each machine once, with its processor."""
    import pandera.pandas as pa

    return pa.DataFrameSchema(
        {
            "machine": pa.Column("str", unique=True),
            "cpu": pa.Column("str", pa.Check.ne("", error="the CPU model")),
            "cores": pa.Column("Int64", pa.Check.ge(1, error="1 or more"), nullable=True),
        }
    )


def check(tables: FingerprintTables) -> None:
    """Check all three tables.

    Raises
    ------
    InputError
        Naming the first table, column, row and value that is wrong.
    """
    for name, make in (("machines", machines), ("applications", applications), ("hosts", hosts)):
        require(make(), name, getattr(tables, name))
