"""Stage promote of the family ``fingerprints``: what forecasts machines is logged, and nothing registered.

A forecast is learned when it is asked for, from the machines that are known then, so that there is no model
to register; which entry would be champion says metrics.json.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from data.errors import InputError
from data.fingerprints.params import Fingerprints
from data.params import Params, load
from data.paths import Places
from data.tables.documents import written
from data.tables.files import digest_of
from features.fingerprints.matrix import PLACES
from training.evaluation.figures import predicted_measured
from training.evaluation.paired_bootstrap import Unseen, by_entry
from training.fingerprints.forecasts import entries, ranked
from training.registry.runs import Logbook, TrackedRun, headline, scores_by_name
from training.supply import UnseenSupply

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WHAT = "forecasts"
_OOF = Places("fingerprints").evaluated / "oof.parquet"


def _read(root: Path, metrics: Mapping[str, Any]) -> list[Unseen]:
    oof = pd.read_parquet(root / _OOF).rename(columns={"value": "measured"})
    rows = oof.assign(case=oof["application"] + " on " + oof["machine"], group=oof["cpu_model"])
    return by_entry(WHAT, rows, metrics["champion"], metrics["tolerance"])


def _kept(directory: Path, *_: object) -> Unseen:
    raise InputError("a forecast is learned when it is asked for; none is registered", file=directory)


UNSEEN = UnseenSupply((_OOF.as_posix(),), _read, _kept)


def promote_stage() -> None:
    """Stage promote: log the models of forecasts, the best first, unless MLflow has them."""
    knobs, metrics = load(Fingerprints), written(PLACES.metrics, "evaluate")
    book = Logbook("fingerprints", metrics["data"], PLACES.processed / "features.parquet", _evidence())
    known, oof = book.known(), pd.read_parquet(PLACES.evaluated / "oof.parquet")
    for name in reversed(ranked(metrics["splits"]["grouped"]["entries"])):
        if name not in known:
            with book.logged(run_of(name, metrics, oof[oof["entry"] == name], knobs)):
                pass
    print(f"fingerprints: {metrics['champion']} is best; there is no model to register")  # noqa: T201


def _evidence() -> str:
    return digest_of(PLACES.metrics, PLACES.evaluated / "oof.parquet")


def run_of(name: str, metrics: dict[str, Any], rows: pd.DataFrame, knobs: Params[Fingerprints]) -> TrackedRun:
    """Return what is logged of an entry of metrics.json; `rows` are its predictions."""
    return TrackedRun(
        name,
        {
            **headline(metrics["splits"]["grouped"]["entries"][name]),
            **scores_by_name(metrics["splits"], name),
        },
        {"confidence": knobs.section.profile.confidence, "seed": knobs.seed},
        {"model": name},
        nested=_folds(name, rows, metrics["tolerance"]),
        figures=partial(_figures, name, rows, metrics["tolerance"]),
    )


def _folds(name: str, rows: pd.DataFrame, tolerance: float) -> Iterator[TrackedRun]:
    for fold, own in rows.groupby("fold", sort=True):
        scores = headline(entries(own, tolerance)[name])
        yield TrackedRun(f"{name} grouped f{fold:02}", scores, {}, {"kind": "fold", "split": "grouped"})


def _figures(name: str, rows: pd.DataFrame, tolerance: float) -> dict[str, Figure]:
    title = f"{name}, folds of whole CPU models"
    drawn = predicted_measured(rows.rename(columns={"value": "measured"}), tolerance, title, "performance")
    return {"predicted-measured.png": drawn}
