"""Kill ``dvc repro`` at random moments, and check that the next run ends with the same figures."""

from __future__ import annotations

import compileall
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import yaml

from benchmarks.table import (
    SEED,
    Table,
    machine_line,
    read_figures,
    repro_command,
    require_program,
    time_call,
)
from data.families import FAMILIES

ROOT = Path(__file__).resolve().parents[1]
#: By family and verb, the changes to the shipped params.yaml.
PARAM_CHANGES: dict[str, dict[str, Any]] = {
    "comparisons": {
        "tune": {"n_trials": 2, "n_folds": 2, "models": ["logistic"]},
        "evaluate": {"n_folds": 2, "n_repeats": 1, "n_grouped_folds": 2},
        "promote": {"n_bootstrap": 200},
    },
    "matrices": {"evaluate": {"n_trials": 1, "models": ["logistic"], "n_folds": 2, "n_curve_folds": 2}},
    "corun": {
        "tune": {"n_trials": 1, "n_folds": 2, "models": ["linear"]},
        "evaluate": {"designs": ["random", "tasks"], "n_folds": 2},
        "online": {"seconds": [2.0]},
    },
    "fingerprints": {
        "profile": {"boosting": "xgboost", "n_bootstrap": 20, "n_thesis_bootstrap": 2},
        "evaluate": {"entries": ["forest", "median"]},
    },
}
#: Numbers of operations and test cases that are kept.
OPERATIONS, CASES = 16, 4


def copy_project(root: Path) -> Path:
    """Copy the project to `root` as a git repository without any stage output; return `root`."""
    # compiled files are copied, but not those that other processes are about to rename
    left_out = shutil.ignore_patterns("*.pyc.*", "raw", "interim", "valid", "processed", ".gitignore")
    for room in ("data", "features", "training", "serving"):
        shutil.copytree(ROOT / room, root / room, ignore=left_out)
        # compiled once: further copies keep the files' times, so that the compiled code stays valid
        compileall.compile_dir(root / room, quiet=1)
    shutil.copytree(ROOT / "data/raw", root / "data/raw", ignore=shutil.ignore_patterns("journal.jsonl"))
    files = ("dvc.yaml", "reports/dvc.yaml", "docs/results/transfer.csv")
    for name in (*files, ".dvc/config", ".dvcignore", ".gitignore"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    for family, verbs in PARAM_CHANGES.items():
        for verb, changes in verbs.items():
            params[family][verb] |= changes
    (root / "params.yaml").write_text(yaml.safe_dump(params))
    _reduce_data(root / "data/raw")
    subprocess.run(["git", "init", "--quiet"], check=True, cwd=root)
    return root


def _reduce_data(raw: Path) -> None:
    """Reduce the raw data to the first operations and test cases."""
    measured, matrices = raw / "measured", raw / "matrices"
    operations = pd.read_parquet(measured / "comparisons.parquet")["operation"].unique()[:OPERATIONS]
    keep_rows(measured, ("results", "comparisons"), lambda table: table["operation"].isin(operations))
    named = pd.read_parquet(measured / "comparisons.parquet")["comparison_id"]
    keep_rows(measured, ("labels", "reference"), lambda table: table["comparison_id"].isin(named))
    runs = pd.read_parquet(matrices / "matrices.parquet", columns=["run_id", "workload", "abnormal"])
    cases = runs.loc[runs["abnormal"].astype("boolean").fillna(value=False), "workload"].unique()[:CASES]
    keep_rows(matrices, ("matrices",), lambda table: table["workload"].isin(cases))
    ids = runs.loc[runs["workload"].isin(cases), "run_id"]
    keep_rows(matrices, ("causes",), lambda table: table["run_id"].isin(ids))


def keep_rows(directory: Path, tables: Iterable[str], rows: Callable[[pd.DataFrame], pd.Series]) -> None:
    """Rewrite the tables in `directory` with the rows where `rows` is true."""
    for name in tables:
        table = pd.read_parquet(directory / f"{name}.parquet")
        table[rows(table)].to_parquet(directory / f"{name}.parquet", index=False)


def repro_in_copy(root: Path, stages: Iterable[str]) -> tuple[list[str], dict[str, Any]]:
    """Return the ``dvc repro`` command of the copy for `stages`, by default all, and options to run it."""
    own = {"PYTHONPATH": str(root), "DVC_SITE_CACHE_DIR": str(root / ".dvc/site"), "MLFLOW_TRACKING_URI": ""}
    command, environment = repro_command(stages, **own)
    return command, {"cwd": root, "env": environment}


#: Killed processes: DVC alone, its whole process group, or the stage that it runs.
KINDS = ("dvc", "group", "stage")
_KIND_TITLES = {
    "dvc": "DVC's process alone",
    "group": "DVC's process group: stage and workers, too",
    "stage": "the stage's process alone",
    "": "all",
}
#: Seconds that the remaining processes have to end.
_PATIENCE = 10.0


@dataclass(frozen=True)
class KilledRun:
    """A killed run, and the outcome of the run after it."""

    kind: str
    after: float
    stage: str
    status: int
    same: bool
    left: int
    unfinished: int
    output: str = ""

    @property
    def ended_well(self) -> bool:
        """Whether the next run succeeded with the same figures and left nothing behind."""
        return self.status == 0 and self.same and self.left == 0 and self.unfinished == 0


def run_undisturbed(root: Path, stages: Sequence[str]) -> tuple[float, dict[str, bytes]]:
    """Run `stages` of the copy in `root` without interruption; return the seconds and the figures."""
    seconds, (status, output) = time_call(lambda: _rerun(root, stages))
    if status:
        raise RuntimeError(output)
    return seconds, read_figures(root)


def kill_and_rerun(
    root: Path, stages: Sequence[str], kind: str, after: float, wanted: dict[str, bytes], *, during: str = ""
) -> KilledRun:
    """Kill a run of the copy in `root` `after` seconds after the stage `during` starts, and run it again.

    Without `during`, the seconds count from the start of the run.
    """
    command, options = repro_in_copy(root, stages)
    log = root / "killed.log"
    with log.open("wb") as log_file:
        run = subprocess.Popen(command, stdout=log_file, stderr=log_file, start_new_session=True, **options)
        while during and run.poll() is None and f"stage '{during}'" not in log.read_text(errors="replace"):
            time.sleep(0.02)
        time.sleep(after)
        before = []
        with suppress(psutil.NoSuchProcess):
            before = psutil.Process(run.pid).children(recursive=True)
        begun = psutil.Process(run.pid).children() if kind == "stage" else []
        if kind == "group":
            os.killpg(run.pid, signal.SIGKILL)
        else:
            os.kill(begun[0].pid if begun else run.pid, signal.SIGKILL)
        run.wait()
    status, output = _rerun(root, stages)
    stage = ["before the first", *re.findall(r"Running stage '(.*)'", log.read_text(errors="replace"))][-1]
    left, same = len(psutil.wait_procs(before, _PATIENCE)[1]), read_figures(root) == wanted
    return KilledRun(kind, after, stage, status, same, left, count_unfinished(root), output if status else "")


def _rerun(root: Path, stages: Sequence[str]) -> tuple[int, str]:
    command, options = repro_in_copy(root, stages)
    done = subprocess.run(command, check=False, capture_output=True, text=True, **options)
    return done.returncode, (done.stdout + done.stderr)[-2000:]


def count_unfinished(root: Path) -> int:
    """Count half-written files and inconsistent MLflow records that a stage or a promotion left."""
    parts = len([*root.glob("reports/**/.*.part"), *root.glob("models/**/.*.part")])
    store = root / "mlflow.db"
    if not store.is_file():
        return parts
    queries = (
        "SELECT count(*) FROM runs WHERE status = 'RUNNING'",
        """SELECT count(*) FROM registered_models WHERE name NOT IN
           (SELECT name FROM registered_model_aliases WHERE alias = 'champion')""",
        "SELECT integrity_check != 'ok' FROM pragma_integrity_check LIMIT 1",
    )
    with closing(sqlite3.connect(store)) as file:
        return parts + sum(file.execute(query).fetchone()[0] for query in queries)


RUNS = 20
#: Latest kill as a share of an undisturbed run's time; a faster run would have ended before it.
LATEST = 0.95
_COUNTS = ("runs", "the next run ends well", "all figures the same bytes", "processes left", "left half done")


def main(runs: int = RUNS, families: Sequence[str] = FAMILIES) -> int:
    require_program("git")
    whole = sorted(families) == sorted(FAMILIES)
    stages = [] if whole else [f"{verb}@{name}" for name in families for verb in ("promote", "report")]
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        new = copy_project(directory / "new")
        run_undisturbed(shutil.copytree(new, directory / "first"), stages)
        seconds, wanted = run_undisturbed(shutil.copytree(new, directory / "second"), stages)
        outcomes = []
        for number, share in enumerate(np.random.default_rng(SEED).uniform(0, LATEST, runs)):
            root = shutil.copytree(new, directory / f"run {number}")
            outcome = kill_and_rerun(root, stages, KINDS[number % len(KINDS)], float(share * seconds), wanted)
            sys.stderr.write(f"{number + 1} of {runs}: {outcome}\n")
            outcomes.append(outcome)
            shutil.rmtree(root)
    rows = []
    for kind, title in _KIND_TITLES.items():
        of_kind = [outcome for outcome in outcomes if kind in {outcome.kind, ""}]
        counts = ((one.status == 0, one.same, one.left, one.unfinished) for one in of_kind)
        rows.append((title, len(of_kind), *map(sum, zip(*counts, strict=True))))
    moments = ", ".join(f"{one.after:.1f} s {one.stage}" for one in sorted(outcomes, key=attrgetter("after")))
    notes = f"""
    - {machine_line()}
    - A copy of the project with some of the shipped measurements ({", ".join(families)}) and short searches,
      in which nothing has run; undisturbed, it takes {seconds:.0f} s. Each run has its own.
    - Moments are drawn with the random seed {SEED}: {moments}.
    - The next run is a plain `dvc repro`, begun at once. Figures are all metrics.json and summary.json.
    - Left half done: runs that MLflow holds to be running, registered names without champion, a damaged
      store, half-written files.
    """
    columns = {"killed with SIGKILL": "", **dict.fromkeys(_COUNTS, "d")}
    Table("dvc repro, killed", columns, rows, notes).publish("kills")
    return 0 if all(outcome.ended_well for outcome in outcomes) else 1


if __name__ == "__main__":
    n_runs, *named = sys.argv[1:] or [str(RUNS)]
    sys.exit(main(int(n_runs), named or FAMILIES))
