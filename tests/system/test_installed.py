"""The wheels of perfjudge and its client in fresh environments, outside of the checkout."""

import json
import os
import shutil
import subprocess
from zipfile import ZipFile

import httpx
import pytest
import yaml

from benchmarks.install import disk_megabytes
from tests.commands import perfjudge_process
from tests.imports import ROOT
from tests.ports import free_port
from tests.system.conftest import Listening, output_of
from tests.system.documented.project import KNOBS

SAMPLES = ROOT / "docs/samples"
NAME = "regression-comparison"
#: Hides the checkout, and uses wheel and client in turn.
WITHOUT_REPOSITORY = """
mount -t tmpfs tmpfs "$repository"
perfjudge judge mine.json --json > judged.json
perfjudge serve --port "$port" 2> server.log &
server=$!
"$client" -c "$program" "http://127.0.0.1:$port" > answered.json
kill $server
"""
PROGRAM = """
import json, sys
from perfjudge_client import Client
comparisons = json.load(open("mine.json"))["comparisons"]
answers = Client(sys.argv[1]).judge_comparisons(comparisons)
print(json.dumps([answer.verdict for answer in answers]))
"""


@pytest.fixture
def run(installed, tmp_path):
    """Return a function that runs the installed perfjudge in an empty folder, without other variables."""
    folder = tmp_path / "empty"
    folder.mkdir()

    def run_there(*arguments, **variables):
        environment = {"PATH": os.defpath, "HOME": str(tmp_path), "LANG": "C.UTF-8", **variables}
        return subprocess.run(
            [installed / "perfjudge", *map(str, arguments)], cwd=folder, env=environment, capture_output=True,
            text=True, timeout=300, check=False,
        )  # fmt: skip

    run_there.folder = folder
    return run_there


def test_the_wheels_model_judges_and_compares_in_an_empty_folder(run, wheel):
    done = run("judge", SAMPLES / "mine.json", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    number = wheel.name.split("-")[1]
    assert answer["verdicts"][0]["verdict"] == "fail"
    assert (answer["model"]["name"], answer["model"]["version"]) == (NAME, number)
    assert answer["model"]["uri"] == f"models:/{NAME}/{number}"
    again = run("judge", SAMPLES / "mine.json", "--json", "--model", answer["model"]["uri"])
    assert again.stdout == done.stdout
    files = [SAMPLES / f"formats/pytest-benchmark/{side}.json" for side in ("base", "new")]
    compared = run("compare", *files, "--json")
    assert (compared.returncode, compared.stderr) == (0, "")
    assert json.loads(compared.stdout)["verdicts"]
    assert [*run.folder.iterdir()] == []


def test_server_answers_without_a_registry(installed, run, monkeypatch):
    monkeypatch.chdir(run.folder)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with Listening(program=installed / "perfjudge") as server:
        body, kind = (SAMPLES / "mine.json").read_bytes(), {"content-type": "application/json"}
        judged = httpx.post(f"{server.url}/v1/comparisons/judge", content=body, headers=kind)
        assert judged.json()["verdicts"][0]["verdict"] == "fail"
        assert [model["name"] for model in httpx.get(f"{server.url}/v1/models").json()["models"]] == [NAME]
        for page in ("/", "/docs", "/comparisons/next", "/v1/labels", "/readyz", "/metrics"):
            assert httpx.get(f"{server.url}{page}").status_code < 500, page


@pytest.mark.parametrize("source", ["mine.json", "labelled.xml"])
def test_answers_are_equal_with_and_without_pyarrow(installed, run, source):
    (shipped,) = installed.parent.glob(f"lib/*/site-packages/training/shipped/models/{NAME}")
    command = ["judge", SAMPLES / source, "--model", shipped, "--json", "--why"]
    here = perfjudge_process(*command)
    assert (here.returncode, run(*command).stdout) == (0, here.stdout)


def test_wheel_and_client_work_on_a_machine_without_the_repository(installed, client_package, tmp_path):
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and util-linux")
    shutil.copy(SAMPLES / "mine.json", tmp_path)
    port = free_port()
    variables = {
        "PATH": f"{installed}:{os.defpath}", "HOME": str(tmp_path), "LANG": "C.UTF-8",
        "repository": str(ROOT), "port": str(port), "client": str(client_package.python), "program": PROGRAM,
    }  # fmt: skip
    output_of("unshare", "--mount", "bash", "-euc", WITHOUT_REPOSITORY, cwd=tmp_path, env=variables)
    judged, answered = (
        json.loads((tmp_path / f"{name}.json").read_text()) for name in ("judged", "answered")
    )
    assert [verdict["verdict"] for verdict in judged["verdicts"]] == answered == ["fail"]


def test_the_champion_of_a_registry_answers_first(run, champion_registry):
    done = run("judge", SAMPLES / "mine.json", "--json", MLFLOW_TRACKING_URI=champion_registry)
    assert json.loads(done.stdout)["model"]["version"] == "1"


def test_a_missing_model_or_extra_is_named_with_the_remedy(run):
    done = run("corun", "static", "--task", "a", "--with", "b")
    assert done.returncode == 2
    assert 'no champion of "corun-static"' in done.stderr
    assert "make one with: dvc repro in a clone of perfjudge" in done.stderr
    for command in (
        ["train", "mine"], ["judge", SAMPLES / "labelled"],
        ["import", "comparison-xml", SAMPLES / "labelled.xml", "-o", "tables"],
        ["collect", SAMPLES / "suite.yaml", "-o", "measured"],
    ):  # fmt: skip
        done = run(*command)
        assert done.returncode == 2
        assert done.stderr.endswith("is not installed; install it with: pip install 'perfjudge[train]'\n")
    assert [*run.folder.iterdir()] == []


def test_version_names_commit_and_champion_in_at_most_350_mib(installed, run, wheel):
    first, *champions = run("--version").stdout.splitlines()
    assert first.startswith(f"perfjudge {wheel.name.split('-')[1]} (commit ")
    assert [line.split()[0] for line in champions] == [NAME]
    (packages,) = installed.parent.glob("lib/*/site-packages")
    assert disk_megabytes(packages) <= 350


def test_a_new_project_trains_a_champion_that_answers_there(wheel, tmp_path, preloaded_programs):
    code, project = tmp_path / "code", tmp_path / "mine"
    output_of("uv", "pip", "install", "--quiet", "--no-deps", "--target", code, wheel)

    def run_in(folder, *command):
        path = f"{preloaded_programs}:{os.environ['PATH']}"
        environment = {"PATH": path, "HOME": str(tmp_path), "USER": "anna", "PYTHONPATH": str(code)}
        return output_of(preloaded_programs / "python", *command, cwd=folder, env=environment)

    (tmp_path / ".gitconfig").write_text("[user]\n    name = anna\n    email = anna@localhost\n")
    perfjudge = ("-c", "from serving.cli import main; main()")
    run_in(tmp_path, *perfjudge, "train", "mine")
    params = yaml.safe_load((project / "params.yaml").read_text())
    for section, short in KNOBS["comparisons"].items():
        params["comparisons"][section] |= short
    (project / "params.yaml").write_text(yaml.safe_dump(params))
    run_in(project, *perfjudge, "import", "tables", SAMPLES / "labelled", "-o", "data/raw/mine")
    run_in(project, "-m", "dvc", "exp", "run", "-S", "comparisons.ingest.path=data/raw/mine")
    answer = json.loads(run_in(project, *perfjudge, "judge", SAMPLES / "mine.json", "--json"))
    assert answer["model"]["uri"] == f"models:/{NAME}/1"
    assert "data/raw/mine" in (project / "dvc.lock").read_text()


EXAMPLES = ROOT / "docs/examples"


def without_project(*command, url="", **options):
    """Run a command that sees neither this project nor another server than that of `url`."""
    environment = {**os.environ, "PERFJUDGE_URL": url}
    environment.pop("PYTHONPATH", None)
    return output_of(*command, env=environment, **options)


def test_the_wheel_is_small_and_needs_two_packages(client_package):
    assert client_package.wheel.stat().st_size < 1_000_000
    listed = without_project("uv", "pip", "list", "--python", client_package.python, "--format", "json")
    names = {package["name"] for package in json.loads(listed)}
    assert "perfjudge-client" in names
    assert len(names) <= 3
    packed = ZipFile(client_package.wheel).namelist()
    assert "perfjudge_client/py.typed" in packed
    assert any(name.endswith("/LICENSE") for name in packed)


def test_the_report_generator_runs_with_the_client_alone(client_package, listening, tmp_path):
    command = (EXAMPLES / "report_generator.py", ROOT / "docs/samples/run.csv", listening.url, "report.html")
    without_project(client_package.python, *command, cwd=tmp_path, url=listening.url)
    text = (tmp_path / "report.html").read_text()
    assert "of 9 operations got worse" in text
    assert text.count("<tr><td>") == 9


def test_the_cells_of_the_notebook_run_in_order(client_package, listening):
    notebook = json.loads((EXAMPLES / "report_generator.ipynb").read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in cells)
    code = "\n".join("".join(cell["source"]) for cell in cells)
    # a kernel starts in the directory of its notebook, too
    said = without_project(client_package.python, "-c", code, cwd=EXAMPLES, url=listening.url)
    assert {line.split()[0] for line in said.splitlines()[:9]} <= {"pass", "fail", "unsure", "invalid"}
    assert said.splitlines()[0].split()[0] == "fail"
    assert "\n  " in said
