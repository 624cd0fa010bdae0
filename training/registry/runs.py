"""Runs in MLflow: one experiment per family for its models, and one for all folds and trials.

MLflow's table of runs shows a hundred at once. A model has some thirty folds and trials, so these are in a
separate experiment, where each names its model's run as parent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from training.registry.champions import CANDIDATE, ROLE_TAG, add_note, client, local_store, project_root
from training.registry.origins import source_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Figures = Mapping[str, "Figure"]
#: The tag of an experiment that selects MLflow's pages for model training; MLflow has no constant for it.
KIND, TRAINING = "mlflow.experimentKind", "custom_model_development"
#: Prefix of the tags of an experiment with its saved views, and the identifier of ours, for addresses.
VIEW, FIGURES = "mlflow.sharedViewState.", "figures"
#: Name of the experiment of folds and trials.
NESTED = "folds and trials"
_ENDED = {"complete": "FINISHED", "pruned": "KILLED", "fail": "FAILED"}
#: The keys of a data set's address; the others are counts, for its profile.
_ADDRESS = ("path", "format", "digest")
#: MLflow's types by the prefixes of Arrow's.
_TYPES = {"double": "double", "float": "double", "int": "long", "bool": "boolean", "timestamp": "datetime"}


@dataclass(frozen=True)
class TrackedRun:
    """The log of a model, or of a fold or a trial of its search."""

    name: str
    metrics: dict[str, Any]  # those without a value are left out
    params: dict[str, Any] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    series: dict[str, dict[int, float]] = field(default_factory=dict)  # metrics that have a value per step
    status: str = "FINISHED"
    nested: Iterable[TrackedRun] = ()
    figures: Callable[[], Figures] = dict  # returns figures by file name

    def start_run(self, store: Any, experiment: str, tags: dict[str, str]) -> str:
        """Create the run in the experiment with this id, without figures and nested runs; return its id."""
        from mlflow.entities import Metric, Param

        run = store.create_run(experiment, tags={**self.tags, **tags}, run_name=self.name)
        now = run.info.start_time
        single = {name: {0: value} for name, value in self.metrics.items() if value is not None}
        metrics = [
            Metric(name, float(value), now, step)
            for name, values in {**single, **self.series}.items()
            for step, value in values.items()
        ]
        params = [Param(name, str(value)) for name, value in self.params.items()]
        store.log_batch(run.info.run_id, metrics, params)
        return str(run.info.run_id)


@dataclass(frozen=True)
class Logbook:
    """Logs the models of one promotion of a family in MLflow.

    `data` is that of metrics.json; the columns of the table `vectors` are the data set's schema; `evidence`,
    the digest of the evidence, becomes a tag.
    """

    family: str
    data: dict[str, Any]
    vectors: Path
    evidence: str

    @cached_property
    def store(self) -> Any:
        """The MLflow client."""
        return client()

    @cached_property
    def model_experiment(self) -> str:
        """The id of the experiment of the models."""
        about = f"Models of {self.family}, the best of each promotion first."
        return _experiment_id(self.store, self.family, about)

    @cached_property
    def nested_experiment(self) -> str:
        """The id of the experiment of folds and trials."""
        about = "Folds and trials of the models; each run names its parent."
        return _experiment_id(self.store, NESTED, about)

    def logged_tags(self) -> dict[str, dict[str, str]]:
        """Return by name the tags of models logged on this evidence; mark interrupted runs as killed."""
        evidence, family = f"tags.evidence = '{self.evidence}'", f"tags.family = '{self.family}'"
        interrupted = self._search_runs(self.model_experiment, evidence, "RUNNING")
        for run in (*interrupted, *self._search_runs(self.nested_experiment, family, "RUNNING")):
            self.store.set_terminated(run.info.run_id, "KILLED")
        runs = self._search_runs(self.model_experiment, evidence, "FINISHED")
        return {run.info.run_name: run.data.tags for run in runs}

    def _search_runs(self, experiment: str, scope: str, status: str) -> Any:
        wanted = f"{scope} and attributes.status = '{status}'"
        return self.store.search_runs([experiment], wanted, max_results=1000)

    @contextmanager
    def log_run(self, run: TrackedRun) -> Iterator[str]:
        """Log a model and its nested runs; yield its run's id, then mark it finished. Log the best last."""
        from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

        run_id = run.start_run(self.store, self.model_experiment, self._run_tags)
        self.store.log_inputs(run_id, [self._dataset_input])
        for name, figure in run.figures().items():
            self.store.log_figure(run_id, figure, name)
        above = {MLFLOW_PARENT_RUN_ID: run_id, "family": self.family, "model": run.name}
        for child in reversed([*run.nested]):
            below = child.start_run(self.store, self.nested_experiment, above)
            self.store.set_terminated(below, child.status)
        wanted = quote(f"tags.mlflow.parentRunId = '{run_id}'", safe="")
        address = f"#/experiments/{self.nested_experiment}/runs?searchFilter={wanted}"
        add_note(self.store, run_id, f"[Folds and trials]({address})")
        yield run_id
        self.store.set_terminated(run_id)

    @cached_property
    def _run_tags(self) -> dict[str, str]:
        tags = {"evidence": self.evidence, "data_digest": self.data["digest"], ROLE_TAG: CANDIDATE}
        return tags | source_of(project_root(), "training/promote.py")

    @cached_property
    def _dataset_input(self) -> Any:
        from mlflow.entities import Dataset, DatasetInput, InputTag
        from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT

        # MLflow keeps 36 characters of a digest; the whole one is the run's tag data_digest
        dataset = Dataset(
            name=self.data["path"],
            digest=self.data["digest"][:36],
            source_type=self.data["format"],
            source=json.dumps({"path": self.data["path"]}),
            schema=json.dumps({"mlflow_colspec": _schema_columns(self.vectors)}),
            profile=json.dumps({name: value for name, value in self.data.items() if name not in _ADDRESS}),
        )
        return DatasetInput(dataset, [InputTag(MLFLOW_DATASET_CONTEXT, "training")])


def _experiment_id(store: Any, name: str, about: str) -> str:
    from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

    experiment = store.get_experiment_by_name(name)
    if experiment is None:
        local = local_store()
        place = None if local is None else (local.parent / "mlruns" / name).as_uri()
        experiment = store.get_experiment(store.create_experiment(name, artifact_location=place))
    number = str(experiment.experiment_id)
    tags = {KIND: TRAINING, MLFLOW_RUN_NOTE: about}
    if name != NESTED:
        # MLflow shows the same columns of every experiment at first
        address = f"#/experiments/{number}/runs?workflowType=machine_learning&viewStateShareKey={FIGURES}"
        tags |= {f"{VIEW}{FIGURES}": _saved_view(), MLFLOW_RUN_NOTE: f"{about} [Figures]({address})"}
    for tag, value in tags.items():
        if experiment.tags.get(tag) != value:
            store.set_experiment_tag(number, tag, value)
    return number


def _saved_view() -> str:
    from training.evaluation.figures import JUDGED, PREDICTED

    columns = [f"metrics.`{score}`" for score in (*JUDGED, *PREDICTED)]
    state = {"selectedColumns": [*columns, f"tags.`{ROLE_TAG}`"]}
    return json.dumps({"name": "Figures of summary.json", "createdAt": 0, "state": json.dumps(state)})


def _schema_columns(table: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    columns = []
    for column in pq.read_schema(table):
        kinds = (kind for start, kind in _TYPES.items() if str(column.type).startswith(start))
        columns.append({"name": column.name, "type": next(kinds, "string"), "required": not column.nullable})
    return columns


def trials_of(directory: Path, model: str) -> Iterator[TrackedRun]:
    """Yield the logs of the trials of the final search for `model`, from trials.parquet in `directory`.

    The final search is that on all rows, not on those of a fold. Each log has a name ("MODEL trial 007"), the
    metric ``value`` (None for a pruned or failed trial), parameters, and the values reported after each step.
    FileNotFoundError at the first item if the file is missing.
    """
    import pandas as pd

    from data.tables.parquet import read_written_table

    trials = read_written_table(directory / "trials.parquet")
    for row in trials[(trials["part"] == "all") & (trials["model"] == model)].to_dict("records"):
        yield TrackedRun(
            f"{model} trial {row['trial']:03}",
            {"value": None if pd.isna(row["value"]) else row["value"]},
            json.loads(row["params"]),
            {"kind": "trial", "trial_state": row["state"]},
            {"reported": dict(enumerate(json.loads(row["reported"])))},
            _ENDED[row["state"]],
        )


def scores_by_name(splits: dict[str, Any], entry: str, headline: str = "") -> dict[str, Any]:
    """Return an entry's scores in `splits` by key ``<split>/<score>_<mean, std or pooled>``.

    With `headline`, a split that must have the entry, its `headline_scores` come first.
    """
    leading = headline_scores(splits[headline]["entries"][entry]) if headline else {}
    return leading | {
        f"{split}/{score}_{kind}": value
        for split, content in splits.items()
        for score, spread in content["entries"].get(entry, {}).items()
        if isinstance(spread, dict)
        for kind, value in spread.items()
    }


def headline_scores(entry: dict[str, Any]) -> dict[str, Any]:
    """Return by name a number per score of an entry of metrics.json: pooled, else the mean, or None."""
    return {
        name: spread["mean"] if spread.get("pooled") is None else spread["pooled"]
        for name, spread in entry.items()
        if isinstance(spread, dict)
    }
