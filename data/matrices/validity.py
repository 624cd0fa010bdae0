"""What of the matrices can be learned from and judged: the rules of seed 001, section 4.1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data import stages
from data.errors import InputError
from data.matrices.formats import SOURCES
from data.matrices.params import Matrices
from data.matrices.schema import LARGEST, TRANSACTIONS, impossible, odd
from data.matrices.tables import SIDES, MatrixTables, RunPlaces
from data.tables.decisions import KEPT, WARNINGS, Decisions, by, reasons
from data.tables.formats import Reading
from data.tables.problems import Problems
from data.tables.specs import Spec, typed

Floats = NDArray[np.float64]
Whole = NDArray[np.intp]


def stacks(place: Whole, places: int) -> Iterator[tuple[Whole, Whole]]:
    """Yield places with the same number of rows, and these rows.

    Parameters
    ----------
    place : ndarray of shape (n_rows,)
        Where each row belongs, from 0 to `places`, exclusive.

    Yields
    ------
    here : ndarray of shape (n_here,)
        Places, rising; those without rows are left out.
    rows : ndarray of shape (n_here, size)
        Their rows, in their order.
    """
    order, sizes = np.argsort(place, kind="stable"), np.bincount(place, minlength=places)
    starts = np.cumsum(sizes) - sizes
    for size in np.unique(sizes[sizes > 0]):
        here = np.flatnonzero(sizes == size)
        yield here, order[starts[here][:, None] + np.arange(size)]


def middle(rows: Floats) -> tuple[Floats, Whole]:
    """Return the median along the second axis, NaN apart, and how many values there are.

    Parameters
    ----------
    rows : ndarray of shape (n_places, size, n_columns)
        Rising along the second axis, NaN last, as ``np.sort`` leaves them.

    Returns
    -------
    middle, count : ndarray of shape (n_places, n_columns)
        The median is NaN where there is no value.
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
    """What was decided about matrices; ``reason`` is empty for what is kept.

    Attributes
    ----------
    runs : DataFrame
        ``run_id, kept, rule, reason``, row by row as the table of runs. ``rule`` is a short name of the rule
        that the run breaks, such as "0 or more".
    pairs : DataFrame
        ``pair_id, kept, reason``, in the order of the first run of each.
    metrics : DataFrame
        ``metric, kept, reason``.
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

    A metric goes if more than `missing` of the runs lack it, or all have the same value. A run is invalid if
    it breaks `data.matrices.schema.POSSIBLE`, lacks more than `missing` of the raw metrics that are left,
    lacks a summary metric that is left, or has another transaction count than most runs of its workload
    (table 3).
    A pair goes if fewer than `BASELINE_RUNS` valid runs are left of the baseline, or none of the target.

    Parameters
    ----------
    tables : MatrixTables
        As left by `MatrixTables.without_flaws`.
    missing : float
        Between 0 and 1.

    Raises
    ------
    InputError
        If no raw metric, or no pair, is left.
    """
    metrics = reasons(tables.runs[tables.all_metrics], missing, "runs", "measured", "value")
    left = telling(metrics, tables.raw)
    found = decided(tables, metrics, missing)
    if not found.pairs["kept"].any():
        first = found.pairs.iloc[0]
        told = f'none can be judged; the first, "{first["pair_id"]}", {first["reason"]}'
        raise InputError(told, place="pairs")
    warnings = pd.DataFrame({"warning": list(_warnings(tables, found.runs, left))})
    return replace(found, warnings=typed(warnings, WARNINGS.dtypes))


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
    runs = broken_rules(tables, missing, raw, summary)
    pairs = unjudgeable(tables.runs, runs["kept"].to_numpy(bool))
    return MatrixDecisions.told((), runs=runs, pairs=by("pair_id", pairs), metrics=by("metric", metrics))


def decide_runs(tables: MatrixTables, missing: float) -> pd.DataFrame:
    """Decide which runs break a rule, where a model gives the metrics.

    What a run lacks is counted against all raw metrics of `tables`, so that it doesn't matter what other runs
    are asked about; summary metrics may be missing.
    """
    return typed(broken_rules(tables, missing, tables.raw, []), MatrixDecisions.SPECS["runs"].dtypes)


def broken_rules(
    tables: MatrixTables, missing: float, raw: Sequence[str], summary: Sequence[str]
) -> pd.DataFrame:
    """Say which run is invalid by which rule, the first that it breaks; it must have `raw`, `summary`."""
    names = tables.runs["run_id"]
    rule, reason = first_broken(tables, missing, raw, summary)
    kept = np.array([not name for name in rule], bool)
    return pd.DataFrame({"run_id": names, "kept": kept, "rule": rule, "reason": reason})


def first_broken(
    tables: MatrixTables, missing: float, raw: Sequence[str], summary: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return for each run the short name of the first rule that it breaks, and why; empty where none."""
    broken = impossible(tables).drop_duplicates("run_id") if odd(tables).any() else pd.DataFrame()
    told = {
        one.run_id: (one.rule, f"{one.metric}={one.value:g} must be {one.rule}")
        for one in broken.itertuples()
    }
    found = [told.get(name, ("", "")) for name in tables.runs["run_id"]] if told else []
    rule, reason = ([one[place] for one in found] or [""] * len(tables.runs) for place in (0, 1))
    for name, row, why in _lacking(tables, raw, summary, missing):
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
    """Find metrics whose target looks like the baseline in another unit.

    Returns
    -------
    DataFrame
        ``pair_id, metric, ratio``: where both sides are steady and the ratio of their medians is within
        `NEAR` of one of `UNIT_FACTORS` or its inverse.
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


def ingest(section: Matrices) -> Reading[MatrixTables]:
    """Read the matrices that params.yaml names."""
    return stages.named(SOURCES, section.ingest)


def validate(tables: MatrixTables, section: Matrices) -> MatrixDecisions:
    """Say what can be learned from; an InputError if a table is wrong, or too little is left."""
    return decide(tables.without_flaws(Problems()), section.checks.missing)


ingest_stage = partial(stages.ingest, Matrices, ingest)
validate_stage = partial(stages.validate, Matrices, MatrixTables, validate)
