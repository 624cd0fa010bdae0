"""The origin of a registered version: its data, code, parameters, figures and promotion."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from data.errors import InputError
from training.registry.champions import (
    CHALLENGER,
    CHAMPION,
    DIGEST,
    ROLE_TAG,
    client,
    find_version,
    import_mlflow,
    project_root,
)
from training.registry.promotion_history import ChampionRecord, current_user

#: Paths that the pipeline itself writes; any other difference makes the tree dirty.
_WRITTEN = (":!dvc.lock", ":!reports")


def source_of(root: Path, program: str) -> dict[str, str]:
    """Return user, program and git's commit, branch and dirty flag of `root` as a dict of MLflow tags.

    Tags of git are missing if git is not installed or `root` has no commit. The tree is dirty ("true", else
    "false") if tracked files differ, except those that the pipeline writes. ImportError without MLflow.
    """
    from mlflow.utils import mlflow_tags

    ran = {
        mlflow_tags.MLFLOW_USER: current_user(),
        mlflow_tags.MLFLOW_SOURCE_TYPE: "LOCAL",
        mlflow_tags.MLFLOW_SOURCE_NAME: program,
    }
    commit = git_output(root, "rev-parse", "HEAD")
    if not commit:
        return ran
    changed = git_output(root, "status", "--porcelain", "--untracked-files=no", "--", ".", *_WRITTEN)
    return ran | {
        mlflow_tags.MLFLOW_GIT_COMMIT: commit,
        mlflow_tags.MLFLOW_GIT_BRANCH: git_output(root, "rev-parse", "--abbrev-ref", "HEAD"),
        mlflow_tags.MLFLOW_GIT_DIRTY: str(bool(changed)).lower(),
    }


def commit_of(tags: Mapping[str, str]) -> tuple[str, bool | None]:
    """Return the commit in a run's tags (else ""), and whether the tree differed from it (unknown: None)."""
    from mlflow.utils import mlflow_tags

    dirty = tags.get(mlflow_tags.MLFLOW_GIT_DIRTY)
    return tags.get(mlflow_tags.MLFLOW_GIT_COMMIT, ""), dirty == "true" if dirty else None


def git_output(root: Path, *words: str, timeout: float | None = 30) -> str:
    """Return the output of ``git WORDS`` in `root`; empty if git fails or takes over `timeout` seconds."""
    command = ["git", "-C", str(root), *words]
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", check=True, timeout=timeout
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


class NoVersionError(InputError):
    """The registered version does not exist."""


@dataclass(frozen=True)
class SourceData:
    """The data that a model was trained on."""

    #: path, format: of the measurements.
    path: str = ""
    format: str = ""
    digest: str = ""  # SHA-256 of the training table
    counts: Mapping[str, Any] = field(default_factory=dict)  # sizes of the training table


@dataclass(frozen=True)
class SourceCode:
    """The code that a model was trained by; commit and branch are empty without git."""

    commit: str = ""
    branch: str = ""
    dirty: bool | None = None  # whether code or parameters differed from the commit; None: not known
    by: str = ""  # the user
    obstacle: str = ""  # why this commit cannot train the version again; empty if it can


@dataclass(frozen=True)
class Origin:
    """The origin of a registered version; without a run in MLflow, `run` and all later fields are empty."""

    name: str
    version: str
    uri: str
    model: str  # its name in the family's catalogue
    digest: str  # SHA-256 of its files, as registered
    registered_at: str  # UTC, ISO 8601
    role: str  # champion, challenger, former champion or former challenger
    reason: str  # the result of the champion/challenger test
    judged_against: str  # the champion's version in that test
    promotion: ChampionRecord | None  # its latest promotion; None if it never was champion
    run: str
    data: SourceData
    code: SourceCode
    params: Mapping[str, str]  # of training
    metrics: Mapping[str, float]  # of held-out cases


def trace_version(name: str, version: str) -> Origin:
    """Return the data, code, parameters, scores, role and promotion of a registered version.

    `version` is a number as text, with or without "v". NoVersionError (an InputError) if it is not a number
    or does not exist, InputError if the registry does not answer, ImportError without MLflow.
    """
    number = version.removeprefix("v")
    match = find_version(f"models:/{name}/{number}") if number.isdecimal() and "@" not in name else None
    if match is None:
        raise NoVersionError(f'version "{version}" of the model "{name}" does not exist')
    from mlflow.utils import mlflow_tags

    store, run = client(), None
    entry, tags = store.get_model_version(name, number), match.tags
    if entry.run_id:
        # it may have been deleted
        with suppress(import_mlflow().exceptions.MlflowException):
            run = store.get_run(entry.run_id)
    data, ran = SourceData(digest=tags.get("data_digest", "")), {} if run is None else run.data.tags
    if run is not None and run.inputs.dataset_inputs:
        source = run.inputs.dataset_inputs[0].dataset
        counts = json.loads(source.profile or "{}")
        data = SourceData(source.name, source.source_type, data.digest or source.digest, counts)
    commit, changed = commit_of(ran)
    branch, user = (ran.get(tag, "") for tag in (mlflow_tags.MLFLOW_GIT_BRANCH, mlflow_tags.MLFLOW_USER))
    return Origin(
        name,
        match.version,
        match.uri,
        tags.get("model", ""),
        tags.get(DIGEST, ""),
        datetime.fromtimestamp(entry.creation_timestamp / 1000, UTC).isoformat(timespec="seconds"),
        next((alias for alias in (CHAMPION, CHALLENGER) if alias in entry.aliases), tags.get(ROLE_TAG, "")),
        tags.get("reason", ""),
        tags.get("judged_against", ""),
        ChampionRecord.from_version(match),
        "" if run is None else run.info.run_id,
        data,
        SourceCode(commit, branch, changed, user, _training_obstacle(commit, changed, data)),
        {} if run is None else dict(sorted(run.data.params.items())),
        {} if run is None else dict(sorted(run.data.metrics.items())),
    )


def _training_obstacle(commit: str, changed: bool | None, data: SourceData) -> str:
    if not commit:
        problem = "it was trained outside of git"
    elif changed is None:
        problem = "whether it was trained with changes that are in no commit is not known"
    elif changed:
        problem = "it was trained with changes that are in no commit"
    elif not data.path:
        problem = "it is not known which data it was trained on"
    else:
        root, check = project_root(), ("rev-parse", "--quiet", "--verify")
        if not git_output(root, *check, f"{commit}^{{commit}}"):
            return f"this repository has no commit {commit[:12]}; run git fetch, and trace it again"
        if any(git_output(root, *check, f"{commit}:./{path}") for path in (data.path, f"{data.path}.dvc")):
            return ""
        problem = f"its data {data.path} is in no commit, neither in git nor in DVC"
    return f"{problem}; commit code, params.yaml and data before training"
