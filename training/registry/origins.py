"""The origin of a registered version: its data, code, parameters, figures and promotion."""

from __future__ import annotations

import getpass
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from data.errors import InputError
from training.registry.champions import (
    CHALLENGER,
    CHAMPION,
    DIGEST,
    STANDING,
    Version,
    client,
    mlflow,
    project_root,
    registered,
)
from training.registry.promotion_history import ChampionRecord

#: Paths that the pipeline itself writes; any other difference makes the tree dirty.
_WRITTEN = (":!dvc.lock", ":!reports")


def source_of(root: Path, program: str) -> dict[str, str]:
    """Return user, program, and git's commit, branch and dirty flag, as MLflow's tags."""
    from mlflow.utils import mlflow_tags

    ran = {
        mlflow_tags.MLFLOW_USER: getpass.getuser(),
        mlflow_tags.MLFLOW_SOURCE_TYPE: "LOCAL",
        mlflow_tags.MLFLOW_SOURCE_NAME: program,
    }
    commit = _git(root, "rev-parse", "HEAD")
    if not commit:
        return ran
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", *_WRITTEN)
    return ran | {
        mlflow_tags.MLFLOW_GIT_COMMIT: commit,
        mlflow_tags.MLFLOW_GIT_BRANCH: _git(root, "rev-parse", "--abbrev-ref", "HEAD"),
        mlflow_tags.MLFLOW_GIT_DIRTY: str(bool(changed)).lower(),
    }


def commit_of(tags: Mapping[str, str]) -> tuple[str, bool]:
    """Return the commit in a run's tags (or an empty string), and whether the tree differed from it."""
    from mlflow.utils import mlflow_tags

    dirty = tags.get(mlflow_tags.MLFLOW_GIT_DIRTY) == "true"
    return tags.get(mlflow_tags.MLFLOW_GIT_COMMIT, ""), dirty


def holds_data(root: Path, commit: str, path: str) -> bool | None:
    """Return whether a commit has the data at `path`, in git or DVC; None for an unknown commit."""
    if not _git(root, "rev-parse", "--quiet", "--verify", f"{commit}^{{commit}}"):
        return None
    return any(
        _git(root, "rev-parse", "--quiet", "--verify", f"{commit}:./{one}") for one in (path, f"{path}.dvc")
    )


def _git(root: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


class NoVersionError(InputError):
    """The version does not exist."""


@dataclass(frozen=True)
class SourceData:
    """What a model was trained on.

    Attributes
    ----------
    path, format : str
        Of the measurements.
    digest : str
        SHA-256 of the training table.
    counts : dict
        What it held.
    """

    path: str = ""
    format: str = ""
    digest: str = ""
    counts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceCode:
    """What it was trained by.

    Attributes
    ----------
    commit, branch : str
        Empty without git.
    dirty : bool or None
        Whether code or parameters differed from the commit; None where that is not known.
    by : str
        Who ran it.
    obstacle : str
        Why this commit cannot train the version again; empty where it can.
    """

    commit: str = ""
    branch: str = ""
    dirty: bool | None = None
    by: str = ""
    obstacle: str = ""


@dataclass(frozen=True)
class Origin:
    """Where a version comes from.

    Attributes
    ----------
    name, version, uri : str
    model : str
        Its name among the family's.
    digest : str
        SHA-256 of its files, as registered.
    registered_at : str
        When, in UTC, as ISO 8601 has it.
    standing : str
        ``champion``, ``challenger``, or that it was.
    reason, judged_against : str
        What the contest found, and the version that it was held against.
    reign : ChampionRecord or None
        Who made it champion, when, how and why; None if it never was.
    run : str
        In MLflow; empty if the version was made without one, and then so is what follows.
    data, code
    params, metrics : mapping
        Of training, and of held-out cases.
    """

    name: str
    version: str
    uri: str
    model: str
    digest: str
    registered_at: str
    standing: str
    reason: str
    judged_against: str
    reign: ChampionRecord | None
    run: str
    data: SourceData
    code: SourceCode
    params: Mapping[str, str]
    metrics: Mapping[str, float]


def origin(name: str, version: str) -> Origin:
    """Return the origin of a version; raise NoVersionError if it does not exist."""
    found = registered(f"models:/{name}/{version}") if version.isdigit() else None
    if found is None:
        raise NoVersionError(f'there is no version "{version}" of a model "{name}"')
    store = client()
    known = store.get_model_version(name, version)
    run = _run(store, known.run_id)
    data, tags = _data(run, found), {} if run is None else run.data.tags
    return Origin(
        name,
        found.version,
        found.uri,
        found.tags.get("model", ""),
        found.tags.get(DIGEST, ""),
        datetime.fromtimestamp(known.creation_timestamp / 1000, UTC).isoformat(timespec="seconds"),
        next((one for one in (CHAMPION, CHALLENGER) if one in known.aliases), found.tags.get(STANDING, "")),
        found.tags.get("reason", ""),
        found.tags.get("judged_against", ""),
        ChampionRecord.of(found),
        "" if run is None else run.info.run_id,
        data,
        _code(tags, data),
        {} if run is None else dict(sorted(run.data.params.items())),
        {} if run is None else dict(sorted(run.data.metrics.items())),
    )


def _run(store: Any, run_id: str | None) -> Any:
    """Return a run; None if it does not exist, or was deleted."""
    try:
        return store.get_run(run_id) if run_id else None
    except mlflow().exceptions.MlflowException:
        return None


def _data(run: Any, found: Version) -> SourceData:
    given = [] if run is None else [one.dataset for one in run.inputs.dataset_inputs]
    digest = found.tags.get("data_digest", "")
    if not given:
        return SourceData(digest=digest)
    counts = json.loads(given[0].profile or "{}")
    return SourceData(given[0].name, given[0].source_type, digest or given[0].digest, counts)


def _code(tags: Mapping[str, str], data: SourceData) -> SourceCode:
    from mlflow.utils import mlflow_tags

    commit, branch, dirty, by = (
        tags.get(name, "")
        for name in (
            mlflow_tags.MLFLOW_GIT_COMMIT,
            mlflow_tags.MLFLOW_GIT_BRANCH,
            mlflow_tags.MLFLOW_GIT_DIRTY,
            mlflow_tags.MLFLOW_USER,
        )
    )
    changed = dirty == "true" if dirty else None
    return SourceCode(commit, branch, changed, by, _obstacle(commit, changed, data))


def _obstacle(commit: str, changed: bool | None, data: SourceData) -> str:
    """Return why a commit cannot train a version again, and how to avoid that; empty if it can."""
    if commit and changed is False and data.path:
        there = holds_data(project_root(), commit, data.path)
        if there is None:
            return f"this repository has no commit {commit[:12]}; run git fetch, and trace it again"
        problem = "" if there else f"its data {data.path} is in no commit, neither in git nor tracked by DVC"
    elif not commit:
        problem = "it was trained outside of git"
    elif changed is False:
        problem = "it is not known which data it was trained on"
    else:
        unknown = " is not known" if changed is None else ""
        problem = f"{'whether ' if unknown else ''}it was trained with changes that are in no commit{unknown}"
    return problem and f"{problem}; commit code, params.yaml and data before training"
