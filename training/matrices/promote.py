"""Promote stage for matrices. Reports the current champion without importing evaluation dependencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from data.matrices.params import Matrices
from data.params import Params, load
from data.paths import FamilyPaths
from data.tables.documents import written
from data.tables.parquet import read_written_table
from training.evaluation.figures import verdict_figures
from training.evaluation.metrics import RANKED, as_dict, score_rows
from training.evaluation.paired_bootstrap import BootstrapSettings, OutOfFoldPredictions, by_entry
from training.matrices.engine.stored import EngineCard, TrainedEngine
from training.plugins import PredictionReaders
from training.registry.challenger_test import (
    OOF,
    Candidate,
    CandidateLog,
    ChallengerTest,
    compare_by_verdicts,
    promote_candidate,
)
from training.registry.runs import TrackedRun, scores_by_name

PLACES = FamilyPaths("matrices")
#: Names of the splits that models are ranked by; the figures of the first are reported.
SPLIT, CAUSES = "test-cases", "causes"
_RANKING_SCORES = (RANKED, "balanced_accuracy")


def rank_models(entries_of_splits: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the models by average precision and balanced accuracy together, the best first.

    Models are ordered by the mean of both scores (each the mean of folds) over all splits, equal ones by
    name. `entries_of_splits` has the entries by name of each split, at least one. Entries whose ``kind`` is
    not "model" are left out; KeyError if a model is missing in a later split.
    """
    models = [name for name, entry in entries_of_splits[0].items() if entry["kind"] == "model"]

    def mean_score(name: str) -> float:
        entries = [split[name] for split in entries_of_splits]
        return float(np.mean([entry[score]["mean"] for entry in entries for score in _RANKING_SCORES]))

    return sorted(models, key=lambda name: (-mean_score(name), name))


CHAMPION_COLUMNS = ["pair_id", "workload", "verdict", "status", "probability", "threshold", "fold"]


def make_challenger_test(params: Params[Matrices], metrics: dict[str, Any]) -> ChallengerTest:
    """Return functions to read, compare and log models; the candidate is the champion of metrics.json.

    They are ``read(directory)``, ``compare(directory)`` (of the champion) and ``track(tags)``. `metrics` is
    the content of that file. The candidate and the registered champion are compared by balanced accuracy,
    candidate minus champion, on the same held-out pairs; whole test cases are drawn for the interval, as
    `params` says. FileNotFoundError without out-of-fold predictions, InputError without a card.
    """
    how = BootstrapSettings.from_params(params.section.promote, params.seed)
    best = metrics["champion"]
    oof = read_written_table(PLACES.evaluated / OOF)
    splits = metrics["splits"]
    names = rank_models([splits[name]["entries"] for name in (SPLIT, CAUSES) if name in splits])
    runs = [_tracked_run(name, metrics, oof[oof["entry"] == name]) for name in names]
    champion_oof = oof[oof["entry"] == best][CHAMPION_COLUMNS].assign(group=oof["workload"])
    runs[0].params.update(EngineCard.read(PLACES.models).params)
    vectors = PLACES.interim / "matrices.parquet"
    candidate_log = CandidateLog("matrices", metrics["data"], vectors, PLACES.models, runs, champion_oof)
    compare = compare_by_verdicts(["pair_id"], how, "the same unseen pairs")
    return candidate_log.make_test(TrainedEngine.read, compare)


def _tracked_run(name: str, metrics: dict[str, Any], rows: pd.DataFrame) -> TrackedRun:
    tags = {"kind": "fold", "split": SPLIT}
    return TrackedRun(
        name,
        scores_by_name(metrics["splits"], name, SPLIT),
        {"classifier": rows["model"].iloc[0], "scheme": rows["scheme"].iloc[0], "seed": metrics["seed"]},
        {"model": name},
        nested=[
            TrackedRun(f"{name} {SPLIT} f{fold:02}", as_dict(score_rows(fold_rows)), {}, tags)
            for fold, fold_rows in rows.groupby("fold", sort=True)
        ],
        figures=partial(verdict_figures, rows, f"{name}, folds of whole test cases"),
    )


def promote_stage() -> None:
    """Register the best engine as champion or challenger, as `promote_candidate` decides; print the result.

    It reads params.yaml and the files of evaluate and train below the working directory; InputError if
    metrics.json or the model is missing, or the registry does not answer, FileNotFoundError if a test needs
    oof.parquet, which is missing.
    """
    params, metrics = load(Matrices), written(PLACES.metrics, "evaluate")
    name, test = params.section.promote.name, partial(make_challenger_test, params, metrics)
    candidate = Candidate(name, metrics["champion"], PLACES.models, PLACES.metrics, test)
    print(promote_candidate(candidate))  # noqa: T201


WHAT = "matrices"
_NAMES = {"pair_id": "case"}
_OOF = PLACES.evaluated / OOF


def _read_oof(root: Path, metrics: Mapping[str, Any]) -> list[OutOfFoldPredictions]:
    oof = read_written_table(root / _OOF)
    rows = oof[oof["split"] == SPLIT].drop(columns="group")
    size = rows["cause_size"].map("{:.0%}".format, na_action="ignore").fillna("")
    words = (rows["cause"] + " " + size).str.strip()
    rows = rows.rename(columns=_NAMES).assign(group=rows["workload"], words=words)
    return by_entry(WHAT, rows, metrics["champion"])


def _read_stored_oof(directory: Path, run: str, _: Path) -> OutOfFoldPredictions:
    return OutOfFoldPredictions(WHAT, run, read_written_table(directory / OOF).rename(columns=_NAMES))


def out_of_fold_source() -> PredictionReaders:
    """Return how to read the out-of-fold predictions of matrix models in a project.

    ``files`` has one path, that of oof.parquet relative to the project. ``read(project, metrics)`` takes the
    content of metrics.json and returns a list of each entry's predictions in the split ``test-cases``, the
    champion's first. ``read_stored(directory, run, project)`` returns those of a registered version with its
    files in `directory`; `run` is the name of its run. Both raise FileNotFoundError without oof.parquet.
    """
    return PredictionReaders((_OOF.as_posix(),), _read_oof, _read_stored_oof)
