"""What tests of the readers share: one run or series as few words, and the samples in the documentation."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from data.comparisons import formats
from data.comparisons.formats import results_of_run
from data.tables.problems import Problems
from tests.data import refusals

SAMPLES = Path(__file__).parents[4] / "docs/samples/formats"
FILES = sorted(path for path in SAMPLES.rglob("*") if path.is_file() and path.name != "otava.yaml")
NO_RESULTS = {"benchmarks.json", "machine.json"}
KEY = ["benchmark", "operation", "machine", "threads", "unit", "better"]


def needs(program):
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


def ran(*command, cwd=None, env=()):
    """Run a real tool and return what it printed."""
    # it is no part of these tests, which may run side by side
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, cwd=cwd, env=own | dict(env)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def written(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def series(results):
    """Return the values of each series, with its name, machine, threads, unit and direction."""
    return {tuple(key): found["value"].tolist() for key, found in results.groupby(KEY, sort=False)}


def run(path, kind=None, notes=None):
    """Read one run, whose format must be the one of that name."""
    problems = Problems()
    if kind is not None:
        assert formats.recognise_format(path) == kind
    found = series(results_of_run(path, problems))
    if notes is not None:
        notes += problems.notes
    return found


def refusal(path, kind=None):
    return refusals.refusal(results_of_run, path, kind=kind).replace(f"{path.parent}/", "")


def expect_summaries(path, kind, *statistics):
    """Expect a file to hold these statistics only, which a note says; return its series."""
    notes = []
    found = run(path, kind, notes)
    assert notes == [f"{path} holds summaries only, without the repetitions behind them"]
    assert {*results_of_run(path)["stat"]} == {*statistics}
    return found


def compared(*paths):
    """Read a series; return its comparisons: their names and orders."""
    tables = formats.read_tables(formats.recognise_format(paths[0]), list(paths)).tables
    return tables.comparisons[["comparison_id", "baseline_to", "target_from"]].to_numpy().tolist()
