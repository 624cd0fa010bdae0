"""Measuring with the real stress-ng."""

import json
import shutil
import signal

import pytest
import yaml

from data.fingerprints.tables import FingerprintTables
from tests.system.measuring import collected, interrupt, kept

SUITE = {
    "kind": "fingerprint", "name": "tiny", "seed": 3, "seconds": 1, "repetitions": 2,
    "threads": ["one", "all"], "stressors": ["nop", "no-such-stressor"],
}  # fmt: skip


@pytest.mark.skipif(shutil.which("stress-ng") is None, reason="stress-ng is not installed")
def test_an_interrupted_fingerprint_resumes_and_names_lacking_stressors(tmp_path):
    suite, out = tmp_path / "suite.yaml", tmp_path / "out"
    suite.write_text(yaml.safe_dump(SUITE))
    told, code, _ = interrupt(suite, out, signal.SIGINT, 1)
    assert code == 130
    assert "leaving out what this stress-ng lacks: no-such-stressor" in told
    assert f"kept {kept(out)} rates; start again to resume" in told
    assert 1 <= len(FingerprintTables.read(out).machines) < 4
    collected(suite, out)
    tables = FingerprintTables.read(out)
    assert sorted(tables.machines[["threads", "repetition"]].to_numpy().tolist()) == [
        [0, 1], [0, 2], [1, 1], [1, 2],
    ]  # fmt: skip
    assert (tables.machines["bogo_ops_per_second"] > 0).all()
    assert tables.hosts["stress_ng"].tolist() == [
        json.loads((out / "settings.json").read_text())["machine"]["stress-ng"]
    ]
