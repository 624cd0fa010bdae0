import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import yaml

from data.comparisons.tables import ComparisonTables

ROOT = Path(__file__).parents[3]
SUITE = {
    "kind": "comparisons", "name": "tiny", "seed": 3, "threads": [1, 2], "repetitions": 3,
    "reference_repetitions": 30, "seconds": 0.005, "foreign": 0.99,
    "versions": [{"name": "same", "change": "none"}, {"name": "slow", "change": "competition", "size": 0.3}],
    "operations": [{"name": "sort", "group": "cpu", "workload": "sort"}],
}  # fmt: skip


@pytest.fixture
def command(tmp_path):
    suite = tmp_path / "suite.yaml"
    suite.write_text(yaml.safe_dump(SUITE))
    return [sys.executable, "-m", "data.collect", str(suite), "-o", str(tmp_path / "out")]


def lines(path):
    return path.read_text().count("\n") if path.exists() else 0


def interrupt(command, journal, request):
    """Start `command`, send `request` once something is measured, and return its exit code."""
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while lines(journal) < 12 and time.monotonic() < deadline and process.poll() is None:
        os.sched_yield()
    process.send_signal(request)
    process.communicate(timeout=60)
    return process.returncode


def test_an_interrupted_and_a_killed_measurement_resume_and_end_as_tables(command, tmp_path):
    journal = tmp_path / "out/journal.jsonl"
    assert interrupt(command, journal, signal.SIGINT) == 130
    kept = lines(journal)
    assert 12 <= kept < 140
    assert interrupt(command, journal, signal.SIGKILL) == -signal.SIGKILL
    assert lines(journal) >= kept
    subprocess.run(command, cwd=ROOT, check=True, timeout=120)
    assert lines(journal) == 2 + 2 * (3 * 3 + 2 * 30)
    tables = ComparisonTables.read(tmp_path / "out")
    assert tables.comparisons["comparison_id"].tolist() == ["sort/same", "sort/slow"]
    assert len(tables.results) == 2 * 3 * 3
    assert tables.labels["status"].iloc[0] == "pass"
    reference = pd.read_parquet(tmp_path / "out/reference.parquet")
    assert (reference["repetitions"] == 30).all()


def test_a_missing_suite_is_one_line():
    process = subprocess.run(
        [sys.executable, "-m", "data.collect", "nowhere.yaml", "-o", "x"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode != 0
    assert "nowhere.yaml: cannot be read" in process.stderr
