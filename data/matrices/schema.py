"""What no run of a matrix can be (seed 001, section 4.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.matrices.summaries import ELAPSED
from data.matrices.tables import MatrixTables

#: Where nobody says whether a metric may be negative, it may if this share of its values is.
SIGNED_SHARE = 0.05
#: Percent, and how much more a share may be because clocks are read one after the other.
ALL, OVER = 100.0, 5.0
#: No count is larger, and squares and ratios of what is smaller are finite.
LARGEST = 1e100
RULE_DTYPES = {"run_id": "str", "metric": "str", "rule": "str", "value": "float64"}
#: Columns, one number each that may break a rule.
Cells = dict[str, NDArray[Any]]


#: By their words, what must hold of a number that a run can have, in the columns that `cells` makes.
#: Every metric is finite where it was measured, and `LARGEST` at most; one that is not signed is 0 or more;
#: a share is no more than all; the elapsed time is above 0, and there where others of the matrix have it.
POSSIBLE: dict[str, Callable[[Cells], NDArray[np.bool_]]] = {
    "measured": lambda cells: ~np.isnan(cells["value"]) | ~cells["clock"],
    "finite": lambda cells: ~np.isinf(cells["value"]),
    f"{LARGEST:g} at most in size": lambda cells: (
        ~np.isfinite(cells["value"]) | (np.abs(cells["value"]) <= LARGEST)
    ),
    "0 or more": lambda cells: cells["signed"] | ~(cells["value"] < 0),
    "100 % at most": lambda cells: ~cells["share"] | ~(cells["value"] > ALL + OVER),
    "above 0": lambda cells: ~cells["clock"] | ~(cells["value"] <= 0),
}


def impossible(tables: MatrixTables) -> pd.DataFrame:
    """Return what breaks `POSSIBLE`: ``run_id, metric, rule, value``, in the order of runs and metrics."""
    found = cells(tables)
    cell, rule = np.nonzero(np.array([~holds(found) for holds in POSSIBLE.values()]).T)
    told = {name: found[name][cell] for name in ("run_id", "metric", "value")}
    told["rule"] = np.array([*POSSIBLE], object)[rule]
    return pd.DataFrame({name: pd.Series(told[name], dtype=kind) for name, kind in RULE_DTYPES.items()})


def signed(tables: MatrixTables) -> pd.Series:
    """Say which metrics may be negative: where nobody has said, those whose values often are."""
    known = tables.metrics["signed"]
    if known.notna().all():
        return known
    values = tables.numbers(tables.all_metrics)
    often = np.mean(values < 0, axis=0) > SIGNED_SHARE if len(values) else np.zeros(values.shape[1], bool)
    return known.fillna(pd.Series(often, tables.metrics.index, dtype="boolean"))


def odd(tables: MatrixTables) -> NDArray[np.bool_]:
    """Say which numbers may break a rule, shape (n_runs, n_metrics); most cannot, and rules are slow."""
    values, (share, clock, may_be_negative) = tables.numbers(tables.all_metrics), _kinds(tables)
    found = (values < 0) & ~may_be_negative
    found |= (np.abs(values) > LARGEST) | (share & (values > ALL)) | (clock & (values <= 0))
    if np.isnan(values[:, clock]).any():
        found |= clock & np.isnan(values) & _timed(tables.runs)[:, None]
    return np.asarray(found)


def _kinds(tables: MatrixTables) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Say of each metric whether it is a percentage, is the elapsed time, may be negative."""
    unit, name = (tables.metrics[column].to_numpy(object) for column in ("unit", "metric"))
    return unit == "%", name == ELAPSED, signed(tables).to_numpy(bool)


def cells(tables: MatrixTables) -> Cells:
    """Return the numbers that may break a rule.

    Returns
    -------
    dict of ndarray
        ``run_id, metric, value, signed, share, clock``: whether the metric may be negative, is a percentage,
        is the elapsed time.
    """
    metrics, values = tables.metrics, tables.numbers(tables.all_metrics)
    share, clock, may_be_negative = _kinds(tables)
    rows, columns = np.nonzero(odd(tables))
    return {
        "run_id": tables.runs["run_id"].to_numpy(object)[rows],
        "metric": metrics["metric"].to_numpy(object)[columns],
        "value": values[rows, columns],
        "signed": may_be_negative[columns],
        "share": share[columns],
        "clock": clock[columns],
    }


def _timed(runs: pd.DataFrame) -> NDArray[np.bool_]:
    """Say by run whether anybody measured the elapsed time in its matrix: who never did has lost nothing."""
    if ELAPSED not in runs:
        return np.zeros(len(runs), bool)
    return (runs.groupby(["pair_id", "side"])[ELAPSED].transform("count") > 0).to_numpy(bool)
