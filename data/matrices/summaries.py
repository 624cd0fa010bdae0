"""Summary metrics: written formulas that roll raw metrics up, as figure 1 of seed 001 does.

Raw metrics come per second (``/s``) or per transaction (``/txn``), see `data.matrices.rates`. Busy time is
user, nice, system, irq and softirq; all time is that, idle, iowait and steal. A formula that needs a raw
metric which a machine lacks gives no number there. Two are measured: ``summary_elapsed``, in seconds from the
start signal to the last transaction's end, and ``summary_transactions``, those done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from data.matrices.tables import SUMMARY

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
ALL = (*BUSY, "idle", "iowait", "steal")


def _share(place: str, less: str | None = None) -> Callable[[pd.DataFrame], pd.Series]:
    def share(runs: pd.DataFrame) -> pd.Series:
        busy, all_of = (_sum(*(f"{place}.{kind}" for kind in kinds))(runs) for kinds in (BUSY, ALL))
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
    """Return `runs` with all summary metrics, the raw ones first.

    Parameters
    ----------
    runs : DataFrame
        One row per run: raw metrics, ``summary_elapsed`` and ``summary_transactions``.
    """
    known: dict[str, pd.Series] = {}
    for name, formula in FORMULAS.items():
        try:
            known[name] = formula.of(runs)
        except KeyError:
            known[name] = pd.Series(float("nan"), runs.index)
    raw = runs.drop(columns=[ELAPSED, TRANSACTIONS])
    measured = runs[[ELAPSED, TRANSACTIONS]]
    return pd.concat([raw, measured, pd.DataFrame(known, index=runs.index)], axis="columns")
