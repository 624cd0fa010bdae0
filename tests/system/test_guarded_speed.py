"""The step of CI that guards the project's own speed, in a copy of the code."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import guard
from tests.imports import ROOT, copied
from tests.system.conftest import Repository

#: Quick operations; from five on, the variation between them decides. Features are left out: with another
#: process on the processor's caches, every fourth run takes 1.25 times as long, which one earlier run hides.
FEW = ("judging", "validate-featurize", "timelines", "lnt", "perf-stat", "pytest-benchmark")
SLOWER = """

_quick_judge_tables = judge_tables


def judge_tables(*arguments, **options):
    import time

    begun = time.process_time()
    judgement = _quick_judge_tables(*arguments, **options)
    until = time.process_time() + 0.3 * (time.process_time() - begun)
    while time.process_time() < until:
        pass
    return judgement
"""
HISTORY = ["--history", "history"]
ACKNOWLEDGED = """
acknowledged:
  - {operation: c, until: 2100-01-01, at_most: 60, by: anna, reason: sorts twice}
"""


@pytest.mark.speed
def test_the_step_passes_unchanged_code_and_names_what_became_slower(tmp_path):
    copied(tmp_path)
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks", ignore=shutil.ignore_patterns("*.zip"))
    for name in ("data/raw", "docs", "params.yaml"):
        (tmp_path / name).symlink_to(ROOT / name)

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "benchmarks.guard", "--history", "runs", *arguments],
            cwd=tmp_path, env=os.environ | {"PERFJUDGE_OPERATIONS": "\n".join(FEW)}, text=True,
            capture_output=True, check=False,
        )  # fmt: skip

    assert [run("--add").returncode, run().returncode] == [0, 0]
    assert len([*(tmp_path / "runs").iterdir()]) == 1
    with (tmp_path / "serving/comparisons/judge.py").open("a") as file:
        file.write(SLOWER)
    slower = run()
    assert slower.returncode == 1, slower.stderr
    assert re.search(r"^slower than \S+: judging; ", slower.stderr, re.MULTILINE)


#: Stands for the suite: an operation takes longer where there is a file "slow", and all on a busy machine.
FAKE = """
import json, pathlib, sys
samples = {name: [10.0, 10.1, 10.2, 9.9, 10.1] for name in "abcdef"}
samples["c"] = [value * (1.5 if pathlib.Path("slow").exists() else 1) for value in samples["c"]]
busy = 1.3 if pathlib.Path(BUSY).exists() else 1
results = [{"benchmark": "b", "operation": name, "machine": MACHINE, "unit": "ms", "better": "lower",
            "configurations": [{"samples": [value * busy for value in values]}]}
           for name, values in samples.items()]
pathlib.Path(sys.argv[-1]).write_text(json.dumps({"results": results}))
"""


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """Return the commit of a project with the fake suite, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    fake = FAKE.replace("MACHINE", repr(guard.machine_name())).replace("BUSY", repr(str(tmp_path / "busy")))
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks/guard.py").write_text(fake)
    Repository(tmp_path).commit("Begin")
    return guard.head_commit(tmp_path)


def test_another_machine_measures_the_earlier_commit_and_this_one(suite, tmp_path, monkeypatch, capfdbinary):
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(guard, "machine_name", lambda: "abacus x1")
        guard.write_run(tmp_path / f"history/20260101-000000-g{suite[:8]}.json", {("b", "c"): [1.0, 2.0]})

    assert guard.main(HISTORY) == 0
    (tmp_path / "slow").touch()
    assert guard.main(HISTORY) == 1
    assert f"slower than 20260101-000000-g{suite[:8]}: c; ".encode() in capfdbinary.readouterr().err
    (tmp_path / ".perfjudge.yaml").write_text(ACKNOWLEDGED)
    assert guard.main(HISTORY) == 0
    assert b"acknowledged by anna: sorts twice" in capfdbinary.readouterr().out
    shutil.rmtree(tmp_path / ".git")
    assert guard.main(HISTORY) == 0
    assert b"no run of" in capfdbinary.readouterr().err


def test_slower_code_fails_and_a_machine_that_is_slower_for_minutes_does_not(suite, tmp_path, capfdbinary):
    (runs := tmp_path / "history").mkdir()
    for number in range(4):
        run = runs / f"20260101-00000{number}-g{suite[:8]}.json"
        assert subprocess.call([sys.executable, "-m", "benchmarks.guard", run]) == 0

    (tmp_path / "busy").touch()
    assert guard.main(HISTORY) == 0
    assert b"regression" in capfdbinary.readouterr().out
    (tmp_path / "slow").touch()
    assert guard.main(HISTORY) == 1
    assert f"slower than {run.stem}: c; ".encode() in capfdbinary.readouterr().err
    # nothing but the history can tell without the commit
    shutil.rmtree(tmp_path / ".git")
    assert guard.main([*HISTORY, "--add"]) == 1
    assert f"slower than {run.stem}: a, b, c, d, e, f; ".encode() in capfdbinary.readouterr().err
    assert len([*runs.iterdir()]) == 5


def test_an_unknown_operation_is_refused_before_anything_is_measured(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PERFJUDGE_OPERATIONS", "judging\nsorting")
    assert guard.main(["--measure", str(tmp_path / "run.json")]) == 2
    assert "'sorting' is no operation; expected judging, features" in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


def test_the_page_draws_every_run_and_names_false_alarms(monkeypatch, tmp_path):
    rng = np.random.default_rng(1)
    for number in range(14):
        samples = {("b", name): 20 * rng.normal(1, 0.01) * rng.normal(1, 0.01, 10) for name in "abcdef"}
        samples["b", "c"] *= 2 if number == 13 else 1
        values = {names: of_operation.tolist() for names, of_operation in samples.items()}
        guard.write_run(tmp_path / f"runs/20261126-{number:06d}-g0123abc.json", values)
    monkeypatch.chdir(tmp_path)
    assert guard.main(["--page", "--history", "runs"]) == 0
    page = (tmp_path / "docs/results/guard.md").read_text()
    assert re.search(r"^\| b/c \| [34]\d.*\| [▃▄▅]{13}▇ \|$", page, re.MULTILINE)
    assert re.search(r"^\| b/d \| [12]\d.*\| [▃▄▅]{14} \|$", page, re.MULTILINE)
    assert "Of the last 4 runs, 3 have no regression beside" in page
    assert "Called slower: b/c." in page


def test_the_runs_since_a_commit_that_was_often_measured_are_compared():
    def runs(*commits):
        return [Path(f"20260101-{at:06}-g{commit}.json") for at, commit in enumerate(commits)]

    often = guard.LEAST * ["b"]
    assert guard.recent_runs([]) == []
    assert guard.recent_runs(runs("a", "b", "c")) == runs("a", "b", "c")
    many = runs(*guard.LEAST * ["a"], *often, "c", "d")
    assert guard.recent_runs(many) == many[guard.LEAST :]
    assert guard.recent_runs(many[: guard.LEAST + 3]) == many[: guard.LEAST + 3]
