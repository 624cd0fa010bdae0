"""A clone of this project with all that pages assume: a champion of each family, learned in short."""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass

import pandas as pd
import yaml

from benchmarks.kills import keep_rows
from data.measure.kernel_counts import is_running
from tests import short_pipeline
from tests.imports import ROOMS, ROOT
from tests.ports import free_port
from tests.preloaded import Preloaded
from tests.system.conftest import Repository, wait_until

#: Searches, folds and models that are few; all else is as shipped.
KNOBS = short_pipeline.SHORT | {
    "fingerprints": {
        "profile": {"max_applications": 2, "n_bootstrap": 10, "n_thesis_bootstrap": 2},
        "evaluate": {"entries": ["ensemble", "median"]},
    },
    "corun": {
        "tune": {"n_trials": 1, "n_folds": 2, "models": ["linear", "contention"]},
        "evaluate": {"designs": ["pairs"], "n_folds": 2},
        "online": {"seconds": [2.0]},
        "promote": {"n_bootstrap": 100},
    },
}
#: What the sample suite of measurements measures: a changed build, with few samples.
SUITE = {"changes": 1, "samples": [2, 2]}
#: The operations of comparisons that pages name; a third of the others is kept, too.
OPERATIONS = {"c-sort", "gzip", "py-fibonacci", "py-sorting"}
#: How the kept test cases of matrices begin, and the kept tasks of co-runs: those that pages name.
CASES = ("accounts with", "datagrams with")
TASKS = (*short_pipeline.TASKS, "tsearch")
#: What copies of the clone do without.
LEFT_OUT = {"cache", "mlruns", "tmp"}
#: Seconds that end a command which hangs; a busy machine takes many times as long as an idle one.
LIMIT = 3600
#: What a page's commands run in: ends at the first that fails, and keeps a server until there is another one.
PREAMBLE = """
set -eu -o pipefail
end_server() { if [ -s .server ]; then kill "$(cat .server)" 2>/dev/null || true; rm -f .server; fi; }
curl() { command curl --fail-with-body "$@"; }
uv() {
    case "$*" in
    "run perfjudge serve"*)
        shift 3
        set -- run perfjudge serve --port "$PORT" "$@"
        ready="http://127.0.0.1:$PORT/healthz" ;;
    "run mlflow ui"*)
        set -- "$@" --port "$PORT" --workers 1
        ready="http://127.0.0.1:$PORT/health" ;;
    # a fork of the process that has imported everything, as are the processes that it starts
    "run perfjudge "* | "run python "* | "run dvc "*)
        shift
        PRELOADED_PYTHON="${PATH%%:*}/python" "$@"
        return ;;
    *) command uv "$@"; return ;;
    esac
    end_server
    # the one before has ended when nothing listens there any more
    while command curl -s "http://127.0.0.1:$PORT" -o .said; do sleep 0.1; done
    case "$*" in
    # several workers need a program that can be started again
    *--workers*) command uv "$@" >.said 2>&1 & ;;
    *) shift; "$@" >.said 2>&1 & ;;
    esac
    echo $! >.server
    for _ in $(seq 6000); do
        if command curl -sf "$ready" >/dev/null; then return; fi
        kill -0 "$(cat .server)" || { cat .said; return 1; }
        sleep 0.1
    done
    return 1
}
"""


def fill(root, python):
    """Make the clone, let its pipeline run as printed, and commit what came of it.

    python : a program that has imported the libraries
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True, cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name)
    for room in ROOMS:
        # copies of the clone keep the times of its files, and so what is compiled here
        for compiled in (ROOT / room).rglob("__pycache__"):
            temporary = shutil.ignore_patterns("*.pyc.*")
            shutil.copytree(compiled, root / compiled.relative_to(ROOT), ignore=temporary)
    knobs = yaml.safe_load((root / "params.yaml").read_text())
    for family, sections in KNOBS.items():
        for section, own in sections.items():
            knobs[family][section] |= own
    (root / "params.yaml").write_text(yaml.safe_dump(knobs | {"n_jobs": 1}, sort_keys=False))
    suite = root / "docs/samples/suite.yaml"
    suite.write_text(yaml.safe_dump(yaml.safe_load(suite.read_text()) | SUITE, sort_keys=False))
    _cut(root / "data/raw")
    repository = Repository(root)
    repository.commit("As it was")
    with Preloaded(root, python) as programs:
        done = Project(root, programs.path).typed("uv run dvc repro")
    assert done.status == 0, done.said
    repository.commit("What was learned")


def _cut(raw):
    """Keep `OPERATIONS`, `CASES`, the co-runs of `TASKS`; of cases the abnormal pairs and one normal pair."""
    measured = pd.read_parquet(raw / "measured/comparisons.parquet", columns=["comparison_id", "operation"])
    operations = OPERATIONS.union(measured["operation"].drop_duplicates()[::3])
    keep_rows(raw / "measured", ["results", "comparisons"], lambda table: table["operation"].isin(operations))
    ids = measured["comparison_id"][measured["operation"].isin(operations)]
    keep_rows(raw / "measured", ["labels", "reference"], lambda table: table["comparison_id"].isin(ids))
    columns = ["run_id", "pair_id", "workload", "abnormal"]
    runs = pd.read_parquet(raw / "matrices/matrices.parquet", columns=columns)
    runs = runs[runs["workload"].str.startswith(CASES)]
    runs["abnormal"] = runs["abnormal"].astype("boolean").fillna(value=False)
    pairs = runs.groupby("pair_id", sort=False).agg({"workload": "first", "abnormal": "max"})
    kept = pairs.index[pairs["abnormal"] | ~pairs.duplicated()]
    ids = runs["run_id"][runs["pair_id"].isin(kept)]
    keep_rows(raw / "matrices", ["matrices", "causes"], lambda table: table["run_id"].isin(ids))
    keep_rows(raw / "corun", ["tasks"], lambda table: table["task"].isin(TASKS))
    for name, column in (("pairs", ["task", "corunner_1"]), ("samples", ["task", "corunners"])):
        keep_rows(raw / "corun", [name], lambda table, of=column: table[of].isin(["", *TASKS]).all(axis=1))


def copied(made, root):
    """Make a copy equal to the clone; what DVC and MLflow's store keep of it is read where it is."""
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(made, root, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
    (root / ".dvc/config.local").write_text(f"[cache]\n    dir = {made / '.dvc/cache'}\n")


@dataclass(frozen=True)
class Typed:
    """How a block ended, and what it printed."""

    status: int
    said: str


class Project:
    """A directory in which commands are typed, and one server at a time answers.

    `path` is the PATH of what is typed; without it, each command is a process that imports everything.
    """

    def __init__(self, root, path=os.environ["PATH"]):
        self.root, self.path = root, path
        self.port = free_port()

    def typed(self, text):
        """Run a block as it is printed, but for the port, which others may use."""
        for port in (8000, 5000):
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{self.port}")
        # `uv` keeps a server running and returns once that answers, however long a busy machine takes; how
        # long a client waits for one is a matter of its own tests
        text = re.sub(r"^(uv run perfjudge serve.*?) &$", r"\1", text, flags=re.MULTILINE)
        # to a file: a server holds what it inherits, and nobody would see the end of a pipe
        with (self.root / ".typed").open("w+") as said:
            done = subprocess.run(
                ["bash", "-c", PREAMBLE + text], check=False, cwd=self.root, env=self._environment(),
                stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, timeout=LIMIT,
            )  # fmt: skip
            said.seek(0)
            return Typed(done.returncode, said.read())

    def _environment(self):
        """Return what lets uv take the packages of this interpreter, and this directory's code."""
        own = ("PERFJUDGE_", "MLFLOW_")
        return {name: value for name, value in os.environ.items() if not name.startswith(own)} | {
            "PATH": self.path,
            "PORT": str(self.port),
            "PYTHONPATH": str(self.root),
            "UV_PROJECT_ENVIRONMENT": sys.prefix,
            "UV_NO_SYNC": "1",
            "UV_OFFLINE": "1",
            "TERM": "dumb",
            # seven processes, which outlive the server
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        }

    def end(self):
        """End the server of the last block that started one, and wait until it writes nothing any more."""
        if not (told := self.root / ".server").exists():
            return
        process = int(told.read_text())
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
        wait_until(lambda: not is_running(process), seconds=300)
