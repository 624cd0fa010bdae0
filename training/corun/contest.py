"""Models of impact that want to be champion, what is logged of all of them, and how two are compared."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from data.corun.params import Corun
from data.params import Params
from data.places import Places
from training.corun.estimators.scores import accuracy, ranked
from training.corun.splits import main_design
from training.corun.stored import ImpactCard, TrainedImpact, TrainedOnline
from training.evaluation.figures import predicted_measured
from training.registry.contest import Means
from training.registry.kept_verdicts import OOF, Kept
from training.registry.runs import TrackedRun, headline, scores_by_name, trials_of
from training.registry.unseen import Compare, by_errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEYS = ["task", "corunners", "machine"]
KEPT = [*KEYS, "measured", "predicted", "group", "fold"]
#: What the online model is worth after so many seconds.
_BY_SECONDS = ("within_tolerance", "mape", "r2")


def static(knobs: Params[Corun], metrics: dict[str, Any], places: Places) -> Means:
    """Return how the best static model is read, compared and logged."""
    design, oof = main_design(tuple(metrics["splits"])), pd.read_parquet(places.evaluated / OOF)
    entries = metrics["splits"][design]["entries"]
    rows = {name: _grouped(oof[(oof["model"] == name) & (oof["design"] == design)]) for name in entries}
    runs = [
        TrackedRun(
            f"static {name}",
            {**headline(entries[name]), **scores_by_name(metrics["splits"], name)},
            {**ImpactCard.read(places.models / name).params, "seed": knobs.seed},
            {"model": name},
            nested=(*_folds(f"static {name}", rows[name], knobs), *trials_of(places.tuned, name)),
            figures=partial(_figures, rows[name], knobs, f"static {name}, folds of {design}"),
        )
        for name in ranked(entries)
    ]
    best = metrics["champion"]
    return _kept(metrics["data"], places, best, runs, rows[best]).means(TrainedImpact.read, _errors(knobs))


def online(knobs: Params[Corun], metrics: dict[str, Any], places: Places) -> Means:
    """Return how the best online model is read, compared and logged."""
    told, oof = metrics["online"], pd.read_parquet(places.evaluated / "online.parquet")
    at = oof[(oof["seconds"] == told["trained_at"]) & (oof["design"] == told["design"])]
    entries = pd.DataFrame(told["entries"])
    then = entries[(entries["seconds"] == told["trained_at"]) & (entries["design"] == told["design"])]
    rows = {str(name): _grouped(own) for name, own in at.groupby("model")}
    runs = [
        TrackedRun(
            f"online {row['model']}",
            {score: row[score] for score in _BY_SECONDS},
            {"seconds": told["trained_at"], "seed": knobs.seed},
            {"model": row["model"]},
            _by_seconds(entries[entries["model"] == row["model"]]),
            nested=_folds(f"online {row['model']}", rows[row["model"]], knobs),
            figures=partial(
                _figures, rows[row["model"]], knobs, f"online {row['model']}, folds of {told['design']}"
            ),
        )
        for row in then.sort_values(["mape", "model"]).to_dict("records")
    ]
    best = told["champion"]
    kept = _kept(metrics["data"], places, "online", runs, rows[best])
    return kept.means(TrainedOnline.read, _errors(knobs))


def _kept(
    data: dict[str, Any], places: Places, directory: str, runs: list[TrackedRun], rows: pd.DataFrame
) -> Kept:
    vectors = places.processed / "features.parquet"
    return Kept("corun", data, vectors, places.models / directory, runs, rows[KEPT])


def _by_seconds(entries: pd.DataFrame) -> dict[str, dict[int, float]]:
    """Return scores by the milliseconds of samples that were looked at."""
    return {
        f"{design}/{score}_by_milliseconds": {
            round(1000 * seconds): value for seconds, value in zip(own["seconds"], own[score], strict=True)
        }
        for design, own in entries.groupby("design")
        for score in _BY_SECONDS
    }


def _errors(knobs: Params[Corun]) -> Compare:
    return by_errors(KEYS, knobs.section.promote, knobs.seed, "the same unseen co-runs")


def _grouped(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(group=rows["task"] + "\n" + rows["corunners"])


def _folds(name: str, rows: pd.DataFrame, knobs: Params[Corun]) -> Iterator[TrackedRun]:
    for (design, fold), own in rows.groupby(["design", "fold"], sort=True):
        error = (own["predicted"] / own["measured"] - 1).abs()
        scores = accuracy(error, knobs.section.evaluate.tolerance)
        tags = {"kind": "fold", "split": str(design)}
        yield TrackedRun(f"{name} {design} f{fold:02}", scores, {"seed": knobs.seed}, tags)


def _figures(rows: pd.DataFrame, knobs: Params[Corun], title: str) -> dict[str, Figure]:
    drawn = predicted_measured(rows, knobs.section.evaluate.tolerance, title, "impact (co-run / solo time)")
    return {"predicted-measured.png": drawn}
