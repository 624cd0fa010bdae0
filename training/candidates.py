"""A model that wants to be champion: its run in MLflow, its version, and the alias that it takes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from training.bootstrap import Difference
from training.registry import CHALLENGER, CHAMPION, Version, present, version_of

#: The file beside a registered model with what it said of cases it had not seen.
OOF = "oof.parquet"


@dataclass(frozen=True)
class Nested:
    """A run below the candidate's: a fold, or a trial of its search."""

    name: str
    metrics: dict[str, Any]
    params: dict[str, Any] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Candidate:
    """A model that wants to be champion.

    Attributes
    ----------
    family : str
        Names the experiment.
    name : str
        The registered name.
    model : str
    directory : Path
        Where it lies.
    metrics : dict
        Scores by name, for its run.
    oof : DataFrame
        What it said of unseen cases, as it is kept beside the model.
    nested : list of Nested
    evidence : str
        The digest of what speaks for it.
    """

    family: str
    name: str
    model: str
    directory: Path
    metrics: dict[str, Any]
    oof: pd.DataFrame
    nested: list[Nested]
    evidence: str


@dataclass(frozen=True)
class Compared:
    """The candidate against the champion on the same unseen cases, and both in words."""

    difference: Difference
    cases: str
    measure: str


#: From the candidate's and the champion's kept verdicts; None where they have no case in common.
Compare = Callable[[pd.DataFrame, pd.DataFrame], Compared | None]


def contest(candidate: Candidate, compare: Compare, *, digest: str, seed: int, confidence: float) -> str:
    """Register `candidate`: as champion, unless it is found worse than the present one.

    Parameters
    ----------
    candidate : Candidate
    compare : callable
    digest : str
        Of the data, for the version's tags.
    seed : int
    confidence : float
        Of the interval of `compare`, to be told.

    Returns
    -------
    str
        Who is champion, and why.
    """
    champion = version_of(candidate.name, CHAMPION)
    alias, reason = _decision(candidate, champion, compare, confidence)
    tags = {
        "evidence": candidate.evidence,
        "model": candidate.model,
        "data_digest": digest,
        "seed": str(seed),
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


def _decision(
    candidate: Candidate, champion: Version | None, compare: Compare, confidence: float
) -> tuple[str, str]:
    """Return the alias that the candidate takes, and why: champion unless it is found worse."""
    if champion is None:
        return CHAMPION, "it is the first one"
    if not present(champion) or champion.directory is None:
        return CHAMPION, f"the files of v{champion.version} are gone"
    compared = compare(candidate.oof, pd.read_parquet(champion.directory / OOF))
    if compared is None:
        return CHAMPION, f"v{champion.version} was judged on other cases"
    difference = compared.difference
    reason = (
        f"{'worse' if difference.worse else 'not worse'} than v{champion.version} on {compared.cases} "
        f"({compared.measure} {difference.observed:+.4f}, {confidence:.0%} interval "
        f"{difference.low:+.4f} to {difference.high:+.4f})"
    )
    return CHALLENGER if difference.worse else CHAMPION, reason


def _logged(candidate: Candidate, tags: dict[str, str], alias: str) -> str:
    """Log the run and its nested ones, register its files, and return the new version."""
    from training.tracking import Run, client, experiment_of, mlflow

    store = client()
    experiment = experiment_of(store, candidate.family)
    run = Run.begin(store, experiment, f"{candidate.name} {candidate.model}", tags)
    card = json.loads((candidate.directory / "card.json").read_text(encoding="utf-8"))
    run.log(candidate.metrics, card.get("params", {}))
    for one in candidate.nested:
        run.nest(one.name, one.metrics, one.params, one.tags)
    store.log_artifacts(run.run_id, str(candidate.directory), "model")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / OOF
        candidate.oof.to_parquet(path, index=False)
        store.log_artifact(run.run_id, str(path), "model")
    run.end()
    try:
        store.get_registered_model(candidate.name)
    except mlflow().exceptions.MlflowException:
        store.create_registered_model(candidate.name)
    source = f"{store.get_run(run.run_id).info.artifact_uri}/model"
    version = store.create_model_version(candidate.name, source, run_id=run.run_id, tags=tags).version
    store.set_registered_model_alias(candidate.name, alias, version)
    return str(version)
