"""Promote stage for matrices. Reports the current champion without importing evaluation dependencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from data.matrices.params import Matrices
from data.params import Params, load
from data.paths import Places
from data.tables.documents import written
from training.evaluation.figures import show, verdict_figures
from training.evaluation.metrics import RANKED, as_dict, scores_of
from training.evaluation.paired_bootstrap import OutOfFoldPredictions, by_entry
from training.matrices.engine.stored import EngineCard, TrainedEngine
from training.registry.contest import OOF, Candidate, Kept, Means, by_verdicts, promoted
from training.registry.runs import TrackedRun, headline, scores_by_name
from training.supply import UnseenSupply

#: Names of the splits that models are ranked by.
CASES, CAUSES = "test-cases", "causes"


def designs(splits: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of the splits that models are ranked by; `splits` as in metrics.json."""
    return [splits[name]["entries"] for name in (CASES, CAUSES) if name in splits]


def ranked(asked: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sort the models by mean average precision over the folds, averaged over the splits, the best first.

    Equal ones by pooled balanced accuracy in the first split, then by name. `entries_of_splits` has the
    entries of each split.
    """
    models = [name for name, entry in asked[0].items() if entry["kind"] == "model"]

    def worth(name: str) -> float:
        return float(np.mean([entries[name][RANKED]["mean"] for entries in asked]))

    return sorted(
        models, key=lambda name: (-worth(name), -asked[0][name]["balanced_accuracy"]["pooled"], name)
    )


KEPT = ["pair_id", "workload", "verdict", "status", "probability", "threshold", "fold"]


def contest_means(knobs: Params[Matrices], metrics: dict[str, Any], split: str, places: Places) -> Means:
    """Return the functions that read, compare and log the champion of metrics.json, scored in `split`."""
    how, best = knobs.section.promote, metrics["champion"]
    oof = pd.read_parquet(places.evaluated / OOF)
    names = ranked(designs(metrics["splits"]))
    runs = [_run(name, metrics, split, oof[oof["entry"] == name]) for name in names]
    said = oof[oof["entry"] == best][KEPT].assign(group=oof["workload"])
    runs[0].params.update(EngineCard.read(places.models).params)
    kept = Kept("matrices", metrics["data"], places.interim / "matrices.parquet", places.models, runs, said)
    return kept.means(TrainedEngine.read, by_verdicts(["pair_id"], how, knobs.seed, "the same unseen pairs"))


def _run(name: str, metrics: dict[str, Any], split: str, rows: pd.DataFrame) -> TrackedRun:
    entry, seed = metrics["splits"][split]["entries"][name], metrics["seed"]
    tags = {"kind": "fold", "split": split}
    return TrackedRun(
        name,
        {**headline(entry), **scores_by_name(metrics["splits"], name)},
        {"classifier": rows["model"].iloc[0], "scheme": rows["scheme"].iloc[0], "seed": seed},
        {"model": name},
        nested=[
            TrackedRun(f"{name} {split} f{fold:02}", as_dict(scores_of(fold_rows)), {}, tags)
            for fold, fold_rows in rows.groupby("fold", sort=True)
        ],
        figures=partial(verdict_figures, rows, f"{name}, folds of whole test cases"),
    )


PLACES = Places("matrices")
#: Name of the split whose figures are reported.
SPLIT = CASES


def promote_stage() -> None:
    """Register the best engine, and make it champion unless it is worse than the current one."""
    knobs, metrics = load(Matrices), written(PLACES.metrics, "evaluate")

    name, entry = knobs.section.promote.name, metrics["champion"]
    outcome = promoted(
        Candidate(
            name, entry, PLACES.models, PLACES.metrics, lambda: contest_means(knobs, metrics, SPLIT, PLACES)
        )
    )
    show(metrics, outcome, SPLIT, "pairs")


WHAT = "matrices"
_NAMES = {"pair_id": "case"}
_OOF = Places("matrices").evaluated / OOF


def _read(root: Path, metrics: Mapping[str, Any]) -> list[OutOfFoldPredictions]:
    oof = pd.read_parquet(root / _OOF)
    rows = oof[oof["split"] == SPLIT].drop(columns="group")
    size = rows["cause_size"].map("{:.0%}".format, na_action="ignore").fillna("")
    words = (rows["cause"] + " " + size).str.strip()
    rows = rows.rename(columns=_NAMES).assign(group=rows["workload"], words=words)
    return by_entry(WHAT, rows, metrics["champion"])


def _kept(directory: Path, run: str, _: Path) -> OutOfFoldPredictions:
    return OutOfFoldPredictions(WHAT, run, pd.read_parquet(directory / OOF).rename(columns=_NAMES))


def unseen() -> UnseenSupply:
    """Return the functions that read out-of-fold predictions."""
    return UnseenSupply((_OOF.as_posix(),), _read, _kept)
