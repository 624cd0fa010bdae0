"""The engine of matrices that wants to be champion, and how two of them are compared."""

from __future__ import annotations

from typing import Any

import pandas as pd

from data.matrices.params import Matrices
from data.params import Params
from data.places import Places
from training.evaluation.metrics import as_dict, scores_of
from training.matrices.engine.stored import TrainedEngine
from training.registry.contest import Means
from training.registry.kept_verdicts import OOF, Kept
from training.registry.tracking import Nested, scores_by_name
from training.registry.unseen import by_verdicts

KEPT = ["pair_id", "workload", "verdict", "status"]


def means(knobs: Params[Matrices], metrics: dict[str, Any], split: str, places: Places) -> Means:
    """Return how the champion of metrics.json is read, compared and logged, by its scores in `split`."""
    how, entry = knobs.section.promote, metrics["champion"]
    oof = pd.read_parquet(places.evaluated / OOF)
    rows, scores = oof[oof["entry"] == entry], scores_by_name({split: metrics["splits"][split]}, entry)
    said = rows[KEPT].assign(group=rows["workload"])
    kept = Kept("matrices", f"{how.name} {entry}", places.models, scores, _folds(rows, split), said)
    return kept.means(TrainedEngine.read, by_verdicts(["pair_id"], how, knobs.seed, "the same unseen pairs"))


def _folds(rows: pd.DataFrame, split: str) -> list[Nested]:
    return [
        Nested(f"{split} f{fold}", as_dict(scores_of(own)), {}, {"split": split})
        for fold, own in rows.groupby("fold", sort=True)
    ]
