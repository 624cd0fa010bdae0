"""The client as a package of its own: built, installed into an empty environment, and used from there."""

import json
import os
import subprocess
import sys
from zipfile import ZipFile

from tests.imports import ROOT
from tests.system.conftest import comparison

EXAMPLES = ROOT / "docs/examples"
#: A program of a user: the first function is typed as the client says, the second is not.
TYPED = """
from perfjudge_client import Client
from perfjudge_client.schemas import Comparison, VerdictAnswer


def failed(url: str, comparisons: list[Comparison]) -> list[VerdictAnswer]:
    with Client(url) as client:
        verdicts = client.judge_comparisons(comparisons)
    print(*[model.version for model in verdicts.models])
    return [verdict for verdict in verdicts if verdict.verdict == "fail"]


def reason(verdict: VerdictAnswer) -> int:
    return verdict.reason
"""
#: Prints the error of a comparison whose direction is wrong.
REFUSED = """
import json, sys
from perfjudge_client import Client, RefusedError
try:
    Client(sys.argv[1]).judge_comparisons(json.loads(sys.argv[2]))
except RefusedError as error:
    print(error.status, error.detail)
"""


def run(*command, url="", status=0, **options):
    """Run a command that sees neither this project nor another server than that of `url`."""
    environment = {**os.environ, "PERFJUDGE_URL": url}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, **options)
    assert done.returncode == status, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_the_wheel_is_small_and_needs_two_packages(client_package):
    assert client_package.wheel.stat().st_size < 1_000_000
    listed = run("uv", "pip", "list", "--python", client_package.python, "--format", "json")
    names = {package["name"] for package in json.loads(listed)}
    assert "perfjudge-client" in names
    assert len(names) <= 3
    packed = ZipFile(client_package.wheel).namelist()
    assert "perfjudge_client/py.typed" in packed
    assert any(name.endswith("/LICENSE") for name in packed)


def test_the_report_generator_runs_with_the_client_alone(client_package, listening, tmp_path):
    command = (EXAMPLES / "report_generator.py", ROOT / "docs/samples/run.csv", listening.url, "report.html")
    run(client_package.python, *command, cwd=tmp_path, url=listening.url)
    text = (tmp_path / "report.html").read_text()
    assert "of 9 operations got worse" in text
    assert text.count("<tr><td>") == 9


def test_the_cells_of_the_notebook_run_in_order(client_package, listening):
    notebook = json.loads((EXAMPLES / "report_generator.ipynb").read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in cells)
    code = "\n".join("".join(cell["source"]) for cell in cells)
    # a kernel starts in the directory of its notebook, too
    said = run(client_package.python, "-c", code, cwd=EXAMPLES, url=listening.url)
    assert {line.split()[0] for line in said.splitlines()[:9]} <= {"pass", "fail", "unsure", "invalid"}
    assert said.splitlines()[0].split()[0] == "fail"
    assert "\n  " in said


def test_a_refusal_of_a_real_server_names_the_field(client_package, listening, tmp_path):
    wrong = json.dumps([comparison("a"), comparison("b", better="bigger")])
    said = run(client_package.python, "-c", REFUSED, listening.url, wrong, cwd=tmp_path, url=listening.url)
    assert said == '422 body: comparisons[1].better="bigger" is not "lower" or "higher"\n'


def test_mypy_checks_programs_against_the_installed_client(client_package, tmp_path):
    (tmp_path / "program.py").write_text(TYPED)
    command = ["-m", "mypy", "--strict", "--config-file", "", "--cache-dir", "cache", "program.py"]
    python = ["--python-executable", client_package.python]
    said = run(sys.executable, *command, *python, cwd=tmp_path, status=1)
    errors = [line for line in said.splitlines() if ": error:" in line]
    assert [line.partition(": error: ")[2] for line in errors] == [
        'Incompatible return value type (got "str", expected "int")  [return-value]'
    ]
