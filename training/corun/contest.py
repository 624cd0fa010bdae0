"""Models of impact that want to be champion, and how two of them are compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.corun.params import Corun
from data.params import Params
from data.places import Places
from training.corun.splits import main_design
from training.corun.stored import TrainedImpact, TrainedOnline
from training.registry.contest import Means
from training.registry.kept_verdicts import OOF, Kept
from training.registry.tracking import Nested, scores_by_name, trials_of
from training.registry.unseen import Compare, by_errors

KEYS = ["task", "corunners", "machine"]
KEPT = [*KEYS, "measured", "predicted", "group"]


def static(knobs: Params[Corun], metrics: dict[str, Any], places: Places) -> Means:
    """Return how the best static model is read, compared and logged."""
    model, design = metrics["champion"], main_design(tuple(metrics["splits"]))
    oof = pd.read_parquet(places.evaluated / OOF)
    rows = _grouped(oof[(oof["model"] == model) & (oof["design"] == design)])
    nested = [*trials_of(places.tuned, model), *_folds(rows)]
    title, scores = f"{knobs.section.promote.name} {model}", scores_by_name(metrics["splits"], model)
    kept = Kept("corun", title, places.models / model, scores, nested, rows[KEPT])
    return kept.means(TrainedImpact.read, _errors(knobs))


def online(knobs: Params[Corun], metrics: dict[str, Any], places: Places) -> Means:
    """Return how the best online model is read, compared and logged, from its part of metrics.json."""
    oof, model = pd.read_parquet(places.evaluated / "online.parquet"), metrics["champion"]
    at = (oof["seconds"] == metrics["trained_at"]) & (oof["design"] == metrics["design"])
    rows = _grouped(oof[(oof["model"] == model) & at])
    scores = {
        f"{entry['design']}_{entry['seconds']:g}s_{score}": entry[score]
        for entry in metrics["entries"]
        if entry["model"] == model
        for score in ("within_tolerance", "mape", "r2")
    }
    title, directory = f"{knobs.section.online.name} {model}", places.models / "online"
    kept = Kept("corun", title, directory, scores, _folds(rows), rows[KEPT])
    return kept.means(TrainedOnline.read, _errors(knobs))


def _errors(knobs: Params[Corun]) -> Compare:
    return by_errors(KEYS, knobs.section.promote, knobs.seed, "the same unseen co-runs")


def _grouped(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(group=rows["task"] + "\n" + rows["corunners"])


def _folds(rows: pd.DataFrame) -> Iterator[Nested]:
    for fold, own in rows.groupby("fold", sort=True):
        design = str(own["design"].iloc[0])
        error = float(_error(own["predicted"], own["measured"]).mean())
        yield Nested(f"{design} f{fold}", {"mape": error}, {}, {"split": design})


def _error(predicted: pd.Series, measured: pd.Series) -> NDArray[np.float64]:
    return np.abs(predicted / measured - 1).to_numpy(np.float64)
