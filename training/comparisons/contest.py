"""The model of comparisons that wants to be champion: its runs, figures and files in MLflow, its verdicts."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from training.comparisons.decision import decided, read_changes
from training.comparisons.examples import FeatureTable
from training.comparisons.family import Family
from training.comparisons.ready import ReadyModel
from training.comparisons.stored import TrainedModel
from training.comparisons.tune import Classified
from training.estimators.catalogue import CATALOGUE
from training.estimators.frozen import FILE as FROZEN
from training.estimators.pipelines import fail_probability
from training.evaluation.bootstrap import paired_difference
from training.evaluation.figures import confusion_matrix, precision_recall
from training.evaluation.metrics import as_dict, scores_of
from training.evaluation.tuned import read_tuned
from training.registry.contest import Compared, Means
from training.registry.tracking import (
    Tracked,
    TrackedRun,
    client,
    experiment_of,
    mlflow,
    scores_by_name,
    trials_of,
)
from training.registry.trusted import TRUSTED_TYPES

_REQUIREMENTS = ["scikit-learn", "xgboost-cpu", "skops"]
_EXAMPLE_ROWS = 5
#: The file beside a logged model that holds its verdicts on comparisons it had not seen.
VERDICTS = "verdicts.parquet"


def means(family: Family, metrics: dict[str, Any]) -> Means:
    """Return how the champion of metrics.json is read, compared and logged."""
    outs = Outs.read(family, metrics)
    return Means(TrainedModel.read, partial(_compared, outs), partial(track, outs))


@dataclass(frozen=True)
class Outs:
    """What DVC holds of a run of the pipeline."""

    family: Family
    table: FeatureTable
    changes: NDArray[np.float64]
    verdicts: pd.DataFrame
    metrics: dict[str, Any]

    @classmethod
    def read(cls, family: Family, metrics: dict[str, Any]) -> Outs:
        """Read what the stages before promotion wrote."""
        table = FeatureTable.read(family.features, family.columns())
        return cls(
            family,
            table,
            read_changes(family.changes, table),
            pd.read_parquet(family.places.evaluated / "oof.parquet"),
            metrics,
        )

    def grouped(self, model: str) -> pd.DataFrame:
        """Return the verdicts of `model` on operations that it had not seen."""
        rows = self.verdicts
        return rows[(rows["entry"] == model) & (rows["split"] == "grouped")]


def _compared(outs: Outs, directory: Path) -> Compared:
    how, frame = outs.family.section.promote, outs.table.frame
    own = outs.grouped(outs.metrics["champion"]).set_index("comparison_id")["verdict"]
    difference = paired_difference(
        frame["status"].to_numpy() == "fail",
        np.asarray(own.reindex(frame["comparison_id"]).to_numpy() == "fail"),
        champion_verdicts(directory, outs.changes, frame),
        frame["fold_group"].to_numpy(np.str_),
        resamples=how.resamples,
        confidence=how.confidence,
        seed=outs.family.params.seed,
    )
    return Compared(difference, "the same folds", "balanced accuracy")


def champion_verdicts(
    directory: Path, changes: NDArray[np.float64], frame: pd.DataFrame
) -> NDArray[np.bool_]:
    """Return which comparisons of `frame` the champion fails, without letting it judge what it learned from.

    Its verdicts are its own out-of-fold ones for comparisons that it was trained on, direct ones for others.

    Raises
    ------
    InputError
        If a feature of the champion is no longer computed.
    """
    model, stored = ReadyModel.read(directory), pd.read_parquet(directory / "extra_files" / VERDICTS)
    missing = [name for name in model.card.features if name not in frame.columns]
    if missing:
        raise InputError(f"the feature {missing[0]!r} is no longer computed")
    asked = frame[list(model.card.features)].to_numpy(np.float64)
    probability = decided(model.probability(asked), changes, model.card.floor)
    direct = np.where(probability >= model.card.threshold, "fail", "pass")
    own = stored.set_index("comparison_id")["verdict"].reindex(frame["comparison_id"])
    return np.asarray(np.where(own.isna(), direct, own.to_numpy(object)) == "fail")


def track(outs: Outs, tags: dict[str, str]) -> Tracked:
    """Log every model of the last run of the pipeline that MLflow lacks, and the best one in any case.

    Parameters
    ----------
    outs : Outs
    tags : dict of str to str
        ``evidence`` is the digest of what the pipeline wrote; runs bear it as a tag.

    Returns
    -------
    Tracked
        The best one.
    """
    store, best = client(), outs.metrics["champion"]
    experiment = experiment_of(store, outs.family.name)
    known = _known(store, experiment, tags["evidence"])
    for name in read_tuned(outs.family.places.tuned, Classified)["all"]:
        if name not in known and name != best:
            _track_model(store, experiment, outs, name, tags["evidence"])
    return _track_model(store, experiment, outs, best, tags["evidence"])


def _known(store: Any, experiment: str, evidence: str) -> set[str]:
    """Return the models that were logged completely, and whose files are still there."""
    finished = f"tags.evidence = '{evidence}' and attributes.status = 'FINISHED'"
    tags = [run.data.tags for run in store.search_runs([experiment], finished, max_results=1000)]
    files = mlflow().artifacts.list_artifacts
    return {own["model"] for own in tags if "model_uri" in own and files(artifact_uri=own["model_uri"])}


def _track_model(store: Any, experiment: str, outs: Outs, name: str, evidence: str) -> Tracked:
    places, grouped = outs.family.places, outs.grouped(name)
    model = TrainedModel.read(places.models / name)
    params = {**model.card.params, "threshold": model.card.threshold, "seed": model.card.seed}
    tags = {"evidence": evidence, "model": name, "data_digest": outs.table.digest}
    run = TrackedRun(name, scores_by_name(outs.metrics["splits"], name), params, tags)
    nested = (*trials_of(places.tuned, name), *_folds(outs.verdicts, name, model.card.seed))
    title = f"{CATALOGUE[name].title}, folds of whole operations"
    with run.logged(store, experiment, nested) as run_id:
        store.log_inputs(run_id, [_dataset(outs.metrics["data"])])
        store.log_figure(run_id, confusion_matrix(grouped, title), "confusion.png")
        store.log_figure(run_id, precision_recall(grouped, title), "precision-recall.png")
        model_id = _log_model(run_id, outs, model, grouped)
        tracked = Tracked(run_id, f"models:/{model_id}", model_id)
        store.set_tag(run_id, "model_uri", tracked.model_uri)
    return tracked


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


def _folds(verdicts: pd.DataFrame, model: str, seed: int) -> Iterator[TrackedRun]:
    own = verdicts[verdicts["entry"] == model]
    for (split, repeat, fold), rows in own.groupby(["split", "repeat", "fold"], sort=True):
        params = {"threshold": rows["threshold"].iloc[0], "seed": seed}
        yield TrackedRun(f"{split} r{repeat}f{fold}", as_dict(scores_of(rows)), params, {"split": str(split)})


def _log_model(run: str, outs: Outs, model: TrainedModel, grouped: pd.DataFrame) -> str:
    flow = mlflow()
    import mlflow.sklearn as flavour
    from mlflow.models import infer_signature

    trained = outs.family.places.models / model.card.model
    beside = [path for path in (trained / "card.json", trained / FROZEN) if path.is_file()]
    example = outs.table.frame[list(model.card.features)].head(_EXAMPLE_ROWS).astype(float)
    with tempfile.TemporaryDirectory() as temporary, warnings.catch_warnings(), flow.start_run(run_id=run):
        # MLflow tries the example out as a frame; the pipeline was fitted to the same columns without names
        warnings.filterwarnings("ignore", "X has feature names", UserWarning)
        verdicts = Path(temporary) / VERDICTS
        grouped[["comparison_id", "verdict"]].to_parquet(verdicts, index=False)
        logged = flavour.log_model(
            model.model,
            name=model.card.model,
            serialization_format="skops",
            skops_trusted_types=list(TRUSTED_TYPES),
            pip_requirements=_REQUIREMENTS,
            signature=infer_signature(example, fail_probability(model.model, example.to_numpy())),
            input_example=example,
            pyfunc_predict_fn="predict_proba",
            extra_files=[str(path) for path in (*beside, verdicts)],
        )
    # MLflow stores the pipeline anew, in other bytes; what was trained belongs to the file that was written
    client().log_model_artifact(logged.model_id, str(trained / "model.skops"))
    return str(logged.model_id)
