"""Measuring with the real stress-ng."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from data.fingerprints.tables import FingerprintTables

ROOT = Path(__file__).parents[3]
SUITE = {
    "kind": "fingerprint", "name": "tiny", "seed": 3, "seconds": 1, "repetitions": 2,
    "threads": ["one", "all"], "stressors": ["nop", "no-such-stressor"],
}  # fmt: skip


@pytest.mark.skipif(shutil.which("stress-ng") is None, reason="stress-ng is not installed")
def test_an_interrupted_fingerprint_resumes_and_names_the_stressors_that_are_lacking(tmp_path):
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(SUITE))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "data.collect", str(tmp_path / "suite.yaml"), "-o", str(out)]
    begun = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while rates(out) < 1 and time.monotonic() < deadline and begun.poll() is None:
        os.sched_yield()
    begun.send_signal(signal.SIGINT)
    told = begun.communicate(timeout=60)[1]
    assert begun.returncode == 130
    assert "leaving out what this stress-ng lacks: no-such-stressor" in told
    assert f"kept {rates(out)} rates; start again to resume" in told
    assert 1 <= len(FingerprintTables.read(out).machines) < 4
    subprocess.run(command, cwd=ROOT, check=True, timeout=120)
    tables = FingerprintTables.read(out)
    assert sorted(tables.machines[["threads", "repetition"]].to_numpy().tolist()) == [
        [0, 1], [0, 2], [1, 1], [1, 2],
    ]  # fmt: skip
    assert (tables.machines["bogo_ops_per_second"] > 0).all()
    assert tables.hosts["stress_ng"].tolist() == [
        json.loads((out / "settings.json").read_text())["machine"]["stress-ng"]
    ]


def rates(out):
    journal = out / "journal.jsonl"
    return journal.read_text().count("\n") - 1 if journal.exists() else 0
