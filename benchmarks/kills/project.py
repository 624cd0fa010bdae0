"""A copy of the project with a small suite: some of what is shipped, and short searches and folds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from data.families import FAMILIES

ROOT = Path(__file__).resolve().parents[2]
#: By family and verb, what differs from the shipped params.yaml.
KNOBS: dict[str, dict[str, Any]] = {
    "comparisons": {
        "tune": {"trials": 2, "folds": 2, "models": ["logistic"]},
        "evaluate": {"folds": 2, "repeats": 1, "grouped_folds": 2},
        "promote": {"resamples": 200},
    },
    "matrices": {"evaluate": {"trials": 1, "models": ["logistic"], "folds": 2, "curve_folds": 2}},
    "corun": {
        "tune": {"trials": 1, "folds": 2, "models": ["linear"]},
        "evaluate": {"designs": ["random", "tasks"], "folds": 2},
        "online": {"seconds": [2.0]},
    },
    "fingerprints": {
        "profile": {"boosting": "xgboost", "resamples": 20, "seed_resamples": 2},
        "evaluate": {"entries": ["forest", "median"]},
    },
}
#: How many operations and test cases are kept.
OPERATIONS, CASES = 16, 4


def made(root: Path) -> Path:
    """Make the copy in `root`, a repository of git in which nothing has run; return it."""
    left_out = shutil.ignore_patterns("__pycache__", "raw", "interim", "valid", "processed", ".gitignore")
    for room in ("data", "features", "training", "serving"):
        shutil.copytree(ROOT / room, root / room, ignore=left_out)
    shutil.copytree(ROOT / "data/raw", root / "data/raw", ignore=shutil.ignore_patterns("journal.jsonl"))
    for name in (".dvc/config", "dvc.yaml", "reports/dvc.yaml", ".dvcignore", ".gitignore"):
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    knobs = yaml.safe_load((ROOT / "params.yaml").read_text())
    for family, verbs in KNOBS.items():
        for verb, own in verbs.items():
            knobs[family][verb] |= own
    (root / "params.yaml").write_text(yaml.safe_dump(knobs))
    _lessen(root / "data/raw")
    subprocess.run(["git", "init", "--quiet"], check=True, cwd=root)
    return root


def _lessen(raw: Path) -> None:
    """Keep the first of what the tables are of."""
    measured = raw / "measured"
    operations = _first(measured / "comparisons.parquet", "operation", OPERATIONS)
    keep(measured, ("results", "comparisons"), lambda table: table["operation"].isin(operations))
    named = pd.read_parquet(measured / "comparisons.parquet")["comparison_id"]
    keep(measured, ("labels", "reference"), lambda table: table["comparison_id"].isin(named))
    runs = pd.read_parquet(raw / "matrices/matrices.parquet", columns=["workload", "abnormal"])
    cases = runs["workload"][runs["abnormal"].astype("boolean").fillna(value=False)].drop_duplicates()
    cases = cases.head(CASES)
    keep(raw / "matrices", ("matrices",), lambda table: table["workload"].isin(cases))
    ids = pd.read_parquet(raw / "matrices/matrices.parquet", columns=["run_id"])["run_id"]
    keep(raw / "matrices", ("causes",), lambda table: table["run_id"].isin(ids))


def _first(path: Path, column: str, most: int) -> pd.Series:
    return pd.read_parquet(path, columns=[column])[column].drop_duplicates().head(most)


def keep(directory: Path, tables: Iterable[str], rows: Callable[[pd.DataFrame], pd.Series]) -> None:
    """Keep of tables in `directory` those rows at which `rows` is true."""
    for name in tables:
        table = pd.read_parquet(directory / f"{name}.parquet")
        table[rows(table)].to_parquet(directory / f"{name}.parquet", index=False)


def targets(families: Iterable[str]) -> list[str]:
    """Return the stages to name for these families alone; none for all, so that every stage runs."""
    chosen = list(families)
    whole = sorted(chosen) == sorted(FAMILIES)
    return [] if whole else [f"{verb}@{family}" for family in chosen for verb in ("promote", "report")]


def repro(root: Path, stages: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Return the command that brings stages of the copy, by default all, up to date, and its environment."""
    programs = Path(sys.executable).parent
    own = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(root),
        "DVC_SITE_CACHE_DIR": str(root / ".dvc/site"),
        "MLFLOW_TRACKING_URI": "",
    }
    return [sys.executable, "-m", "dvc", "repro", *stages], {**os.environ, **own}


def metrics_of(root: Path) -> dict[str, bytes]:
    """Return the content of each family's metrics.json and summary.json."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.glob("reports/*/*.json"))}
