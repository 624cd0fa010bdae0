"""What must hold in the three tables, whatever they were read from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from data.comparisons.tables import STATS, ComparisonTables
from data.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    import pandera.pandas as pa
    from pandera.errors import SchemaError


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


def require(schema: pa.DataFrameSchema, name: str, table: pd.DataFrame) -> None:
    """Check one table.

    Raises
    ------
    InputError
        Naming the table, column, row and value that is wrong.
    """
    from pandera.errors import SchemaError

    try:
        schema.validate(table)
    except SchemaError as exc:
        raise _told(name, exc) from exc


def positive() -> pa.Check:
    """Return the check of a number above 0 and finite."""
    import pandera.pandas as pa

    return pa.Check.in_range(
        0, float("inf"), include_min=False, include_max=False, error="above 0 and finite"
    )


#: What pandera calls the checks of columns that are not ours to name.
_EXPECTED = {"column_in_dataframe": "there", "not_nullable": "without gaps"}


def _told(table: str, error: SchemaError) -> InputError:
    expected = getattr(error.check, "error", None) or getattr(error.check, "name", None) or str(error.check)
    expected = _EXPECTED.get(expected, expected)
    cases = error.failure_cases
    if not hasattr(cases, "iloc"):
        return InputError(f"the column {cases} must be {expected}", place=table)
    first = cases.iloc[0]
    row = f"{table} row {int(first['index'])}"
    column = first.get("column", None)
    if column is not None:
        return InputError(f"must satisfy {expected}", place=row)
    problem = f"{error.schema.name}={first['failure_case']!s} must be {expected}"
    return InputError(problem, place=row)
