"""Tasks that are sampled while they run, as somebody at a terminal has it."""

import json
import os
import sys
from functools import partial

import pytest

from tests.commands import perfjudge

BUSY = [sys.executable, "-c", "for number in range(20_000_000): number * number"]

watch = partial(perfjudge, "corun", "watch")


@pytest.fixture
def solo(tmp_path):
    """A whole run of 1 s alone: 5 intervals on a processor of its own, and an event that is none."""
    path = tmp_path / "solo.csv"
    ends = [0.2, 0.4, 0.6, 0.8, 1.0]
    path.write_text("".join(f"{end:.9f},200,msec,task-clock,1,1,,\n{end:.9f},9,,zzz,1,1,,\n" for end in ends))
    return path


@pytest.fixture(autouse=True)
def nobody_has_trained(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'none.db'}")


def test_a_command_is_watched_to_its_end(solo, tmp_path):
    done = watch("--solo", solo, "--json", "-o", tmp_path / "answer.json", "--", *BUSY)
    assert done.returncode == 0, done.stderr
    assert f"this machine does not count zzz, which {solo} has" in " ".join(done.stderr.split())
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    last = json.loads((tmp_path / "answer.json").read_text())
    assert (lines[-1], last["model"]["name"]) == (last, "progress")
    # it has ended, so that nothing is left to be guessed
    assert last["high"] / last["low"] < 1.03


def test_a_missing_process_gives_a_one_line_error(solo):
    pid = os.spawnlp(os.P_NOWAIT, "true", "true")
    os.waitpid(pid, 0)
    done = watch("--solo", solo.with_name("none.csv"), str(pid))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "none.csv: cannot be read" in done.stderr


def test_an_unknown_command_gives_a_one_line_error(solo):
    done = watch("--solo", solo, "there-is-no-such-program")
    assert done.returncode == 2
    assert "there-is-no-such-program" in done.stderr
