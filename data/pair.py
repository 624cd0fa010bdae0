"""The results of two runs become comparisons: what was measured before against what was measured after."""

from __future__ import annotations

import pandas as pd

from data.errors import InputError
from data.tables import COMPARISON_DTYPES, LABEL_DTYPES, ComparisonTables, typed

_OPERATION = ["benchmark", "operation", "machine"]


def paired(baseline: pd.DataFrame, target: pd.DataFrame) -> ComparisonTables:
    """Compare every operation that both runs measured.

    Parameters
    ----------
    baseline, target : DataFrame
        Results, one row per sample or summary statistic, with the columns of ``RESULT_DTYPES``;
        their orders are replaced by 0 and 1.

    Returns
    -------
    ComparisonTables
        One comparison per operation, machine and benchmark, in the order of the baseline; without labels.

    Raises
    ------
    InputError
        If the two have no operation in common.
    """
    before, after = baseline[_OPERATION].drop_duplicates(), target[_OPERATION].drop_duplicates()
    common = before.merge(after, on=_OPERATION)
    if not len(common):
        raise InputError("the two results have no operation of one benchmark and machine in common")
    results = pd.concat([baseline.assign(order=0), target.assign(order=1)], ignore_index=True)
    comparisons = common.assign(
        comparison_id=common[_OPERATION].agg("/".join, axis=1),
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
