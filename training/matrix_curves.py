"""Figures 4 to 7 of seed 001: balanced accuracy by cost ratio, resampling and dimension, and training time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.matrix_tables import MatrixTables
from features.matrices import Known, Rows, flattened, known
from features.projection import Projection
from training.balance import resampled
from training.matrix_fitting import Part
from training.matrix_models import CATALOGUE, log_odds
from training.matrix_schemes import FOLLOWED
from training.matrix_scores import Counts, spread, total
from training.models import ClassWeights

Floats = NDArray[np.float64]

COST, UNDERSAMPLING, DIMENSION, TIME = 4, 5, 6, 7
#: What a missed abnormal vector costs, in false alarms.
COST_RATIOS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
#: Points from all normal vectors to as many as abnormal ones.
RATES = 5
#: Principal components; all metrics as they are come last.
DIMENSIONS = (5, 10, 25, 50, 100, 150)


@dataclass(frozen=True)
class Asked:
    """A curve's points on one fold.

    Attributes
    ----------
    figure : int
    model : str
        A name in the catalogue, with its starting parameters: nothing is tuned but what the figure varies.
    grouping : "none" or "given"
    points : tuple of float
    part : Part
    seed : int
    """

    figure: int
    model: str
    grouping: str
    points: tuple[float, ...]
    part: Part
    seed: int


@dataclass(frozen=True)
class Point:
    """What one setting was worth on one fold; ``seconds`` are those of fitting the classifiers."""

    figure: int
    model: str
    grouping: str
    x: float
    fold: int
    counts: Counts
    seconds: float


def asked(parts: list[Part], seed: int) -> list[Asked]:
    """Return all curves of figures 4 to 6 on all folds."""
    first, _ = _vectors(parts[0].train)
    abnormal = int((first.y == 1).sum())
    ratio = (len(first.y) - abnormal) / abnormal
    rates = tuple(float(one) for one in np.geomspace(ratio, 1.0, RATES))
    columns = len(first.columns)
    dimensions = (*(float(one) for one in DIMENSIONS if one < columns), float(columns))
    curves = [
        (COST, "none", COST_RATIOS),
        *((UNDERSAMPLING, grouping, rates) for grouping in ("none", "given")),
        (DIMENSION, "none", dimensions),
    ]
    return [
        Asked(figure, model, grouping, points, part, seed)
        for part in parts
        for model in FOLLOWED
        for figure, grouping, points in curves
    ]


def drawn(task: Asked) -> list[Point]:
    """Fit every point of `task` to the training vectors, and judge the test vectors."""
    train, scales = _vectors(task.part.train)
    rows = flattened(task.part.test, scales)
    truth = task.part.truth.loc[rows.about["run_id"]].to_numpy(bool)
    whole = Projection.of(train.x, max(DIMENSIONS) if task.figure == DIMENSION else None)
    found = []
    for x in task.points:
        fit, projection = _setting(task, x, whole, len(train.columns))
        inside = replace(train, x=projection.projected(train.x))
        begun = time.perf_counter()
        models = dict(_models(inside, task.grouping, fit))
        seconds = time.perf_counter() - begun
        judged = _judged(models, projection.projected(rows.x), rows.about["group"].to_numpy(np.str_))
        counts = Counts.of(truth, judged)
        found.append(Point(task.figure, task.model, task.grouping, x, task.part.fold, counts, seconds))
    return found


def curves(points: list[Point]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return curves.parquet, and times.parquet."""
    rows = pd.DataFrame(
        {
            **{name: getattr(point, name) for name in ("figure", "model", "grouping", "x", "fold", "seconds")},
            "counts": point.counts,
        }
        for point in points
    )
    keys = ["figure", "model", "grouping", "x"]
    found, times = [], []
    for key, own in rows.groupby(keys, sort=True):
        counts = list(own["counts"])
        about = dict(zip(keys, key, strict=True))
        accuracy = total(counts).balanced_accuracy
        found.append(
            {**about, "folds": len(own), "balanced_accuracy": accuracy, "spread": spread(counts)}
        )
        if about["figure"] == DIMENSION:
            times.append({"model": about["model"], "dimensions": about["x"], "seconds": own["seconds"].mean()})
    return pd.DataFrame(found), pd.DataFrame(times)


Fit = Callable[[Floats, NDArray[np.int64]], Any]


def _vectors(tables: MatrixTables) -> tuple[Rows, Known]:
    """Return the valid labelled vectors with their raw metrics, as table 6 sees them, and what fills gaps."""
    valid = tables.of_runs(tables.runs["valid"].to_numpy(bool))
    scales = known(valid, valid.raw)
    rows = flattened(valid, scales)
    return rows.of(~np.isnan(rows.y)), scales


def _setting(task: Asked, x: float, whole: Projection, columns: int) -> tuple[Fit, Projection]:
    """Return how to fit the point `x`, and the projection before."""
    model = CATALOGUE[task.model]
    weights = ClassWeights(1.0, x) if task.figure == COST else None

    def fit(rows: Floats, y: NDArray[np.int64]) -> Any:
        chosen = resampled(y, "under", 1 / x, task.seed) if task.figure == UNDERSAMPLING else slice(None)
        return model.build(model.start, task.seed, weights).fit(rows[chosen], y[chosen])

    if whole.axes is None:
        return fit, whole
    return fit, replace(whole, axes=None if x == columns else whole.axes[: int(x)])


def _models(rows: Rows, grouping: str, fit: Fit) -> Iterator[tuple[str, Any]]:
    """Yield the model of all rows under "", and that of each group with both classes."""
    y = rows.y.astype(np.int64)
    yield "", fit(rows.x, y)
    groups = rows.about["group"].to_numpy(np.str_)
    for group in np.unique(groups) if grouping == "given" else ():
        own = groups == group
        if len(np.unique(y[own])) == 2:  # noqa: PLR2004 - normal and abnormal
            yield str(group), fit(rows.x[own], y[own])


def _judged(models: dict[str, Any], x: Floats, groups: NDArray[np.str_]) -> NDArray[np.bool_]:
    judged = np.zeros(len(x), bool)
    used = np.where(np.isin(groups, list(models)), groups, "")
    for group in np.unique(used):
        judged[used == group] = log_odds(models[str(group)], x[used == group]) > 0
    return judged
