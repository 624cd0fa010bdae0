"""Models of impact that want to be champion, and how two of them are compared."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.params import Params
from training.bootstrap import paired_gain
from training.candidates import OOF, Candidate, Compared, Nested, contest
from training.corun_splits import main_design
from training.digest import digest_of
from training.promote import standing

KEYS = ["task", "corunners", "machine"]
KEPT = [*KEYS, "measured", "predicted", "group"]


@dataclass(frozen=True)
class Places:
    """Where the stages wrote: reports, trained models, what was tuned."""

    reports: Path
    models: Path
    tuned: Path


def promote(knobs: Params, metrics: dict[str, Any], places: Places) -> list[str]:
    """Bring the registry up to date.

    Returns
    -------
    list of str
        A line per registered name: who is champion, and why.
    """
    evidence = digest_of(places.reports / "metrics.json")
    candidates = [_static(knobs, metrics, places, evidence)]
    if metrics["online"] is not None:
        candidates.append(_online(knobs, metrics["online"], places, evidence))
    return [standing(one.name, one.evidence) or _contest(one, knobs, metrics) for one in candidates]


def _contest(candidate: Candidate, knobs: Params, metrics: dict[str, Any]) -> str:
    how = knobs.corun.promote

    def compare(own: pd.DataFrame, theirs: pd.DataFrame) -> Compared | None:
        both = own.merge(theirs, on=KEYS, suffixes=("", "_theirs"))
        if both.empty:
            return None
        difference = paired_gain(
            _error(both["predicted"], both["measured"]),
            _error(both["predicted_theirs"], both["measured"]),
            both["group"].to_numpy(np.str_),
            resamples=how.resamples,
            confidence=how.confidence,
            seed=knobs.seed,
        )
        return Compared(difference, "the same unseen co-runs", "mean error smaller by")

    digest = metrics["data"]["digest"]
    return contest(candidate, compare, digest=digest, seed=metrics["seed"], confidence=how.confidence)


def _static(knobs: Params, metrics: dict[str, Any], places: Places, evidence: str) -> Candidate:
    model, design = metrics["champion"], main_design(tuple(metrics["splits"]))
    oof = pd.read_parquet(places.reports / OOF)
    rows = _grouped(oof[(oof["model"] == model) & (oof["design"] == design)])
    trials = pd.read_parquet(places.tuned / "trials.parquet")
    own = trials[(trials["part"] == "all") & (trials["model"] == model)]
    scores = {
        f"{split}_{score}_{kind}": value
        for split, content in metrics["splits"].items()
        for score, spread in content["entries"].get(model, {}).items()
        if isinstance(spread, dict)
        for kind, value in spread.items()
    }
    searched = [
        Nested(f"trial {row['trial']}", {"value": row["value"]}, json.loads(row["params"]))
        for row in own.to_dict("records")
    ]
    name, nested = knobs.corun.promote.name, [*searched, *_folds(rows)]
    return Candidate("corun", name, model, places.models / model, scores, rows[KEPT], nested, evidence)


def _online(knobs: Params, online: dict[str, Any], places: Places, evidence: str) -> Candidate:
    oof, model = pd.read_parquet(places.reports / "online.parquet"), online["champion"]
    rows = _grouped(
        oof[
            (oof["model"] == model)
            & (oof["seconds"] == online["trained_at"])
            & (oof["design"] == online["design"])
        ]
    )
    scores = {
        f"{entry['design']}_{entry['seconds']:g}s_{score}": entry[score]
        for entry in online["entries"]
        if entry["model"] == model
        for score in ("within_tolerance", "mape", "r2")
    }
    name, directory = knobs.corun.online.name, places.models / "online"
    return Candidate("corun", name, model, directory, scores, rows[KEPT], _folds(rows), evidence)


def _grouped(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(group=rows["task"] + "\n" + rows["corunners"])


def _folds(rows: pd.DataFrame) -> list[Nested]:
    found = []
    for fold, own in rows.groupby("fold", sort=True):
        design = str(own["design"].iloc[0])
        error = float(_error(own["predicted"], own["measured"]).mean())
        found.append(Nested(f"{design} f{fold}", {"mape": error}, {}, {"split": design}))
    return found


def _error(predicted: pd.Series, measured: pd.Series) -> NDArray[np.float64]:
    return np.abs(predicted / measured - 1).to_numpy(np.float64)
