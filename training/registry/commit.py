"""Which commit of the project a run belongs to."""

from __future__ import annotations

import getpass
import subprocess
from collections.abc import Mapping
from pathlib import Path

#: What the pipeline itself writes into the tree; all else that differs makes it dirty.
_WRITTEN = (":!dvc.lock", ":!reports")


def source_of(root: Path, program: str) -> dict[str, str]:
    """Return who ran what from which commit, as tags that MLflow knows.

    Parameters
    ----------
    root : Path
        The checkout; without git there are no tags of a commit.
    program : str
        Its path below `root`.
    """
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
    """Return which commit a run's tags name, or nothing, and whether the tree differed from it."""
    from mlflow.utils import mlflow_tags

    dirty = tags.get(mlflow_tags.MLFLOW_GIT_DIRTY) == "true"
    return tags.get(mlflow_tags.MLFLOW_GIT_COMMIT, ""), dirty


def holds_data(root: Path, commit: str, path: str) -> bool | None:
    """Tell whether a commit holds measurements, in git or tracked by DVC.

    Parameters
    ----------
    root : Path
        The checkout.
    commit : str
    path : str
        Relative to `root`; what lies outside is in no commit.

    Returns
    -------
    bool or None
        None where this repository does not know the commit, or there is no git.
    """
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
