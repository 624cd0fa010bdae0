"""Checks of the columns of a table, value by value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from data.errors import InputError

if TYPE_CHECKING:
    from pandera.errors import SchemaError


@dataclass(frozen=True)
class Rule:
    """What the values of a column must be.

    Attributes
    ----------
    column : str
    told : str
        What they must be, in words.
    holds : callable
        Marks the values that are that, of those that are there.
    gaps : bool
        Whether values may be missing.
    """

    column: str
    told: str = "there"
    holds: Callable[[pd.Series], pd.Series] = pd.Series.notna
    gaps: bool = False


def broken(
    table: pd.DataFrame, rules: Sequence[Rule], dtypes: Mapping[str, str], name: str
) -> dict[int, tuple[str, str]]:
    """Return by row of a table what is wrong with it, and the column that has no value; by rule, then by row.

    Parameters
    ----------
    table : DataFrame
        Its rows are counted from 0.
    rules : sequence of Rule
    dtypes : mapping of str to str
        Of its columns.
    name : str
        What messages call the table.

    Raises
    ------
    InputError
        If a column is missing or of another type.
    """
    if all(_holds(table, rule, dtypes) for rule in rules):
        return {}
    # only what is wrong is worth loading pandera
    import pandera.pandas as pa
    from pandera.errors import SchemaErrors

    def column(name: str) -> pa.Column:
        own = [rule for rule in rules if rule.column == name]
        checks = [pa.Check(rule.holds, error=rule.told) for rule in own]
        return pa.Column(dtypes.get(name), checks, nullable=all(rule.gaps for rule in own))

    found: dict[int, tuple[str, str]] = {}
    try:
        pa.DataFrameSchema({rule.column: column(rule.column) for rule in rules}).validate(table, lazy=True)
    except SchemaErrors as exc:
        for error in exc.schema_errors:
            cases = error.failure_cases
            if not isinstance(cases, pd.DataFrame):
                raise InputError(_of_column(error), place=name) from exc
            for row, value in zip(cases["index"], cases["failure_case"], strict=True):
                found.setdefault(int(row), _of_value(error, value))
    return found


def _holds(table: pd.DataFrame, rule: Rule, dtypes: Mapping[str, str]) -> bool:
    """Tell whether a column is there, of its type, and as its rule says."""
    if rule.column not in table:
        return False
    values = table[rule.column]
    if str(values.dtype) != dtypes.get(rule.column, str(values.dtype)):
        return False
    known = values.notna()
    return bool((rule.gaps or known.all()) and rule.holds(values[known]).all())


def _of_column(error: SchemaError) -> str:
    if error.schema.name is None:
        return f"the column {error.failure_cases} must be there"
    return f"the column {error.schema.name} holds {error.failure_cases}; expected {error.check}"


def _of_value(error: SchemaError, value: Any) -> tuple[str, str]:
    column = error.schema.name
    if pd.isna(value) or value == "":
        return f"has no {column}", column
    return f"{column}={shown(value)} must be {error.check.error}", ""


def shown(value: Any) -> str:
    """Write a value as messages do: text in quotes, numbers briefly."""
    if isinstance(value, str):
        return f'"{value}"'
    return f"{value:g}" if isinstance(value, float) else str(value)


def positive(column: str, *, gaps: bool = False) -> Rule:
    """Return the rule of a number above 0 and finite."""
    return Rule(column, "above 0 and finite", lambda found: (found > 0) & np.isfinite(found), gaps)


def named(*columns: str) -> tuple[Rule, ...]:
    """Return the rules of columns of text that is never missing or empty."""
    return tuple(Rule(column, "a name", lambda found: found != "") for column in columns)


def one_of(column: str, *values: str, gaps: bool = False) -> Rule:
    """Return the rule of text that is one of `values`."""
    return Rule(column, " or ".join(f'"{value}"' for value in values), lambda found: found.isin(values), gaps)
