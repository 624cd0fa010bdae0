"""What of the matrices can be learned from and judged: the rules of seed 001, section 4.1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data import stages
from data.errors import InputError
from data.matrices.formats import SOURCES
from data.matrices.params import Matrices
from data.matrices.tables import SIDES, SUMMARY, MatrixTables, RunPlaces
from data.stages import KEPT, WARNINGS, Decisions, by, column_counts, reasons
from data.tables.problems import Problems
from data.tables.specs import Spec, typed

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


def signed(tables: MatrixTables) -> pd.Series:
    """Say which metrics may be negative: where nobody has said, those whose values often are."""
    known = tables.metrics["signed"]
    if known.notna().all():
        return known
    values = tables.numbers(tables.all_metrics)
    often = np.mean(values < 0, axis=0) > SIGNED_SHARE if len(values) else np.zeros(values.shape[1], bool)
    return known.fillna(pd.Series(often, tables.metrics.index, dtype="boolean"))


def _impossible(tables: MatrixTables) -> Iterator[tuple[str, int, str]]:
    """Yield the rule, the row and the reason of each run with a number that no run can have, its first one.

    Every metric is finite where it was measured, and `LARGEST` at most; one that is not signed is 0 or more;
    a share is no more than all; the elapsed time is above 0, and there where others of the matrix have it.
    """
    values, described = tables.numbers(tables.all_metrics), tables.metrics
    unit, names = (described[column].to_numpy(object) for column in ("unit", "metric"))
    clock, unmeasured = names == ELAPSED, np.isnan(values)
    broken = {
        "measured": clock & unmeasured,
        "finite": np.isinf(values),
        f"{LARGEST:g} at most in size": np.abs(values) > LARGEST,
        "0 or more": (values < 0) & ~signed(tables).to_numpy(bool),
        "100 % at most": (unit == "%") & (values > WHOLE_SHARE + OVER),
        "above 0": clock & (values <= 0),
    }
    if broken["measured"].any():
        broken["measured"] &= _timed(tables.runs)[:, None]
    anything = np.logical_or.reduce([*broken.values()])
    for row in np.flatnonzero(anything.any(axis=1)).tolist():
        column = int(anything[row].argmax())
        rule = next(rule for rule, cells in broken.items() if cells[row, column])
        yield rule, row, f"{names[column]}={values[row, column]:g} must be {rule}"


def _timed(runs: pd.DataFrame) -> NDArray[np.bool_]:
    """Say by run whether anybody measured the elapsed time in its matrix: who never did has lost nothing."""
    if ELAPSED not in runs:
        return np.zeros(len(runs), bool)
    return (runs.groupby(["pair_id", "side"])[ELAPSED].transform("count") > 0).to_numpy(bool)


Floats = NDArray[np.float64]
Whole = NDArray[np.intp]


def stacks(place: Whole, places: int) -> Iterator[tuple[Whole, Whole]]:
    """Yield the places that have the same number of rows, rising, and these rows.

    `place` has shape (n_rows,), from 0 to `places`, exclusive. Yields ``here``, shape (n_here,), and
    ``rows``, shape (n_here, size), in their order; places without rows are left out.
    """
    order, sizes = np.argsort(place, kind="stable"), np.bincount(place, minlength=places)
    starts = np.cumsum(sizes) - sizes
    for size in np.unique(sizes[sizes > 0]):
        here = np.flatnonzero(sizes == size)
        yield here, order[starts[here][:, None] + np.arange(size)]


def middle(rows: Floats) -> tuple[Floats, Whole]:
    """Return the median along the second axis, NaN apart (NaN without values), and the number of values.

    `rows` has shape (n_places, size, n_columns), rising along the second axis, NaN last, as ``np.sort``
    leaves them; both results have shape (n_places, n_columns).
    """
    size = rows.shape[1]
    count = size - np.isnan(rows).sum(axis=1)
    if (count == size).all():
        return (rows[:, (size - 1) // 2] + rows[:, size // 2]) / 2, count
    low, high = (
        np.take_along_axis(rows, place[:, None], axis=1)[:, 0]
        for place in (np.maximum(count - 1, 0) // 2, np.minimum(count // 2, size - 1))
    )
    return (low + high) / 2, count


#: A baseline needs as many runs, or nothing is known of how much runs differ by themselves.
BASELINE_RUNS = 2
#: Factors between units that a person may have taken for another, and how near a ratio must come.
UNIT_FACTORS = (1e3, 1e6, 1e9, 1024.0, 1024.0**2)
NEAR = 0.02
#: A count is usual where a larger share of a workload's runs has it; runs of a fixed time have no usual one.
HALF = 0.5
#: A metric whose runs differ by more than this share cannot tell a change of unit.
STEADY = 0.1


@dataclass(frozen=True)
class MatrixDecisions(Decisions):
    """Decisions about matrices; ``reason`` is empty for what is kept.

    ``runs`` are row by row as the table of runs, with a short name of the broken ``rule``, such as "0 or
    more"; ``pairs`` are in the order of the first run of each.
    """

    SPECS: ClassVar = {
        "runs": Spec({"run_id": "str", "kept": "bool", "rule": "str", "reason": "str"}, file="valid"),
        "pairs": Spec({"pair_id": "str", **KEPT}, file="valid_pairs"),
        "metrics": Spec({"metric": "str", **KEPT}, file="valid_metrics"),
        "warnings": WARNINGS,
    }
    WHAT: ClassVar = {"metrics": "metrics", "runs": "runs", "pairs": "pairs"}
    UNTOLD: ClassVar = ("kept", "rule")

    runs: pd.DataFrame
    pairs: pd.DataFrame
    metrics: pd.DataFrame

    def kept(self, tables: MatrixTables) -> MatrixTables:
        """Return the valid runs of pairs that can be judged, with the metrics that say something."""
        pairs = self.pairs.loc[self.pairs["kept"], "pair_id"]
        valid = self.runs["kept"].to_numpy(bool)
        whole = tables.of_runs(valid & tables.runs["pair_id"].isin(pairs).to_numpy(bool))
        out = self.metrics.loc[~self.metrics["kept"], "metric"]
        described = tables.metrics[~tables.metrics["metric"].isin(out)].reset_index(drop=True)
        return MatrixTables(whole.runs.drop(columns=out), whole.causes, described)

    def flagged(self, tables: MatrixTables) -> MatrixTables:
        """Return all runs with the metrics that say something, to learn from, and causes, to hold them out.

        ``valid`` is false where an analyst or a rule says so, else true; what is infinite or larger than any
        count is missing.
        """
        known = self.metrics.loc[self.metrics["kept"], "metric"]
        described = tables.metrics[tables.metrics["metric"].isin(known)].reset_index(drop=True)
        numbers = tables.runs[list(described["metric"])]
        numbers = numbers.where(numbers.abs() <= LARGEST)
        about = tables.runs.drop(columns=tables.all_metrics)
        valid = about["valid"].fillna(value=True) & self.runs["kept"].to_numpy(bool)
        # a copy has one block of numbers, which is divided many times sooner than a block per metric
        runs = pd.concat([about.assign(valid=valid.astype("boolean")), numbers], axis="columns").copy()
        return MatrixTables(runs, tables.causes[tables.causes["cause"].notna()], described)


def decide(tables: MatrixTables, missing: float) -> MatrixDecisions:
    """Decide what can be learned from and judged.

    A metric goes if more than `missing` of the runs lack it, or all have the same value. A run is invalid
    if it breaks `POSSIBLE`, lacks more than `missing` of the raw metrics that are left, lacks a summary
    metric that is left, or has another transaction count than most runs of its workload (table 3). A pair
    goes if fewer than `BASELINE_RUNS` valid runs are left of the baseline, or none of the target.
    InputError if no raw metric, or no pair, is left.
    """
    metrics = unusable_metrics(column_counts(tables.runs[tables.all_metrics]), missing)
    left = telling(metrics, tables.raw)
    found = decided(tables, metrics, missing)
    if not found.pairs["kept"].any():
        first = found.pairs.iloc[0]
        told = f'none can be judged; the first, "{first["pair_id"]}", {first["reason"]}'
        raise InputError(told, place="pairs")
    warnings = pd.DataFrame({"warning": list(_warnings(tables, found.runs, left))})
    return replace(found, warnings=typed(warnings, WARNINGS.dtypes))


unusable_metrics = partial(reasons, rows="runs", measured="measured", value="value")


def telling(metrics: pd.Series, raw: Sequence[str]) -> list[str]:
    """Return the raw metrics that say something; an InputError if there is none."""
    left = [name for name in raw if metrics[name] == ""]
    if not left:
        why = metrics[list(raw)]
        told = f'no raw metric says anything; the first, "{why.index[0]}", {why.iloc[0]}'
        raise InputError(told, place="metrics")
    return left


def decided(tables: MatrixTables, metrics: pd.Series, missing: float) -> MatrixDecisions:
    """Decide on runs and pairs as `decide` does, where it is known which `metrics` say something."""
    raw, summary = ([name for name in names if metrics[name] == ""] for names in (tables.raw, tables.summary))
    rule, reason = first_broken(tables, missing, raw, summary)
    kept = np.array([not name for name in rule], bool)
    runs = tables.runs[["run_id"]].assign(kept=kept, rule=rule, reason=reason)
    pairs = unjudgeable(tables.runs, kept)
    return MatrixDecisions.told((), runs=runs, pairs=by("pair_id", pairs), metrics=by("metric", metrics))


def first_broken(
    tables: MatrixTables, missing: float, raw: Sequence[str], summary: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return for each run the short name of the first rule that it breaks, and why; empty where none."""
    rule, reason = [""] * len(tables.runs), [""] * len(tables.runs)
    for name, row, why in chain(_impossible(tables), _lacking(tables, raw, summary, missing)):
        if not rule[row]:
            rule[row], reason[row] = name, why
    return rule, reason


def _lacking(
    tables: MatrixTables, raw: Sequence[str], summary: Sequence[str], missing: float
) -> Iterator[tuple[str, int, str]]:
    """Yield rules, the row that breaks them, and why."""
    runs, lacks = tables.runs, np.isnan(tables.numbers(raw)).mean(axis=1)
    for row in np.flatnonzero(lacks > missing):
        yield "measured", int(row), f"lacks {lacks[row]:.0%} of the raw metrics"
    for name in summary:
        for row in np.flatnonzero(runs[name].isna()):
            yield "measured", int(row), f"lacks {name}"
    if TRANSACTIONS in runs:
        counts, workloads = runs[TRANSACTIONS].to_numpy(np.float64), runs["workload"].to_numpy(object)
        usual = _usual_counts(counts, workloads)
        for row in np.flatnonzero(~np.isnan(counts)):
            here = usual.get(workloads[row], counts[row])
            if here != counts[row]:
                told = f"{TRANSACTIONS}={counts[row]:g}, where this workload has {here:g}"
                yield "same transaction count", int(row), told


def _usual_counts(counts: NDArray[np.float64], workloads: NDArray[np.object_]) -> dict[str, float]:
    """Return by workload the transaction count of more than half of its runs; some have none."""
    measured = ~np.isnan(counts)
    alike = Counter(zip(workloads[measured], counts[measured].tolist(), strict=True))
    sizes = Counter(workloads[measured])
    return {workload: count for (workload, count), size in alike.items() if size > HALF * sizes[workload]}


def unjudgeable(runs: pd.DataFrame, kept: NDArray[np.bool_]) -> pd.Series:
    """Say by ``pair_id`` why a pair cannot be judged by its runs that are `kept`; empty where it can."""
    standing, side = RunPlaces.of(runs), runs["side"].to_numpy(object)
    pair, names = standing.pair, standing.names
    found = [""] * len(names)
    for name, needed in zip(SIDES, (BASELINE_RUNS, 1), strict=True):
        whole, there = (np.bincount(pair[side == name], of, len(names)) for of in (kept[side == name], None))
        for place in np.flatnonzero(whole < needed):
            v, t = int(whole[place]), int(there[place])
            told = f"has {v} valid of {t} {name} run{'' if t == 1 else 's'}; expected at least {needed}"
            found[place] = found[place] or told
    return pd.Series(found, pd.Index(names, name="pair_id"), dtype="str")


def _warnings(tables: MatrixTables, decided: pd.DataFrame, raw: list[str]) -> Iterator[str]:
    sound = tables.runs[decided["kept"].to_numpy(bool)]
    for change in unit_changes(tables.of_runs(decided["kept"].to_numpy(bool)), raw).itertuples():
        yield (
            f'pair "{change.pair_id}": {change.metric} is {change.ratio:.6g} times its baseline; '
            "is it in another unit?"
        )
    gaps = sound[raw].isna().mean()
    if gaps.any():
        worst = gaps.idxmax()
        yield f"{gaps.mean():.1%} of the values are missing, the most of {worst} ({gaps[worst]:.0%})"
    unknown = tables.runs["abnormal"].isna().sum()
    if unknown:
        yield f"{unknown} of {len(tables.runs)} runs have no verdict to learn from"


def unit_changes(tables: MatrixTables, metrics: list[str]) -> pd.DataFrame:
    """Return ``pair_id, metric, ratio`` of metrics whose target looks like the baseline in another unit.

    Both sides are steady and the ratio of their medians is within `NEAR` of one of `UNIT_FACTORS` or its
    inverse.
    """
    numbers, names = tables.numbers(metrics), tables.standing.names
    shape = (2 * len(names), len(metrics))
    middles, widest = np.full(shape, np.nan), np.full(shape, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        for here, rows in stacks(tables.standing.matrix, len(middles)):
            values = np.sort(numbers[rows], axis=1)
            middles[here], _ = middle(values)
            widest[here] = np.fmax.reduce(values, axis=1) - values[:, 0]
        ratio = middles[1::2] / middles[::2]
        steady = widest / np.abs(middles) < STEADY
        # hardly any ratio is as far from 1 as the least of the factors
        far = (ratio > (1 - NEAR) * min(UNIT_FACTORS)) | (ratio < (1 + NEAR) / min(UNIT_FACTORS))
    columns, rows = np.nonzero((far & steady[::2] & steady[1::2]).T)
    factors = np.array([*UNIT_FACTORS, *(1 / factor for factor in UNIT_FACTORS)])
    near = np.abs(ratio[rows, columns, None] / factors - 1).min(axis=1) < NEAR
    columns, rows = columns[near], rows[near]
    return pd.DataFrame(
        {
            "pair_id": names[rows],
            "metric": np.array(metrics, object)[columns],
            "ratio": ratio[rows, columns],
        }
    )


ingest_stage = partial(stages.ingest, Matrices, lambda section: stages.named(SOURCES, section.ingest))
validate_stage = partial(
    stages.validate,
    Matrices,
    MatrixTables,
    lambda tables, section: decide(tables.without_flaws(Problems()), section.checks.missing),
)
