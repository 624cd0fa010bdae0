"""What no run of a matrix can be (seed 001, section 4.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.matrices.tables import SUMMARY, MatrixTables

ELAPSED = f"{SUMMARY}elapsed"
TRANSACTIONS = f"{SUMMARY}transactions"
CPU_OTHERS = f"{SUMMARY}cpu_others"


@dataclass(frozen=True)
class Formula:
    """How a summary metric is rolled up: ``of`` gets the raw metrics and the two that are measured."""

    unit: str
    of: Callable[[pd.DataFrame], pd.Series]


def _sum(*names: str) -> Callable[[pd.DataFrame], pd.Series]:
    return lambda runs: runs[list(names)].sum(axis="columns", skipna=False)


BUSY = ("user", "nice", "system", "irq", "softirq")
PROCESSOR_TIMES = (*BUSY, "idle", "iowait", "steal")


def _share(place: str, less: str | None = None) -> Callable[[pd.DataFrame], pd.Series]:
    def share(runs: pd.DataFrame) -> pd.Series:
        busy, all_of = (
            _sum(*(f"{place}.{kind}" for kind in kinds))(runs) for kinds in (BUSY, PROCESSOR_TIMES)
        )
        return 100 * (busy - runs[less] if less else busy) / all_of

    return share


FORMULAS: dict[str, Formula] = {
    f"{SUMMARY}throughput": Formula("1/s", lambda runs: runs[TRANSACTIONS] / runs[ELAPSED]),
    # of the processor that the program runs on
    f"{SUMMARY}cpu": Formula("%", _share("cpu")),
    CPU_OTHERS: Formula("%", _share("stat", less="process.busy")),
}
#: Those that are sums of raw metrics, with their units.
SUMS = {
    "kernel_path": ("ms/txn", "process.system"),
    "user_path": ("ms/txn", "process.user"),
    # runnable without a processor
    "queueing": ("ms/txn", "process.wait"),
    "switches": ("1/txn", "process.voluntary_switches", "process.involuntary_switches"),
    "faults": ("1/txn", "process.minor_faults", "process.major_faults"),
    "resident": ("MiB", "process.resident"),
    "io_calls": ("1/txn", "process.read_calls", "process.write_calls"),
    "io_volume": ("KiB/txn", "process.read_volume", "process.write_volume"),
    "disk_requests": ("1/s", "disk.reads", "disk.writes", "disk.flushes"),
    "disk_volume": ("KiB/s", "disk.read_volume", "disk.write_volume"),
    # over all interfaces
    "messages": ("1/s", "net.rx_packets", "net.tx_packets"),
    "interrupts": ("1/s", "stat.intr"),
}
FORMULAS |= {f"{SUMMARY}{name}": Formula(unit, _sum(*of)) for name, (unit, *of) in SUMS.items()}
UNITS = {ELAPSED: "s", TRANSACTIONS: "1"} | {name: formula.unit for name, formula in FORMULAS.items()}


def rolled_up(runs: pd.DataFrame) -> pd.DataFrame:
    """Return `runs` with all summary metrics, the raw ones first."""
    known: dict[str, pd.Series] = {}
    for name, formula in FORMULAS.items():
        try:
            known[name] = formula.of(runs)
        except KeyError:
            known[name] = pd.Series(float("nan"), runs.index)
    raw = runs.drop(columns=[ELAPSED, TRANSACTIONS])
    measured = runs[[ELAPSED, TRANSACTIONS]]
    return pd.concat([raw, measured, pd.DataFrame(known, index=runs.index)], axis="columns")


#: Where nobody says whether a metric may be negative, it may if this share of its values is.
SIGNED_SHARE = 0.05
#: Percent, and how much more a share may be because clocks are read one after the other.
WHOLE_SHARE, OVER = 100.0, 5.0
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
    "100 % at most": lambda cells: ~cells["share"] | ~(cells["value"] > WHOLE_SHARE + OVER),
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
    found |= (np.abs(values) > LARGEST) | (share & (values > WHOLE_SHARE)) | (clock & (values <= 0))
    if np.isnan(values[:, clock]).any():
        found |= clock & np.isnan(values) & _timed(tables.runs)[:, None]
    return np.asarray(found)


def _kinds(tables: MatrixTables) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Say of each metric whether it is a percentage, is the elapsed time, may be negative."""
    unit, name = (tables.metrics[column].to_numpy(object) for column in ("unit", "metric"))
    return unit == "%", name == ELAPSED, signed(tables).to_numpy(bool)


def cells(tables: MatrixTables) -> Cells:
    """Return the numbers that may break a rule."""
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
