"""An answer leads back to the version that gave it, which says the same again."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from mlflow.entities import Dataset, DatasetInput

from data.errors import InputError
from serving import cli
from serving.comparisons.endpoints import answer_json, answer_xml
from serving.comparisons.model import load_judge
from serving.promotion.tracing import GivenAnswer, replay_answer
from tests.system.conftest import FIGURE, comparison
from tests.system.serving.registry import NAME, registry_in
from training.registry import origins

# inside MLflow 3.17, and may go with it
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType"),
    pytest.mark.filterwarnings("ignore:Operation with range is deprecated"),
]
REQUEST = {"comparisons": [comparison("same"), comparison("slow", 80.0)]}


@pytest.fixture(scope="module")
def registry(tmp_path_factory, empty_store):
    with registry_in(tmp_path_factory.mktemp("store"), empty_store) as registry:
        registry.lead(registry.add())
        registry.add()
        yield registry


@pytest.fixture
def source(registry, tmp_path):
    path = tmp_path / "request.json"
    path.write_text(json.dumps(REQUEST))
    return path


def traced(capsys, *words):
    status = cli.run_command(["trace", *map(str, words)])
    told = capsys.readouterr()
    return status, told.out + told.err


@pytest.mark.parametrize("shown", ["json", "xml", "junit", "markdown", "table"])
def test_answers_of_any_format_can_be_reproduced(source, tmp_path, capsys, shown):
    answer = tmp_path / "answer"
    assert cli.run_command(["judge", str(source), "--format", shown, "-o", str(answer)]) == 0
    status, told = traced(capsys, answer, "--input", source)
    assert (status, told.splitlines()[0]) == (0, f"{NAME} v1 (logistic), champion")
    assert "values are the same" in told
    answer.write_text(answer.read_text().replace("slow", "quick", 1))
    status, told = traced(capsys, answer, "--input", source)
    assert status == 1
    assert "quick" in told


def test_http_answers_are_repeated_with_their_minimum_effect_size(registry, source, tmp_path, capsys):
    answer, figure = tmp_path / "answer", tmp_path / "figure.xml"
    answer.write_bytes(answer_json(source.read_bytes(), load_judge(min_effect_size=0.3)).content)
    assert json.loads(answer.read_text())["verdicts"][1]["decided_by"] == "min_effect_size"
    status, told = traced(capsys, answer, "--input", source)
    assert (status, "values are the same" in told) == (0, True)
    figure.write_text(FIGURE)
    answer.write_bytes(answer_xml(FIGURE.encode(), load_judge()).content)
    status, told = traced(capsys, answer, "--input", figure, "--json")
    assert (status, json.loads(told)["repeated"]["differences"]) == (0, [])


def test_a_changed_number_or_file_is_named(source, tmp_path, capsys):
    answer = tmp_path / "answer.json"
    assert cli.run_command(["judge", str(source), "--json", "-o", str(answer)]) == 0
    content = json.loads(answer.read_text())
    was, content["verdicts"][1]["probability"] = content["verdicts"][1]["probability"], 0.5
    answer.write_text(json.dumps(content))
    status, told = traced(capsys, answer, "--input", source)
    assert status == 1
    assert f"verdicts[1].probability: was 0.5, is {was!r}" in told
    content["model"]["digest"] = "other"
    answer.write_text(json.dumps(content))
    status, told = traced(capsys, answer)
    assert (status, ", not those of the answer" in told) == (1, True)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository with tracked measurements, some of them by DVC, and its commit."""
    for name in ("measured/results.parquet", "mine.dvc"):
        (tmp_path / "data/raw" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data/raw" / name).write_text("1")
    words = ("init -q", "add .", "-c user.name=a -c user.email=b commit -qm first", "rev-parse HEAD")
    said = [subprocess.check_output(["git", *one.split()], cwd=tmp_path, text=True) for one in words]
    monkeypatch.setattr(origins, "project_root", lambda: tmp_path)
    return said[-1].strip()


def version_of_run(registry, data, **tags):
    """Register a version that a run with these tags trained on `data`."""
    store = registry.store
    run = store.create_run("0", tags={f"mlflow.source.git.{name}": value for name, value in tags.items()})
    if data:
        given = Dataset(name=data, digest="d", source_type="tables", source="{}", profile="{}")
        store.log_inputs(run.info.run_id, [DatasetInput(given, [])])
    directory = registry.files(registry.add()).as_uri()
    return store.create_model_version(NAME, directory, run_id=run.info.run_id).version


def test_a_version_is_reproduced_by_checking_out_its_commit(registry, checkout, capsys):
    # tracked by DVC
    version = version_of_run(registry, "data/raw/mine", commit=checkout, dirty="false")
    status, told = traced(capsys, NAME, version)
    assert status == 0
    assert f"reproduce   git checkout {checkout[:12]} && uv run dvc repro\n" in told
    assert json.loads(traced(capsys, NAME, version, "--json")[1])["code"]["obstacle"] == ""


@pytest.mark.parametrize(
    ("data", "tags", "why"),
    [
        ("data/raw/measured", {"dirty": "true"}, "trained with changes that are in no commit"),
        ("data/raw/measured", {}, "trained with changes that are in no commit is not known"),
        ("data/raw/measured", {"dirty": "false", "commit": ""}, "trained outside of git"),
        ("data/raw/measured", {"dirty": "false", "commit": "5" * 40}, "has no commit 555555555555"),
        ("data/raw/ours", {"dirty": "false"}, "data/raw/ours is in no commit"),
        ("../ours", {"dirty": "false"}, "../ours is in no commit"),
        ("", {"dirty": "false"}, "not known which data"),
    ],
)
def test_a_checkout_is_recommended_only_if_it_helps(registry, checkout, capsys, data, tags, why):
    version = version_of_run(registry, data, **{"commit": checkout} | tags)
    status, told = traced(capsys, NAME, version)
    (line,) = (one for one in told.splitlines() if "reproduce " in one)
    assert status == 0
    assert "git checkout" not in line
    assert why in line
    assert ("commit code, params.yaml and data before training" in line) != ("run git fetch" in line)


@pytest.mark.parametrize(
    ("make", "shown", "told"),
    [
        (lambda path: None, "json", "No such file or directory"),
        (Path.mkdir, "json", "expected a request to /v1/corun/static, a file of at most"),
        (lambda path: path.write_bytes(bytes(2**24 + 1)), "json", "expected a request to /v1/corun/static"),
        (Path.touch, "table", "with an answer in JSON"),
    ],
    ids=["missing", "directory", "too large", "text"],
)
def test_an_unusable_input_of_a_corun_answer_is_named(tmp_path, make, shown, told):
    make(source := tmp_path / "input")
    with pytest.raises(InputError, match=re.escape(told)) as refused:
        replay_answer(GivenAnswer("corun-static", "1", shown, b"{}"), source, {})
    assert str(refused.value).startswith(f"{source}: ")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"comparisons": []}', 'is not an answer; expected {"model": {"name", "version", "uri"}, ...}'),
        ('{"model": {"uri": "models/comparisons/logistic"}}', "is not a registered version"),
        ("nothing of the kind", "names no model"),
        (
            "(model regression-comparison 999, fail",
            'version "999" of the model "regression-comparison" does not exist',
        ),
    ],
)
def test_an_answer_without_a_version_is_refused(registry, tmp_path, capsys, content, told):
    answer = tmp_path / "answer"
    answer.write_text(content)
    status, said = traced(capsys, answer)
    assert (status, said.count("\n")) == (2, 1)
    assert told in said
    assert traced(capsys, tmp_path / "absent")[0] == 2
