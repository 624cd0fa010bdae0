"""A pull request with real commits of a small project: run, compare, comment, fail, acknowledge, pass."""

import json
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import pytest

from serving.cli import run

BENCH = """
import json, pathlib, random, sys
from work import OPERATIONS

def calls(work):
    # what a work does, not how long it takes: other programs may keep the processors busy meanwhile
    counted = 0
    def count(_frame, event, _argument):
        nonlocal counted
        counted += event == "call"
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counted

results, noise = [], random.Random(pathlib.Path(sys.argv[1]).stem)
for name, work in OPERATIONS.items():
    samples = [calls(work) / 100 * noise.gauss(1, 0.01) for _ in range(15)]
    results.append({"benchmark": "small", "operation": name, "machine": "here", "unit": "ms",
                    "better": "lower", "configurations": [{"threads": 1, "samples": samples}]})
with open(sys.argv[1], "w") as file:
    json.dump({"results": results}, file)
"""
WORK = """
def loop(times):
    return lambda: sum(number * number for number in range(times))

OPERATIONS = {{name: loop(times) for name, times in {operations}.items()}}
"""
FIRST = {"parse": 400, "render": 1_200, "sort": 400, "old": 300}


@dataclass
class Project:
    """A benchmark project in git, and the results of its commits beside it."""

    root: Path
    results: Path

    def git(self, *arguments):
        who = ("-c", "user.name=anna", "-c", "user.email=anna@example.org")
        done = subprocess.run(
            ["git", "-C", self.root, *who, *arguments], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, operations, message):
        """Commit and measure; return the commit, after which its results are named."""
        (self.root / "work.py").write_text(WORK.format(operations=operations) + f"# {message}\n")
        self.git("add", "-A")
        self.git("commit", "-qm", message)
        name = self.git("rev-parse", "HEAD")
        subprocess.run([sys.executable, "bench.py", self.of(name)], cwd=self.root, check=True)
        return name

    def of(self, name):
        return self.results / f"{name}.json"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    root = tmp_path_factory.mktemp("project")
    (root / "bench.py").write_text(BENCH)
    (root / ".gitignore").write_text("__pycache__\n")
    project = Project(root, tmp_path_factory.mktemp("results"))
    project.git("init", "-q")
    return project


@pytest.fixture(scope="module")
def commits(project):
    slower = {**FIRST, "parse": 3 * FIRST["parse"]}
    last = {name: times for name, times in slower.items() if name != "old"}
    return [
        project.commit(FIRST, "As it was"),
        project.commit(slower, "Parse more carefully"),
        project.commit(slower, "Say why"),
        project.commit({**last, "render": FIRST["render"] // 3}, "Render at once, and forget what is old"),
    ]


@pytest.fixture
def compare(project, commits, model_directory, monkeypatch, capfd):
    """Return what compares two commits as a workflow does: exit code, JSON, comment, JUnit, annotations."""
    monkeypatch.chdir(project.root)

    def compared(before, after, *options, command=()):
        comment, junit = project.results / "comment.md", project.results / "junit.xml"
        code = run([
            "compare", str(project.of(before)), str(project.of(after)), "--model", str(model_directory),
            "--commit", after, "--base-commit", before, "--runs-differ", "10", "--json", "--annotations",
            "--markdown", str(comment), "--junit", str(junit), "--fail-on-regression", *options, *command,
        ])  # fmt: skip
        told = capfd.readouterr()
        return code, json.loads(told.out), comment.read_text(), ET.parse(junit).getroot(), told.err

    return compared


def outcomes(answer):
    return {one["operation"]: one["outcome"] for one in answer["verdicts"]}


@pytest.mark.slow
def test_a_slower_commit_fails_is_acknowledged_and_passes(project, commits, compare):
    first, slower, *_ = commits
    there = project.root.parent / "before"
    project.git("worktree", "add", "-q", str(there), first)
    again = shlex.join([sys.executable, str(there / "bench.py"), "{output}"])
    command = ("--", sys.executable, str(project.root / "bench.py"), "{output}")
    project.git("checkout", "-q", slower)
    confirming = ("--confirm", "2", "--confirm-base", again)
    code, answer, comment, junit, said = compare(first, slower, *confirming, command=command)
    assert (code, outcomes(answer)["parse"]) == (1, "regression")
    assert "confirming: run 2 of 2 of the baseline" in said
    assert "::error title=regression%3A small/parse" in said
    head = comment.splitlines()
    assert head[0].startswith("<!-- perfjudge compare")
    row = next(line for line in head if line.startswith("| **"))
    assert row.startswith("| **regression** | small/parse |")
    assert row.count(" ms |") == 2
    assert "% slower |" in row
    assert [case.get("name") for case in junit.iter("testcase") if case.find("failure") is not None] == [
        "parse"
    ]

    (project.root / ".perfjudge.yaml").write_text(
        f"accepted:\n- operation: parse\n  since: {slower}\n  why: checks what it parses\n  by: anna\n"
    )
    code, answer, comment, junit, said = compare(first, slower)
    assert (code, outcomes(answer)["parse"]) == (0, "acknowledged")
    assert "::notice title=acknowledged%3A small/parse" in said
    told = "accepted by anna: checks what it parses"
    assert all(told in text for text in (comment, ET.tostring(junit, "unicode"), said))
    (excuse,) = (one["acknowledged"] for one in answer["verdicts"] if one["operation"] == "parse")
    assert excuse == {
        "kind": "accepted",
        "by": "anna",
        "why": "checks what it parses",
        "until": "",
        "since": slower,
    }
    assert junit.get("failures") == "0"


@pytest.mark.slow
def test_a_commit_without_change_passes_and_a_faster_one_is_told(project, commits, compare):
    _, slower, same, faster = commits
    code, answer, comment, *_ = compare(slower, same)
    assert code == 0
    assert set(outcomes(answer).values()) <= {"unchanged", "within_noise", "unsure"}
    code, answer, comment, _, said = compare(same, faster)
    assert (code, outcomes(answer)["render"]) == (0, "improvement"), answer["verdicts"]
    assert "- vanished: small/old/here" in comment
    assert "::notice title=improvement%3A small/render" in said
    assert "::warning title=vanished::small/old/here" in said
    assert compare(same, faster, "--fail-on-missing")[0] == 1
