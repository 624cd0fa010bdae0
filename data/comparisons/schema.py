"""What must hold in the three tables, whatever they were read from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from data.comparisons.tables import STATS, ComparisonTables
from data.tables.checks import require

if TYPE_CHECKING:
    import pandera.pandas as pa


def results() -> pa.DataFrameSchema:
    """Return the schema of the results."""
    import pandera.pandas as pa

    return pa.DataFrameSchema(
        {
            "better": pa.Column("str", pa.Check.isin(["lower", "higher"], error='"lower" or "higher"')),
            "threads": pa.Column("int64", pa.Check.ge(1, error="1 or more")),
            "order": pa.Column("int64"),
            "value": pa.Column("float64"),
            "stat": pa.Column("str", pa.Check.isin(STATS, error=f"one of {', '.join(STATS)}"), nullable=True),
        }
    )


def comparisons() -> pa.DataFrameSchema:
    """Return the schema of the comparisons: the baseline lies before the target."""
    import pandera.pandas as pa

    ordered = pa.Check(
        lambda table: (
            (table["baseline_from"] <= table["baseline_to"])
            & (table["baseline_to"] < table["target_from"])
            & (table["target_from"] <= table["target_to"])
        ),
        name="baseline_from <= baseline_to < target_from <= target_to",
    )
    return pa.DataFrameSchema({"comparison_id": pa.Column("str")}, checks=ordered)


def labels() -> pa.DataFrameSchema:
    """Return the schema of the labels."""
    import pandera.pandas as pa

    return pa.DataFrameSchema(
        {
            "comparison_id": pa.Column("str"),
            "status": pa.Column("str", pa.Check.isin(["pass", "fail"], error='"pass" or "fail"')),
        }
    )


def check(tables: ComparisonTables) -> None:
    """Check all three tables.

    Raises
    ------
    InputError
        Naming the first table, column, row and value that is wrong.
    """
    for name, make in (("results", results), ("comparisons", comparisons), ("labels", labels)):
        require(make(), name, getattr(tables, name))
