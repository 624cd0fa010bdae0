"""Run the stages of the pipeline on little data and with short searches, in a directory of their own."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import yaml

from tests.imports import ROOMS

CHECKOUT = Path(__file__).parents[1]
#: The stages of each family, in the order in which they depend on each other.
STAGES = {
    family: ("data.ingest", "data.validate", *own.split(), "training.promote", "serving.report")
    for family, own in {
        "comparisons": "features.featurize training.tune training.train training.evaluate",
        "corun": "features.featurize training.tune training.evaluate training.train",
        "matrices": "training.evaluate training.train",
        "fingerprints": "features.featurize training.profile training.evaluate",
    }.items()
}
#: Parameters with short searches and few folds, by family and section.
SHORT = {
    "comparisons": {
        "tune": {"n_trials": 2, "n_folds": 2, "max_rows": 1000, "models": ["logistic"]},
        "evaluate": {"n_folds": 2, "n_repeats": 1, "n_grouped_folds": 2},
        "promote": {"n_bootstrap": 200},
    },
    "corun": {
        "tune": {
            "n_trials": 1, "n_folds": 2, "max_rows": 300,
            "models": ["linear", "contention", "random-forest", "bayes-ranges"],
        },
        "evaluate": {"n_folds": 2, "designs": ["random", "tasks"]},
        "online": {"seconds": [0.4, 2.0]},
        "promote": {"n_bootstrap": 200},
    },
    "matrices": {
        "evaluate": {
            "n_trials": 1, "max_components": 20, "models": ["logistic"], "n_folds": 2, "n_cause_folds": 2,
            "n_curve_folds": 2,
        },
        "promote": {"n_bootstrap": 200},
    },
    "fingerprints": {"profile": {"max_applications": 2, "n_bootstrap": 20, "n_thesis_bootstrap": 2}},
}  # fmt: skip
#: Of these, a run of all families trains several models of comparisons.
MODELS = ["logistic", "random-forest", "xgboost", "knn-distance"]
#: The tasks and the groups of workloads to which the raw data are cut.
TASKS = (
    "bsearch", "cache", "cpu-fft", "file-io", "json", "memcpy", "mergesort", "sqlite", "stream", "vm-walk",
)  # fmt: skip
GROUPS = ("cache", "cache at a rate")
#: Who runs the stages, as the registry keeps it.
_USER = {"USER": "somebody", "LOGNAME": "somebody"}
#: Runs stages in one process, as importing their libraries takes long; prints the seconds of each.
_RUNNER = """
import json, runpy, sys, time
import data.stage

# NumPy is imported once for all stages
data.stage.pin_arithmetic()
data.stage.pin_arithmetic = lambda: None
seconds = {}
for family, stages in json.loads(sys.argv.pop()).items():
    for stage in stages:
        begun = time.process_time()
        sys.argv[1:] = [family]
        try:
            runpy.run_module(stage, run_name="__main__")
        except SystemExit as end:
            if end.code:
                raise
        seconds[f"{family} {stage}"] = round(time.process_time() - begun, 1)
print()
print(json.dumps(seconds))
"""


def prepare(root, **tuned):
    """Write params.yaml with the short parameters into a directory; `tuned` replaces those of comparisons."""
    params = yaml.safe_load((CHECKOUT / "params.yaml").read_text()) | {"n_jobs": 1}
    for family, sections in SHORT.items():
        for section, short in sections.items():
            params[family][section] |= short
    params["comparisons"]["tune"] |= tuned
    (root / "params.yaml").write_text(yaml.safe_dump(params))
    (root / "data/raw").mkdir(parents=True, exist_ok=True)


def run_stages(root, stages, code=CHECKOUT, environment=None):
    """Run stages of families in a directory with params.yaml; return the processor seconds of each.

    environment : the variables of the process, by default those of this one
    """
    own = {"PYTHONPATH": str(code), "MLFLOW_TRACKING_URI": registry(root), **_USER}
    command = [sys.executable, "-c", _RUNNER, json.dumps(stages)]
    done = subprocess.run(
        command, check=False, cwd=root, env=(environment or os.environ) | own, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def registry(root):
    return f"sqlite:///{root / 'mlflow.db'}"


def link_raw_data(root, *families):
    """Let the shipped measurements of these names be the raw data."""
    for family in families:
        (root / "data/raw" / family).symlink_to(CHECKOUT / "data/raw" / family)


def cut_raw_data(root):
    """Write part of the shipped matrices and co-runs as raw data; the others are the shipped ones."""
    link_raw_data(root, "measured", "fingerprints", "placements")
    with _shipped(root, "corun") as corun:
        for name, column in (("tasks", "task"), ("pairs", "corunner_1"), ("samples", "corunners")):
            table = corun[name]
            corun[name] = table[table["task"].isin(TASKS) & table[column].isin(["", *TASKS])]
    with _shipped(root, "matrices") as matrices:
        runs = matrices["matrices"]
        workloads = runs[runs["group"].isin(GROUPS)].groupby("group")["workload"].unique()
        runs = runs[runs["workload"].isin([name for names in workloads for name in sorted(names)[:6]])]
        matrices["matrices"] = runs
        matrices["causes"] = matrices["causes"][matrices["causes"]["run_id"].isin(runs["run_id"])]


@contextmanager
def _shipped(root, family):
    """Give the shipped tables of a family, and write them as the block leaves them."""
    shipped, own = CHECKOUT / "data/raw" / family, root / "data/raw" / family
    tables = {path.stem: pd.read_parquet(path) for path in shipped.glob("*.parquet")}
    yield tables
    own.mkdir()
    for name, table in tables.items():
        table.reset_index(drop=True).to_parquet(own / f"{name}.parquet", index=False)
    shutil.copy(shipped / "settings.json", own)


def copy_code(root):
    """Copy the present code into a directory, not the checkout, in place of an older copy; data stay."""
    assert root.resolve() != CHECKOUT, f"{root} is the checkout itself; expected an empty directory"
    data = ("raw", "interim", "valid", "processed")
    for room in ROOMS:
        for old in (root / room).glob("*"):
            if old.is_dir() and old.name not in data:
                shutil.rmtree(old)
            elif old.is_file():
                old.unlink()
        left_out = shutil.ignore_patterns("__pycache__", *data)
        shutil.copytree(CHECKOUT / room, root / room, ignore=left_out, dirs_exist_ok=True)


def run_all(root):
    """Run all stages of all families in a copy of the project, reports included.

    Return the processor seconds of each stage. The copy has no other reports, labels or models than its own.
    """
    copy_code(root)
    prepare(root, n_trials=1, max_rows=500, models=MODELS)
    cut_raw_data(root)
    for name, target in (("dvc.yaml", "dvc.yaml"), ("docs", "docs"), ("shipped", "data/raw")):
        (root / name).symlink_to(CHECKOUT / target)
    # an empty repository of DVC
    (root / ".dvc").mkdir()
    (root / ".dvc/config").touch()
    author = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.com"]
    for command in ("init -q -b main", "add params.yaml .dvc", "commit -q -m Begin"):
        subprocess.run(["git", *author, *command.split()], check=True, cwd=root)
    return run_stages(root, STAGES, code=root)
