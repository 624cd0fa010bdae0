"""Two runs measured the like: in one direction, and in units of one kind, which become one unit."""

from __future__ import annotations

from fractions import Fraction

import pandas as pd

from data.comparisons.missing import OPERATION, counted, listed
from data.comparisons.units import UNKNOWN, factor, is_told
from data.errors import InputError

_BETTER = ("lower", "higher")


def require_one_direction(results: pd.DataFrame, names: tuple[str, str]) -> None:
    """Refuse an operation of which lower values are better here, and higher ones there.

    Parameters
    ----------
    results : DataFrame
        Those of both runs, the baseline's (order 0) before the target's (order 1).
    names : tuple of str
        What the two are called.

    Raises
    ------
    InputError
        Naming file, operation and both directions.
    """
    first = _first_of_operation(results, results["better"])
    wrong = results.assign(first=first)[(results["better"] != first) | ~first.isin(_BETTER)]
    if len(wrong):
        row = wrong.iloc[0]
        expected = f'"{row["first"]}" as in {names[0]}' if row["first"] in _BETTER else '"lower" or "higher"'
        raise _error(f'better="{row["better"]}" is not {expected}', row, names)


def in_one_unit(results: pd.DataFrame, names: tuple[str, str]) -> tuple[pd.DataFrame, list[str]]:
    """Convert every operation to the first unit that it was measured in, the baseline's.

    Parameters
    ----------
    results, names
        As for `require_one_direction`.

    Returns
    -------
    results : DataFrame
        With ``value`` in that unit.
    notes : list of str
        What was converted, and what was taken to be in that unit because it names none.

    Raises
    ------
    InputError
        If two units of an operation measure different things, naming file, operation and both units.
    """
    given = results["unit"].where(results["unit"].map(is_told))
    first = _first_of_operation(results, given)
    results = results.assign(unit=first.fillna(UNKNOWN))
    others = results.assign(given=given)[first.notna() & (given != first)]
    notes = []
    for (order, unit, into), rows in others.groupby(["order", "given", "unit"], dropna=False):
        scale = _scale(rows.iloc[0], names)
        results.loc[rows.index, "value"] = rows["value"] * scale.numerator / scale.denominator
        how = "no unit, taken to be" if pd.isna(unit) else f"{unit}, multiplied by {float(scale):.10g} to"
        operations = rows[OPERATION].drop_duplicates().agg("/".join, axis=1).tolist()
        if scale != 1 or pd.isna(unit):
            told = f"{counted(len(operations), 'operation')} in {how} {into}: {listed(operations)}"
            notes.append(f"{names[order]}: {told}")
    return results, notes


def _first_of_operation(results: pd.DataFrame, column: pd.Series) -> pd.Series:
    """Return for every row what the column first says in its operation."""
    return column.groupby([results[name] for name in OPERATION]).transform("first")


def _scale(row: pd.Series, names: tuple[str, str]) -> Fraction:
    if pd.isna(row["given"]):
        return Fraction(1)
    scale = factor(row["given"], row["unit"])
    if scale is None:
        problem = f'unit "{row["given"]}" cannot be converted to "{row["unit"]}" of {names[0]}'
        raise _error(problem, row, names)
    return scale


def _error(problem: str, row: pd.Series, names: tuple[str, str]) -> InputError:
    return InputError(problem, file=names[row["order"]], place=f'operation "{row["operation"]}"')
