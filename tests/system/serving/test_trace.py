"""An answer leads back to the version that gave it, which says the same again."""

import json
import re
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from fastapi import FastAPI
from mlflow.entities import Dataset, DatasetInput
from sklearn.linear_model import LogisticRegression

from data.errors import InputError
from serving.comparisons.endpoints import answer_json, answer_xml
from serving.comparisons.model import load_judge
from serving.http.schemas import RefusedError
from serving.promotion import tracing
from serving.promotion.tracing import GivenAnswer, replay_answer
from tests.asking import ask
from tests.commands import perfjudge
from tests.system.conftest import MLFLOW_WARNINGS, Repository, fitted
from tests.system.serving.registry import NAME, registry_in
from training.evaluation.thresholds import DecisionPolicy, DecisionThresholds
from training.registry import origins

pytestmark = MLFLOW_WARNINGS


@pytest.fixture(scope="module")
def registry(tmp_path_factory, empty_store):
    with registry_in(tmp_path_factory.mktemp("store"), empty_store) as registry:
        registry.lead(registry.add())
        registry.add()
        yield registry


@pytest.fixture
def source(registry, request_file):
    return request_file


@pytest.fixture
def answer(source, tmp_path):
    """Return a function that judges, and gives the path of the answer."""

    def judged(*options):
        assert perfjudge("judge", source, *options, "-o", tmp_path / "answer").returncode == 0
        return tmp_path / "answer"

    return judged


def traced(*words):
    done = perfjudge("trace", *words)
    return done.returncode, done.stdout + done.stderr


def is_repeated(answer, source):
    status, told = traced(answer, "--input", source)
    return (status, "values are the same" in told) == (0, True)


@pytest.mark.parametrize("shown", ["json", "xml", "junit", "markdown", "table"])
def test_answers_of_any_format_can_be_reproduced(source, answer, shown):
    path = answer("--format", shown)
    assert is_repeated(path, source)
    status, told = traced(path, "--better", "lower")
    assert (status, "--better needs --input" in told) == (2, True)
    path.write_text(path.read_text().replace("slow", "quick", 1))
    status, told = traced(path, "--input", source)
    assert (status, "quick" in told) == (1, True)


@pytest.mark.parametrize("limit", ["--max-false-negative-rate", "--max-false-positive-rate"])
def test_answers_without_the_limit_of_their_model_are_repeated(registry, source, answer, limit):
    model = fitted(LogisticRegression())
    policy, cuts = DecisionPolicy(max_review_rate=0.05), DecisionThresholds(0.3, 0.7)
    version = registry.add(replace(model, card=replace(model.card, policy=policy, cuts=cuts)))
    for options in ([], [limit, "none"]):
        path = answer("--model", f"models:/{NAME}/{version}", "--json", *options)
        max_review_rate = json.loads(path.read_text())["model"]["decided"]["max_review_rate"]
        assert max_review_rate == (None if options else 0.05)
        assert is_repeated(path, source)


def test_http_answers_are_repeated_with_their_minimum_effect_size(registry, source, tmp_path):
    path, report = tmp_path / "answer", tmp_path / "report.xml"
    path.write_bytes(answer_json(source.read_bytes(), load_judge(min_effect_size=0.3)).content)
    assert json.loads(path.read_text())["verdicts"][1]["decided_by"] == "min_effect_size"
    assert is_repeated(path, source)
    assert perfjudge("judge", source, "--format", "xml", "-o", report).returncode == 0
    path.write_bytes(answer_xml(report.read_bytes(), load_judge()).content)
    status, told = traced(path, "--input", report, "--json")
    assert (status, json.loads(told)["repeated"]["differences"]) == (0, [])


def test_a_changed_number_or_file_is_named(source, answer):
    content = json.loads((path := answer("--json")).read_text())
    was, content["verdicts"][1]["probability"] = content["verdicts"][1]["probability"], 0.5
    path.write_text(json.dumps(content))
    status, told = traced(path, "--input", source)
    assert (status, f"verdicts[1].probability: was 0.5, is {was!r}" in told) == (1, True)
    content["model"]["digest"] = "other"
    path.write_text(json.dumps(content))
    status, told = traced(path)
    assert (status, ", not those of the answer" in told) == (1, True)


@pytest.mark.parametrize("content", ["not json", '{"comparisons": [\n}', '{"comparisons": [{}]}', "<a/>"])
@pytest.mark.parametrize("shown", ["json", "table"])
def test_a_damaged_input_is_refused_as_judge_refuses_it(answer, tmp_path, content, shown):
    (damaged := tmp_path / "damaged").write_text(content)
    refused = perfjudge("judge", damaged)
    assert refused.returncode == 2
    assert traced(answer("--format", shown), "--input", damaged) == (2, refused.stderr)


def test_a_refused_request_is_named_with_file_and_endpoint(source, monkeypatch):
    monkeypatch.setattr(tracing, "_replay_by_endpoint", Mock(side_effect=RefusedError(422, "x is empty")))
    with pytest.raises(InputError) as refused:
        replay_answer(GivenAnswer("corun-static", "1", "json", b"{}"), source, {})
    reason = "as a request to /v1/corun/static: x is empty"
    assert str(refused.value) == f"{source}: cannot be judged again ({reason})"


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


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository with tracked measurements, some of them by DVC, and its commit."""
    for name in ("measured/results.parquet", "mine.dvc"):
        (tmp_path / "data/raw" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data/raw" / name).write_text("1")
    repository = Repository(tmp_path)
    repository.commit("first")
    monkeypatch.setattr(origins, "project_root", lambda: tmp_path)
    return repository.git("rev-parse", "HEAD").strip()


def version_of_run(registry, data, **tags):
    """Register a version that a run with these tags trained on `data`."""
    store = registry.store
    run = store.create_run("0", tags={f"mlflow.source.git.{name}": value for name, value in tags.items()})
    if data:
        given = Dataset(name=data, digest="d", source_type="tables", source="{}", profile="{}")
        store.log_inputs(run.info.run_id, [DatasetInput(given, [])])
    directory = registry.files(registry.add()).as_uri()
    return store.create_model_version(NAME, directory, run_id=run.info.run_id).version


def test_a_version_is_reproduced_by_checking_out_its_commit(registry, checkout):
    # tracked by DVC
    version = version_of_run(registry, "data/raw/mine", commit=checkout, dirty="false")
    status, told = traced(NAME, version)
    command = f"reproduce   git checkout {checkout[:12]} && uv run dvc repro\n"
    assert (status, command in told) == (0, True)
    assert json.loads(traced(NAME, version, "--json")[1])["code"]["obstacle"] == ""


@pytest.mark.parametrize("written", ["1", "v2", "v99", "vv1", "v", "1v"])
def test_a_version_may_begin_with_v_as_in_outputs(registry, written):
    number = written.removeprefix("v")
    is_version = number in {"1", "2"}
    tracing.add_origin_endpoint(app := FastAPI())
    (answer,) = ask(app, ("GET", f"/v1/models/{NAME}/{written}"))
    status, told = traced(NAME, written)
    assert (answer.status_code, status) == ((200, 0) if is_version else (404, 2))
    if is_version:
        assert (answer.json()["version"], told.split()[1]) == (number, f"v{number}")
    else:
        assert f'version "{written}" of the model "{NAME}" does not exist' in answer.json()["detail"]


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
def test_a_checkout_is_recommended_only_if_it_helps(registry, checkout, data, tags, why):
    version = version_of_run(registry, data, **{"commit": checkout} | tags)
    status, told = traced(NAME, version)
    (line,) = (one for one in told.splitlines() if "reproduce " in one)
    assert (status, "git checkout" in line, why in line) == (0, False, True)
    assert ("commit code, params.yaml and data before training" in line) != ("run git fetch" in line)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param('{"model": ' + "[" * 100_000, "is not an answer", id="deep"),
        ('{"model": {"uri": "models/comparisons/logistic"}}', "is not a registered version"),
        ("nothing of the kind", "names no model"),
        ("(model regression-comparison 999, fail", 'version "999" of the model "regression-c'),
        # as of matrices with a risk guarantee
        ("1 pair: 1 fail (model regression-matrix 999; at most 10 %", 'version "999" of the model'),
    ],
)
def test_an_answer_without_a_version_is_refused(registry, tmp_path, content, told):
    answer = tmp_path / "answer"
    answer.write_text(content)
    status, said = traced(answer)
    assert (status, said.count("\n"), told in said) == (2, 1, True)
    assert traced(tmp_path / "absent")[0] == 2
