"""What forecasts said of machines whose CPU model they had not seen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from data.errors import InputError
from data.places import Places
from training.evaluation.paired import Unseen
from training.supply import UnseenSupply

WHAT = "forecasts"
_OOF = Places("fingerprints").evaluated / "oof.parquet"


def _read(root: Path, metrics: Mapping[str, Any]) -> list[Unseen]:
    oof = pd.read_parquet(root / _OOF).rename(columns={"value": "measured"})
    rows = oof.assign(case=oof["application"] + " on " + oof["machine"], group=oof["cpu_model"])
    first = sorted(rows["entry"].unique(), key=lambda entry: (entry != metrics["champion"], entry))
    return [Unseen(WHAT, entry, rows[rows["entry"] == entry], metrics["tolerance"]) for entry in first]


def _kept(directory: Path, *_: object) -> Unseen:
    raise InputError("a forecast is learned when it is asked for; none is registered", file=directory)


UNSEEN = UnseenSupply((_OOF.as_posix(),), _read, _kept)
