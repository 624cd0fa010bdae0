"""Accuracy on public co-runs: ``uv run python -m benchmarks.impact ../shared/data`` (about 15 minutes).

Nothing is tuned: every model has the parameters that its search would try first, ours without the rates where
there are hundreds of events. Families and devices are never split; see `training.corun.splits`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray

from benchmarks.table import Table, machine_line
from data.corun.formats import pitot, spec_corun
from data.corun.tables import CorunTables
from data.corun.validity import decide_validity, select_engines
from features.corun.featurize import placed_from_instances, training_instances
from features.corun.rates import Solo, corun_vectors
from training.corun.estimators.fitting import ImpactRecipe, ImpactTable
from training.corun.estimators.models import CATALOGUE
from training.corun.splits import DESIGNS, possible_splits

AHEAD_OF_TIME = ("iwasm-a", "wasmer-a-ll", "wasmtime-a", "wasmer-a-cl")
#: A forest takes too long on the hundreds of events of pitot.
SPEC_MODELS, PITOT_MODELS = ("random-forest", "xgboost", "contention"), ("xgboost", "contention")
FOLDS, TOLERANCE = 5, 0.03
Names = tuple[str, ...]
Rows = NDArray[np.intp]
Errors = NDArray[np.float64]
COLUMNS = dict.fromkeys(("data", "held out", "seed", "model", "n"), "") | {
    "mean error": ".2%", "over folds": ".2%", "median": ".2%", "90th": ".2%", "within 3 %": ".1%",
}  # fmt: skip


def table_of(tables: CorunTables) -> ImpactTable:
    """Return instances and vectors of the valid co-runs."""
    valid = decide_validity(tables, 0.2).select_kept(tables)
    solo = Solo.from_tables(valid)
    coruns = training_instances(valid, solo)
    vectors = corun_vectors(solo, placed_from_instances(coruns))
    return ImpactTable(pd.concat([coruns, vectors], axis="columns"), "")


def recipe_of(table: ImpactTable, model: str, seed: int) -> ImpactRecipe:
    """Return the recipe that fits `model` with its first parameters, without tuning."""
    params = CATALOGUE[model].first_params(len(table.rate_features))
    params |= {"preparation": "n-d"} if CATALOGUE[model].is_prepared else {}
    return ImpactRecipe(model, params, table.model_features(model), TOLERANCE, seed, table.rate_features)


def errors_of(table: ImpactTable, recipe: ImpactRecipe, train: Rows, test: Rows) -> Errors:
    """Return |predicted / measured - 1| of the test rows."""
    predicted = recipe.fit(table.frame.iloc[train]).predict(table.frame.iloc[test])
    return np.asarray(np.abs(predicted / table.frame["impact"].to_numpy(np.float64)[test] - 1))


def rows_of(data: str, table: ImpactTable, designs: Names, models: Names, seed: int) -> Iterator[Any]:
    """Yield a row of the table per design and model, fitted without tuning."""
    for design, divided in possible_splits(table.frame, designs, FOLDS, seed).items():
        for model in models:
            recipe = recipe_of(table, model, seed)
            errors = [errors_of(table, recipe, train, test) for train, test in divided]
            every, means = np.concatenate(errors), [error.mean() for error in errors]
            middle, percentile_90 = np.quantile(every, (0.5, 0.9))
            summary = every.mean(), np.std(means), middle, percentile_90, (every < TOLERANCE).mean()
            sys.stderr.write(f"{data}, {design}, {model}: {every.mean():.2%}\n")
            yield data, DESIGNS[design].scheme, seed, model, len(every), *summary


def main(public: Path) -> None:
    spec = table_of(spec_corun.read_tables(public / "spec-corun"))
    engines = table_of(select_engines(pitot.read_tables(public / "pitot"), AHEAD_OF_TIME))
    rows: list[tuple[object, ...]] = []
    for seed in (20261121, 0, 1):
        rows += rows_of("spec-corun", spec, ("pairs", "pairs-on-machine"), SPEC_MODELS, seed)
    rows += rows_of("pitot", engines, ("pairs", "tasks", "machines"), PITOT_MODELS, 20261121)
    impacts = spec.frame.pivot_table(index=["task", "corunners"], columns="machine", values="impact").dropna()
    first, second = impacts.to_numpy(np.float64).T
    difference = float(np.abs(first / second - 1).mean())
    notes = [
        "Errors are |predicted / measured - 1|; five folds, nothing tuned.",
        "pitot: four ahead-of-time engines; repeats of a pair on a machine count once, by their median.",
        f"spec-corun: two campaigns on one machine; one pair differs by {difference:.2%} in them.",
        machine_line(),
    ]
    Table("Impact of unseen co-runs", COLUMNS, rows, notes).publish("corun-accuracy")


if __name__ == "__main__":
    typer.run(main)
