"""MLflow, spoken to through its client: runs, what is nested in them, and registered versions."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from training.registry.place import local_store, project_root, tracking_uri
from training.registry.store_file import StoreFile

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
        StoreFile(store).begin()
    return mlflow().MlflowClient()


@dataclass(frozen=True)
class Tracked:
    """A model in MLflow: its run, its address, and its id unless it is files of that run."""

    run_id: str
    model_uri: str
    model_id: str | None = None


@dataclass(frozen=True)
class Nested:
    """A run below a model's: a fold, or a trial of its search."""

    name: str
    metrics: dict[str, Any]
    params: dict[str, Any] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """A run of MLflow that is being written."""

    store: Any
    experiment: str
    run_id: str

    @classmethod
    def begin(cls, store: Any, experiment: str, name: str, tags: dict[str, str]) -> Run:
        """Start a run."""
        return cls(store, experiment, store.create_run(experiment, run_name=name, tags=tags).info.run_id)

    def log(self, metrics: dict[str, Any], params: dict[str, Any]) -> None:
        """Log metrics and parameters in one call; metrics without a value are left out."""
        from mlflow.entities import Metric, Param

        now = int(time.time() * 1000)
        known = {name: value for name, value in metrics.items() if value is not None}
        self.store.log_batch(
            self.run_id,
            metrics=[Metric(name, float(value), now, 0) for name, value in known.items()],
            params=[Param(name, str(value)) for name, value in params.items()],
        )

    def nest(self, one: Nested) -> None:
        """Log a finished run below this one."""
        tags = {"mlflow.parentRunId": self.run_id, **one.tags}
        nested = Run.begin(self.store, self.experiment, one.name, tags)
        nested.log(one.metrics, one.params)
        nested.end()

    def end(self) -> None:
        """Mark the run as finished."""
        self.store.set_terminated(self.run_id)


def experiment_of(store: Any, name: str) -> str:
    """Return the id of the experiment called `name`, made if there is none."""
    found = store.get_experiment_by_name(name)
    if found is not None:
        return str(found.experiment_id)
    database, place = local_store(), None
    if database is not None:
        root = project_root() if database.parent == project_root() else database.parent
        place = (root / "mlruns" / name).as_uri()
    return str(store.create_experiment(name, artifact_location=place))


def trials_of(directory: Path, model: str) -> Iterator[Nested]:
    """Return the trials of the search for `model` on all rows, from the trials.parquet in `directory`."""
    import pandas as pd

    trials = pd.read_parquet(directory / "trials.parquet")
    for row in trials[(trials["part"] == "all") & (trials["model"] == model)].to_dict("records"):
        scores = {"value": None if pd.isna(row["value"]) else row["value"]}
        params, tags = json.loads(row["params"]), {"trial_state": row["state"]}
        yield Nested(f"trial {row['trial']}", scores, params, tags)


def register(name: str, tracked: Tracked, tags: dict[str, str], alias: str) -> None:
    """Make a version of `name` from a model in MLflow, and let it bear `alias`."""
    store = client()
    try:
        store.get_registered_model(name)
    except mlflow().exceptions.MlflowException:
        store.create_registered_model(name)
    version = store.create_model_version(
        name, tracked.model_uri, run_id=tracked.run_id, tags=tags, model_id=tracked.model_id
    )
    store.set_registered_model_alias(name, alias, version.version)


def scores_by_name(splits: dict[str, Any], entry: str) -> dict[str, Any]:
    """Return the scores of an entry of metrics.json as ``<split>_<score>_<mean, std or pooled>``."""
    return {
        f"{split}_{score}_{kind}": value
        for split, content in splits.items()
        for score, spread in content["entries"].get(entry, {}).items()
        if isinstance(spread, dict)
        for kind, value in spread.items()
    }
