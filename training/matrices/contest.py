"""The engine of matrices that wants to be champion, and how two of them are compared."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from data.matrices.params import Matrices
from data.params import Params, Promote
from data.places import Places
from training.evaluation.bootstrap import paired_difference
from training.evaluation.metrics import as_dict, scores_of
from training.matrices.engine.stored import TrainedEngine
from training.registry.contest import Compared, Means
from training.registry.kept_verdicts import OOF, Kept
from training.registry.tracking import Run, scores_by_name

KEPT = ["pair_id", "workload", "verdict", "status"]


def means(knobs: Params[Matrices], metrics: dict[str, Any], split: str, places: Places) -> Means:
    """Return how the champion of metrics.json is read, compared and logged, by its scores in `split`."""
    how, entry = knobs.section.promote, metrics["champion"]
    oof = pd.read_parquet(places.evaluated / OOF)
    rows, scores = oof[oof["entry"] == entry], scores_by_name({split: metrics["splits"][split]}, entry)
    kept = Kept("matrices", f"{how.name} {entry}", places.models, scores, _folds(rows, split), rows[KEPT])
    return kept.means(TrainedEngine.read, partial(_compared, how, knobs.seed))


def _compared(how: Promote, seed: int, own: pd.DataFrame, theirs: pd.DataFrame) -> Compared | None:
    both = own.merge(theirs, on="pair_id", suffixes=("", "_theirs"))
    failed = both["status"] == "fail"
    if failed.nunique() < 2:  # noqa: PLR2004 - nothing to balance
        return None
    difference = paired_difference(
        failed.to_numpy(bool),
        (both["verdict"] == "fail").to_numpy(bool),
        (both["verdict_theirs"] == "fail").to_numpy(bool),
        both["workload"].to_numpy(np.str_),
        resamples=how.resamples,
        confidence=how.confidence,
        seed=seed,
    )
    return Compared(difference, "the same unseen pairs", "balanced accuracy")


def _folds(rows: pd.DataFrame, split: str) -> list[Run]:
    return [
        Run(f"{split} f{fold}", as_dict(scores_of(own)), {}, {"split": split})
        for fold, own in rows.groupby("fold", sort=True)
    ]
