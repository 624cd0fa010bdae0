"""What static and online models said of co-runs that they had not seen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from data.corun.tables import AND
from data.places import Places
from training.corun.contest import KEYS
from training.corun.splits import main_design
from training.evaluation.paired import Unseen, by_entry
from training.registry.kept_verdicts import OOF
from training.supply import UnseenSupply

STATIC, ONLINE = "co-runs from solo runs", "co-runs from first samples"
_OOF, _ONLINE = (Places("corun").evaluated / name for name in (OOF, "online.parquet"))


def _read(root: Path, metrics: Mapping[str, Any]) -> list[Unseen]:
    tolerance, oof = metrics["tolerance"], pd.read_parquet(root / _OOF)
    design = main_design(tuple(metrics["splits"]))
    rows = _named(oof[(oof["design"] == design) & oof["predicted"].notna()])
    found = by_entry(STATIC, rows, metrics["champion"], tolerance, "model")
    told = metrics["online"]
    if told is None:
        return found
    seen = pd.read_parquet(root / _ONLINE)
    at = seen[(seen["seconds"] == told["trained_at"]) & (seen["design"] == told["design"])]
    return found + by_entry(ONLINE, _named(at), told["champion"], tolerance, "model")


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    """Name the cases of each model; what was repeated is told apart by a number."""
    pair = rows["task"] + f" {AND} " + rows["corunners"]
    times = rows.groupby([*KEYS, "model"], sort=False).cumcount() + 1
    cases = pair + ", " + rows["machine"] + (" #" + times.astype(str)).where(times > 1, "")
    return rows.assign(case=cases, group=pair)


def _kept(directory: Path, run: str, root: Path) -> Unseen:
    from data.corun.params import Corun
    from data.params import load

    what, _, entry = run.partition(" ")
    tolerance = load(Corun, root / "params.yaml").section.evaluate.tolerance
    rows = _named(pd.read_parquet(directory / OOF).assign(model=entry))
    return Unseen({"static": STATIC}.get(what, ONLINE), entry, rows, tolerance)


UNSEEN = UnseenSupply((_OOF.as_posix(), _ONLINE.as_posix()), _read, _kept)
