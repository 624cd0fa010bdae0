"""Checks of whole tables, told as bad input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from data.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    import pandera.pandas as pa
    from pandera.errors import SchemaError


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
