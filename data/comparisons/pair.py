"""The results of two runs become comparisons: what was measured before against what was measured after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import pandas as pd

from data.comparisons.missing import (
    CONFIGURATION,
    SIDES,
    Missing,
    comparable,
    counted,
    listed,
    missing,
    told,
)
from data.comparisons.tables import OPERATION, ComparisonTables
from data.comparisons.units import UNKNOWN, factor, is_told
from data.errors import InputError

_BETTER = ("lower", "higher")
#: Which of several runs a row is of.
_RUN = "run"


@dataclass(frozen=True)
class TwoRuns:
    """What two runs give.

    Attributes
    ----------
    tables : ComparisonTables
        One comparison per operation, machine and benchmark, in the order of the baseline; without labels.
    missing : tuple of Missing
        What only one of them has.
    notes : tuple of str
        The same in words, and what was converted to make the others comparable.
    """

    tables: ComparisonTables
    missing: tuple[Missing, ...]
    notes: tuple[str, ...]


def paired(baseline: pd.DataFrame, target: pd.DataFrame, names: tuple[str, str] = SIDES) -> TwoRuns:
    """Compare every operation that both runs measured, over the configurations that both measured.

    Parameters
    ----------
    baseline, target : DataFrame
        Results, one row per sample or summary statistic, with the columns of ``RESULT_DTYPES``;
        their orders are replaced by 0 and 1.
    names : tuple of str
        What messages call the two, such as their files.

    Raises
    ------
    InputError
        If the two have no operation in common, or measured one in opposite directions or in units of
        different kinds.
    """
    results = pd.concat([baseline.assign(order=0), target.assign(order=1)], ignore_index=True)
    results[OPERATION] = results[OPERATION].fillna("unknown")
    found = missing(results)
    notes = tuple(told(found, names))
    results = comparable(results)
    if results.empty:
        problem = "have no operation of one benchmark and machine in common"
        raise InputError(f"{problem}: {'; '.join(notes)}", file=f"{names[0]} and {names[1]}")
    require_one_direction(results, names)
    results, converted = in_one_unit(results, names)
    return TwoRuns(_tables(results), found, (*notes, *converted))


def paired_runs(
    baseline: Sequence[pd.DataFrame],
    target: Sequence[pd.DataFrame],
    earlier: Sequence[pd.DataFrame] = (),
    names: tuple[str, str] = SIDES,
) -> TwoRuns:
    """Compare the same of several runs a side, and know of earlier ones what the baseline measured, too.

    Parameters
    ----------
    baseline, target, earlier : sequence of DataFrame
        Results as for `paired`, a run each; of earlier ones the oldest first. The orders become the places of
        all runs, earlier ones before the baseline's, and the target's last.
    names : tuple of str

    Raises
    ------
    InputError
        As of `paired`, where earlier runs are taken for runs of the baseline.
    """
    there = pd.concat([run[CONFIGURATION] for run in baseline]).drop_duplicates()
    past = [run.merge(there, on=CONFIGURATION) for run in earlier]
    first = len(past) + len(baseline)
    # the baseline before what was earlier: its order and its units count
    before = pd.concat([_numbered(baseline, len(past)), *([_numbered(past, 0)] if past else [])])
    pair = paired(before, _numbered(target, first), names)
    results, comparisons = pair.tables.results, pair.tables.comparisons
    orders = {"baseline_from": len(past), "baseline_to": first - 1}
    orders |= {"target_from": first, "target_to": first + len(target) - 1}
    tables = replace(
        pair.tables,
        results=results.assign(order=results[_RUN].astype("int64")).drop(columns=_RUN),
        comparisons=comparisons.assign(**orders),
    )
    return replace(pair, tables=tables)


def _numbered(runs: Sequence[pd.DataFrame], first: int) -> pd.DataFrame:
    return pd.concat(
        [run.assign(**{_RUN: place}) for place, run in enumerate(runs, first)], ignore_index=True
    )


def _tables(results: pd.DataFrame) -> ComparisonTables:
    common = results.loc[results["order"] == 0, OPERATION].drop_duplicates(ignore_index=True)
    orders = {"baseline_from": 0, "baseline_to": 0, "target_from": 1, "target_to": 1}
    comparisons = common.assign(comparison_id=common.agg("/".join, axis=1), **orders, source="")
    return ComparisonTables.of_rows(results, comparisons)


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
