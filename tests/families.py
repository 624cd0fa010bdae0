"""Small families for tests: a table of vectors on disk, and params that keep the searches short."""

from pathlib import Path

import numpy as np
import pandas as pd

from data.comparisons.params import Comparisons
from data.params import validate_params
from data.paths import FamilyPaths
from training.comparisons import tune as tuning
from training.comparisons.family import Family

MODELS = ("knn-uniform", "logistic")


def params(models=MODELS, jobs=1, trials=3):
    sections = {
        "ingest": {"format": "tables", "path": "data/raw/small"},
        "tune": {"n_trials": trials, "n_folds": 2, "max_rows": 60, "models": list(models)},
        "evaluate": {"n_folds": 2, "n_repeats": 1, "n_grouped_folds": 2},
        "promote": {"name": "regression-comparison", "n_bootstrap": 200},
        "decide": {},
    }
    content = {"seed": 7, "n_jobs": jobs, "comparisons": sections}
    return validate_params(Comparisons, content, Path("params.yaml"))


def interrupted(monkeypatch, at):
    """Let searches be interrupted where they judge a trial the `at`-th time; return a list of the times."""
    calls, measure = [], tuning._worth

    def judged(y, probability):
        calls.append(1)
        if len(calls) == at:
            raise KeyboardInterrupt
        return measure(y, probability)

    monkeypatch.setattr(tuning, "_worth", judged)
    return calls


def feature_table(rows=80, seed=0):
    """The median's change decides; two features are noise, one is often missing."""
    generator = np.random.default_rng(seed)
    failed = np.arange(rows) % 4 == 0
    change = np.where(failed, -0.4, 0.0) + generator.normal(0, 0.05, rows)
    spread = generator.normal(0, 1, rows)
    spread[::3] = np.nan
    return pd.DataFrame(
        {
            "comparison_id": [f"c{number}" for number in range(rows)],
            "benchmark": "b",
            "operation": "o",
            "fold_group": [f"b/o{number % 10}" for number in generator.permutation(rows)],
            "status": np.where(failed, "fail", "pass"),
            "medians_min": change,
            "medians_med": change + generator.normal(0, 0.05, rows),
            "noise": generator.normal(0, 1, rows),
            "spread": spread,
        }
    )


COLUMNS = ("medians_min", "medians_med", "noise", "spread")


def small_family(root: Path, table=None, **knobs):
    """Write the table under `root`; return the family bound to it, with one rule."""
    table = feature_table() if table is None else table

    def rules():
        failed = table.set_index("comparison_id")["medians_min"] < -0.22
        return failed.to_frame("median-5")

    family = Family(params(**knobs), COLUMNS, rules, FamilyPaths("comparisons", root))
    family.features_file.parent.mkdir(parents=True, exist_ok=True)
    table.to_parquet(family.features_file, index=False)
    table[["comparison_id"]].assign(worst_change=-0.1).to_parquet(family.stage_file("changes"), index=False)
    table.assign(worst_change=0.1).to_parquet(family.stage_file("bare"), index=False)
    pd.DataFrame({"spread": [0.005]}).to_parquet(family.stage_file("runs"), index=False)
    family.paths.interim.mkdir(parents=True, exist_ok=True)
    labels = table[["comparison_id", "status"]].assign(labelled_by="somebody")
    labels.to_parquet(family.paths.interim / "labels.parquet", index=False)
    return family
