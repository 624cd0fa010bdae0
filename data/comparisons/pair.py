"""The results of two runs become comparisons: what was measured before against what was measured after."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from data.comparisons.likeness import in_one_unit, require_one_direction
from data.comparisons.missing import OPERATION, SIDES, Missing, comparable, missing, told
from data.comparisons.tables import COMPARISON_DTYPES, LABEL_DTYPES, ComparisonTables
from data.errors import InputError
from data.tables.specs import typed


@dataclass(frozen=True)
class Pair:
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


def paired(baseline: pd.DataFrame, target: pd.DataFrame, names: tuple[str, str] = SIDES) -> Pair:
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
    return Pair(_tables(results), found, (*notes, *converted))


def _tables(results: pd.DataFrame) -> ComparisonTables:
    common = results.loc[results["order"] == 0, OPERATION].drop_duplicates(ignore_index=True)
    comparisons = common.assign(
        comparison_id=common.agg("/".join, axis=1),
        baseline_from=0,
        baseline_to=0,
        target_from=1,
        target_to=1,
        source="",
    )
    return ComparisonTables(
        results,
        typed(comparisons, COMPARISON_DTYPES),
        typed(pd.DataFrame(columns=[*LABEL_DTYPES]), LABEL_DTYPES),
    )
