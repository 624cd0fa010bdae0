"""What CI systems are given: an action, a snippet for GitLab, and what they run."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from serving.comparisons.compare.acknowledging import read_acknowledged
from tests.imports import ROOT
from tests.system.comparisons.run_files import run_file

#: A list of changes; its newest version is to be filled in.
CHANGELOG = """# Changelog

## Unreleased

## [{}] - 2026-12-01

- Sorts.

## [0.0.1] - 2026-11-01

- Begins.
"""


@pytest.fixture(scope="module")
def action_steps():
    """All steps of the action."""
    return yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]


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

    def __init__(self, directory, model=""):
        self.directory, programs = directory, directory / "programs"
        programs.mkdir()
        self.variables = os.environ | {
            "PATH": f"{programs}:{os.environ['PATH']}", "ACTION": str(directory),
            "GITHUB_REPOSITORY": "anna/editor", "GITHUB_SHA": "ab" * 20,
            "GITHUB_OUTPUT": f"{directory}/output.txt", "GITHUB_PATH": f"{directory}/path.txt",
            "GITHUB_STEP_SUMMARY": f"{directory}/page.md",
            "UV_TOOL_DIR": f"{directory}/tools", "UV_TOOL_BIN_DIR": f"{directory}/tools/bin",
            "TARGET": "results.json", "BASELINE": "", "MODEL": str(model), "CONFIRM": "",
            "ARGUMENTS": "--fail-on-regression", "COMMIT": "ab" * 20, "BASE_COMMIT": "",
            "NAME": "benchmarks", "NUMBER": "9", "GH_TOKEN": "", "WHEEL": "", "RELEASES": "",
        }  # fmt: skip
        if model:
            self.program("perfjudge", f'exec {Path(sys.executable).with_name("perfjudge")} "$@"')

    def program(self, name, script):
        path = self.directory / "programs" / name
        path.write_text(f"#!/usr/bin/env bash\n{script}\n")
        path.chmod(0o755)

    def run(self, step, **variables):
        variables = self.variables | variables
        assert set(step.get("env", ())) <= variables.keys()
        added = self.directory / "path.txt"
        if added.exists():
            variables["PATH"] = ":".join([*added.read_text().split(), variables["PATH"]])
        bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        return subprocess.run(
            bash, cwd=self.directory, env=variables, capture_output=True, text=True, check=False
        )


def test_the_action_compares_with_its_cache_comments_and_fails(steps, tmp_path, model_directory):
    runner = Runner(tmp_path, model_directory)
    run_file(tmp_path / "results.json")
    first = runner.run(steps["Compare"])
    assert (first.returncode, "there are no results of the base yet" in first.stdout) == (0, True)
    assert runner.run(steps["Comment"]).returncode == 0
    for number in ("9", "10"):
        run_file(tmp_path / "results.json", seed=int(number))
        assert runner.run(steps["Keep results"], NUMBER=number, GITHUB_SHA="cd" * 20).returncode == 0
    kept = sorted(path.name for path in (tmp_path / ".perfjudge/runs").iterdir())
    assert kept == [f"run-{number}-g{'cd' * 20}.json" for number in (10, 9)]

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
    methods = {marker: "PATCH repos/anna/editor/issues/comments/12", "other": "issues/9/comments"}
    for there, method in methods.items():
        answers = f"[[ $MARKER != '{there}' ]] || echo 12"
        runner.program("gh", f'echo "$@" >> {log}; [[ "$*" != *--jq* ]] || {answers}')
        assert runner.run(steps["Comment"]).returncode == 0
        last = log.read_text().splitlines()[-1]
        assert (method in last, "body=@.perfjudge/comment.md" in last) == (True, True)
    runner.program("gh", "exit 1")
    refused = runner.run(steps["Comment"])
    assert (refused.returncode, "may not comment" in refused.stdout) == (0, True)


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq")
def test_the_action_finds_its_comment_under_any_name(steps, tmp_path):
    runner, marker = Runner(tmp_path), r'<!-- perfjudge compare a\b "c" -->'
    (tmp_path / ".perfjudge").mkdir()
    (tmp_path / ".perfjudge/comment.md").write_text(f"{marker}\ntable\n")
    bodies = [f"> {marker}", f"{marker}\r\ntable", f"{marker}\nother"]
    comments = json.dumps([{"id": number, "body": body} for number, body in enumerate(bodies)])
    (tmp_path / "comments.json").write_text(comments)
    script = '[[ "$*" != *--jq* ]] && echo "$@" >> log.txt || jq -r "${@: -1}" comments.json'
    runner.program("gh", script)
    assert runner.run(steps["Comment"]).returncode == 0
    assert "issues/comments/1 " in (tmp_path / "log.txt").read_text()


def test_the_action_saves_no_history_that_it_did_not_restore(action_steps):
    (restore,) = (step for step in action_steps if "cache/restore" in step.get("uses", ""))
    (keep,) = (step for step in action_steps if step.get("id") == "keep")
    (save,) = (step for step in action_steps if "cache/save" in step.get("uses", ""))
    assert f"steps.{restore['id']}.outcome == 'success'" in keep["if"]
    assert "steps.keep.outcome == 'success'" in save["if"]
    assert action_steps.index(restore) < action_steps.index(keep) < action_steps.index(save)


def test_the_action_forgets_the_results_of_another_use_in_its_job(steps, tmp_path):
    runner = Runner(tmp_path)
    (tmp_path / "CHANGELOG.md").write_text("## 0.1.0 - 2026-12-01\n")
    (tmp_path / ".perfjudge/runs").mkdir(parents=True)
    (tmp_path / ".perfjudge/comment.md").touch()
    (tmp_path / "tools/bin").mkdir(parents=True)
    runner.program("uv", "exit 0")
    shutil.copy(shutil.which("true"), tmp_path / "tools/bin/perfjudge")
    assert runner.run(steps["Install"]).returncode == 0
    assert not [*(tmp_path / ".perfjudge").iterdir()]


def test_the_action_keeps_40_runs_with_the_programs_of_macos(steps, tmp_path):
    runner = Runner(tmp_path)
    # BSD programs know neither negative counts nor \? in expressions
    for name, refused in (("head", "-n -"), ("sed", r"\?")):
        runner.program(name, f"[[ $* != *'{refused}'* ]] && exec {shutil.which(name)} \"$@\"")
    (tmp_path / "results.json").touch()
    for number in range(1, 43):
        assert runner.run(steps["Keep results"], NUMBER=str(number)).returncode == 0
    kept = {int(path.name.split("-")[1]) for path in (tmp_path / ".perfjudge/runs").iterdir()}
    assert kept == {*range(3, 43)}
    (tmp_path / "CHANGELOG.md").write_text("## [0.1.0] - 2026-12-01\n")
    assert "/v0.1.0/perfjudge-0.1.0-py3-none-any.whl" in runner.run(steps["Install"]).stdout


def test_the_newest_results_are_last_after_the_workflow_is_renamed(steps, tmp_path):
    runner = Runner(tmp_path)
    (tmp_path / "results.json").touch()
    for number, commit in (("9", "ab"), ("57", "cd"), ("1", "ef"), ("2", "01")):
        assert runner.run(steps["Keep results"], NUMBER=number, GITHUB_SHA=commit).returncode == 0
    kept = sorted(path.name for path in (tmp_path / ".perfjudge/runs").iterdir())
    assert kept == ["run-57-gcd.json", "run-58-gef.json", "run-59-g01.json", "run-9-gab.json"]


def test_the_action_keeps_no_plots_of_criterion(steps, tmp_path):
    for name in ("new/sample.json", "report/index.html", "report/pdf.svg"):
        (tmp_path / "criterion/a" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "criterion/a" / name).touch()
    assert Runner(tmp_path).run(steps["Keep results"], TARGET="criterion").returncode == 0
    kept = [path for path in (tmp_path / ".perfjudge/runs").rglob("*") if path.is_file()]
    assert [path.name for path in kept] == ["sample.json"]
    assert (tmp_path / "criterion/a/report/index.html").exists()


def test_a_change_is_accepted_whose_commit_has_no_kept_results(steps, tmp_path, model_directory):
    def git(*words):
        identity = ["-c", "user.name=anna", "-c", "user.email=anna@example.org"]
        command = ["git", "-C", str(tmp_path), *identity, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    commits = []
    for name in ("before", "slower", "after"):
        git("commit", "-q", "--allow-empty", "-m", name)
        commits.append(git("rev-parse", "HEAD"))
    before, slower, after = commits
    entry = f"accepted: [{{operation: a, since: {slower}, by: anna, reason: sorts stably}}]"
    (tmp_path / ".perfjudge.yaml").write_text(entry)
    runner = Runner(tmp_path, model_directory)
    run_file(tmp_path / "results.json")
    runner.run(steps["Keep results"], NUMBER="8", GITHUB_SHA=before)
    run_file(tmp_path / "results.json", {"a": 1.5}, seed=1)
    compared = runner.run(steps["Compare"], COMMIT=after, BASE_COMMIT=slower, GITHUB_SHA=after)
    assert (compared.returncode, "sorts stably" in compared.stdout) == (0, True), compared.stdout


def test_the_gitlab_job_shares_and_keeps_40_runs(tmp_path, snippets):
    job = yaml.safe_load(snippets[".gitlab-ci.yml"])["benchmarks"]
    assert job["cache"]["unprotect"] is True
    (tmp_path / ".perfjudge/runs").mkdir(parents=True)
    (tmp_path / "results.json").touch()
    main = {"CI_COMMIT_BRANCH": "main", "CI_DEFAULT_BRANCH": "main", "CI_COMMIT_SHA": "ab" * 20}
    after = {"run": "\n".join(job["after_script"])}
    runner = Runner(tmp_path)
    for number in range(1, 43):
        assert runner.run(after, CI_PIPELINE_IID=str(number), **main).returncode == 0
    kept = {int(path.name.split("-")[1]) for path in (tmp_path / ".perfjudge/runs").iterdir()}
    assert kept == {*range(3, 43)}


@pytest.mark.parametrize(
    ("target", "kept"), [("out/results", ""), ("./results", ""), ("a.b/results.json", ".json")]
)
def test_the_action_keeps_targets_of_any_name(steps, tmp_path, target, kept):
    (tmp_path / target).parent.mkdir(exist_ok=True)
    (tmp_path / target).touch()
    runner = Runner(tmp_path)
    assert runner.run(steps["Keep results"], TARGET=target).returncode == 0
    (stored,) = (tmp_path / ".perfjudge/runs").iterdir()
    assert stored.name == f"run-9-g{'ab' * 20}{kept}"


def test_the_action_does_not_compare_a_commit_with_itself(steps, tmp_path, model_directory):
    runner = Runner(tmp_path, model_directory)
    run_file(tmp_path / "results.json")
    runner.run(steps["Keep results"], NUMBER="8", GITHUB_SHA="cd" * 20)
    run_file(tmp_path / "results.json", {"a": 1.5}, seed=1)
    for attempt in range(2):
        failed = runner.run(steps["Compare"])
        assert (failed.returncode, "error title=regression" in failed.stderr) == (1, True), attempt
        assert runner.run(steps["Keep results"]).returncode == 0


def test_the_action_confirms_with_the_given_command(steps, tmp_path, model_directory):
    runner = Runner(tmp_path, model_directory)
    run_file(tmp_path / "base.json")
    run_file(tmp_path / "results.json", {"a": 1.5})
    (tmp_path / "again.sh").write_text('cp results.json "$1"\n')
    arguments = "--fail-on-regression --confirm 2 --confirm-base 'cp base.json {output}'"
    again = "bash again.sh {output}"
    done = runner.run(steps["Compare"], BASELINE="base.json", ARGUMENTS=arguments, CONFIRM=again)
    assert (done.returncode, done.stderr.count("confirming")) == (1, 2)


def seconds_of_processes():
    """Return the processor time of the processes that have ended; others may use the machine, too."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_the_action_installs_its_release_and_judges_in_30_seconds(steps, tmp_path, wheel):
    runner, version = Runner(tmp_path), wheel.name.split("-")[1]
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG.format(version))
    release = tmp_path / f"releases/v{version}"
    release.mkdir(parents=True)
    shutil.copy(wheel, release)
    # of a pipeline that is no concern of perfjudge
    (tmp_path / "params.yaml").write_text("train:\n  rate: 0.1\n")
    run_file(tmp_path / "base.json")
    run_file(tmp_path / "results.json", {"a": 1.5})
    begun = seconds_of_processes()
    installed = runner.run(steps["Install"], RELEASES=release.parent.as_uri())
    assert (installed.returncode, installed.stderr) == (0, "")
    failed = runner.run(steps["Compare"], BASELINE="base.json")
    assert seconds_of_processes() - begun < 30
    assert (failed.returncode, "::error title=regression%3A bench/a" in failed.stderr) == (1, True)
    model = json.loads((tmp_path / ".perfjudge/json.json").read_text())["model"]
    assert (model["name"], model["version"]) == ("regression-comparison", version)


def test_the_action_names_the_wheel_that_it_cannot_install(steps, tmp_path):
    runner = Runner(tmp_path)
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n")
    unreleased = runner.run(steps["Install"])
    assert (unreleased.returncode, unreleased.stdout.count("older than the first release")) == (1, 1)
    (tmp_path / "CHANGELOG.md").write_text("## 0.1.0 - 2026-12-01\n")
    absent = runner.run(steps["Install"], RELEASES=f"file://{tmp_path}")
    name = f"cannot install file://{tmp_path}/v0.1.0/perfjudge-0.1.0-py3-none-any.whl"
    assert (absent.returncode, absent.stdout.count(name)) == (1, 1)


@pytest.fixture(scope="module")
def release_steps():
    return yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]["release"]["steps"]


def test_action_and_release_agree_on_python_and_version(steps, release_steps):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"--python '{project['requires-python']}'" in steps["Install"]["run"]
    runs = [step["run"] for step in release_steps if "run" in step]
    for run in runs:
        assert "${{" not in run
        assert subprocess.run(["bash", "-n", "-c", run], check=False).returncode == 0
    newest = re.compile(r"sed -n '\S+ \S+")
    assert newest.findall(steps["Install"]["run"]) == newest.findall(runs[0])


@pytest.mark.parametrize(("newest", "status"), [("1.2.0", 0), ("1.1.0", 1)])
def test_the_release_has_the_newest_version_of_the_changelog(release_steps, tmp_path, newest, status):
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG.format(newest))
    checked = Runner(tmp_path).run(release_steps[2], TAG="v1.2.0")
    assert checked.returncode == status
    assert (tmp_path / "dist/notes.md").read_text().split() == ["-", "Sorts."]


@pytest.fixture(scope="module")
def snippets():
    """The blocks of YAML in docs/ci.md by their files."""
    pages = (ROOT / "docs/ci.md").read_text()
    return dict(re.findall(r"<!-- file: (\S+) -->\n\n```yaml\n(.*?)```", pages, re.DOTALL))


def test_the_ci_snippets_are_valid_for_their_systems(tmp_path, snippets):
    (tmp_path / "known.yaml").write_text(snippets[".perfjudge.yaml"])
    known = read_acknowledged(tmp_path / "known.yaml")[1]
    assert [len(one) for one in (known.acknowledged, known.unstable, known.accepted)] == [1, 1, 1]
    taken = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    github = yaml.safe_load(snippets[".github/workflows/benchmarks.yml"])
    assert set(github["jobs"]["benchmarks"]["steps"][-1]["with"]) <= set(taken)


def test_the_gitlab_job_compares_with_the_wheel_in_30_seconds(tmp_path, wheel, snippets):
    job = yaml.safe_load(snippets[".gitlab-ci.yml"])["benchmarks"]
    runner = Runner(tmp_path)
    runner.program("pip", '[ "$*" = "install uv" ]')
    branch = {"CI_COMMIT_BRANCH": "main", "CI_DEFAULT_BRANCH": "main"}
    begun = seconds_of_processes()
    # the last job runs again
    for number, (slower, status) in enumerate([({}, 0), ({"a": 1.5}, 1), ({"a": 1.5}, 1)]):
        main = branch | {"CI_COMMIT_SHA": ("ab", "cd")[status] * 20}
        run_file(tmp_path / "measured.json", slower, seed=number)
        (tmp_path / "benchmarks.sh").write_text('#!/bin/sh\ncp measured.json "$1"\n')
        (tmp_path / "benchmarks.sh").chmod(0o755)
        lines = {"run": "\n".join([*job["before_script"], *job["script"]])}
        done = runner.run(lines, PERFJUDGE=str(wheel), **main)
        assert done.returncode == status, done.stderr
        after = {"run": "\n".join(job["after_script"])}
        assert runner.run(after, CI_PIPELINE_IID=str(number), **main).returncode == 0
    assert seconds_of_processes() - begun < 30
    kept = sorted(path.name[:8] for path in (tmp_path / ".perfjudge/runs").iterdir())
    assert kept == ["run-0-ga", "run-2-gc"]
    assert job["artifacts"]["paths"] == ["comment.md"]
    assert "**regression** | bench/a" in (tmp_path / "comment.md").read_text()
    assert "<failure" in (tmp_path / job["artifacts"]["reports"]["junit"]).read_text()
