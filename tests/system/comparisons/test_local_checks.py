"""Checks before a push: the plugin of pytest, and the hook of pre-commit, with perfjudge from its wheel."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.imports import ROOT
from tests.system.conftest import Repository, new_environment

PLUGIN = ROOT / "clients/pytest"
#: Benchmarks with a clock of their own: six operations of 12 samples, the first of them LEVEL times as slow.
BENCHMARKS = """
import os, random, pytest
CLOCK, NOISE = [0.0], random.Random(os.environ["SEED"])
def advance(level):
    CLOCK[0] += level * NOISE.gauss(1, 0.01)
@pytest.mark.benchmark(timer=lambda: CLOCK[0])
@pytest.mark.parametrize("number", range(6))
def test_sort(benchmark, number):
    level = float(os.environ["LEVEL"]) if number == 0 else 1.0
    benchmark.pedantic(advance, args=(level,), rounds=12)
"""


@pytest.fixture(scope="session")
def environment(made_once, needs_uv):
    """The interpreter of an environment that has pytest, pytest-benchmark and the plugin only."""

    def fill(directory):
        # a build writes beside its sources
        shutil.copytree(PLUGIN, "plugin")
        new_environment("venv", "./plugin")

    return made_once("plugin", fill) / "venv/bin/python"


def completed(directory, variables, *command):
    """Run a command in a directory, and return its exit status and output."""
    return subprocess.run(
        command, check=False, cwd=directory, env=variables, capture_output=True, text=True, timeout=300
    )


def written_results(path, level=1.0, seed=0):
    """Write what pytest-benchmark writes of these benchmarks."""
    noise, benchmarks = random.Random(seed), []
    for number, slower in enumerate([level, *[1.0] * 5]):
        data = [slower * noise.gauss(1, 0.01) for _ in range(12)]
        benchmarks.append({"fullname": f"test_sorting.py::test_sort[{number}]", "stats": {"data": data}})
    path.write_text(json.dumps({"machine_info": {}, "benchmarks": benchmarks}))


@pytest.fixture
def session(environment, installed, tmp_path):
    """Return what runs a session of pytest with benchmarks of some speed, beside the results of a base."""
    (tmp_path / "test_sorting.py").write_text(BENCHMARKS)
    written_results(tmp_path / "base.json")

    def run(*options, level=1.0, path=f"{installed}:/usr/bin:/bin"):
        variables = {"PATH": path, "LEVEL": str(level), "SEED": "1", "HOME": str(tmp_path)}
        return completed(tmp_path, variables, environment, "-m", "pytest", *options)

    return run


def test_pytest_judges_its_benchmarks_against_a_base(session):
    unchanged = session("--perfjudge", "base.json")
    assert (unchanged.returncode, unchanged.stdout.count("= perfjudge =")) == (0, 1), unchanged.stdout
    assert re.search(r"unchanged|within noise", unchanged.stdout)
    slower = session("--perfjudge", "base.json", "--benchmark-json=new.json", level=1.3)
    assert (slower.returncode, "6 passed" in slower.stdout) == (1, True)
    assert re.search(r"regression .*test_sort\[0\]", slower.stdout), slower.stdout


def test_results_that_a_session_saves_beside_its_base_are_not_part_of_it(session, tmp_path):
    assert session("--benchmark-save=base").returncode == 0
    (saved,) = (tmp_path / ".benchmarks").iterdir()
    slower = session("--perfjudge", str(saved), "--benchmark-autosave", level=1.3)
    assert (slower.returncode, len([*saved.iterdir()])) == (1, 2), slower.stdout
    assert re.search(r"regression .*test_sort\[0\] .*\b1\.3 s .*30", slower.stdout), slower.stdout


def test_pytest_fails_where_it_cannot_judge(session, tmp_path):
    missing = session("--perfjudge", "none.json")
    assert (missing.returncode, "none.json does not exist" in missing.stderr) == (4, True)
    without = session("--perfjudge", "base.json", "-p", "no:benchmark")
    assert (without.returncode, "needs the plugin pytest-benchmark" in without.stderr) == (4, True)
    overwritten = session("--perfjudge", "base.json", "--benchmark-json=./base.json")
    assert (overwritten.returncode, "would overwrite" in overwritten.stderr) == (4, True)
    problems = {("--benchmark-disable",): "no benchmark ran", (): "perfjudge is not installed"}
    for options, message in problems.items():
        done = session("--perfjudge", "base.json", *options, path="/usr/bin:/bin")
        assert (done.returncode, message in done.stdout) == (1, True), done.stdout
    (tmp_path / "base.json").write_text("{}")
    damaged = session("--perfjudge", "base.json")
    assert (damaged.returncode, "base.json" in damaged.stdout.partition("= perfjudge =")[2]) == (1, True)


def test_sessions_without_the_option_import_nothing_of_perfjudge(session):
    done = session("-p", "no:cacheprovider", path="/usr/bin:/bin")
    assert (done.returncode, "= perfjudge =" in done.stdout) == (0, False)
    listed = session("--perfjudge", "test_sorting.py", "--collect-only", path="/usr/bin:/bin")
    assert (listed.returncode, "= perfjudge =" in listed.stdout) == (0, False)
    code = (PLUGIN / "pytest_perfjudge.py").read_text()
    imported = re.findall(r"^ *(?:import|from) (\w+)", code, re.MULTILINE)
    assert set(imported) - sys.stdlib_module_names == {"pytest"}


def test_pre_commit_compares_a_result_file_with_its_base(installed, tmp_path):
    hooks, project = tmp_path / "hooks", tmp_path / "project"
    for directory in (hooks, project):
        directory.mkdir()
    of_hooks, of_project = Repository(hooks), Repository(project)
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", hooks)
    of_hooks.commit("Add the hook")
    page = (ROOT / "docs/ci.md").read_text().partition("pre-commit-config.yaml -->\n\n```yaml\n")[2]
    settings = yaml.safe_load(page.partition("```")[0])
    settings["repos"][0] |= {"repo": str(hooks), "rev": of_hooks.git("rev-parse", "HEAD").strip()}
    (project / ".pre-commit-config.yaml").write_text(yaml.safe_dump(settings))
    written_results(project / "base.json")
    of_project.commit("Add a base")
    places = {"PATH": f"{installed}:{os.environ['PATH']}", "PRE_COMMIT_HOME": str(tmp_path / "pre-commit")}
    expected = {1.0: (0, "Passed"), 1.3: (1, r"regression +│ test_sorting\.py/test_sort\[0\]")}
    for level, (status, shown) in expected.items():
        written_results(project / "results.json", level, seed=1)
        of_project.git("add", "--all")
        done = completed(project, os.environ | places, Path(sys.executable).with_name("pre-commit"), "run")
        assert (done.returncode, bool(re.search(shown, done.stdout))) == (status, True), done.stdout
        of_project.git("commit", "--quiet", "--no-verify", "--message", shown)
