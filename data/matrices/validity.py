"""What of the matrices can be learned from and judged: the rules of seed 001, section 4.1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.matrices.schema import impossible
from data.matrices.summaries import TRANSACTIONS
from data.matrices.tables import SIDES, MatrixTables
from data.tables.decisions import WARNINGS, Decisions, decided, warned
from data.tables.specs import Spec

#: A baseline needs as many runs, or nothing is known of how much runs differ by themselves.
BASELINE_RUNS = 2
#: Factors between units that a person may have taken for another, and how near a ratio must come.
UNIT_FACTORS = (1e3, 1e6, 1e9, 1024.0, 1024.0**2)
NEAR = 0.02
#: A count is usual where a larger share of a workload's runs has it; runs of a fixed time have no usual one.
HALF = 0.5
#: A metric whose runs differ by more than this share cannot tell a change of unit.
STEADY = 0.1

RUN_DTYPES = {"run_id": "str", "kept": "bool", "rule": "str", "reason": "str"}
PAIR_DTYPES = {"pair_id": "str", "kept": "bool", "reason": "str"}
METRIC_DTYPES = {"metric": "str", "kept": "bool", "reason": "str"}


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
        "runs": Spec(RUN_DTYPES, file="valid"),
        "pairs": Spec(PAIR_DTYPES, file="valid_pairs"),
        "metrics": Spec(METRIC_DTYPES, file="valid_metrics"),
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
        As left by `data.matrices.flaws.without_flaws`.
    missing : float
        Between 0 and 1.

    Raises
    ------
    InputError
        If no raw metric, or no pair, is left.
    """
    metrics = _metrics(tables.runs[tables.all_metrics], missing)
    left = [name for name in tables.raw if metrics[name] == ""]
    if not left:
        why = metrics[tables.raw]
        raise InputError(
            f'no raw metric says anything; the first, "{why.index[0]}", {why.iloc[0]}', place="metrics"
        )
    rolled_up = [name for name in tables.summary if metrics[name] == ""]
    runs = _runs(tables, left, rolled_up, missing)
    pairs = unjudgeable(tables.runs, runs["kept"].to_numpy(bool))
    if not (pairs == "").any():
        told = f'none can be judged; the first, "{pairs.index[0]}", {pairs.iloc[0]}'
        raise InputError(told, place="pairs")
    return MatrixDecisions(
        warned(list(_warnings(tables, runs, left))),
        runs.astype(RUN_DTYPES),
        decided(pairs, PAIR_DTYPES),
        decided(metrics, METRIC_DTYPES),
    )


def decide_runs(tables: MatrixTables, missing: float) -> pd.DataFrame:
    """Decide which runs break a rule, where a model gives the metrics.

    What a run lacks is counted against all raw metrics of `tables`, so that it doesn't matter what other runs
    are asked about; summary metrics may be missing.

    Returns
    -------
    DataFrame
        ``run_id, kept, rule, reason``, row by row as the table of runs.
    """
    return _runs(tables, tables.raw, [], missing).astype(RUN_DTYPES)


def _unmeasured(values: pd.DataFrame, missing: float) -> pd.Series:
    told = [f"was measured in {count} of {len(values)} runs" for count in values.notna().sum()]
    return pd.Series(told, values.columns, dtype="str").where(values.isna().mean() > missing, "")


def _metrics(values: pd.DataFrame, missing: float) -> pd.Series:
    """Say why a metric cannot be used; empty where it can."""
    reasons = _unmeasured(values, missing)
    least = values.min()
    same = [f"has the same value {value:g} in all runs" for value in least]
    return reasons.mask((least == values.max()) & (reasons == ""), pd.Series(same, values.columns))


def _runs(tables: MatrixTables, raw: list[str], summary: list[str], missing: float) -> pd.DataFrame:
    """Say which run is invalid by which rule, the first that it breaks; it must have `raw`, `summary`."""
    names = tables.runs["run_id"]
    broken = impossible(tables).drop_duplicates("run_id").set_index("run_id")
    told = [
        f"{metric}={value:g} must be {rule}"
        for metric, value, rule in zip(broken["metric"], broken["value"], broken["rule"], strict=True)
    ]
    said = broken.assign(reason=pd.Series(told, broken.index, dtype="str")).reindex(names)
    rule, reason = (said[what].fillna("").set_axis(names.index) for what in ("rule", "reason"))
    for name, why in _lacking(tables.runs, raw, summary, missing):
        new = (why != "") & (rule == "")
        rule, reason = rule.mask(new, name), reason.mask(new, why)
    return pd.DataFrame({"run_id": names, "kept": rule == "", "rule": rule, "reason": reason})


def _lacking(
    runs: pd.DataFrame, raw: list[str], summary: list[str], missing: float
) -> Iterator[tuple[str, pd.Series]]:
    lacks = runs[raw].isna().mean(axis="columns")
    yield "measured", _said(runs, lacks > missing, lambda row: f"lacks {lacks[row]:.0%} of the raw metrics")
    for name in summary:
        yield "measured", _said(runs, runs[name].isna(), lambda _, name=name: f"lacks {name}")
    if TRANSACTIONS in runs:
        count, usual = runs[TRANSACTIONS], _usual_count(runs)
        yield (
            "same transaction count",
            _said(
                runs,
                (count != usual) & count.notna() & usual.notna(),
                lambda row: f"{TRANSACTIONS}={count[row]:g}, where this workload has {usual[row]:g}",
            ),
        )


def _said(runs: pd.DataFrame, wrong: pd.Series, words) -> pd.Series:  # type: ignore[no-untyped-def]  # noqa: ANN001
    told = pd.Series("", runs.index, dtype="str")
    for row in runs.index[wrong]:
        told[row] = words(row)
    return told


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
    reasons = pd.Series("", order, dtype="str")
    for side, needed in zip(SIDES, (BASELINE_RUNS, 1), strict=True):
        whole, there = (size[side].fillna(0).astype(int) for size in sizes)
        few = (whole < needed) & (reasons == "")
        told = [
            f"has {v} valid of {t} {side} run{'' if t == 1 else 's'}; expected at least {needed}"
            for v, t in zip(whole, there, strict=True)
        ]
        reasons = reasons.mask(few, pd.Series(told, order, dtype="str"))
    return reasons


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
    middle = sides.median().unstack("side")
    spread = ((sides.max() - sides.min()) / sides.median().abs()).unstack("side")
    found = []
    with np.errstate(divide="ignore", invalid="ignore"):
        for metric in metrics:
            here = [(middle[metric].get(side), spread[metric].get(side)) for side in SIDES]
            if any(values is None for values, _ in here):
                continue
            (base, wide), (target, wide_too) = here
            ratio = target / base
            factors = np.array([*UNIT_FACTORS, *(1 / factor for factor in UNIT_FACTORS)])
            near = np.abs(ratio.to_numpy()[:, None] / factors - 1).min(axis=1) < NEAR
            chosen = near & (wide < STEADY).to_numpy() & (wide_too < STEADY).to_numpy()
            found += [(pair, metric, value) for pair, value in ratio[chosen].items()]
    return pd.DataFrame(found, columns=["pair_id", "metric", "ratio"])
