"""MLflow, spoken to through its client, and registered versions."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.registry.store_file import local_store, tracking_uri

#: The tag of a model's run that says what the model is in the registry.
STANDING = "standing"
#: What it says of one that nothing was decided of.
CANDIDATE = "candidate"
#: Set before MLflow is imported for the first time; it reads them once.
_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    # a server that is not there is named after seconds, not after minutes
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
}


def mlflow() -> Any:
    """Import MLflow, without telemetry, for the store of this project."""
    os.environ.update({name: os.environ.get(name, value) for name, value in _QUIET.items()})
    import mlflow

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    mlflow.set_tracking_uri(tracking_uri())
    mlflow.set_registry_uri(tracking_uri())
    return mlflow


def client() -> Any:
    """Return a client of that store."""
    store = local_store()
    if store is not None:
        store.begin(_tables)
    return mlflow().MlflowClient()


def _tables(path: Path) -> None:
    """Let MLflow make its tables in a file of SQLite, and close it."""
    mlflow()
    from mlflow.store.tracking import DEFAULT_LOCAL_FILE_AND_ARTIFACT_PATH
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    store: Any = SqlAlchemyStore
    store(f"sqlite:///{path}", DEFAULT_LOCAL_FILE_AND_ARTIFACT_PATH).engine.dispose()


@dataclass(frozen=True)
class Tracked:
    """A model in MLflow: its run, its address, and its id unless it is files of that run."""

    run_id: str
    model_uri: str
    model_id: str | None = None


def register(name: str, tracked: Tracked, tags: dict[str, str], alias: str) -> None:
    """Make a version of `name` from a model in MLflow, and let it bear `alias`; its run says so.

    The run of the version that bore the alias before says that it did.
    """
    store = client()
    former = _bearer(store, name, alias)
    version = _cut_off(store, name, tags["evidence"]) or store.create_model_version(
        name,
        tracked.model_uri,
        run_id=tracked.run_id,
        tags=tags,
        model_id=tracked.model_id,
        description=f"{tags['model']}: {tags['reason']}",
    )
    store.set_registered_model_alias(name, alias, version.version)
    own = f"[{name} v{version.version}](#/models/{name}/versions/{version.version})"
    _stands(store, version.run_id, alias, f"**{alias.capitalize()}**: {own}; {tags['reason']}.")
    if former is not None:
        # its run may have been deleted
        with suppress(mlflow().exceptions.MlflowException):
            _stands(store, former.run_id, f"former {alias}", f"No longer {alias} since {own}.")


def _bearer(store: Any, name: str, alias: str) -> Any:
    """Return the version of `name` that bears `alias`, or None; `name` is made if there is none."""
    try:
        model = store.get_registered_model(name)
    except mlflow().exceptions.MlflowException:
        model = store.create_registered_model(name)
    number = model.aliases.get(alias)
    return None if number is None else store.get_model_version(name, number)


def _cut_off(store: Any, name: str, evidence: str) -> Any:
    """Return the version that a promotion on this evidence made before it was killed; None if none was."""
    for version in store.search_model_versions(f"name = '{name}'"):
        if version.tags.get("evidence") == evidence and _standing(store, version.run_id) == CANDIDATE:
            return version
    return None


def _standing(store: Any, run_id: str) -> str:
    try:
        return str(store.get_run(run_id).data.tags.get(STANDING, ""))
    # it may have been deleted
    except mlflow().exceptions.MlflowException:
        return ""


def _stands(store: Any, run_id: str, standing: str, said: str) -> None:
    """Let a run say what its model is in the registry, and since when."""
    store.set_tag(run_id, STANDING, standing)
    note(store, run_id, said)


def note(store: Any, run_id: str, said: str) -> None:
    """Add a paragraph to the description of a run."""
    from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

    before = store.get_run(run_id).data.tags.get(MLFLOW_RUN_NOTE)
    store.set_tag(run_id, MLFLOW_RUN_NOTE, f"{before}\n\n{said}" if before else said)
