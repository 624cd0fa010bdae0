"""Figures 4 to 7 of seed 001: accuracy by cost ratio, resampling and dimension, and training time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from training.matrices.fitting import EngineFit, FoldPart
from training.matrices.schemes import FOLLOWED, GROUPED, RAW, Cell
from training.matrices.scores import Held, spread, total

COST, UNDERSAMPLING, DIMENSION = 4, 5, 6
#: What a missed abnormal vector costs, in false alarms.
COST_RATIOS = (1.0, 3.0, 10.0, 30.0, 100.0)
#: Points from all normal vectors to as many as abnormal ones.
RATES = 4
#: Principal components; the metrics as they are come last.
DIMENSIONS = (5, 10, 25, 50, 100)


def drawn(
    parts: list[FoldPart], seed: int, fit_all: Callable[[list[EngineFit], str], list[Held]]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return curves.parquet and times.parquet (figure 7); nothing is tuned but what a figure varies."""
    runs = parts[0].train.runs
    valid = runs[runs["valid"]]
    abnormal = int(valid["abnormal"].fillna(value=False).sum())
    settings = list(_settings((len(valid) - abnormal) / abnormal, len(parts[0].train.raw)))
    points = [
        (figure, x, EngineFit(replace(cell, model=model), part, 0, seed, fixed))
        for part in parts
        for model in FOLLOWED
        for figure, x, cell, fixed in settings
    ]
    return _curves(points, fit_all([fit for _, _, fit in points], "figures"))


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


def _curves(
    points: list[tuple[int, float, EngineFit]], found: list[Held]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    rows = pd.DataFrame(
        {
            "figure": figure,
            "model": fit.cell.model,
            "grouping": fit.cell.scheme.grouping,
            "x": x,
            "counts": held.vectors,
            "seconds": held.seconds,
        }
        for (figure, x, fit), held in zip(points, found, strict=True)
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
