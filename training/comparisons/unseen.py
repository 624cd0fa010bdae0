"""What models and rules said of comparisons of operations that they had not seen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from data.places import Places
from training.evaluation.paired import Unseen, by_entry
from training.supply import UnseenSupply

WHAT = "comparisons"
_PLACES = Places("comparisons")
_VECTORS = _PLACES.processed / "features.parquet"
_OOF = _PLACES.evaluated / "oof.parquet"


def _read(root: Path, metrics: Mapping[str, Any]) -> list[Unseen]:
    oof = pd.read_parquet(root / _OOF)
    rows = oof[oof["split"] == "grouped"].merge(_groups(root), on="comparison_id", how="left")
    return by_entry(WHAT, rows.rename(columns={"comparison_id": "case"}), metrics["champion"])


def _groups(root: Path) -> pd.DataFrame:
    columns = {"comparison_id": "comparison_id", "fold_group": "group"}
    return pd.read_parquet(root / _VECTORS, columns=list(columns)).rename(columns=columns)


def _kept(directory: Path, run: str, root: Path) -> Unseen:
    from training.comparisons.contest import VERDICTS

    rows = pd.read_parquet(directory / "extra_files" / VERDICTS)
    if "status" not in rows and (root / _VECTORS).is_file():
        # versions of before kept their verdicts alone
        labels = pd.read_parquet(root / _VECTORS, columns=["comparison_id", "status"])
        rows = rows.merge(labels, on="comparison_id", how="left")
    if (root / _VECTORS).is_file():
        rows = rows.merge(_groups(root), on="comparison_id", how="left")
    return Unseen(WHAT, run, rows.rename(columns={"comparison_id": "case"}))


UNSEEN = UnseenSupply((_OOF.as_posix(), _VECTORS.as_posix(), _PLACES.interim.as_posix()), _read, _kept)
