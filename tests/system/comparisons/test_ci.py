"""What CI systems are given: an action, a snippet for GitLab, and what they run."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from serving.comparisons.compare.acknowledging import read_acknowledged
from tests.system.comparisons.run_files import run_file

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def steps():
    """The shell steps of the action by their names."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    assert action["runs"]["using"] == "composite"
    found = {step["name"]: step for step in action["runs"]["steps"] if "run" in step}
    for step in action["runs"]["steps"]:
        # what a workflow says reaches shells as variables only
        assert "${{" not in step.get("run", "")
        assert ("run" in step) == ("shell" in step) != ("uses" in step)
    given = set(re.findall(r"inputs\.(\w+)", json.dumps(action)))
    assert given == set(action["inputs"])
    return found


class Runner:
    """Runs steps as a runner does, with programs that stand for what is not here."""

    def __init__(self, directory, model):
        self.directory, programs = directory, directory / "programs"
        programs.mkdir()
        perfjudge = Path(sys.executable).with_name("perfjudge")
        self.program("uv", f'while [ "$1" != perfjudge ]; do shift; done; shift; exec {perfjudge} "$@"')
        self.variables = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "GITHUB_OUTPUT": str(directory / "output.txt"),
            "GITHUB_STEP_SUMMARY": str(directory / "page.md"),
            "GITHUB_REPOSITORY": "anna/editor",
            "GITHUB_SHA": "ab" * 20,
        }
        self.variables |= {"TARGET": "results.json", "BASELINE": "", "MODEL": str(model), "CONFIRM": ""}
        self.variables |= {"ARGUMENTS": "--fail-on-regression", "COMMIT": "ab" * 20, "BASE_COMMIT": ""}
        self.variables |= {"NAME": "benchmarks", "PROJECT": str(ROOT), "NUMBER": "9"}

    def program(self, name, script):
        path = self.directory / "programs" / name
        path.write_text(f"#!/usr/bin/env bash\n{script}\n")
        path.chmod(0o755)

    def run(self, step, **variables):
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.directory,
            env={**self.variables, **variables},
            capture_output=True,
            text=True,
            check=False,
        )


def test_the_action_compares_with_its_cache_comments_and_fails(steps, tmp_path, model_directory):
    runner = Runner(tmp_path, model_directory)
    run_file(tmp_path / "results.json")
    assert runner.run(steps["Name the model"]).returncode == 0
    assert re.fullmatch(r"key=[0-9a-f]{16}\n", (tmp_path / "output.txt").read_text())
    (tmp_path / "output.txt").unlink()
    first = runner.run(steps["Compare"])
    assert (first.returncode, "there are no results of the base yet" in first.stdout) == (0, True)
    assert runner.run(steps["Comment"]).returncode == 0
    for number in ("9", "10"):
        run_file(tmp_path / "results.json", seed=int(number))
        assert runner.run(steps["Keep results"], NUMBER=number).returncode == 0
    kept = sorted(path.name for path in (tmp_path / ".perfjudge/runs").iterdir())
    assert kept == [f"run-{number}-g{'ab' * 20}.json" for number in (10, 9)]

    run_file(tmp_path / "results.json", {"a": 1.5})
    failed = runner.run(steps["Compare"])
    assert (failed.returncode, "::error title=regression%3A bench/a" in failed.stderr) == (1, True)
    outputs = dict(line.split("=") for line in (tmp_path / "output.txt").read_text().splitlines())
    assert all((tmp_path / path).stat().st_size for path in outputs.values())
    answer = json.loads((tmp_path / outputs["json"]).read_text())
    assert answer["verdicts"][0]["versions"].startswith("run-10-g")
    assert (tmp_path / "page.md").read_text() == (tmp_path / outputs["comment"]).read_text()

    log = tmp_path / "gh.txt"
    marker = (tmp_path / outputs["comment"]).read_text().splitlines()[0]
    for there, method in (
        (marker, "PATCH repos/anna/editor/issues/comments/12"),
        ("other", "issues/9/comments"),
    ):
        answers = f"printf '11\\tsomething\\n12\\t%s\\n' '{there}'"
        runner.program("gh", f'echo "$@" >> {log}; [[ "$*" != *--jq* ]] || {answers}')
        assert runner.run(steps["Comment"]).returncode == 0
        last = log.read_text().splitlines()[-1]
        assert (method in last, "body=@.perfjudge/comment.md" in last) == (True, True)
    runner.program("gh", "exit 1")
    refused = runner.run(steps["Comment"])
    assert (refused.returncode, "may not comment" in refused.stdout) == (0, True)


def test_the_action_confirms_with_the_given_command(steps, tmp_path, model_directory):
    runner = Runner(tmp_path, model_directory)
    run_file(tmp_path / "base.json")
    run_file(tmp_path / "results.json", {"a": 1.5})
    (tmp_path / "again.sh").write_text('cp results.json "$1"\n')
    done = runner.run(
        steps["Compare"],
        BASELINE="base.json",
        ARGUMENTS="--fail-on-regression --confirm 2 --confirm-base 'cp base.json {output}'",
        CONFIRM="bash again.sh {output}",
    )
    assert (done.returncode, done.stderr.count("confirming")) == (1, 2)


def test_the_ci_snippets_are_valid_for_their_systems(tmp_path):
    texts = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/ci.md").read_text(), re.DOTALL)
    (tmp_path / "known.yaml").write_text(texts[0])
    known = read_acknowledged(tmp_path / "known.yaml")[1]
    assert [len(one) for one in (known.acknowledged, known.unstable, known.accepted)] == [1, 1, 1]
    github, gitlab = map(yaml.safe_load, texts[1:])
    taken = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    assert set(github["jobs"]["benchmarks"]["steps"][-1]["with"]) <= set(taken)
    job = gitlab["benchmarks"]
    assert job["artifacts"]["reports"]["junit"] == "junit.xml"
    for line in job["script"]:
        assert subprocess.run(["bash", "-n", "-c", line], check=False).returncode == 0
