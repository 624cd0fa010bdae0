"""What forecasts said of machines whose CPU model they had not seen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from data.errors import InputError
from data.places import Places
from training.evaluation.paired import Unseen, by_entry
from training.supply import UnseenSupply

WHAT = "forecasts"
_OOF = Places("fingerprints").evaluated / "oof.parquet"


def _read(root: Path, metrics: Mapping[str, Any]) -> list[Unseen]:
    oof = pd.read_parquet(root / _OOF).rename(columns={"value": "measured"})
    rows = oof.assign(case=oof["application"] + " on " + oof["machine"], group=oof["cpu_model"])
    return by_entry(WHAT, rows, metrics["champion"], metrics["tolerance"])


def _kept(directory: Path, *_: object) -> Unseen:
    raise InputError("a forecast is learned when it is asked for; none is registered", file=directory)


UNSEEN = UnseenSupply((_OOF.as_posix(),), _read, _kept)
