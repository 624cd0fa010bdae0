"""Promote stage for co-run models. Reports the current champion without importing evaluation dependencies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from data.corun.params import Corun
from data.corun.tables import AND
from data.params import Params, load
from data.paths import Places
from data.tables.documents import written
from training.corun.estimators.fitting import accuracy, ranked
from training.corun.splits import main_design
from training.corun.stored import ImpactCard, TrainedImpact, TrainedOnline
from training.evaluation.figures import predicted_measured
from training.evaluation.paired_bootstrap import OutOfFoldPredictions, by_entry
from training.registry.contest import OOF, Candidate, Compare, Kept, Means, by_errors, promoted
from training.registry.runs import TrackedRun, headline, scores_by_name, trials_of
from training.supply import UnseenSupply

KEYS = ["task", "corunners", "machine"]
KEPT = [*KEYS, "measured", "predicted", "group", "fold"]
_UNIT = "impact (co-run / solo time)"
#: Scores of the online model that are logged by seconds of samples.
_BY_SECONDS = ("within_tolerance", "mape", "r2")


def static_means(knobs: Params[Corun], metrics: dict[str, Any], places: Places) -> Means:
    """Return the functions that read, compare and log the best static model."""
    design, oof = main_design(tuple(metrics["splits"])), pd.read_parquet(places.evaluated / OOF)
    entries = metrics["splits"][design]["entries"]
    rows = {name: _grouped(oof[(oof["model"] == name) & (oof["design"] == design)]) for name in entries}
    drawn = partial(predicted_measured, tolerance=knobs.section.evaluate.tolerance, unit=_UNIT)
    runs = [
        TrackedRun(
            f"static {name}",
            {**headline(entries[name]), **scores_by_name(metrics["splits"], name)},
            {**ImpactCard.read(places.models / name).params, "seed": knobs.seed},
            {"model": name},
            nested=(*_folds(f"static {name}", rows[name], knobs), *trials_of(places.tuned, name)),
            figures=partial(drawn, rows=rows[name], title=f"static {name}, folds of {design}"),
        )
        for name in ranked(entries)
    ]
    best = metrics["champion"]
    return _kept_runs(metrics, places, best, runs, rows[best]).means(TrainedImpact.read, _errors(knobs))


def online_means(knobs: Params[Corun], metrics: dict[str, Any], places: Places) -> Means:
    """Return the functions that read, compare and log the best online model."""
    told, oof = metrics["online"], pd.read_parquet(places.evaluated / "online.parquet")
    at = oof[(oof["seconds"] == told["trained_at"]) & (oof["design"] == told["design"])]
    entries = pd.DataFrame(told["entries"])
    then = entries[(entries["seconds"] == told["trained_at"]) & (entries["design"] == told["design"])]
    rows = {str(name): _grouped(own) for name, own in at.groupby("model")}
    drawn = partial(predicted_measured, tolerance=knobs.section.evaluate.tolerance, unit=_UNIT)
    runs = [
        TrackedRun(
            f"online {row['model']}",
            {score: row[score] for score in _BY_SECONDS},
            {"seconds": told["trained_at"], "seed": knobs.seed},
            {"model": row["model"]},
            _by_seconds(entries[entries["model"] == row["model"]]),
            nested=_folds(f"online {row['model']}", rows[row["model"]], knobs),
            figures=partial(
                drawn, rows=rows[row["model"]], title=f"online {row['model']}, folds of {told['design']}"
            ),
        )
        for row in then.sort_values(["mape", "model"]).to_dict("records")
    ]
    kept = _kept_runs(metrics, places, "online", runs, rows[told["champion"]])
    return kept.means(TrainedOnline.read, _errors(knobs))


def _kept_runs(
    metrics: dict[str, Any], places: Places, directory: str, runs: list[TrackedRun], rows: pd.DataFrame
) -> Kept:
    vectors = places.processed / "features.parquet"
    return Kept("corun", metrics["data"], vectors, places.models / directory, runs, rows[KEPT])


def _errors(knobs: Params[Corun]) -> Compare:
    return by_errors(KEYS, knobs.section.promote, knobs.seed, "the same unseen co-runs")


def _by_seconds(entries: pd.DataFrame) -> dict[str, dict[int, float]]:
    """Return scores by milliseconds of samples."""
    return {
        f"{design}/{score}_by_milliseconds": {
            round(1000 * seconds): value for seconds, value in zip(own["seconds"], own[score], strict=True)
        }
        for design, own in entries.groupby("design")
        for score in _BY_SECONDS
    }


def _grouped(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(group=rows["task"] + "\n" + rows["corunners"])


def _folds(name: str, rows: pd.DataFrame, knobs: Params[Corun]) -> Iterator[TrackedRun]:
    for (design, fold), own in rows.groupby(["design", "fold"], sort=True):
        error = (own["predicted"] / own["measured"] - 1).abs()
        scores = accuracy(error, knobs.section.evaluate.tolerance)
        tags = {"kind": "fold", "split": str(design)}
        yield TrackedRun(f"{name} {design} f{fold:02}", scores, {"seed": knobs.seed}, tags)


STATIC, ONLINE = "co-runs from solo runs", "co-runs from first samples"
_OOF, _ONLINE = (Places("corun").evaluated / name for name in (OOF, "online.parquet"))


def _read(root: Path, metrics: Mapping[str, Any]) -> list[OutOfFoldPredictions]:
    tolerance, oof = metrics["tolerance"], pd.read_parquet(root / _OOF)
    design = main_design(tuple(metrics["splits"]))
    rows = _named(oof[(oof["design"] == design) & oof["predicted"].notna()])
    found = by_entry(STATIC, rows, metrics["champion"], tolerance, "model")
    told = metrics["online"]
    if told is None:
        return found
    seen = pd.read_parquet(root / _ONLINE)
    at = seen[(seen["seconds"] == told["trained_at"]) & (seen["design"] == told["design"])]
    return found + by_entry(ONLINE, _named(at), told["champion"], tolerance, "model")


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    """Name the cases of each model; repetitions get a number."""
    pair = rows["task"] + f" {AND} " + rows["corunners"]
    times = rows.groupby([*KEYS, "model"], sort=False).cumcount() + 1
    cases = pair + ", " + rows["machine"] + (" #" + times.astype(str)).where(times > 1, "")
    return rows.assign(case=cases, group=pair)


def _kept(directory: Path, run: str, root: Path) -> OutOfFoldPredictions:
    what, _, entry = run.partition(" ")
    tolerance = load(Corun, root / "params.yaml").section.evaluate.tolerance
    rows = _named(pd.read_parquet(directory / OOF).assign(model=entry))
    return OutOfFoldPredictions({"static": STATIC}.get(what, ONLINE), entry, rows, tolerance)


def unseen() -> UnseenSupply:
    """Return the functions that read out-of-fold predictions."""
    return UnseenSupply((_OOF.as_posix(), _ONLINE.as_posix()), _read, _kept)


PLACES = Places("corun")


def candidates(knobs: Params[Corun], metrics: dict[str, Any], places: Places = PLACES) -> list[Candidate]:
    """Return the best static model, and the best online one if samples were evaluated."""
    section, online, best = knobs.section, metrics["online"], metrics["champion"]
    models = [(section.promote.name, best, best, static_means)]
    if online is not None:
        models.append((section.online.name, online["champion"], "online", online_means))
    return [
        Candidate(
            name, best, places.models / directory, places.metrics, partial(means, knobs, metrics, places)
        )
        for name, best, directory, means in models
    ]


def promote_stage() -> None:
    """Register the best models, and make each champion unless it is worse than the current one."""
    for candidate in candidates(load(Corun), written(PLACES.metrics, "evaluate")):
        print(promoted(candidate))  # noqa: T201
