"""What engines and opponents said of pairs of matrices that they had not seen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from data.places import Places
from training.evaluation.paired import Unseen, by_entry
from training.matrices.promote import SPLIT
from training.registry.kept_verdicts import OOF
from training.supply import UnseenSupply

WHAT = "matrices"
_NAMES = {"pair_id": "case"}
_OOF = Places("matrices").evaluated / OOF


def _read(root: Path, metrics: Mapping[str, Any]) -> list[Unseen]:
    oof = pd.read_parquet(root / _OOF)
    rows = oof[oof["split"] == SPLIT].drop(columns="group")
    size = rows["cause_size"].map("{:.0%}".format, na_action="ignore").fillna("")
    words = (rows["cause"] + " " + size).str.strip()
    rows = rows.rename(columns=_NAMES).assign(group=rows["workload"], words=words)
    return by_entry(WHAT, rows, metrics["champion"])


def _kept(directory: Path, run: str, _: Path) -> Unseen:
    return Unseen(WHAT, run, pd.read_parquet(directory / OOF).rename(columns=_NAMES))


UNSEEN = UnseenSupply((_OOF.as_posix(),), _read, _kept)
