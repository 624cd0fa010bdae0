"""Models of impact in MLflow: runs, versions, and who is champion."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.params import Params
from training.bootstrap import Difference, paired_gain
from training.corun_splits import main_design
from training.digest import digest_of
from training.promote import standing
from training.registry import CHALLENGER, CHAMPION, Version, present, version_of

OOF = "oof.parquet"
KEYS = ["task", "corunners", "machine"]


@dataclass(frozen=True)
class Candidate:
    """A model that wants to be champion.

    Attributes
    ----------
    name : str
        The registered name.
    model : str
    directory : Path
        Where it lies.
    metrics : dict
        Scores by name, for its run.
    oof : DataFrame
        What it said of unseen co-runs: ``measured``, ``predicted``, what identifies them, and ``group``.
    trials : DataFrame
    evidence : str
    """

    name: str
    model: str
    directory: Path
    metrics: dict[str, float]
    oof: pd.DataFrame
    trials: pd.DataFrame
    evidence: str


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


def _static(knobs: Params, metrics: dict[str, Any], places: Places, evidence: str) -> Candidate:
    model, design = metrics["champion"], main_design(tuple(metrics["splits"]))
    oof = pd.read_parquet(places.reports / OOF)
    rows = oof[(oof["model"] == model) & (oof["design"] == design)]
    trials = pd.read_parquet(places.tuned / "trials.parquet")
    return Candidate(
        knobs.corun.promote.name,
        model,
        places.models / model,
        {
            f"{split}_{score}_{kind}": value
            for split, content in metrics["splits"].items()
            for score, spread in content["entries"].get(model, {}).items()
            if isinstance(spread, dict)
            for kind, value in spread.items()
        },
        rows.assign(group=rows["task"] + "\n" + rows["corunners"]),
        trials[(trials["part"] == "all") & (trials["model"] == model)],
        evidence,
    )


def _online(knobs: Params, online: dict[str, Any], places: Places, evidence: str) -> Candidate:
    oof = pd.read_parquet(places.reports / "online.parquet")
    rows = oof[
        (oof["model"] == online["champion"])
        & (oof["seconds"] == online["trained_at"])
        & (oof["design"] == online["design"])
    ]
    scores = {
        f"{entry['design']}_{entry['seconds']:g}s_{score}": entry[score]
        for entry in online["entries"]
        if entry["model"] == online["champion"]
        for score in ("within_tolerance", "mape", "r2")
    }
    return Candidate(
        knobs.corun.online.name,
        online["champion"],
        places.models / "online",
        scores,
        rows.assign(group=rows["task"] + "\n" + rows["corunners"]),
        pd.DataFrame(columns=["trial", "value", "params"]),
        evidence,
    )


def _contest(candidate: Candidate, knobs: Params, metrics: dict[str, Any]) -> str:
    champion = version_of(candidate.name, CHAMPION)
    alias, reason = _decision(candidate, champion, knobs)
    tags = {
        "evidence": candidate.evidence,
        "model": candidate.model,
        "data_digest": metrics["data"]["digest"],
        "seed": str(metrics["seed"]),
        "reason": reason,
        "judged_against": champion.version if champion and present(champion) else "",
    }
    version = _logged(candidate, tags, alias)
    if alias == CHAMPION or champion is None:
        return f"{candidate.name} v{version} ({candidate.model}) is champion: {reason}"
    return (
        f"{candidate.name} v{champion.version} ({champion.tags['model']}) stays champion, "
        f"v{version} ({candidate.model}) is challenger: {reason}"
    )


def _decision(candidate: Candidate, champion: Version | None, knobs: Params) -> tuple[str, str]:
    """Return the alias that the candidate takes, and why: champion unless it is found worse."""
    if champion is None:
        return CHAMPION, "it is the first one"
    if not present(champion) or champion.directory is None:
        return CHAMPION, f"the files of v{champion.version} are gone"
    theirs = pd.read_parquet(champion.directory / OOF)
    both = candidate.oof.merge(theirs, on=KEYS, suffixes=("", "_theirs"))
    if both.empty:
        return CHAMPION, f"v{champion.version} was judged on other co-runs"
    difference = paired_gain(
        _error(both["predicted"], both["measured"]),
        _error(both["predicted_theirs"], both["measured"]),
        both["group"].to_numpy(np.str_),
        resamples=knobs.corun.promote.resamples,
        confidence=knobs.corun.promote.confidence,
        seed=knobs.seed,
    )
    return CHALLENGER if difference.worse else CHAMPION, _reason(difference, champion, knobs)


def _error(predicted: pd.Series, measured: pd.Series) -> NDArray[np.float64]:
    return np.abs(predicted / measured - 1).to_numpy(np.float64)


def _reason(difference: Difference, champion: Version, knobs: Params) -> str:
    return (
        f"{'worse' if difference.worse else 'not worse'} than v{champion.version} on the same unseen co-runs "
        f"(mean error smaller by {difference.observed:+.4f}, {knobs.corun.promote.confidence:.0%} interval "
        f"{difference.low:+.4f} to {difference.high:+.4f})"
    )


def _logged(candidate: Candidate, tags: dict[str, str], alias: str) -> str:
    """Log the run and its nested ones, register its files, and return the new version."""
    from training.tracking import Run, client, experiment_of, mlflow

    store = client()
    run = Run.begin(store, experiment_of(store, "corun"), f"{candidate.name} {candidate.model}", tags)
    card = json.loads((candidate.directory / "card.json").read_text(encoding="utf-8"))
    run.log(candidate.metrics, card.get("params", {}))
    for row in candidate.trials.to_dict("records"):
        run.nest(f"trial {row['trial']}", {"value": row["value"]}, json.loads(row["params"]), {})
    for fold, rows in candidate.oof.groupby("fold", sort=True):
        error = {"mape": float(_error(rows["predicted"], rows["measured"]).mean())}
        run.nest(f"{rows['design'].iloc[0]} f{fold}", error, {}, {"split": str(rows["design"].iloc[0])})
    store.log_artifacts(run.run_id, str(candidate.directory), "model")
    path = candidate.directory / OOF
    candidate.oof[[*KEYS, "measured", "predicted", "group"]].to_parquet(path, index=False)
    store.log_artifact(run.run_id, str(path), "model")
    path.unlink()
    run.end()
    try:
        store.get_registered_model(candidate.name)
    except mlflow().exceptions.MlflowException:
        store.create_registered_model(candidate.name)
    source = f"{store.get_run(run.run_id).info.artifact_uri}/model"
    version = store.create_model_version(candidate.name, source, run_id=run.run_id, tags=tags).version
    store.set_registered_model_alias(candidate.name, alias, version)
    return str(version)
