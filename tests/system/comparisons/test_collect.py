import signal
import subprocess
import sys

import pandas as pd
import yaml

from data.comparisons.tables import ComparisonTables
from tests.system.measuring import ROOT, collecting, interrupt, kept

SUITE = {
    "kind": "comparisons", "name": "tiny", "seed": 3, "threads": [1, 2], "repetitions": 3,
    "reference_repetitions": 30, "seconds": 0.005, "foreign": 0.99,
    "versions": [{"name": "same", "change": "none"}, {"name": "slow", "change": "competition", "size": 0.3}],
    "operations": [{"name": "sort", "group": "cpu", "workload": "sort"}],
}  # fmt: skip


def test_an_interrupted_and_a_killed_measurement_resume_and_end_as_tables(tmp_path):
    suite, out = tmp_path / "suite.yaml", tmp_path / "out"
    suite.write_text(yaml.safe_dump(SUITE))
    assert interrupt(suite, out, signal.SIGINT, 11)[1] == 130
    done = kept(out)
    assert 11 <= done < 139
    assert interrupt(suite, out, signal.SIGKILL, done + 1)[1] == -signal.SIGKILL
    assert kept(out) > done
    subprocess.run(collecting(suite, out), cwd=ROOT, check=True, timeout=120)
    assert kept(out) == 1 + 2 * (3 * 3 + 2 * 30)
    tables = ComparisonTables.read(out)
    assert tables.comparisons["comparison_id"].tolist() == ["sort/same", "sort/slow"]
    assert len(tables.results) == 2 * 3 * 3
    assert tables.labels["status"].iloc[0] == "pass"
    reference = pd.read_parquet(out / "reference.parquet")
    assert (reference["repetitions"] == 30).all()


def test_a_missing_suite_is_one_line():
    process = subprocess.run(
        [sys.executable, "-m", "data.collect", "nowhere.yaml", "-o", "x"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode != 0
    assert "nowhere.yaml: cannot be read" in process.stderr
