"""Which runs, pairs and metrics can be learned from and judged (matrix paper, section 4.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import ClassVar

import numpy as np
import pandas as pd

from data import stages
from data.errors import InputError
from data.matrices.formats import SOURCES
from data.matrices.params import Matrices
from data.matrices.tables import SIDES, SUMMARY, Flags, Floats, MatrixTables, PairSides, Whole
from data.stages import KEPT, WARNINGS, Decisions, column_counts, reason_table, useless_column_reasons
from data.tables.specs import Spec, with_dtypes

ELAPSED = f"{SUMMARY}elapsed"
TRANSACTIONS = f"{SUMMARY}transactions"
CPU_OTHERS = f"{SUMMARY}cpu_others"
BUSY = ("user", "nice", "system", "irq", "softirq")
PROCESSOR_TIMES = (*BUSY, "idle", "iowait", "steal")
#: Summary metrics that are sums of raw metrics: the unit, then the raw metrics.
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
UNITS = {
    ELAPSED: "s",
    TRANSACTIONS: "1",
    f"{SUMMARY}throughput": "1/s",
    f"{SUMMARY}cpu": "%",
    CPU_OTHERS: "%",
    **{f"{SUMMARY}{name}": unit for name, (unit, *_) in SUMS.items()},
}


def with_summary_metrics(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a copy of `runs` with all summary metrics, after the other columns.

    KeyError unless `runs` has the measured ``summary_elapsed`` and ``summary_transactions``. Added are
    ``summary_throughput`` (transactions per second), ``summary_cpu`` (busy share of the program's processor,
    %), ``summary_cpu_others`` (share of the whole machine that others used, %), and sums of raw metrics such
    as ``summary_faults``; NaN where a raw metric is NaN or has no column.
    """

    def sum_metrics(*names: str) -> pd.Series:
        return runs.reindex(columns=[*names]).sum(axis="columns", skipna=False)

    def sum_times(place: str, kinds: Sequence[str]) -> pd.Series:
        return sum_metrics(*(f"{place}.{kind}" for kind in kinds))

    # cpu: the processor of the program; stat: the whole machine
    others = sum_times("stat", BUSY) - sum_metrics("process.busy")
    computed = {
        f"{SUMMARY}throughput": runs[TRANSACTIONS] / runs[ELAPSED],
        f"{SUMMARY}cpu": 100 * sum_times("cpu", BUSY) / sum_times("cpu", PROCESSOR_TIMES),
        CPU_OTHERS: 100 * others / sum_times("stat", PROCESSOR_TIMES),
        **{f"{SUMMARY}{name}": sum_metrics(*names) for name, (_, *names) in SUMS.items()},
    }
    measured = runs[[ELAPSED, TRANSACTIONS]]
    raw = runs.drop(columns=measured.columns)
    return pd.concat([raw, measured, pd.DataFrame(computed, index=runs.index)], axis="columns")


#: A metric without the flag ``signed`` may be negative if this share of its values is.
SIGNED_SHARE = 0.05
#: Percent, and the tolerance for shares above it: clocks are read one after the other.
WHOLE_SHARE, OVER = 100.0, 5.0
#: Upper limit of counts: squares and ratios of smaller values are finite.
LARGEST = 1e100


def may_be_negative(tables: MatrixTables) -> pd.Series:
    """Return by row of ``tables.metrics`` whether the metric may be negative: its flag ``signed``.

    Where the flag is missing, the metric may be negative if it is below 0 in more than 5 % (`SIGNED_SHARE`)
    of all runs; a flag that is True or False is never changed. The result has the index of
    ``tables.metrics``.
    """
    flags = tables.metrics["signed"]
    if flags.notna().all():
        return flags
    values = tables.metric_values(tables.all_metrics)
    often = np.mean(values < 0, axis=0) > SIGNED_SHARE if len(values) else np.zeros(values.shape[1], bool)
    return flags.fillna(pd.Series(often, tables.metrics.index, dtype="boolean"))


def _impossible_runs(tables: MatrixTables) -> Iterator[tuple[str, int, str]]:
    """Yield the rule, the row and the reason of each run with an impossible number, once per run."""
    values, described = tables.metric_values(tables.all_metrics), tables.metrics
    unit, names = (described[column].to_numpy(object) for column in ("unit", "metric"))
    clock, unmeasured = names == ELAPSED, np.isnan(values)
    broken = {
        "measured": clock & unmeasured,
        "finite": np.isinf(values),
        f"{LARGEST:g} at most in size": np.abs(values) > LARGEST,
        "0 or more": (values < 0) & ~may_be_negative(tables).to_numpy(bool),
        "100 % at most": (unit == "%") & (values > WHOLE_SHARE + OVER),
        "above 0": clock & (values <= 0),
    }
    if broken["measured"].any():
        timed = tables.runs.groupby(["pair_id", "side"])[ELAPSED].transform("count") > 0
        broken["measured"] &= timed.to_numpy(bool)[:, None]
    any_rule = np.logical_or.reduce([*broken.values()])
    for row in np.flatnonzero(any_rule.any(axis=1)).tolist():
        column = int(any_rule[row].argmax())
        rule = next(rule for rule, cells in broken.items() if cells[row, column])
        yield rule, row, f"{names[column]}={values[row, column]:g} must be {rule}"


def group_by_size(group: Whole, n_groups: int) -> Iterator[tuple[Whole, Whole]]:
    """Yield groups with equally many rows together: the groups, shape (n_here,), and rows (n_here, size).

    `group` is the group of each row, shape (n_rows,), from 0 to `n_groups`, exclusive. Sizes, groups and the
    rows of each group (indices into `group`) ascend; groups without rows are left out.
    """
    order, sizes = np.argsort(group, kind="stable"), np.bincount(group, minlength=n_groups)
    starts = np.cumsum(sizes) - sizes
    for size in np.unique(sizes[sizes > 0]):
        here = np.flatnonzero(sizes == size)
        yield here, order[starts[here][:, None] + np.arange(size)]


def median_and_count(rows: Floats) -> tuple[Floats, Whole]:
    """Return the median along the second axis without NaN (NaN without values), and the number of values.

    `rows` has shape (n_groups, size, n_columns), ascending along the second axis, NaN last, as ``np.sort``
    returns it; both results have shape (n_groups, n_columns).
    """
    size = rows.shape[1]
    count = size - np.isnan(rows).sum(axis=1)
    if (count == size).all():
        return (rows[:, (size - 1) // 2] + rows[:, size // 2]) / 2, count
    low, high = (
        np.take_along_axis(rows, at[:, None], axis=1)[:, 0]
        for at in (np.maximum(count - 1, 0) // 2, np.minimum(count // 2, size - 1))
    )
    return (low + high) / 2, count


#: Least number of runs of a baseline: fewer do not show how much runs vary.
BASELINE_RUNS = 2
#: Factors between units that are easily confused, and the tolerance of a ratio.
UNIT_FACTORS = (1e3, 1e6, 1e9, 1024.0, 1024.0**2)
NEAR = 0.02
#: A transaction count is usual if a larger share of a workload's runs has it; runs of a fixed duration have
#: no usual count.
HALF = 0.5
#: Largest relative range of the runs of a side for the detection of a change of unit.
STEADY = 0.1


@dataclass(frozen=True)
class MatrixDecisions(Decisions):
    """Decisions about matrices; ``reason`` is empty where a row is kept.

    ``runs`` has the rows of the table of runs, with a short name of the broken ``rule``, such as "0 or more";
    ``pairs`` are in the order of their first runs.
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

    def flag_valid_runs(self, tables: MatrixTables) -> MatrixTables:
        """Return all runs with the metrics that carry information, for training; and the known causes.

        ``valid`` is false if an analyst or a rule rejects the run, else true; infinite values and those
        beyond `LARGEST` become missing.
        """
        names = self.metrics.loc[self.metrics["kept"], "metric"]
        described = tables.metrics[tables.metrics["metric"].isin(names)].reset_index(drop=True)
        numbers = tables.runs[list(described["metric"])]
        numbers = numbers.where(numbers.abs() <= LARGEST)
        about = tables.runs.drop(columns=tables.all_metrics)
        valid = about["valid"].fillna(value=True) & self.runs["kept"].to_numpy(bool)
        # a copy has one block of numbers, which is split faster than one block per metric
        runs = pd.concat([about.assign(valid=valid.astype("boolean")), numbers], axis="columns").copy()
        return MatrixTables(runs, tables.causes[tables.causes["cause"].notna()], described)


def decide_validity(tables: MatrixTables, missing: float) -> MatrixDecisions:
    """Return four tables: which ``metrics``, ``runs`` and ``pairs`` can be used, and ``warnings``.

    ``metrics``, ``runs`` and ``pairs`` have ``kept`` and ``reason`` (empty if kept), ``runs`` also the broken
    ``rule``. A metric is dropped if more than the share `missing` of all runs have no value, or all values
    are equal; a pair if fewer than `BASELINE_RUNS` (2) valid runs of the baseline remain, or none of the
    target.

    Analysts' flags ``valid`` do not count. A run is invalid if any metric, even a dropped one, is impossible:
    infinite, beyond 1e100 in size, above 105 where the unit is "%", or negative where `may_be_negative` is
    false (without a flag ``signed``: at most 5 % of all runs are negative); if its elapsed time is 0 or less,
    or is missing although other runs of its side have one; if more than the share `missing` of the remaining
    raw metrics, or any of the remaining summary metrics, have no value; or if its transaction count differs
    from the usual one, which more than half of the runs of its workload have (matrix paper, table 3).

    ``warnings`` has one column ``warning``, texts about metrics that seem to have changed their unit, missing
    values, and pairs whose valid target runs have no label. InputError if no raw metric, or no pair, remains.
    """
    metrics = unusable_metrics(column_counts(tables.runs[tables.all_metrics]), missing)
    raw = informative_metrics(metrics, tables.raw_metrics)
    decisions = decide_runs_and_pairs(tables, metrics, missing)
    if not decisions.pairs["kept"].any():
        first = decisions.pairs.iloc[0]
        problem = f'none can be judged; the first, "{first["pair_id"]}", {first["reason"]}'
        raise InputError(problem, place="pairs")
    warnings = pd.DataFrame({"warning": list(_decision_warnings(tables, decisions.runs, raw))})
    return replace(decisions, warnings=with_dtypes(warnings, WARNINGS.dtypes))


unusable_metrics = partial(useless_column_reasons, rows="runs", measured="measured", value="value")


def informative_metrics(metrics: pd.Series, raw: Sequence[str]) -> list[str]:
    """Return the names in `raw`, in that order, whose reason in `metrics` is empty.

    `metrics` has by name the reason why each metric cannot be used, "" if it can. InputError if no name is
    left; KeyError if a name is not in `metrics`; `raw` must have at least one name (IndexError otherwise).
    """
    left = [name for name in raw if metrics[name] == ""]
    if not left:
        problem = f'no raw metric carries information; the first, "{raw[0]}", {metrics[raw[0]]}'
        raise InputError(problem, place="metrics")
    return left


def decide_runs_and_pairs(tables: MatrixTables, metrics: pd.Series, missing: float) -> MatrixDecisions:
    """Return which runs and pairs are kept, and why others are not, by the rules of `decide_validity`.

    The tables are those of `decide_validity`, without warnings; it is no error if nothing is kept. `metrics`
    has the reason to drop each metric, empty if it is kept, by the metric's name.
    """
    raw = [name for name in tables.raw_metrics if metrics[name] == ""]
    summary = [name for name in tables.summary_metrics if metrics[name] == ""]
    rule, reason = first_broken(tables, missing, raw, summary)
    is_kept = np.array([not name for name in rule], bool)
    runs = tables.runs[["run_id"]].assign(kept=is_kept, rule=rule, reason=reason)
    pairs = unjudgeable_pairs(tables.runs, is_kept)
    tables_of = {"pairs": reason_table("pair_id", pairs), "metrics": reason_table("metric", metrics)}
    return MatrixDecisions.from_reasons((), runs=runs, **tables_of)


def first_broken(
    tables: MatrixTables, missing: float, raw: Sequence[str], summary: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return two lists with a text per run: the first broken rule's short name, and the reason.

    Both texts are empty if all rules hold, those of `decide_validity` for the remaining metrics `raw` and
    `summary`.
    """
    rules, reasons = [""] * len(tables.runs), [""] * len(tables.runs)
    for rule, row, reason in chain(_impossible_runs(tables), _incomplete_runs(tables, raw, summary, missing)):
        if not rules[row]:
            rules[row], reasons[row] = rule, reason
    return rules, reasons


def _incomplete_runs(
    tables: MatrixTables, raw: Sequence[str], summary: Sequence[str], missing: float
) -> Iterator[tuple[str, int, str]]:
    """Yield the rule, the row and the reason of runs with missing values or an unusual transaction count."""
    runs, lacks = tables.runs, np.isnan(tables.metric_values(raw)).mean(axis=1)
    for row in np.flatnonzero(lacks > missing):
        yield "measured", int(row), f"lacks {lacks[row]:.0%} of the raw metrics"
    for name in summary:
        for row in np.flatnonzero(runs[name].isna()):
            yield "measured", int(row), f"lacks {name}"
    if TRANSACTIONS in runs:
        counts, workloads = runs[TRANSACTIONS].to_numpy(np.float64), runs["workload"].to_numpy(object)
        rows = np.flatnonzero(~np.isnan(counts))
        sizes = Counter(workloads[rows])
        alike = Counter(zip(workloads[rows], counts[rows].tolist(), strict=True))
        usual = {name: count for (name, count), size in alike.items() if size > HALF * sizes[name]}
        for row in rows:
            expected = usual.get(workloads[row], counts[row])
            if expected != counts[row]:
                reason = f"{TRANSACTIONS}={counts[row]:g}, where {expected:g} is usual for this workload"
                yield "same transaction count", int(row), reason


def unjudgeable_pairs(runs: pd.DataFrame, is_kept: Flags) -> pd.Series:
    """Return for each ``pair_id`` the reason why it has too few runs, or an empty text if it has enough.

    `is_kept`, shape (n_runs,), flags the usable rows of `runs`. A pair needs `BASELINE_RUNS` (2) of them in
    the baseline and one in the target. The pairs are in the order of their first runs.
    """
    sides = PairSides.from_runs(runs)
    reasons = [""] * len(sides.names)
    counts = zip(SIDES, (BASELINE_RUNS, 1), sides.count_runs(is_kept).T, sides.count_runs().T, strict=True)
    for name, needed, valid, total in counts:
        for at in np.flatnonzero(valid < needed):
            number = f"{valid[at]} valid of {total[at]} {name} run{'' if total[at] == 1 else 's'}"
            reasons[at] = reasons[at] or f"has {number}; expected at least {needed}"
    return pd.Series(reasons, pd.Index(sides.names, name="pair_id"), dtype="str")


def _decision_warnings(tables: MatrixTables, decided: pd.DataFrame, raw: list[str]) -> Iterator[str]:
    valid_tables = tables.select_runs(decided["kept"].to_numpy(bool))
    for pair, note in unit_notes(valid_tables, raw):
        yield f'pair "{pair}": {note}'
    gaps = valid_tables.runs[raw].isna().mean()
    if gaps.any():
        worst = gaps.idxmax()
        yield f"{gaps.mean():.1%} of the values are missing, the most of {worst} ({gaps[worst]:.0%})"
    targets = valid_tables.runs[valid_tables.runs["side"] == SIDES[1]]
    has_label = targets["abnormal"].notna().groupby(targets["pair_id"]).any()
    if not has_label.all():
        yield f"{(~has_label).sum()} of {len(has_label)} pairs have no label, so no model is trained on them"


def unit_changes(tables: MatrixTables, metrics: list[str]) -> pd.DataFrame:
    """Return ``pair_id, metric, ratio`` of metrics whose target looks like the baseline in another unit.

    The runs of each side range over less than 10 % of their median, and the ratio target / baseline of the
    medians is within 2 % of 1000, 10^6, 10^9, 1024, 1024^2 or an inverse of these. One row each, in the order
    of `metrics`, then of the pairs' first runs; empty without any. Missing values are ignored.
    """
    numbers, names = tables.metric_values(metrics), tables.pair_sides.names
    shape = (2 * len(names), len(metrics))
    middles, widest = np.full(shape, np.nan), np.full(shape, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        for here, rows in group_by_size(tables.pair_sides.matrix_index, len(middles)):
            values = np.sort(numbers[rows], axis=1)
            middles[here], _ = median_and_count(values)
            widest[here] = np.fmax.reduce(values, axis=1) - values[:, 0]
        ratio = middles[1::2] / middles[::2]
        steady = widest / np.abs(middles) < STEADY
        # few ratios are as far from 1 as the smallest factor
        far = (ratio > (1 - NEAR) * min(UNIT_FACTORS)) | (ratio < (1 + NEAR) / min(UNIT_FACTORS))
    columns, rows = np.nonzero((far & steady[::2] & steady[1::2]).T)
    factors = np.array([*UNIT_FACTORS, *(1 / factor for factor in UNIT_FACTORS)])
    near = np.abs(ratio[rows, columns, None] / factors - 1).min(axis=1) < NEAR
    columns, rows = columns[near], rows[near]
    changed = np.array(metrics, object)[columns]
    return pd.DataFrame({"pair_id": names[rows], "metric": changed, "ratio": ratio[rows, columns]})


def unit_notes(tables: MatrixTables, metrics: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the pair and a note on each change that `unit_changes` finds."""
    changes = unit_changes(tables, metrics)
    # iterating takes long, and most tables have no changes
    for change in changes.itertuples() if len(changes) else ():
        note = f"{change.metric} is {change.ratio:.6g} times its baseline; is it in another unit?"
        yield str(change.pair_id), note


ingest_stage = partial(stages.ingest, Matrices, lambda section: stages.read_source(SOURCES, section.ingest))
validate_stage = partial(
    stages.run_validate,
    Matrices,
    MatrixTables,
    lambda tables, section: decide_validity(tables, section.checks.max_missing_fraction),
)
