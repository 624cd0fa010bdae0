"""Everything of MLflow: what DVC holds of a run of the pipeline becomes runs, metrics, figures and models."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from training.examples import FeatureTable
from training.family import Family
from training.figures import confusion_matrix, precision_recall
from training.fitting import read_tuned
from training.frozen import FILE as FROZEN
from training.metrics import as_dict, scores_of
from training.models import CATALOGUE
from training.pipeline import fail_probability
from training.registry import project_root, tracking_uri
from training.trained import TrainedModel
from training.trusted import TRUSTED_TYPES

#: Set before MLflow is imported for the first time; it reads them once.
_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
_REQUIREMENTS = ["scikit-learn", "xgboost-cpu", "skops"]
_EXAMPLE_ROWS = 5
#: The file beside a logged model that holds its verdicts on comparisons it had not seen.
VERDICTS = "verdicts.parquet"


def mlflow() -> Any:
    """Import MLflow, without telemetry, for the store of this project."""
    os.environ.update({name: os.environ.get(name, value) for name, value in _QUIET.items()})
    import mlflow

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    _commit_quickly()
    mlflow.set_tracking_uri(tracking_uri())
    mlflow.set_registry_uri(tracking_uri())
    return mlflow


def _commit_quickly() -> None:
    """Let SQLite append to a log instead of waiting for the disk with each of some thousand commits."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    if not event.contains(Engine, "connect", _append):
        event.listen(Engine, "connect", _append)


def _append(connection: Any, _: Any) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")


def client() -> Any:
    """Return a client of that store."""
    return mlflow().MlflowClient()


@dataclass(frozen=True)
class Tracked:
    """A model in MLflow: its run, and its address."""

    run_id: str
    model_uri: str


@dataclass(frozen=True)
class _Outs:
    """What DVC holds of a run of the pipeline."""

    family: Family
    evidence: str
    table: FeatureTable
    trials: pd.DataFrame
    verdicts: pd.DataFrame
    metrics: dict[str, Any]

    @classmethod
    def read(cls, family: Family, evidence: str) -> _Outs:
        """Read what the stages before promotion wrote."""
        return cls(
            family,
            evidence,
            FeatureTable.read(family.features, family.columns()),
            pd.read_parquet(family.tuned / "trials.parquet"),
            pd.read_parquet(family.reports / "oof.parquet"),
            json.loads((family.reports / "metrics.json").read_text(encoding="utf-8")),
        )


def track(family: Family, evidence: str) -> dict[str, Tracked]:
    """Log every model of the last run of the pipeline, unless MLflow has it.

    Parameters
    ----------
    family : Family
    evidence : str
        The digest of what the pipeline wrote; runs bear it as a tag.

    Returns
    -------
    dict
        By model.
    """
    outs, store = _Outs.read(family, evidence), client()
    experiment = experiment_of(store, family.name)
    known = _known(store, experiment, evidence)
    names = read_tuned(family.tuned / "tuned.json")["all"]
    return {name: known.get(name) or _track_model(store, experiment, outs, name) for name in names}


def experiment_of(store: Any, name: str) -> str:
    """Return the id of the experiment called `name`, made if there is none."""
    found = store.get_experiment_by_name(name)
    if found is not None:
        return str(found.experiment_id)
    place = None
    if tracking_uri().startswith("sqlite:///"):
        database = Path(tracking_uri().removeprefix("sqlite:///")).resolve()
        root = project_root() if database.parent == project_root() else database.parent
        place = (root / "mlruns" / name).as_uri()
    return str(store.create_experiment(name, artifact_location=place))


def _known(store: Any, experiment: str, evidence: str) -> dict[str, Tracked]:
    """Return the models that were logged completely, and whose files are still there."""
    runs = store.search_runs(
        [experiment], f"tags.evidence = '{evidence}' and attributes.status = 'FINISHED'", max_results=1000
    )
    known = {}
    for run in runs:
        uri = run.data.tags["model_uri"]
        place = store.get_logged_model(uri.rsplit("/", 1)[-1]).artifact_location
        if not place.startswith("file:") or Path(place.removeprefix("file://")).is_dir():
            known[run.data.tags["model"]] = Tracked(run.info.run_id, uri)
    return known


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

    def nest(self, name: str, metrics: dict[str, Any], params: dict[str, Any], tags: dict[str, str]) -> None:
        """Log a finished run below this one."""
        tags = {"mlflow.parentRunId": self.run_id, **tags}
        nested = Run.begin(self.store, self.experiment, name, tags)
        nested.log(metrics, params)
        nested.end()

    def end(self) -> None:
        """Mark the run as finished."""
        self.store.set_terminated(self.run_id)


def _track_model(store: Any, experiment: str, outs: _Outs, name: str) -> Tracked:
    tags = {"evidence": outs.evidence, "model": name, "data_digest": outs.table.digest}
    run = Run.begin(store, experiment, name, tags)
    model = TrainedModel.read(outs.family.models / name)
    run.log(
        _summary(outs.metrics, name),
        {**model.card.params, "threshold": model.card.threshold, "seed": model.card.seed},
    )
    store.log_inputs(run.run_id, [_dataset(outs.metrics["data"])])
    verdicts = outs.verdicts[outs.verdicts["entry"] == name]
    _nest_trials(run, outs.trials[(outs.trials["part"] == "all") & (outs.trials["model"] == name)])
    _nest_folds(run, verdicts, model.card.seed)
    grouped = verdicts[verdicts["split"] == "grouped"]
    title = f"{CATALOGUE[name].title}, folds of whole operations"
    store.log_figure(run.run_id, confusion_matrix(grouped, title), "confusion.png")
    store.log_figure(run.run_id, precision_recall(grouped, title), "precision-recall.png")
    uri = _log_model(run.run_id, outs, model, grouped)
    store.set_tag(run.run_id, "model_uri", uri)
    run.end()
    return Tracked(run.run_id, uri)


def _summary(metrics: dict[str, Any], name: str) -> dict[str, Any]:
    return {
        f"{split}_{metric}_{kind}": value
        for split, content in metrics["splits"].items()
        for metric, spread in content["entries"][name].items()
        if isinstance(spread, dict)
        for kind, value in spread.items()
    }


def _dataset(data: dict[str, Any]) -> Any:
    from mlflow.entities import Dataset, DatasetInput

    # MLflow keeps 36 characters of a digest; the whole one is the run's tag data_digest
    dataset = Dataset(
        name=data["path"],
        digest=data["digest"][:36],
        source_type=data["format"],
        source=json.dumps({"path": data["path"]}),
        profile=json.dumps({"comparisons": data["comparisons"], "fails": data["fails"]}),
    )
    return DatasetInput(dataset)


def _nest_trials(run: Run, trials: pd.DataFrame) -> None:
    for row in trials.to_dict("records"):
        value = None if pd.isna(row["value"]) else row["value"]
        run.nest(
            f"trial {row['trial']}",
            {"value": value},
            json.loads(row["params"]),
            {"trial_state": row["state"]},
        )


def _nest_folds(run: Run, verdicts: pd.DataFrame, seed: int) -> None:
    for (split, repeat, fold), rows in verdicts.groupby(["split", "repeat", "fold"], sort=True):
        params = {"threshold": rows["threshold"].iloc[0], "seed": seed}
        run.nest(f"{split} r{repeat}f{fold}", as_dict(scores_of(rows)), params, {"split": str(split)})


def _log_model(run: str, outs: _Outs, model: TrainedModel, grouped: pd.DataFrame) -> str:
    flow = mlflow()
    import mlflow.sklearn as flavour
    from mlflow.models import infer_signature

    written = outs.family.models / model.card.model
    beside = [path for path in (written / "card.json", written / FROZEN) if path.is_file()]
    example = outs.table.frame[list(model.card.features)].head(_EXAMPLE_ROWS).astype(float)
    with _verdict_file(grouped) as verdicts, _quiet(), flow.start_run(run_id=run):
        logged = flavour.log_model(
            model.pipeline,
            name=model.card.model,
            serialization_format="skops",
            skops_trusted_types=list(TRUSTED_TYPES),
            pip_requirements=_REQUIREMENTS,
            signature=infer_signature(example, fail_probability(model.pipeline, example.to_numpy())),
            input_example=example,
            pyfunc_predict_fn="predict_proba",
            extra_files=[str(path) for path in (*beside, verdicts)],
        )
    # MLflow stores the pipeline anew, in other bytes; what was written belongs to the file that was written
    client().log_model_artifact(logged.model_id, str(written / "model.skops"))
    return f"models:/{logged.model_id}"


@contextmanager
def _verdict_file(grouped: pd.DataFrame) -> Iterator[Path]:
    """Give a file with the verdicts on unseen operations, for the time of the block."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / VERDICTS
        grouped[["comparison_id", "verdict"]].to_parquet(path, index=False)
        yield path


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        # MLflow tries the example out as a frame; the pipeline was fitted to the same columns without names
        warnings.filterwarnings("ignore", "X has feature names", UserWarning)
        yield
