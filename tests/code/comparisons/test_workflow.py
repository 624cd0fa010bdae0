"""The workflow that `compare --init` writes for the benchmarks of a repository."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from data.errors import InputError
from serving.cli import run_command
from serving.comparisons.compare.acknowledging import DEFAULT, read_acknowledged
from serving.comparisons.compare.workflow import TOOLS, WORKFLOW, write_workflow

FILES = {
    "pytest-benchmark": ("pyproject.toml", '[project]\ndependencies = ["pytest-benchmark>=5"]\n'),
    "asv": ("benchmarks/asv.conf.json", "{}"),
    "criterion": ("Cargo.toml", '[dev-dependencies]\ncriterion = "0.5"\n'),
    "go": ("sort/sort_test.go", "func BenchmarkSort(b *testing.B) {}\n"),
    "jmh": ("pom.xml", "<artifactId>jmh-core</artifactId>"),
    "jmh-gradle": ("gradle/libs.versions.toml", 'jmh = { id = "me.champeau.jmh", version = "0.7.3" }\n'),
    "hyperfine": ("bench.sh", "hyperfine ./program\n"),
}


def add_file(root, name):
    path = root / FILES[name][0]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(FILES[name][1])


def steps_of(root):
    """Return the commands of the only job, and its last step."""
    (job,) = yaml.safe_load((root / WORKFLOW).read_text())["jobs"].values()
    return [step["run"] for step in job["steps"] if "run" in step], job["steps"][-1]


@pytest.mark.parametrize("name", [tool.name for tool in TOOLS])
def test_each_tool_gets_a_job_that_measures_it(tmp_path, name):
    add_file(tmp_path, name)
    assert write_workflow(tmp_path) == [(name, WORKFLOW), ("acknowledgements", DEFAULT)]
    runs, judging = steps_of(tmp_path)
    tool = next(tool for tool in TOOLS if tool.name == name)
    measure, results = (
        text.replace("{file}", FILES[name][0]).replace("{directory}", str(Path(FILES[name][0]).parent))
        for text in (tool.measure, tool.results)
    )
    assert runs[-1] == measure
    assert judging["uses"].startswith("OWNER/perfjudge@")
    assert judging["with"]["target"] == results
    assert ("{output}" in judging["with"].get("confirm", "")) == bool(tool.repeat)


def test_all_tools_of_a_repository_get_jobs(tmp_path, monkeypatch, capsys):
    for name in FILES:
        add_file(tmp_path, name)
    monkeypatch.chdir(tmp_path)
    assert run_command(["compare", "--init", "base.json"]) == 2
    assert run_command(["compare", "--init", "--json"]) == 2
    assert not [*tmp_path.rglob(".perfjudge.yaml")]
    assert run_command(["compare", "--init"]) == 0
    assert set(yaml.safe_load(WORKFLOW.read_text())["jobs"]) == set(FILES)
    assert f"asv: {WORKFLOW}" in capsys.readouterr().out
    path, acknowledged = read_acknowledged(None)
    assert (path, acknowledged.acknowledged, acknowledged.unstable) == (DEFAULT, (), ())


@pytest.mark.parametrize(
    ("file", "content", "target"),
    [
        ("asv.conf.json", '{"results_dir": ".asv/results"}', ".asv/results"),
        ("asv_bench/asv.conf.json", '{\n  // "results_dir": "other",\n}', "asv_bench/results"),
        ("bench/asv.conf.json", '{"repo": "..",\n  "results_dir": "../kept"}', "kept"),
    ],
)
def test_the_job_of_asv_uses_the_found_configuration(tmp_path, file, content, target):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(content)
    write_workflow(tmp_path)
    runs, judging = steps_of(tmp_path)
    assert [run.count(f"--config {file} --machine ci") for run in runs] == [1, 1]
    assert "--record-samples" in runs[-1]
    assert judging["with"]["target"] == target


#: Files of projects below the root: the tool, the files, the project's directory and the results.
BELOW = [
    ("criterion", ["rs #2/Cargo.toml"], "rs #2", "rs #2/target/criterion"),
    ("criterion", ["Cargo.toml", "core/Cargo.toml"], None, "target/criterion"),
    ("pytest-benchmark", ["py: x/pyproject.toml"], "py: x", "py: x/results.json"),
    ("pytest-benchmark", ["requirements/requirements-dev.txt"], None, "results.json"),
    (
        "pytest-benchmark",
        ["pyproject.toml", "packages/a/pyproject.toml"],
        "packages/a",
        "packages/a/results.json",
    ),
    ("go", ["go/go.mod", "go/sort/sort_test.go"], "go", "go/results.txt"),
    ("go", ["go.mod", "tools/go.mod", "tools/sort/sort_test.go"], "tools", "tools/results.txt"),
    ("jmh", ["java/pom.xml", "java/benchmarks/pom.xml"], "java", "java/results.json"),
    ("jmh-gradle", ["app/gradlew", "app/bench/build.gradle"], "app", "app/results.json"),
    ("asv", ["bench #2/asv.conf.json"], None, "bench #2/results"),
]


@pytest.mark.parametrize(("name", "files", "directory", "results"), BELOW)
def test_a_project_below_the_root_is_measured_there(tmp_path, name, files, directory, results):
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / file).touch()
    (tmp_path / files[-1]).write_text(FILES[name][1])
    assert write_workflow(tmp_path)[0] == (name, WORKFLOW)
    (job,) = yaml.safe_load((tmp_path / WORKFLOW).read_text())["jobs"].values()
    *measuring, judging = job["steps"]
    assert {step.get("working-directory") for step in measuring if "run" in step} == {directory}
    assert judging["with"]["target"] == results
    if directory is not None and (again := judging["with"].get("confirm")):
        shell, option, script = shlex.split(again)
        assert (shell, option, script.startswith(f"cd {shlex.quote(directory)} && ")) == ("sh", "-c", True)
    assert (name == "jmh") == any("benchmarks/target/benchmarks.jar" in str(step) for step in measuring)


@pytest.mark.parametrize(
    ("contents", "installed"),
    [
        ({"setup.py": "", "requirements.txt": ""}, " ."),
        ({"pyproject.toml": "[project]\n"}, " ."),
        ({"pyproject.toml": "[tool.ruff]\n", "requirements.txt": ""}, " -r requirements.txt"),
        ({"setup.cfg": "[flake8]\n", "requirements dev.txt": ""}, " -r 'requirements dev.txt'"),
        (
            {"requirements.txt": "", "bench/requirements-bench.txt": ""},
            " -r bench/requirements-bench.txt -r requirements.txt",
        ),
        ({"tox.ini": ""}, ""),
    ],
)
def test_without_a_package_the_requirements_are_installed(tmp_path, contents, installed):
    for file, content in contents.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(content)
    with (tmp_path / file).open("a") as last:
        last.write("# pytest-benchmark\n")
    write_workflow(tmp_path)
    assert steps_of(tmp_path)[0][0] == f"pip install pytest-benchmark{installed}"


def test_the_workflow_answers_pull_requests_and_merge_queues(tmp_path):
    add_file(tmp_path, "go")
    write_workflow(tmp_path)
    # "on" is a truth value in YAML 1.1
    assert {"pull_request", "merge_group"} < yaml.safe_load((tmp_path / WORKFLOW).read_text())[True].keys()


def test_pushes_to_the_default_branch_run_the_workflow(tmp_path):
    def written_branches():
        write_workflow(tmp_path)
        content = yaml.safe_load((tmp_path / WORKFLOW).read_text())
        (tmp_path / WORKFLOW).unlink()
        return content[True]["push"]["branches"]  # "on" is a truth value in YAML 1.1

    add_file(tmp_path, "go")
    assert written_branches() == ["main"]
    subprocess.run(["git", "init", "-q", "-b", "no"], cwd=tmp_path, check=True)
    assert written_branches() == ["no"]
    remote = "refs/remotes/origin/"
    known = ["git", "symbolic-ref", f"{remote}HEAD", f"{remote}develop/2,#3"]
    subprocess.run(known, cwd=tmp_path, check=True)
    assert written_branches() == ["develop/2,#3"]


@pytest.mark.parametrize("name", ["build.gradle", "benchmarks/build.gradle.kts"])
def test_a_gradle_project_runs_the_task_of_its_plugin(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text('plugins { id "me.champeau.gradle.japicmp" }\ndependencies { jmh "a:b:1" }\n')
    with pytest.raises(InputError, match=r"known tool: expected .*jmh-gradle"):
        write_workflow(tmp_path)
    path.write_text('plugins { id("me.champeau.jmh") version "0.7.3" }\n')
    write_workflow(tmp_path)
    content = (tmp_path / WORKFLOW).read_text()
    assert ("./gradlew jmh" in content, "mvn" in content) == (True, False)


def test_a_failing_go_benchmark_is_shown_and_fails_the_job(tmp_path):
    add_file(tmp_path, "go")
    write_workflow(tmp_path)
    program = tmp_path / "go"
    program.write_text("#!/bin/sh\necho panic: no data\nexit 1\n")
    program.chmod(0o755)
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    measured = subprocess.run(
        ["bash", "-e", "-c", steps_of(tmp_path)[0][-1]],
        cwd=tmp_path, env=variables, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert (measured.returncode, measured.stdout) == (1, "panic: no data\n")


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("jmh", " -foe true "),  # else a benchmark that fails is left out, with status 0
        ("criterion", "cargo bench --workspace"),  # else a root that is a package measures only itself
        ("hyperfine", "sudo apt-get update && "),  # else a list of packages may name versions that are gone
    ],
)
def test_the_job_measures_all_benchmarks_or_fails(tmp_path, name, part):
    add_file(tmp_path, name)
    write_workflow(tmp_path)
    assert any(part in run for run in steps_of(tmp_path)[0])


def test_the_results_of_a_gradle_module_are_found(tmp_path):
    (tmp_path / "a module").mkdir()
    (tmp_path / "a module/build.gradle").write_text('plugins { id "me.champeau.jmh" version "0.7.3" }\n')
    wrapper = tmp_path / "gradlew"
    folder = "a module/build/results/jmh"
    wrapper.write_text(f'#!/bin/sh\nmkdir -p "{folder}" && echo 1 > "{folder}/results.json"\n')
    wrapper.chmod(0o755)
    write_workflow(tmp_path)
    runs, judging = steps_of(tmp_path)
    for command in (runs[-1], judging["with"]["confirm"].replace("{output}", "again.json")):
        subprocess.run(["bash", "-ec", command], cwd=tmp_path, check=True)
    assert (tmp_path / judging["with"]["target"]).read_text() == "1\n"
    assert (tmp_path / "again.json").read_text() == "1\n"


def test_a_subdirectory_of_a_repository_gets_no_workflow(tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    add_file(tmp_path, "go")
    with pytest.raises(InputError, match="below the root of its repository; run the command in /"):
        write_workflow(tmp_path / "sort")
    assert not [*tmp_path.rglob(WORKFLOW.name)]
    assert write_workflow(tmp_path)


def test_environments_are_not_searched_and_existing_files_are_kept(tmp_path):
    add_file(tmp_path / ".venv", "pytest-benchmark")
    with pytest.raises(InputError, match="no benchmarks of a known tool"):
        write_workflow(tmp_path)
    assert not (tmp_path / ".github").exists()
    add_file(tmp_path, "go")
    (tmp_path / DEFAULT).write_text("acknowledged: []\n")
    assert write_workflow(tmp_path) == [("go", WORKFLOW)]
    (tmp_path / WORKFLOW).write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        write_workflow(tmp_path)
    assert (tmp_path / WORKFLOW).read_text() == "mine"
    assert (tmp_path / DEFAULT).read_text() == "acknowledged: []\n"
