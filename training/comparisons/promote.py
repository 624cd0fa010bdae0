"""Stage ``promote``: register the best model, and make it champion if it is better than the present one."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.paths import FamilyPaths
from data.tables.documents import written
from data.tables.parquet import read_written_table
from features.comparisons.vectors import EVIDENCE
from training.comparisons.behavioural_checks import build_checks, find_violations
from training.comparisons.decision import read_changes
from training.comparisons.family import Family, FeatureTable
from training.comparisons.stored import FILE as EXAMPLES
from training.comparisons.stored import Card, ReadyModel, TrainedModel
from training.estimators.catalogue import CATALOGUE, fail_probability
from training.estimators.compiled_pipeline import FILE as FROZEN
from training.evaluation.figures import verdict_figures
from training.evaluation.metrics import as_dict, rank_models, score_rows
from training.evaluation.paired_bootstrap import (
    BootstrapSettings,
    OutOfFoldPredictions,
    by_entry,
)
from training.evaluation.thresholds import zero_below_min_effect
from training.plugins import PredictionReaders
from training.registry.challenger_test import (
    Candidate,
    ChallengerTest,
    Compared,
    compare_by_verdicts,
    promote_candidate,
)
from training.registry.champions import Tracked, client, import_mlflow
from training.registry.runs import Logbook, TrackedRun, scores_by_name, trials_of
from training.registry.stored import TRUSTED_TYPES

_REQUIREMENTS = ["scikit-learn", "xgboost-cpu", "skops"]
_EXAMPLE_ROWS = 5
#: The file next to a logged model with its out-of-fold verdicts.
VERDICTS = "verdicts.parquet"
_KEPT = ("comparison_id", "verdict", "status", "probability", "threshold", "fold")


def champion_functions(family: Family, metrics: dict[str, Any]) -> ChallengerTest:
    """Return the functions that compare the best model of metrics.json with the registered champion.

    `metrics` is the content of metrics.json. InputError if a file of the stage featurize is missing or does
    not fit; FileNotFoundError without oof.parquet.
    """
    table = family.read_features()
    changes = read_changes(family.stage_file("changes"), table)
    verdicts = read_written_table(family.paths.evaluated / "oof.parquet")
    outs = StageOutputs(family, table, changes, verdicts, metrics)
    compare, track = partial(_compare_champion, outs), partial(track_models, outs)
    refused = partial(first_violation, seed=family.params.seed)
    return ChallengerTest(TrainedModel.read, compare, track, refused)


def first_violation(directory: Path, seed: int) -> str:
    """Return the first behavioural check that a model violates, with the case, in words; "" if it passes all.

    `directory` has the model; random cases are drawn with `seed`. Models that do not take the feature
    `EVIDENCE` (such as the vector of the thesis) are not checked, which gives "" as well. InputError if the
    model cannot be read, ModelError if it predicts a number that is not finite.
    """
    model = ReadyModel.read(directory)
    if EVIDENCE not in model.card.features:
        return ""
    return next(find_violations(model.predict_uncleaned, model.card.threshold, build_checks(seed)), "")


@dataclass(frozen=True)
class StageOutputs:
    """The outputs of the stages before promotion."""

    family: Family
    table: FeatureTable
    changes: NDArray[np.float64]
    verdicts: pd.DataFrame
    metrics: dict[str, Any]

    def grouped_verdicts(self, model: str) -> pd.DataFrame:
        """Return the rows of oof.parquet of `model` in the split ``grouped``: on unseen operations."""
        rows = self.verdicts
        return rows[(rows["entry"] == model) & (rows["split"] == "grouped")]


def _compare_champion(outs: StageOutputs, directory: Path) -> Compared | str | None:
    """Compare the candidate's verdicts with the champion's, none by a model trained on the comparison.

    The champion's training comparisons have stored out-of-fold verdicts; it predicts the others.
    """
    frame = outs.table.frame
    model, stored = ReadyModel.read(directory), read_written_table(directory / "extra_files" / VERDICTS)
    missing = [name for name in model.card.features if name not in frame.columns]
    if missing:
        raise InputError(f"the feature {missing[0]!r} is no longer computed")
    probability = model.predict_probability(frame[list(model.card.features)].to_numpy(np.float64))
    probability = zero_below_min_effect(probability, outs.changes, model.card.min_effect_size)
    direct = np.where(probability >= model.card.threshold, "fail", "pass")
    out_of_fold = stored.set_index("comparison_id")["verdict"].reindex(frame["comparison_id"])
    keys = frame[["comparison_id", "fold_group"]].rename(columns={"fold_group": "group"})
    candidate = outs.grouped_verdicts(outs.metrics["champion"]).merge(keys, on="comparison_id")
    champion = keys.assign(verdict=np.where(out_of_fold.isna(), direct, out_of_fold.to_numpy(object)))
    how = BootstrapSettings.from_params(outs.family.section.promote, outs.family.params.seed)
    return compare_by_verdicts(["comparison_id"], how, "the same folds")(candidate, champion)


def track_models(outs: StageOutputs, tags: dict[str, str]) -> Tracked:
    """Log the models in MLflow, and return ``run_id, model_uri, model_id`` of the best, which is logged last.

    Before it, the others are logged, from worst to best, except those that MLflow already has, with their
    files, for the same digest ``tags["evidence"]``, which becomes a tag of their runs; other `tags` are
    ignored. Interrupted runs are marked as killed.
    """
    family, best = outs.family, outs.metrics["champion"]
    book = Logbook(family.name, outs.metrics["data"], family.features_file, tags["evidence"])
    files_of = import_mlflow().artifacts.list_artifacts
    tags_by_name = book.logged_tags().items()
    logged = {name for name, entry in tags_by_name if files_of(artifact_uri=entry["model_uri"])}
    for name in reversed(rank_models(outs.metrics["splits"]["grouped"]["entries"])):
        if name not in logged and name != best:
            _track_model(book, outs, name)
    return _track_model(book, outs, best)


def _track_model(book: Logbook, outs: StageOutputs, name: str) -> Tracked:
    model, grouped = TrainedModel.read(outs.family.paths.models / name), outs.grouped_verdicts(name)
    with book.log_run(_tracked_run(outs, model.card, grouped)) as run_id:
        model_id = _log_model(run_id, outs, model, grouped)
        tracked = Tracked(run_id, f"models:/{model_id}", model_id)
        book.store.set_tag(run_id, "model_uri", tracked.model_uri)
    return tracked


def _tracked_run(outs: StageOutputs, card: Card, grouped: pd.DataFrame) -> TrackedRun:
    name, splits, guarantees = card.model, outs.metrics["splits"], outs.metrics["risk_guarantees"]["grouped"]
    (chosen,) = guarantees[name]["chosen"]
    title = f"{CATALOGUE[name].title}, folds of whole operations"
    return TrackedRun(
        name,
        {
            **scores_by_name(splits, name, "grouped"),
            "calibration_error": guarantees[name]["calibration_error"],
            "unsure": chosen["unsure"],
            "false_negative_rate_beside_unsure": chosen["false_negative_rate"],
            "false_positive_rate_beside_unsure": chosen["false_positive_rate"],
        },
        {
            **card.params,
            "threshold": card.threshold,
            "seed": card.seed,
            "calibration": "none" if card.calibration is None else card.calibration.kind,
            "unsure_from": card.decision_thresholds.low,
            "fail_from": card.decision_thresholds.high,
        },
        {"model": name},
        nested=(*_fold_runs(outs.verdicts, name, card.seed), *trials_of(outs.family.paths.tuned, name)),
        figures=lambda: verdict_figures(grouped, title),
    )


def _fold_runs(verdicts: pd.DataFrame, model: str, seed: int) -> Iterator[TrackedRun]:
    folds = verdicts[verdicts["entry"] == model].groupby(["split", "repeat", "fold"], sort=True)
    for (split, repeat, fold), rows in folds:
        params = {"threshold": rows["threshold"].iloc[0], "seed": seed}
        title, tags = f"{model} {split} r{repeat} f{fold:02}", {"kind": "fold", "split": str(split)}
        yield TrackedRun(title, as_dict(score_rows(rows)), params, tags)


def _log_model(run: str, outs: StageOutputs, model: TrainedModel, grouped: pd.DataFrame) -> str:
    flow = import_mlflow()
    import mlflow.sklearn as flavour
    from mlflow.models import infer_signature

    trained = outs.family.paths.models / model.card.model
    extra = [path for path in (trained / name for name in ("card.json", FROZEN, EXAMPLES)) if path.is_file()]
    example = outs.table.frame[list(model.card.features)].head(_EXAMPLE_ROWS).astype(float)
    with tempfile.TemporaryDirectory() as temporary, warnings.catch_warnings(), flow.start_run(run_id=run):
        # MLflow predicts the example as a frame; the pipeline was fitted to the same columns without names
        warnings.filterwarnings("ignore", "X has feature names", UserWarning)
        verdicts = Path(temporary) / VERDICTS
        grouped[list(_KEPT)].to_parquet(verdicts, index=False)
        logged = flavour.log_model(
            model.model,
            name=model.card.model,
            serialization_format="skops",
            skops_trusted_types=list(TRUSTED_TYPES),
            pip_requirements=_REQUIREMENTS,
            signature=infer_signature(example, fail_probability(model.model, example.to_numpy())),
            input_example=example,
            pyfunc_predict_fn="predict_proba",
            extra_files=[str(path) for path in (*extra, verdicts)],
        )
    # MLflow writes the pipeline again, as other bytes; the other files refer to the original by its digest
    client().log_model_artifact(logged.model_id, str(trained / "model.skops"))
    return str(logged.model_id)


WHAT = "comparisons"
_PLACES = FamilyPaths("comparisons")
_VECTORS = _PLACES.processed / "features.parquet"
_OOF = _PLACES.evaluated / "oof.parquet"


def _read_predictions(root: Path, metrics: Mapping[str, Any]) -> list[OutOfFoldPredictions]:
    oof = read_written_table(root / _OOF)
    rows = oof[oof["split"] == "grouped"].merge(_read_groups(root), on="comparison_id", how="left")
    return by_entry(WHAT, rows.rename(columns={"comparison_id": "case"}), metrics["champion"])


def _read_groups(root: Path) -> pd.DataFrame:
    table = read_written_table(root / _VECTORS, columns=["comparison_id", "fold_group"])
    return table.rename(columns={"fold_group": "group"})


def _stored_predictions(directory: Path, run: str, root: Path) -> OutOfFoldPredictions:
    rows = read_written_table(directory / "extra_files" / VERDICTS)
    if (root / _VECTORS).is_file():
        rows = rows.merge(_read_groups(root), on="comparison_id", how="left")
    return OutOfFoldPredictions(WHAT, run, rows.rename(columns={"comparison_id": "case"}))


def out_of_fold_source() -> PredictionReaders:
    """Return the readers of out-of-fold predictions in the split "grouped", with their files."""
    files = tuple(path.as_posix() for path in (_OOF, _VECTORS, _PLACES.interim))
    return PredictionReaders(files, _read_predictions, _stored_predictions)


def promote(family: Family) -> None:
    """Run stage promote: register the best model, make it the champion if it is better, and print the result.

    `family` has the parameters and paths of the family ``comparisons``. The model is compared with the
    current champion by `promote_candidate`: it becomes challenger if it violates a behavioural check or
    is not better, else champion, also if there is none to compare it with; nothing changes if the same
    evidence was judged before. InputError if metrics.json or the model is missing or invalid, or the registry
    does not answer.
    """
    scores = family.paths.metrics
    metrics = written(scores, "evaluate")
    name, model = family.section.registered_name, metrics["champion"]
    trained = family.paths.models / model
    candidate = Candidate(name, model, trained, scores, lambda: champion_functions(family, metrics))
    print(promote_candidate(candidate))  # noqa: T201
