"""Checks of whole tables, told row by row as bad input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from data.errors import InputError
from data.tables.problems import Problems
from data.tables.specs import Spec, shown

if TYPE_CHECKING:
    import pandera.pandas as pa
    from pandera.errors import SchemaError


def sound(table: pd.DataFrame, spec: Spec, schema: pa.DataFrameSchema, problems: Problems) -> pd.DataFrame:
    """Tell `problems` what is wrong in a table; return it without those rows.

    A row is told once: for the first check that it fails, in the order of the schema; or because it repeats
    another one in what `spec` calls unique. Of repeated rows the first that is right otherwise stays.

    Raises
    ------
    InputError
        At the first of them, unless ``problems.keep_going``; and if a column is missing or of another type.
    """
    rows, known = table.reset_index(drop=True), list(spec.unique)
    wrong = _broken(rows, schema)
    for row, (told, gap) in wrong.items():
        named = known and gap not in known
        place = spec.place(rows.loc[row, known]) if named else f"{schema.name} row {row}"
        problems.add(InputError(told, place=place))
    left = rows.drop(index=list(wrong))
    repeated = left.duplicated(known).to_numpy() if known else np.zeros(len(left), bool)
    for row in left.index[repeated]:
        problems.add(InputError("stands twice", place=spec.place(left.loc[row, known])))
    return left[~repeated].reset_index(drop=True)


def positive() -> pa.Check:
    """Return the check of a number above 0 and finite."""
    import pandera.pandas as pa

    return pa.Check.in_range(
        0, float("inf"), include_min=False, include_max=False, error="above 0 and finite"
    )


def names(*columns: str) -> dict[str, pa.Column]:
    """Return columns of text that is never missing or empty."""
    import pandera.pandas as pa

    return {column: pa.Column("str", pa.Check.ne("", error="a name")) for column in columns}


def one_of(*values: str, nullable: bool = False) -> pa.Column:
    """Return a column of text that is one of `values`."""
    import pandera.pandas as pa

    told = " or ".join(f'"{value}"' for value in values)
    return pa.Column("str", pa.Check.isin(values, error=told), nullable=nullable)


def _broken(table: pd.DataFrame, schema: pa.DataFrameSchema) -> dict[int, tuple[str, str]]:
    """Return by row what is wrong with it, and the column that has no value; by check, then by row."""
    from pandera.errors import SchemaErrors

    found: dict[int, tuple[str, str]] = {}
    try:
        schema.validate(table, lazy=True)
    except SchemaErrors as exc:
        for error in exc.schema_errors:
            cases = error.failure_cases
            if not isinstance(cases, pd.DataFrame):
                raise InputError(_of_column(error), place=schema.name) from exc
            for row, value in zip(cases["index"], cases["failure_case"], strict=True):
                found.setdefault(int(row), _told(error, value))
    return found


def _of_column(error: SchemaError) -> str:
    if _of_table(error):
        return f"the column {error.failure_cases} must be there"
    return f"the column {error.schema.name} holds {error.failure_cases}; expected {error.check}"


def _told(error: SchemaError, value: Any) -> tuple[str, str]:
    column = error.schema.name
    if _of_table(error):
        return f"must satisfy {error.check.name}", ""
    if pd.isna(value) or value == "":
        return f"has no {column}", column
    return f"{column}={shown(value)} must be {error.check.error}", ""


def _of_table(error: SchemaError) -> bool:
    """Tell whether a check is of the whole table, and not of one column."""
    import pandera.pandas as pa

    return isinstance(error.schema, pa.DataFrameSchema)
