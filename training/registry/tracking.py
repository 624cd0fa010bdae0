"""MLflow, spoken to through its client."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.registry.store_file import local_store, tracking_uri

#: The tag of a model's run, and of its version, that says what the model is in the registry.
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


def note(store: Any, run_id: str, said: str) -> None:
    """Add a paragraph to the description of a run."""
    from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

    before = store.get_run(run_id).data.tags.get(MLFLOW_RUN_NOTE)
    store.set_tag(run_id, MLFLOW_RUN_NOTE, f"{before}\n\n{said}" if before else said)
