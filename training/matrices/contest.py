"""The engine of matrices that wants to be champion, what is logged of all engines, how two are compared."""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd

from data.matrices.params import Matrices
from data.params import Params
from data.places import Places
from training.evaluation.figures import of_verdicts
from training.evaluation.metrics import as_dict, scores_of
from training.matrices.choice import designs, ranked
from training.matrices.engine.stored import EngineCard, TrainedEngine
from training.registry.contest import Means
from training.registry.kept_verdicts import OOF, Kept
from training.registry.runs import TrackedRun, headline, scores_by_name
from training.registry.unseen import by_verdicts

KEPT = ["pair_id", "workload", "verdict", "status", "probability", "threshold", "fold"]


def means(knobs: Params[Matrices], metrics: dict[str, Any], split: str, places: Places) -> Means:
    """Return how the champion of metrics.json is read, compared and logged, by its scores in `split`."""
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
    return TrackedRun(
        name,
        {**headline(entry), **scores_by_name(metrics["splits"], name)},
        {"classifier": rows["model"].iloc[0], "scheme": rows["scheme"].iloc[0], "seed": seed},
        {"model": name},
        nested=_folds(name, rows, split),
        figures=partial(of_verdicts, rows, f"{name}, folds of whole test cases"),
    )


def _folds(name: str, rows: pd.DataFrame, split: str) -> list[TrackedRun]:
    tags = {"kind": "fold", "split": split}
    return [
        TrackedRun(f"{name} {split} f{fold:02}", as_dict(scores_of(own)), {}, tags)
        for fold, own in rows.groupby("fold", sort=True)
    ]
