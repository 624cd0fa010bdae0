"""What of the matrices can be learned from and judged: the rules of seed 001, section 4.1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.matrices.schema import LARGEST, impossible
from data.matrices.summaries import TRANSACTIONS
from data.matrices.tables import SIDES, MatrixTables
from data.tables.decisions import KEPT, WARNINGS, Decisions, by, reasons, said
from data.tables.specs import Spec, typed

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
    """Return the raw metrics that say something; an InputError if there is none.

    Parameters
    ----------
    metrics : Series of str
        By metric, why nothing can be learned from it; empty where something can.
    """
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

    Returns
    -------
    DataFrame
        ``run_id, kept, rule, reason``, row by row as the table of runs.
    """
    return typed(broken_rules(tables, missing, tables.raw, []), MatrixDecisions.SPECS["runs"].dtypes)


def broken_rules(
    tables: MatrixTables, missing: float, raw: Sequence[str], summary: Sequence[str]
) -> pd.DataFrame:
    """Say which run is invalid by which rule, the first that it breaks; it must have `raw`, `summary`."""
    names = tables.runs["run_id"]
    broken = impossible(tables).drop_duplicates("run_id").set_index("run_id")
    told = [f"{one.metric}={one.value:g} must be {one.rule}" for one in broken.itertuples()]
    first = broken.assign(reason=pd.Series(told, broken.index, dtype="str")).reindex(names)
    rule, reason = (first[what].fillna("").set_axis(names.index) for what in ("rule", "reason"))
    for name, why in _lacking(tables.runs, raw, summary, missing):
        new = (why != "") & (rule == "")
        rule, reason = rule.mask(new, name), reason.mask(new, why)
    return pd.DataFrame({"run_id": names, "kept": rule == "", "rule": rule, "reason": reason})


def _lacking(
    runs: pd.DataFrame, raw: Sequence[str], summary: Sequence[str], missing: float
) -> Iterator[tuple[str, pd.Series]]:
    """Yield rules, and why runs break them."""
    lacks = runs[[*raw]].isna().mean(axis="columns")
    yield "measured", said([f"lacks {share:.0%} of the raw metrics" for share in lacks], lacks > missing)
    for name in summary:
        yield "measured", said([f"lacks {name}"] * len(runs), runs[name].isna())
    if TRANSACTIONS in runs:
        count, usual = runs[TRANSACTIONS], _usual_count(runs)
        told = [
            f"{TRANSACTIONS}={here:g}, where this workload has {there:g}"
            for here, there in zip(count, usual, strict=True)
        ]
        yield "same transaction count", said(told, (count != usual) & count.notna() & usual.notna())


def _usual_count(runs: pd.DataFrame) -> pd.Series:
    """Return the transaction count of more than half of the runs of the workload; NaN where none is."""
    count = runs[TRANSACTIONS]
    measured = count.groupby(runs["workload"]).transform("count")
    alike = count.groupby([runs["workload"], count], dropna=False).transform("size")
    return count.where(alike > HALF * measured).groupby(runs["workload"]).transform("first")


def unjudgeable(runs: pd.DataFrame, kept: NDArray[np.bool_]) -> pd.Series:
    """Say by ``pair_id`` why a pair cannot be judged by its runs that are `kept`; empty where it can."""
    order, valid = runs["pair_id"].drop_duplicates(), pd.Series(kept, runs.index)
    sizes = [
        valid.groupby([runs["pair_id"], runs["side"]])
        .agg(how)
        .unstack("side")
        .reindex(order, columns=list(SIDES))
        for how in ("sum", "size")
    ]
    found = pd.Series("", order, dtype="str")
    for side, needed in zip(SIDES, (BASELINE_RUNS, 1), strict=True):
        whole, there = (size[side].fillna(0).astype(int) for size in sizes)
        told = [
            f"has {v} valid of {t} {side} run{'' if t == 1 else 's'}; expected at least {needed}"
            for v, t in zip(whole, there, strict=True)
        ]
        found = found.where(found != "", said(told, whole < needed))
    return found


def _warnings(tables: MatrixTables, decided: pd.DataFrame, raw: list[str]) -> Iterator[str]:
    sound = tables.runs[decided["kept"].to_numpy(bool)]
    for change in unit_changes(sound, raw).itertuples():
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


def unit_changes(runs: pd.DataFrame, metrics: list[str]) -> pd.DataFrame:
    """Find metrics whose target looks like the baseline in another unit.

    Returns
    -------
    DataFrame
        ``pair_id, metric, ratio``: where both sides are steady and the ratio of their medians is within
        `NEAR` of one of `UNIT_FACTORS` or its inverse.
    """
    sides = runs.groupby(["pair_id", "side"])[metrics]
    middle, widest = sides.median(), sides.max() - sides.min()
    baseline, target = (
        middle[middle.index.get_level_values("side") == side].droplevel("side") for side in SIDES
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = target / baseline
        steady = (widest / middle.abs() < STEADY).groupby("pair_id").all()
        factors = np.array([*UNIT_FACTORS, *(1 / factor for factor in UNIT_FACTORS)])
        near = np.abs(ratio.to_numpy()[..., None] / factors - 1).min(axis=-1) < NEAR
    columns, rows = np.nonzero((near & steady.loc[ratio.index].to_numpy(bool)).T)
    return pd.DataFrame(
        {
            "pair_id": ratio.index[rows],
            "metric": ratio.columns[columns],
            "ratio": ratio.to_numpy()[rows, columns],
        }
    )
