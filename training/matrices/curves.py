"""Figures 4 to 7 of seed 001: accuracy by cost ratio, resampling and dimension, and training time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from training.matrices.fitting import Fit, Part
from training.matrices.schemes import FOLLOWED, GROUPED, RAW, Cell
from training.matrices.scores import Held, spread, total

COST, UNDERSAMPLING, DIMENSION = 4, 5, 6
#: What a missed abnormal vector costs, in false alarms.
COST_RATIOS = (1.0, 3.0, 10.0, 30.0, 100.0)
#: Points from all normal vectors to as many as abnormal ones.
RATES = 4
#: Principal components; the metrics as they are come last.
DIMENSIONS = (5, 10, 25, 50, 100)


@dataclass(frozen=True)
class Point:
    """A point of a curve on one fold, and how to get it."""

    figure: int
    x: float
    fit: Fit


def points(parts: list[Part], seed: int) -> list[Point]:
    """Return all points of figures 4 to 6, on all folds; nothing is tuned but what a figure varies."""
    runs = parts[0].train.runs
    valid = runs[runs["valid"]]
    abnormal = int(valid["abnormal"].fillna(value=False).sum())
    settings = list(_settings((len(valid) - abnormal) / abnormal, len(parts[0].train.raw)))
    return [
        Point(figure, x, Fit(replace(cell, model=model), part, 0, seed, fixed))
        for part in parts
        for model in FOLLOWED
        for figure, x, cell, fixed in settings
    ]


def _settings(ratio: float, columns: int) -> Iterator[tuple[int, float, Cell, dict[str, float | str]]]:
    """Yield figure, x, scheme (of any model) and what is fixed; `ratio`: normal vectors per abnormal one."""
    for x in COST_RATIOS:
        yield COST, x, Cell("", RAW), {"cost_ratio": x}
    for scheme in (RAW, GROUPED):
        for x in np.geomspace(ratio, 1.0, RATES):
            yield UNDERSAMPLING, float(x), Cell("", scheme), {"sampler": "under", "rate": 1 / float(x)}
    for count in DIMENSIONS:
        if count < columns:
            yield DIMENSION, float(count), Cell("", replace(RAW, components=count)), {"components": count}
    yield DIMENSION, float(columns), Cell("", RAW), {}


def curves(asked: list[Point], found: list[Held]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return curves.parquet, and times.parquet, which is figure 7."""
    rows = pd.DataFrame(
        {
            "figure": point.figure,
            "model": point.fit.cell.model,
            "grouping": point.fit.cell.scheme.grouping,
            "x": point.x,
            "counts": held.vectors,
            "seconds": held.seconds,
        }
        for point, held in zip(asked, found, strict=True)
    )
    keys = ["figure", "model", "grouping", "x"]
    drawn, times = [], []
    for key, own in rows.groupby(keys, sort=True):
        counts, about = list(own["counts"]), dict(zip(keys, key, strict=True))
        accuracy = total(counts).balanced_accuracy
        drawn.append({**about, "folds": len(own), "balanced_accuracy": accuracy, "spread": spread(counts)})
        if about["figure"] == DIMENSION:
            seconds = own["seconds"].mean()
            times.append({"model": about["model"], "dimensions": int(about["x"]), "seconds": seconds})
    return pd.DataFrame(drawn), pd.DataFrame(times)
