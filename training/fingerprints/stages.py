"""The stages profile, evaluate and promote of the model family ``fingerprints``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.fingerprints.params import Fingerprints, Profiling
from data.parallel import side_by_side
from data.params import Params, load
from data.paths import FamilyPaths
from data.tables.documents import written
from data.tables.files import digest_of, write_json, write_tables
from data.tables.parquet import read_written_table
from features.fingerprints.matrix import PLACES, FingerprintTable, Measured
from training.evaluation.figures import dvc_prediction_figures, predicted_measured
from training.evaluation.paired_bootstrap import OutOfFoldPredictions, by_entry
from training.fingerprints.differences import check_claims
from training.fingerprints.importance import FOLDS, seed_shares
from training.fingerprints.prediction import (
    Forecast,
    by_application,
    by_median,
    forecast_application,
    rank_models,
    summarise_entries,
)
from training.fingerprints.profiles import (
    Profile,
    infer_profile,
    mean_overlap,
    resample_weights,
    resampling_units,
    scale_importances,
    top_columns,
)
from training.plugins import PredictionReaders
from training.registry.runs import Logbook, TrackedRun, headline_scores, scores_by_name

WHAT = "forecasts"
_OOF = FamilyPaths("fingerprints").evaluated / "oof.parquet"


def _read_unseen(root: Path, metrics: Mapping[str, Any]) -> list[OutOfFoldPredictions]:
    oof = read_written_table(root / _OOF).rename(columns={"value": "measured"})
    rows = oof.assign(case=oof["application"] + " on " + oof["machine"], group=oof["cpu_model"])
    return by_entry(WHAT, rows, metrics["champion"], metrics["tolerance"])


def _no_registered(directory: Path, *_: object) -> OutOfFoldPredictions:
    raise InputError("forecasts have no registered model; each request trains its own", file=directory)


def out_of_fold_source() -> PredictionReaders:
    """Return how to read the out-of-fold predictions of forecast models in a project.

    ``files`` has one path, that of oof.parquet relative to the project. ``read(project, metrics)`` takes the
    content of metrics.json and returns a list of each entry's predictions, the champion's first;
    FileNotFoundError without oof.parquet. ``read_stored`` always raises InputError, because forecast models
    are not registered.
    """
    return PredictionReaders((_OOF.as_posix(),), _read_unseen, _no_registered)


def promote_stage() -> None:
    """Stage promote: log the forecast models that MLflow does not have yet; no model is registered.

    The best is logged last, and its name printed. A model is logged once per content of metrics.json and
    oof.parquet; InputError if one is missing.
    """
    params, metrics = load(Fingerprints), written(PLACES.metrics, "evaluate")
    evidence = digest_of(PLACES.metrics, PLACES.evaluated / "oof.parquet")
    book = Logbook("fingerprints", metrics["data"], PLACES.processed / "features.parquet", evidence)
    logged_names, oof = book.logged_tags(), read_written_table(PLACES.evaluated / "oof.parquet")
    for name in reversed(rank_models(metrics["splits"]["grouped"]["entries"])):
        if name not in logged_names:
            with book.log_run(run_of(name, metrics, oof[oof["entry"] == name], params)):
                pass
    print(f"fingerprints: {metrics['champion']} is best; there is no model to register")  # noqa: T201


def run_of(
    name: str, metrics: dict[str, Any], rows: pd.DataFrame, params: Params[Fingerprints]
) -> TrackedRun:
    """Return the data to log in MLflow about the model `name`, with a nested run per fold; logs nothing.

    `metrics` is the content of metrics.json, `rows` are the model's predictions. KeyError if `metrics` does
    not have the model.
    """
    tolerance, nested = metrics["tolerance"], list[TrackedRun]()
    for fold, fold_rows in rows.groupby("fold", sort=True):
        scores = headline_scores(summarise_entries(fold_rows, tolerance)[name])
        tags = {"kind": "fold", "split": "grouped"}
        nested.append(TrackedRun(f"{name} grouped f{fold:02}", scores, {}, tags))
    measured, title = rows.rename(columns={"value": "measured"}), f"{name}, folds of whole CPU models"
    return TrackedRun(
        name,
        scores_by_name(metrics["splits"], name, "grouped"),
        {"confidence": params.section.profile.confidence, "seed": params.seed},
        {"model": name},
        nested=nested,
        figures=partial(predicted_measured, measured, tolerance, title, "performance"),
    )


@dataclass(frozen=True)
class Profiled:
    """An application's profile by both methods, and the stability of each method's top five.

    `seeds` are the paper's importances, shape (n_columns,), as parts of 1. A stability is the mean overlap
    (Jaccard) of the top five stressors between ``n_thesis_bootstrap`` resamples.
    """

    ours: Profile
    seeds: NDArray[np.float64]
    seed_stability: float
    our_stability: float


def profile_application(measured: Measured, params: Profiling, seed: int) -> Profiled:
    """Return one application's profile by our method, its importances by the paper's, and their stability.

    Our method averages the rows of a machine first, the paper's uses every row. InputError if there are fewer
    than two machines, or all perform alike.
    """
    ours, number, boosting = infer_profile(measured, params, seed), params.n_thesis_bootstrap, params.boosting
    weights = resample_weights(resampling_units(measured), number, seed)
    resampled = np.array([seed_shares(measured, seed, counts, boosting) for counts in weights])
    tops = (top_columns(shares) for shares in (resampled, ours.resampled[:number]))
    return Profiled(ours, seed_shares(measured, seed, boosting=boosting), *map(mean_overlap, tops))


def result_tables(results: list[Profiled]) -> dict[str, pd.DataFrame]:
    """Return the stage's tables by the name of their file, without suffix; ValueError without results.

    ``profiles`` is `Profile.features` with the column ``seed_importance``, by the quiho paper's algorithm. In
    it, in ``clusters`` and in ``categories``, ``application`` is the first column. ``trust`` has one row per
    application: ``application, metric, better, enough``, all fields of `Trust` (tuples joined to text),
    ``seed_stability, our_stability``.
    """
    parts: dict[str, dict[str, pd.DataFrame]] = {"profiles": {}, "clusters": {}, "categories": {}}
    rows = []
    for result in results:
        ours, measured, trust = result.ours, result.ours.measured, result.ours.trust
        seeds = pd.Series(scale_importances(result.seeds), measured.columns, name="seed_importance")
        parts["profiles"][ours.application] = ours.features.join(seeds, on="stressor")
        parts["clusters"][ours.application] = ours.clusters
        parts["categories"][ours.application] = ours.categories
        row = {name: getattr(measured, name) for name in ("application", "metric", "better")}
        row |= {"enough": trust.enough, **asdict(trust), "leaders": ", ".join(trust.leaders)}
        row |= {name: "; ".join(getattr(trust, name)) for name in ("reasons", "unpredicted")}
        rows.append(row | {"seed_stability": result.seed_stability, "our_stability": result.our_stability})
    frames = {
        name: pd.concat(of_all, names=["application"]).reset_index("application").reset_index(drop=True)
        for name, of_all in parts.items()
    }
    return frames | {"trust": pd.DataFrame(rows)}


def profile_stage() -> None:
    """Stage profile: profile applications by this project's method and by the quiho paper's.

    At most ``max_applications`` are selected. The tables of `result_tables` and ``claims`` are written.
    InputError if the files of the stage featurize cannot be read, or a selected application has fewer than
    two machines, or performs alike on all.
    """
    params = load(Fingerprints)
    section = params.section
    measured = _read_measured(section)
    how = partial(profile_application, params=section.profile, seed=params.seed)
    results = side_by_side(how, measured, params.compute, "profile fingerprints")
    seeds = {result.ours.application: result.seeds for result in results}
    profiles = {result.ours.application: result.ours for result in results}
    tables, claims = result_tables(results), check_claims(profiles, seeds, section.profile, params.seed)
    write_tables(PLACES.profiled, tables | {"claims": claims})
    trusted = int(tables["trust"]["enough"].sum())
    print(f"{len(results)} applications profiled, {trusted} of them can be trusted")  # noqa: T201


def evaluate_stage() -> None:
    """Evaluate predictions on held-out CPU models; write results and metrics.json with the best model.

    At most ``max_applications`` are selected (by `FingerprintTable.covering_applications`); of these, those
    that were measured on one CPU model only are left out. InputError if none remains, or the files of the
    stage featurize cannot be read. The best model has the smallest pooled median error; IndexError if only
    the median is evaluated.
    """
    params = load(Fingerprints)
    section = params.section
    applications = [application.by_machine() for application in _read_measured(section)]
    applications = [application for application in applications if len(np.unique(application.cpus)) > 1]
    if not applications:
        raise InputError("all machines are of one CPU model; expected two or more", file=PLACES.processed)
    how = section.evaluate.entries, section.profile.confidence, section.profile.boosting, params.seed
    tasks = [Forecast(application, *how) for application in applications]
    forecasts = side_by_side(forecast_application, tasks, params.compute, "evaluate fingerprints")
    predictions, tolerance = pd.concat(forecasts, ignore_index=True), section.evaluate.tolerance
    tables = {"oof": predictions, "accuracy": by_application(predictions, tolerance)}
    write_tables(PLACES.evaluated, tables)
    summaries = summarise_entries(predictions, tolerance)
    scheme = f"{FOLDS} folds of whole CPU models (fewer where there are fewer)"
    content = {
        "family": "fingerprints",
        "data": _describe_data(section, applications),
        "seed": params.seed,
        "tolerance": tolerance,
        "splits": {"grouped": {"scheme": scheme, "folds": FOLDS, "entries": summaries}},
        "champion": rank_models(summaries)[0],
    }
    write_json(PLACES.metrics, content)
    dvc_prediction_figures(content, "grouped", "median_error", by_median(predictions)).write(PLACES)


def _read_measured(section: Fingerprints) -> list[Measured]:
    table = FingerprintTable.read(PLACES.processed)
    names = table.covering_applications(section.profile.max_applications)
    return [table.measurements_of(name) for name in names]


def _describe_data(section: Fingerprints, measured: list[Measured]) -> dict[str, Any]:
    return {
        "format": section.ingest.format,
        "path": section.ingest.path.as_posix(),
        "digest": digest_of(PLACES.processed / "features.parquet", PLACES.processed / "targets.parquet"),
        "machines": len({machine for application in measured for machine in application.machines}),
        "cpu_models": len({cpu for application in measured for cpu in application.cpus}),
        "applications": len(measured),
    }
