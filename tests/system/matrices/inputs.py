"""A small engine that judges matrices, requests that ask it, and a project whose stages ran."""

import yaml

from data.matrices.tables import MatrixTables
from tests.matrix_pairs import METRICS, pairs
from training.matrices.engine.stored import EngineRecipe
from training.matrices.schemes import LARGE, Cell

#: Version 0 of a test case is abnormal, version 1 is not.
ABNORMAL, NORMAL = "g0 c0 v0", "g0 c0 v1"


def engine(directory):
    """Write an engine and its validity tree as training leaves them."""
    learned = pairs(cases=8, invalid=0.1)
    EngineRecipe(Cell("logistic", LARGE), 2, 1, validity=True, missing=0.5, digest="ab" * 32).train(
        learned
    ).write(directory)
    return directory


def asked(**how):
    """Two test cases that nobody has seen, two pairs each."""
    return pairs(**{"cases": 1, "versions": 2, "seed": 3} | how)


def matrix(runs, rows):
    """One side as a request holds it, in rows or in columns."""
    names = [f"m{number}" for number in range(METRICS)]
    return {"runs": runs[names].to_dict("records")} if rows else {"metrics": runs[names].to_dict("list")}


def request(tables=None, rows=False):
    """The pairs of `tables` as a request; units as these have them."""
    tables = asked() if tables is None else tables
    found = []
    for pair, runs in tables.runs.groupby("pair_id", sort=False):
        first = runs.iloc[0]
        sides = {
            side: matrix(own, rows) | {"version": own["version"].iloc[0]}
            for side, own in runs.groupby("side")
        }
        about = {name: first[name] for name in ("workload", "group", "machine")}
        found.append({"pair_id": pair, **about, **sides})
    return {"pairs": found, "units": {"m0": "1/s"}}


def project(root, jobs, models=("logistic",), **how):
    """Write params.yaml and flagged matrices with injected causes under `root`."""
    learned = pairs(**{"cases": 4, "versions": 3, "invalid": 0.05} | how)
    runs = learned.runs
    names = runs["run_id"].to_numpy()
    wrong, abnormal = ~runs["valid"].astype(bool), runs["abnormal"].fillna(value=False).astype(bool)
    causes = [{"run_id": name, "invalid_kind": "killed"} for name in names[wrong]]
    causes += [
        {"run_id": name, "cause": ("leak", "polling")[place % 2], "cause_size": 0.4}
        for place, name in enumerate(names[abnormal & (runs["side"] == "target")])
    ]
    MatrixTables.from_rows(runs, causes, learned.metrics).write(root / "in")
    section = {
        "ingest": {"path": "in"},
        "evaluate": {
            "n_trials": 1, "max_components": 10, "models": list(models), "n_folds": 2, "n_cause_folds": 2,
            "n_curve_folds": 2,
        },
        "promote": {"name": "regression-matrix", "n_bootstrap": 200},
    }  # fmt: skip
    content = {"seed": 1, "n_jobs": jobs, "matrices": section}
    (root / "params.yaml").write_text(yaml.safe_dump(content))
    return root
