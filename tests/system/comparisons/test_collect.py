import json
import os
import signal
import subprocess

import pandas as pd
import yaml

from data.comparisons.tables import ComparisonTables
from tests.system.measuring import ROOT, collected, collecting, interrupt, kept

SUITE = {
    "kind": "comparisons", "name": "tiny", "seed": 3, "passes": 3, "history": 1, "same": 1, "changes": 2,
    "injected": [0.6], "seconds": 0.004, "samples": [3, 4], "pairs": [8, 8],
    "operations": [
        {"name": "sort", "group": "python", "command": "{run} language sorting {work}", "threads": [1, 2],
         "changes": {"old": {"python": "no-such-python"}}},
        {"name": "text", "group": "c", "command": "no-such-compiler {work}"},
    ],
}  # fmt: skip
#: Trials of both operations and of a build; at two numbers of threads three passes, and a reference.
LINES = 2 + 1 + 2 * (3 + 1)


def test_an_interrupted_and_killed_measurement_resumes_and_ends_as_tables(tmp_path):
    suite, out = tmp_path / "suite.yaml", tmp_path / "out"
    suite.write_text(yaml.safe_dump(SUITE))
    told, code, _ = interrupt(suite, out, signal.SIGINT, 3)
    assert code == 130
    done = kept(out)
    assert 3 <= done < LINES
    assert interrupt(suite, out, signal.SIGKILL, done + 1)[1] == -signal.SIGKILL
    assert kept(out) > done
    told += collected(suite, out)
    assert 'leaving out operation "text": operation "text": needs the program \'no-such-compiler\'' in told
    assert LINES < kept(out) <= LINES + 2 * 5
    tables = ComparisonTables.read(out)
    assert tables.comparisons["comparison_id"].tolist() == ["sort/pass 2 and 3", "sort/work+60%"]
    labels = tables.labels.set_index("comparison_id")["status"]
    assert labels["sort/pass 2 and 3"] == "pass"
    reference = pd.read_parquet(out / "reference.parquet")
    assert reference["threads"].tolist() == [1, 2]
    assert (reference["repetitions"] == 8).all()
    settings = json.loads((out / "settings.json").read_text())
    assert settings["pinned"] == {"processor": "any", "nice": str(os.nice(0))}
    assert settings["left_out"] == [
        "operation \"sort\": needs the program 'no-such-python', which is not installed",
        "operation \"text\": needs the program 'no-such-compiler', which is not installed",
    ]


def refused(directory, **changes):
    """Measure a suite in vain; return the line in which that is said, and the settings."""
    suite, out = directory / "suite.yaml", directory / "out"
    suite.write_text(yaml.safe_dump(SUITE | changes))
    process = subprocess.run(collecting(suite, out), cwd=ROOT, capture_output=True, text=True, check=False)
    last = process.stderr.splitlines()[-1]
    assert (process.returncode, f'{suite}: nothing could be measured; operation "' in last) == (2, True)
    return last, json.loads((out / "settings.json").read_text())


def test_a_measurement_of_nothing_is_an_error_in_one_line(tmp_path):
    told, settings = refused(tmp_path, operations=[SUITE["operations"][1]])
    assert told.endswith("needs the program 'no-such-compiler', which is not installed")
    assert settings["left_out"]


def test_an_operation_without_complete_runs_is_no_measurement(tmp_path):
    command = "sh -c 'test {threads} = 2 && sleep 9; echo 0.01'"
    slow = {"name": "slow", "group": "c", "command": command, "threads": [1, 2], "work": 1}
    told, settings = refused(tmp_path, passes=2, timeout=0.5, operations=[slow])
    assert 'operation "slow": ran for longer than 0.5 seconds' in told
    assert kept(tmp_path / "out") > len(settings["invalid"]) > 0
