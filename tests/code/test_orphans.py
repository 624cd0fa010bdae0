"""Stages in their own processes: how they end, and what they leave behind."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest

from benchmarks.kills import copy_project, kill_and_rerun, run_undisturbed
from data.measure.kernel_counts import is_running
from data.paths import FamilyPaths
from data.stage import alone
from data.tables.files import PART
from tests.imports import ROOT
from tests.system.conftest import wait_until

#: Stands for DVC: begins a stage behind a shell that stays, or in its own place.
DVC = """
import subprocess, sys
subprocess.run(["sh", "-c", sys.executable + " -c '" + sys.argv[1] + "'{}"])
"""
#: A stage that says when it is at work, and never ends by itself.
STAGE = """
import time
from pathlib import Path
from data.stage import alone
with alone("comparisons"):
    with open("at work", "a") as file:
        file.write("a line\\n")
    time.sleep(600)
"""
WORKERS = """
import os, time
from pathlib import Path
from data.parallel import Compute, side_by_side
def rest(number):
    Path(f"worker {number}").write_text(str(os.getpid()))
    time.sleep(600)
side_by_side(rest, [1, 2], Compute(2), "resting")
"""

#: A stage with a child process that imports another module.
BYTECODE_STAGE = """
import subprocess, sys
from data.stage import keep_bytecode
keep_bytecode()
import colorsys
subprocess.run([sys.executable, "-c", "import sndhdr"], check=True)
"""


@pytest.fixture
def begin(tmp_path):
    """Return what begins a program in the directory of the test, and ends it with the test."""
    begun = []
    plain = {name: value for name, value in os.environ.items() if not name.startswith("DVC")}
    environment = plain | {"PYTHONPATH": str(ROOT), "DVC_ROOT": str(tmp_path), "DVC_STAGE": "evaluate"}

    def begin(code, *arguments):
        command = [sys.executable, "-c", code, *arguments]
        begun.append(subprocess.Popen(command, cwd=tmp_path, env=environment, start_new_session=True))
        return begun[-1]

    yield begin
    for one in begun:
        with suppress(ProcessLookupError):
            os.killpg(one.pid, signal.SIGKILL)
        one.wait()


def lines(path):
    return path.read_text().splitlines() if path.is_file() else []


@pytest.mark.parametrize("rest", ["", "; true"], ids=["behind no shell", "behind a shell"])
def test_a_stage_ends_with_its_parent_dvc(rest, begin, tmp_path):
    first = begin(DVC.format(rest), STAGE)
    wait_until(lambda: lines(tmp_path / "at work"))
    stage = psutil.Process(first.pid).children(recursive=True)[-1].pid
    assert is_running(stage)
    first.kill()
    first.wait()
    wait_until(lambda: not is_running(stage), 10)


def test_a_stage_waits_for_its_predecessor_and_cleans_up(begin, tmp_path):
    first = begin(DVC.format(""), STAGE)
    wait_until(lambda: len(lines(tmp_path / "at work")) == 1)
    left = tmp_path / FamilyPaths("comparisons").reports / f".metrics.json.x{PART}"
    left.mkdir(parents=True)
    begin(DVC.format(""), STAGE)
    time.sleep(1)
    assert (len(lines(tmp_path / "at work")), left.is_dir()) == (1, True)
    first.kill()
    wait_until(lambda: len(lines(tmp_path / "at work")) == 2)
    assert not left.exists()


def test_worker_processes_end_with_their_stage(begin, tmp_path):
    stage = begin(WORKERS)
    begun = [tmp_path / "worker 1", tmp_path / "worker 2"]
    wait_until(lambda: all(map(lines, begun)))
    workers = {int(path.read_text()) for path in begun}
    stage.kill()
    stage.wait()
    wait_until(lambda: not any(map(is_running, workers)), 10)


def test_without_dvc_no_file_is_locked_or_removed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DVC_STAGE", raising=False)
    left = FamilyPaths("corun").reports / f".metrics.json.x{PART}"
    left.mkdir(parents=True)
    with alone("corun"):
        assert left.is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["reports"]


@pytest.mark.parametrize("disabled", ["1", ""])
def test_stages_store_bytecode_in_a_folder_only_if_disabled(tmp_path, disabled):
    environment = {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": disabled}
    run = [sys.executable, "-W", "ignore", "-c", BYTECODE_STAGE]
    subprocess.run(run, cwd=tmp_path, env=os.environ | environment, check=True)
    found = {path.name.split(".")[0] for path in (tmp_path / ".bytecode").rglob("*.pyc")}
    assert found >= {"colorsys", "sndhdr"} if disabled else found == set()


#: The stages during which something is killed, in the order in which they run; the last one writes figures.
KILLED = {"validate@fingerprints": "stage", "evaluate@fingerprints": "dvc"}


@pytest.mark.slow
def test_a_repro_after_a_killed_one_succeeds(tmp_path):
    new = copy_project(tmp_path / "new")
    copy = shutil.copytree(new, tmp_path / "copy")
    _, figures = run_undisturbed(new, [*KILLED])
    assert set(figures) == {f"reports/fingerprints/{name}.json" for name in ("metrics", "summary")}
    for stage, kind in KILLED.items():
        wanted = figures if stage.startswith("evaluate") else {}
        found = kill_and_rerun(copy, [stage], kind, 0.2, wanted, during=stage)
        assert found.ended_well, found
        assert found.stage == stage
