"""What stands beside the engines: the validity tree, automatic groups, and the whole chain as it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from data.matrices.tables import MatrixTables
from training.evaluation.metrics import summary
from training.matrices.engine.grouping import Grouping
from training.matrices.engine.stored import TrainedEngine
from training.matrices.engine.validity_tree import ValidityTree
from training.matrices.examples import MatrixExamples
from training.matrices.judging import judge
from training.matrices.scores import Counts
from training.matrices.training import Recipe

SERVED_COLUMNS = (
    *("pair_id", "workload", "group", "fold", "verdict", "probability", "status"),
    *("baseline_runs", "target_runs", "reason"),
)
JUDGES = ("rules", "tree", "both")


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
    recipe : Recipe
    """

    fold: int
    train: MatrixTables
    test: MatrixTables
    measured: MatrixTables
    recipe: Recipe


def checked(examples: MatrixExamples, fold_of: pd.Series, recipe: Recipe) -> list[Checked]:
    """Divide all runs by the fold of their test case."""
    workload, found = examples.tables.runs["workload"], []
    for fold in sorted(fold_of.unique()):
        inside = workload.isin(fold_of.index[fold_of == fold]).to_numpy(bool)
        test = examples.tables.of_runs(inside).without_flags()
        measured = examples.measured.of_runs(inside).without_flags()
        found.append(Checked(int(fold), examples.tables.of_runs(~inside), test, measured, recipe))
    return found


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
    return _served(trained, task), _rejected(trained.validity, task)


def _served(trained: TrainedEngine, task: Checked) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "pair_id": verdict.pair_id,
            "workload": verdict.workload,
            "group": verdict.group,
            "fold": task.fold,
            "verdict": verdict.verdict,
            "probability": np.nan if verdict.probability is None else verdict.probability,
            "baseline_runs": verdict.baseline_runs,
            "target_runs": verdict.target_runs,
            "reason": verdict.reason,
        }
        for verdict in judge(trained, task.measured, drivers=0).verdicts
    )


def with_status(found: Sequence[pd.DataFrame], examples: MatrixExamples) -> pd.DataFrame:
    """Return served.parquet: the pairs whose truth is known."""
    abnormal = examples.pairs.set_index("pair_id")["abnormal"]
    rows = pd.concat(found, ignore_index=True)
    rows = rows[rows["pair_id"].isin(abnormal.index)]
    status = np.where(abnormal.loc[rows["pair_id"]], "fail", "pass")
    return rows.assign(status=status)[list(SERVED_COLUMNS)].reset_index(drop=True)


def served_summary(rows: pd.DataFrame) -> dict[str, Any]:
    """Summarise served.parquet for metrics.json; a fail that is called invalid is missed."""
    counts = {
        "pairs": len(rows),
        "fails": int((rows["status"] == "fail").sum()),
        "invalid": int((rows["verdict"] == "invalid").sum()),
    }
    return summary(rows.assign(kind="served", repeat=0)) | counts


def _rejected(tree: ValidityTree | None, task: Checked) -> pd.DataFrame:
    if tree is None:
        return pd.DataFrame(columns=["run_id", "fold", "tree"])
    told = tree.judged(task.test)
    return told[["run_id"]].assign(fold=task.fold, tree=told["invalid"].to_numpy(bool))


def validity(found: Sequence[pd.DataFrame], examples: MatrixExamples) -> pd.DataFrame:
    """Return validity.parquet: rules, tree, and either of them, against the analysts' flags."""
    if not any(len(told) for told in found):
        return pd.DataFrame(columns=["judge", "fold", "kind", "runs", "rejected"])
    runs = examples.measured.runs[["run_id", "valid"]].assign(
        rules=~examples.decisions.runs["kept"].to_numpy(bool)
    )
    known = runs[runs["valid"].notna()].merge(pd.concat(found), on="run_id", validate="one_to_one")
    kinds = examples.measured.causes.set_index("run_id")["invalid_kind"]
    kind = known["run_id"].map(kinds[~kinds.index.duplicated()]).astype("str").fillna("")
    wrong = ~known["valid"].astype(bool)
    told = known.assign(kind=kind.mask(wrong & (kind == ""), "unknown").where(wrong, ""), wrong=wrong)
    parts = [
        told.assign(judge=judge_, rejected=verdicts)
        for judge_, verdicts in zip(
            JUDGES, (told["rules"], told["tree"], told["rules"] | told["tree"]), strict=True
        )
    ]
    rows = pd.concat(parts).groupby(["judge", "fold", "kind"], sort=True)["rejected"].agg(["size", "sum"])
    return rows.reset_index().rename(columns={"size": "runs", "sum": "rejected"})


def validity_summary(table: pd.DataFrame) -> dict[str, dict[str, float | int]]:
    """Summarise validity.parquet for metrics.json; an invalid run is positive."""
    found: dict[str, dict[str, float | int]] = {}
    for name, own in table.groupby("judge", sort=True):
        wrong = own["kind"] != ""
        invalid, caught = int(own.loc[wrong, "runs"].sum()), int(own.loc[wrong, "rejected"].sum())
        valid, alarms = int(own.loc[~wrong, "runs"].sum()), int(own.loc[~wrong, "rejected"].sum())
        counts = Counts(invalid + valid, invalid, alarms, invalid - caught)
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
