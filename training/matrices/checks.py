"""What stands beside the engines: the validity tree, automatic groups, and the whole chain as it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from data.matrices.tables import MatrixTables
from data.parallel import Compute, side_by_side
from training.evaluation.metrics import summary
from training.matrices.engine.grouping import Grouping
from training.matrices.engine.stored import EngineRecipe
from training.matrices.examples import MatrixExamples
from training.matrices.judging import judge
from training.matrices.scores import Mistakes

#: Of served.parquet, from a verdict; ``fold`` and ``status`` stand among them.
TOLD = ("pair_id", "workload", "group", "verdict", "probability", "baseline_runs", "target_runs", "reason")
SERVED_COLUMNS = (*TOLD[:3], "fold", *TOLD[3:5], "status", *TOLD[5:])


@dataclass(frozen=True)
class Checked:
    """Training runs with flags, and test runs without, all of them.

    Attributes
    ----------
    fold : int
    train : MatrixTables
    test : MatrixTables
        With the metrics of `train`, for the tree alone.
    measured : MatrixTables
        The same as measured, for who asks.
    recipe : EngineRecipe
    """

    fold: int
    train: MatrixTables
    test: MatrixTables
    measured: MatrixTables
    recipe: EngineRecipe


def asked(
    examples: MatrixExamples, fold_of: pd.Series, recipe: EngineRecipe, compute: Compute
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return served.parquet, of the pairs whose truth is known, and validity.parquet."""
    workload, tasks = examples.tables.runs["workload"], []
    for fold in sorted(fold_of.unique()):
        inside = workload.isin(fold_of.index[fold_of == fold]).to_numpy(bool)
        test = examples.tables.of_runs(inside).without_flags()
        measured = examples.measured.of_runs(inside).without_flags()
        tasks.append(Checked(int(fold), examples.tables.of_runs(~inside), test, measured, recipe))
    told, rejected = zip(*side_by_side(answered, tasks, compute, "answers of matrices"), strict=True)
    abnormal = examples.pairs.set_index("pair_id")["abnormal"]
    served = pd.concat(told, ignore_index=True)
    served = served[served["pair_id"].isin(abnormal.index)]
    status = np.where(abnormal.loc[served["pair_id"]], "fail", "pass")
    served = served.assign(status=status)[list(SERVED_COLUMNS)].reset_index(drop=True)
    return served, _validity(rejected, examples)


def answered(task: Checked) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Train on one part and answer about the rest.

    Returns
    -------
    served : DataFrame
        Of the rest as it was measured: served.parquet without ``status``.
    rejected : DataFrame
        ``run_id, fold, tree``: whether the validity tree rejects a run; no rows where there is no tree.
    """
    from sklearn import config_context

    with config_context(assume_finite=True, skip_parameter_validation=True):
        trained = task.recipe.train(task.train)
    verdicts = pd.DataFrame(judge(trained, task.measured, drivers=0).verdicts)
    served = verdicts[list(TOLD)].astype({"probability": "float64"}).assign(fold=task.fold)
    if trained.validity is None:
        return served, pd.DataFrame(columns=["run_id", "fold", "tree"])
    told = trained.validity.judged(task.test)
    return served, told[["run_id"]].assign(fold=task.fold, tree=told["invalid"].to_numpy(bool))


def served_summary(rows: pd.DataFrame) -> dict[str, Any]:
    """Summarise served.parquet for metrics.json; a fail that is called invalid is missed."""
    counts = {
        "pairs": len(rows),
        "fails": int((rows["status"] == "fail").sum()),
        "invalid": int((rows["verdict"] == "invalid").sum()),
    }
    return summary(rows.assign(kind="served", repeat=0)) | counts


def _validity(found: Sequence[pd.DataFrame], examples: MatrixExamples) -> pd.DataFrame:
    """Return validity.parquet: rules, tree, and either of them, against the analysts' flags."""
    if not any(len(told) for told in found):
        return pd.DataFrame(columns=["judge", "fold", "kind", "runs", "rejected"])
    rules = ~examples.decisions.runs["kept"].to_numpy(bool)
    runs = examples.measured.runs[["run_id", "valid"]].assign(rules=rules)
    known = runs[runs["valid"].notna()].merge(pd.concat(found), on="run_id", validate="one_to_one")
    kinds = examples.measured.causes.set_index("run_id")["invalid_kind"]
    kind = known["run_id"].map(kinds[~kinds.index.duplicated()]).astype("str").fillna("")
    wrong = ~known["valid"].astype(bool)
    told = known.assign(
        kind=kind.mask(wrong & (kind == ""), "unknown").where(wrong, ""), both=known["rules"] | known["tree"]
    )
    rows = told.melt(["fold", "kind"], ["rules", "tree", "both"], "judge", "rejected")
    counted = rows.groupby(["judge", "fold", "kind"], sort=True)["rejected"].agg(["size", "sum"])
    return counted.reset_index().rename(columns={"size": "runs", "sum": "rejected"})


def validity_summary(table: pd.DataFrame) -> dict[str, dict[str, float | int]]:
    """Summarise validity.parquet for metrics.json; an invalid run is positive."""
    found: dict[str, dict[str, float | int]] = {}
    for name, own in table.groupby("judge", sort=True):
        wrong, numbers = own["kind"] != "", own[["runs", "rejected"]]
        (invalid, caught), (valid, alarms) = (numbers[flags].sum().tolist() for flags in (wrong, ~wrong))
        counts = Mistakes(invalid + valid, invalid, alarms, invalid - caught)
        found[str(name)] = {
            "runs": counts.cases,
            "invalid": counts.abnormal,
            "false_positive": counts.false_positive,
            "false_negative": counts.false_negative,
            "balanced_accuracy": round(counts.balanced_accuracy, 6),
        }
    return found


def groups(examples: MatrixExamples, seed: int) -> pd.DataFrame:
    """Return groups.parquet: the automatic group of most pairs of each test case, beside the given one."""
    valid = examples.tables.of_runs(examples.tables.runs["valid"].to_numpy(bool))
    found = Grouping.of("automatic", valid, valid.raw, seed).applied(valid).runs["group"]
    rows = valid.runs[["workload", "group"]].assign(automatic=found.to_numpy())
    return (
        rows.groupby("workload", sort=True)
        .agg(group=("group", "first"), automatic=("automatic", lambda names: names.mode().iloc[0]))
        .reset_index()
    )


def agreement(table: pd.DataFrame) -> dict[str, float | int]:
    """Say how alike the two groupings of groups.parquet are."""
    from sklearn.metrics import adjusted_rand_score

    return {
        "given": int(table["group"].nunique()),
        "automatic": int(table["automatic"].nunique()),
        "adjusted_rand": round(float(adjusted_rand_score(table["group"], table["automatic"])), 6),
    }
