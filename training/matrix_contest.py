"""The engine of matrices that wants to be champion, and how two of them are compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from data.params import Params
from training.bootstrap import paired_difference
from training.candidates import OOF, Candidate, Compared, Nested, contest
from training.digest import digest_of
from training.matrices_promote import SPLIT
from training.metrics import as_dict, scores_of
from training.promote import standing

KEPT = ["pair_id", "workload", "verdict", "status"]


def promote(knobs: Params, metrics: dict[str, Any], reports: Path, models: Path) -> str:
    """Bring the registry up to date, and say who is champion, and why."""
    how, entry = knobs.matrices.promote, metrics["champion"]
    evidence = digest_of(reports / "metrics.json", models / "card.json")
    stands = standing(how.name, evidence)
    if stands is not None:
        return stands
    oof = pd.read_parquet(reports / OOF)
    rows = oof[oof["entry"] == entry]
    scores = {
        f"{SPLIT}_{score}_{kind}": value
        for score, spread in metrics["splits"][SPLIT]["entries"][entry].items()
        if isinstance(spread, dict)
        for kind, value in spread.items()
    }
    candidate = Candidate("matrices", how.name, entry, models, scores, rows[KEPT], _folds(rows), evidence)

    def compare(own: pd.DataFrame, theirs: pd.DataFrame) -> Compared | None:
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
            seed=knobs.seed,
        )
        return Compared(difference, "the same unseen pairs", "balanced accuracy")

    digest = metrics["data"]["digest"]
    return contest(candidate, compare, digest=digest, seed=metrics["seed"], confidence=how.confidence)


def _folds(rows: pd.DataFrame) -> list[Nested]:
    return [
        Nested(f"{SPLIT} f{fold}", as_dict(scores_of(own)), {}, {"split": SPLIT})
        for fold, own in rows.groupby("fold", sort=True)
    ]
