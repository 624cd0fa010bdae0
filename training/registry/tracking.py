"""MLflow, spoken to through its client: runs, what is nested in them, and registered versions."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from training.registry.store_file import local_store, tracking_uri

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
        store.begin()
    return mlflow().MlflowClient()


@dataclass(frozen=True)
class Tracked:
    """A model in MLflow: its run, its address, and its id unless it is files of that run."""

    run_id: str
    model_uri: str
    model_id: str | None = None


@dataclass(frozen=True)
class TrackedRun:
    """What is logged of a model, or below that of a fold or of a trial of its search."""

    name: str
    metrics: dict[str, Any]
    params: dict[str, Any] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def logged(self, store: Any, experiment: str, nested: Iterable[TrackedRun] = ()) -> Iterator[str]:
        """Log it and what is nested in it; give its id for the block, and after that mark it as finished.

        Metrics without a value are left out.
        """
        from mlflow.entities import Metric, Param

        run_id = store.create_run(experiment, run_name=self.name, tags=self.tags).info.run_id
        now = int(time.time() * 1000)
        known = {name: value for name, value in self.metrics.items() if value is not None}
        store.log_batch(
            run_id,
            metrics=[Metric(name, float(value), now, 0) for name, value in known.items()],
            params=[Param(name, str(value)) for name, value in self.params.items()],
        )
        for one in nested:
            below = replace(one, tags={"mlflow.parentRunId": run_id, **one.tags})
            with below.logged(store, experiment):
                pass
        yield run_id
        store.set_terminated(run_id)


def experiment_of(store: Any, name: str) -> str:
    """Return the id of the experiment called `name`, made if there is none."""
    found = store.get_experiment_by_name(name)
    if found is not None:
        return str(found.experiment_id)
    local = local_store()
    place = None if local is None else (local.path.parent / "mlruns" / name).as_uri()
    return str(store.create_experiment(name, artifact_location=place))


def trials_of(directory: Path, model: str) -> Iterator[TrackedRun]:
    """Return the trials of the search for `model` on all rows, from the trials.parquet in `directory`."""
    import pandas as pd

    trials = pd.read_parquet(directory / "trials.parquet")
    for row in trials[(trials["part"] == "all") & (trials["model"] == model)].to_dict("records"):
        scores = {"value": None if pd.isna(row["value"]) else row["value"]}
        params, tags = json.loads(row["params"]), {"trial_state": row["state"]}
        yield TrackedRun(f"trial {row['trial']}", scores, params, tags)


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
