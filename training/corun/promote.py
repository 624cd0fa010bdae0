"""Promote stage for co-run models. Reports the current champion without importing evaluation dependencies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from data.corun.params import Corun
from data.corun.tables import AND
from data.params import Params, load
from data.paths import FamilyPaths
from data.tables.documents import written
from data.tables.parquet import read_written_table
from features.corun.rates import CORUN
from training.corun.estimators.fitting import accuracy_scores, rank_models
from training.corun.splits import main_design
from training.corun.stored import ImpactCard, TrainedImpact, TrainedOnline
from training.evaluation.figures import predicted_measured
from training.evaluation.paired_bootstrap import BootstrapSettings, OutOfFoldPredictions, by_entry
from training.plugins import PredictionReaders
from training.registry.challenger_test import (
    OOF,
    Candidate,
    CandidateLog,
    ChallengerTest,
    compare_by_errors,
    promote_candidate,
)
from training.registry.runs import TrackedRun, scores_by_name, trials_of

KEPT = [*CORUN, "measured", "predicted", "group", "fold"]
_UNIT = "impact (co-run / solo time)"
#: Scores of the online model that are logged by seconds of samples.
_BY_SECONDS = ("within_tolerance", "mape", "r2")


def static_means(params: Params[Corun], metrics: dict[str, Any], paths: FamilyPaths) -> ChallengerTest:
    """Return the functions to test the best model that predicts from solo runs: ``read, compare, track``.

    ``compare`` compares relative errors on the same unseen co-runs; ``track`` logs the best model and the
    other regressions in MLflow. `metrics` is the content of metrics.json. InputError without a regression's
    card, FileNotFoundError without oof.parquet; both are read immediately.
    """
    design, oof = main_design(tuple(metrics["splits"])), read_written_table(paths.evaluated / OOF)
    entries = metrics["splits"][design]["entries"]
    rows = {name: _with_groups(oof[(oof["model"] == name) & (oof["design"] == design)]) for name in entries}
    drawn = partial(predicted_measured, tolerance=params.section.evaluate.tolerance, unit=_UNIT)
    runs = [
        TrackedRun(
            f"static {name}",
            scores_by_name(metrics["splits"], name, design),
            {**ImpactCard.read(paths.models / name).params, "seed": params.seed},
            {"model": name},
            nested=(*_fold_runs(f"static {name}", rows[name], params), *trials_of(paths.tuned, name)),
            figures=partial(drawn, rows=rows[name], title=f"static {name}, folds of {design}"),
        )
        for name in rank_models(entries)
    ]
    best, read = metrics["champion"], TrainedImpact.read
    return _challenger_test(params, metrics, paths, runs, rows[best], directory=best, read=read)


def online_means(params: Params[Corun], metrics: dict[str, Any], paths: FamilyPaths) -> ChallengerTest:
    """Return the functions to test the best model that predicts from first samples.

    As `static_means`; ``metrics["online"]`` must not be None. FileNotFoundError without online.parquet.
    """
    online, oof = metrics["online"], read_written_table(paths.evaluated / "online.parquet")
    entries = pd.DataFrame(online["entries"])
    groups = _trained_rows(oof, online).groupby("model")
    rows = {str(name): _with_groups(model_rows) for name, model_rows in groups}
    drawn = partial(predicted_measured, tolerance=params.section.evaluate.tolerance, unit=_UNIT)
    trained = _trained_rows(entries, online).sort_values(["mape", "model"]).set_index("model")
    runs = [
        TrackedRun(
            f"online {name}",
            {score: row[score] for score in _BY_SECONDS},
            {"seconds": online["trained_at"], "seed": params.seed},
            {"model": name},
            _by_seconds(entries[entries["model"] == name]),
            nested=_fold_runs(f"online {name}", rows[name], params),
            figures=partial(drawn, rows=rows[name], title=f"online {name}, folds of {online['design']}"),
        )
        for name, row in trained.to_dict("index").items()
    ]
    best, read = rows[online["champion"]], TrainedOnline.read
    return _challenger_test(params, metrics, paths, runs, best, directory="online", read=read)


def _trained_rows(table: pd.DataFrame, online: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of the main design with as many seconds of samples as the trained model."""
    return table[(table["seconds"] == online["trained_at"]) & (table["design"] == online["design"])]


def _challenger_test(
    params: Params[Corun],
    metrics: dict[str, Any],
    paths: FamilyPaths,
    runs: list[TrackedRun],
    rows: pd.DataFrame,
    *,
    directory: str,
    read: Callable[[Path], object],
) -> ChallengerTest:
    vectors, files = paths.processed / "features.parquet", paths.models / directory
    log = CandidateLog("corun", metrics["data"], vectors, files, runs, rows[KEPT])
    how = BootstrapSettings.from_params(params.section.promote, params.seed)
    return log.make_test(read, compare_by_errors(CORUN, how, "the same unseen co-runs"))


def _by_seconds(entries: pd.DataFrame) -> dict[str, dict[int, float]]:
    return {
        f"{design}/{score}_by_milliseconds": {
            round(1000 * seconds): value
            for seconds, value in zip(design_rows["seconds"], design_rows[score], strict=True)
        }
        for design, design_rows in entries.groupby("design")
        for score in _BY_SECONDS
    }


def _with_groups(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(group=rows["task"] + "\n" + rows["corunners"])


def _fold_runs(name: str, rows: pd.DataFrame, params: Params[Corun]) -> Iterator[TrackedRun]:
    for (design, fold), fold_rows in rows.groupby(["design", "fold"], sort=True):
        error = (fold_rows["predicted"] / fold_rows["measured"] - 1).abs()
        scores = accuracy_scores(error, params.section.evaluate.tolerance)
        tags = {"kind": "fold", "split": str(design)}
        yield TrackedRun(f"{name} {design} f{fold:02}", scores, {"seed": params.seed}, tags)


STATIC, ONLINE = "co-runs from solo runs", "co-runs from first samples"
_OOF, _ONLINE = (FamilyPaths("corun").evaluated / name for name in (OOF, "online.parquet"))


def _read_predictions(root: Path, metrics: Mapping[str, Any]) -> list[OutOfFoldPredictions]:
    tolerance, oof = metrics["tolerance"], read_written_table(root / _OOF)
    design = main_design(tuple(metrics["splits"]))
    rows = _name_cases(oof[(oof["design"] == design) & oof["predicted"].notna()])
    predictions = by_entry(STATIC, rows, metrics["champion"], tolerance, "model")
    online = metrics["online"]
    if online is None:
        return predictions
    at = _name_cases(_trained_rows(read_written_table(root / _ONLINE), online))
    return predictions + by_entry(ONLINE, at, online["champion"], tolerance, "model")


def _name_cases(rows: pd.DataFrame) -> pd.DataFrame:
    pair = rows["task"] + f" {AND} " + rows["corunners"]
    times = rows.groupby([*CORUN, "model"], sort=False).cumcount() + 1
    cases = pair + ", " + rows["machine"] + (" #" + times.astype(str)).where(times > 1, "")
    return rows.assign(case=cases, group=pair)


def _read_registered(directory: Path, run: str, root: Path) -> OutOfFoldPredictions:
    what, _, entry = run.partition(" ")
    tolerance = load(Corun, root / "params.yaml").section.evaluate.tolerance
    rows = _name_cases(read_written_table(directory / OOF).assign(model=entry))
    return OutOfFoldPredictions({"static": STATIC}.get(what, ONLINE), entry, rows, tolerance)


def out_of_fold_source() -> PredictionReaders:
    """Return ``files``, the paths of oof.parquet and online.parquet, and two functions that read predictions.

    The paths are relative to the project's directory. ``read(project, metrics)`` returns the entries in these
    files (online.parquet is read only if `metrics`, the content of metrics.json, has an online model);
    ``read_stored(directory, run, project)`` returns the one in oof.parquet of a registered version with the
    files in `directory`.
    """
    return PredictionReaders((_OOF.as_posix(), _ONLINE.as_posix()), _read_predictions, _read_registered)


PATHS = FamilyPaths("corun")


def promotion_candidates(
    params: Params[Corun], metrics: dict[str, Any], paths: FamilyPaths = PATHS
) -> list[Candidate]:
    """Return the best static model, then the best online one if ``metrics["online"]`` is not None.

    The stage evaluate has named them in `metrics`, the content of metrics.json. No file is read yet.
    """
    section, online, best = params.section, metrics["online"], metrics["champion"]
    models = [(section.promote.name, best, best, static_means)]
    if online is not None:
        models.append((section.online.name, online["champion"], "online", online_means))
    return [
        Candidate(name, best, paths.models / directory, paths.metrics, partial(means, params, metrics, paths))
        for name, best, directory, means in models
    ]


def promote_stage() -> None:
    """Register the best static and the best online model, if any, and make each the champion if it is better.

    Each is compared with its current champion by `promote_candidate`; the results are printed, one line each.
    InputError if params.yaml, metrics.json or a model is missing or invalid, or the registry does not answer;
    FileNotFoundError without the out-of-fold predictions.
    """
    for candidate in promotion_candidates(load(Corun), written(PATHS.metrics, "evaluate")):
        print(promote_candidate(candidate))  # noqa: T201
