"""Predictions on CPU models that were held out: our ensemble beside the plain forest."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from benchmarks.fingerprints import JOBS, REFERENCE, present, table
from benchmarks.table import SEED, Table, busy, load
from data.fingerprints.params import Profiling
from data.parallel import Compute, side_by_side
from training.fingerprints.prediction import Forecast, by_application, forecast

WANTED = 0.8
COLUMNS = {
    "application": "", "ours": ".2%", "plain forest": ".2%", "plain forest, README of the data": ".1%",
    "ratio": ".3f", "coverage": ".1%",
}  # fmt: skip


def main(asked: Sequence[str]) -> None:
    """Measure, print and write the pages."""
    (name,) = present(asked, "sparecores")
    before, found = load(), table(name)
    tasks = [
        Forecast(found.measured(name).by_machine(), (entry,), Profiling().confidence, "xgboost", SEED)
        for name in REFERENCE
        for entry in ("ensemble", "forest")
    ]
    predictions = pd.concat(side_by_side(forecast, tasks, Compute(JOBS), "predictions"), ignore_index=True)
    measures = by_application(predictions, 0.1).set_index(["application", "entry"])
    errors = measures["median_error"].unstack()
    coverage = measures["coverage"].unstack()["ensemble"]
    ours, forest = errors["ensemble"], errors["forest"]
    ratios = ours / forest
    good = int((ratios <= WANTED).sum())
    Table(
        "Median error on CPU models held out, sparecores",
        "python -m benchmarks.profiles prediction",
        COLUMNS,
        [
            (name, ours[name], forest[name], reference, ratios[name], coverage[name])
            for name, reference in REFERENCE.items()
        ],
        [
            f"The ratio is at most {WANTED} for {good} of {len(REFERENCE)} applications; wanted: 6.",
            "5 folds of whole CPU models, the same for both.",
            "The forest: 60 trees on the logarithms of all columns.",
            "Coverage: true values inside our interval of 90 %, whose margin comes from the other folds.",
            busy(before),
        ],
    ).publish("fingerprints-prediction")
