import json
import re
from functools import partial

import pandas as pd
import pytest
from lxml import etree

from data.matrices.tables import SIDES
from serving.http.api import create_app
from serving.http.models import all_models
from tests.asking import ask
from tests.commands import perfjudge
from tests.system.conftest import problem, refused
from tests.system.matrices.inputs import ABNORMAL, NORMAL, asked, engine, request

judge = partial(perfjudge, "judge")
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def model(made_once):
    return made_once("engine", engine)


@pytest.fixture(scope="module")
def app(model):
    return create_app(all_models({"matrices": str(model)}))


def post(app, content):
    question = {"content": json.dumps(content).encode(), "headers": JSON}
    return ask(app, ("POST", "/v1/matrices/judge", question), started=True)[0]


@pytest.fixture
def in_both(app, model, tmp_path):
    """Return a function that gives the answer to a request, which is equal over HTTP and for a file."""

    def answer(content):
        (path := tmp_path / "request.json").write_text(json.dumps(content))
        found = json.loads(judge(path, "--model", model, "--json").stdout)
        assert post(app, content).json() == found
        return found

    return answer


@pytest.fixture
def source(tmp_path):
    """A directory of tables to be judged."""
    asked().write(tmp_path / "asked")
    return tmp_path / "asked"


def verdicts(done):
    assert (done.returncode, done.stderr) == (0, "")
    return {one["pair_id"]: one for one in json.loads(done.stdout)["verdicts"]}


@pytest.mark.parametrize("form", ["parquet", "columns", "rows"])
def test_a_file_of_any_form_is_judged_like_the_tables(form, model, source, tmp_path):
    usual = verdicts(judge(source, "--model", model, "--json"))
    path = source / "matrices.parquet"
    if form != "parquet":
        path = tmp_path / "request.json"
        path.write_text(json.dumps(request(rows=form == "rows")))
    found = verdicts(judge(path, "--model", model, "--json"))
    assert list(found) == list(usual)
    for pair, one in found.items():
        # a request has no summary metrics, which the validity tree looks at too
        assert (one["verdict"], one["probability"]) == (
            usual[pair]["verdict"],
            pytest.approx(usual[pair]["probability"]),
        )


def test_an_abnormal_pair_exits_with_1_only_on_request(model, source, tmp_path):
    answer = tmp_path / "answer.json"
    done = judge(source, "--model", model, "--fail-on-regression", "--json", "-o", answer)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(json.loads(answer.read_text())["verdicts"]) == 4
    assert judge(source, "--model", model).returncode == 0


def test_metrics_and_groups_unknown_to_the_model_are_noted(model, source):
    path = source / "matrices.parquet"
    runs = pd.read_parquet(path).rename(columns={"m11": "m11_renamed"})
    runs.loc[runs["group"] == "g1", "group"] = "new"
    runs.to_parquet(path)
    done = judge(source, "--model", model, "--json")
    answer = json.loads(done.stdout)
    assert 'metric "m11_renamed" is unknown to the model; it is not used' in answer["notes"]
    assert any(note.startswith('group "new" is unknown to the model') for note in answer["notes"])
    found = {one["pair_id"]: one for one in answer["verdicts"]}
    assert found["g1 c0 v0"]["group_used"] == "fallback"
    assert found[ABNORMAL]["verdict"] == "fail"
    assert "new (fallback)" in judge(source, "--model", model).stdout


def test_a_missing_model_or_champion_is_named(source, tmp_path, monkeypatch):
    refused(judge(source, "--model", tmp_path), "model.skops")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/none.db")
    refused(judge(source), 'no champion of "regression-matrix"')


def test_junit_holds_notes_and_left_out_runs(model, source):
    path = source / "matrices.parquet"
    runs = pd.read_parquet(path).rename(columns={"m11": "other"})
    runs.loc[4, "m5"] = -3.0
    runs.to_parquet(path)
    suites = etree.fromstring(judge(source, "--model", model, "--format", "junit").stdout.encode())
    for suite in suites:
        assert 'metric "other" is unknown to the model' in suite.findtext("system-out")
    told = {case.get("name"): case.findtext("system-out") for case in suites.iter("testcase")}
    assert told[ABNORMAL] == f'left out: run "{runs["run_id"][4]}": m5=-3 must be 0 or more'
    assert told[NORMAL] is None


def test_a_run_that_occurs_twice_is_refused_or_skipped(model, source):
    path = source / "matrices.parquet"
    runs = pd.read_parquet(path)
    pd.concat([runs, runs.head(1)]).to_parquet(path)
    told = f'run "{ABNORMAL} baseline 0": occurs twice'
    refused(judge(source, "--model", model), f"{source} {told}")
    done = judge(source, "--model", model, "--json", "--keep-going")
    assert (done.returncode, told in done.stderr) == (0, True)
    found = {one["pair_id"]: one["verdict"] for one in json.loads(done.stdout)["verdicts"]}
    assert (found["g1 c0 v0"], len(found)) == ("fail", 4)


def test_tables_with_none_of_the_known_metrics_are_refused(model, source):
    path = source / "matrices.parquet"
    pd.read_parquet(path).rename(columns=lambda name: re.sub(r"^m(\d+)$", r"other \1", name)).to_parquet(path)
    told = '12 of the 12 raw metrics of the model are missing, such as "m0"'
    refused(judge(source, "--model", model), f"{source} runs: {told}")


def test_the_server_answers_as_the_command_line_does(in_both, app):
    assert len(in_both(request())["verdicts"]) == 4
    listed = ask(app, ("GET", "/v1/models"), started=True)[0].json()["models"]
    (own,) = (one for one in listed if one["serves"] == "regression-matrix")
    assert (own["estimator"], own["groups"]) == ("logistic contrasted", ["g0", "g1"])
    assert own["features"][:2] == ["m0", "m1"]


def spoilt(**changes):
    """Return a request whose first pair is changed."""
    whole = request()
    whole["pairs"][0] |= changes
    return whole


def target(**changes):
    """Return a request whose first pair has another target."""
    return spoilt(target=request()["pairs"][0]["target"] | changes)


#: What every family's requests refuse is in the tests of the server.
REFUSED = {
    "too many pairs": ({"pairs": request()["pairs"] * 300}, 422, "pairs has more than 1000 entries"),
    "rows and columns": (target(runs=[{"m0": 1.0}]), 422, "either metrics (columns) or runs (rows)"),
    "neither": (spoilt(target={"version": "2"}), 422, "either metrics (columns) or runs (rows)"),
    "no group": (spoilt(group=""), 422, "pairs[0].group is empty"),
    "too many metrics": (
        spoilt(target={"runs": [{f"x{number}": 1.0 for number in range(10_001)}]}),
        422, "runs[0] has more than 10000 entries",
    ),
    "too much": (
        {"pairs": [{
            "pair_id": "x", "workload": "w", "group": "g",
            "baseline": {"runs": [{"m0": 1.0}] * 1000},
            "target": {"runs": [{f"x{number}": 1.0 for number in range(9_999)}], "version": "2"},
        }]},
        413, "have 1001 runs of 10000 metrics; expected 10000000 numbers at most",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("content", "status", "told"), REFUSED.values(), ids=REFUSED)
def test_bad_requests_are_answered_with_problem_details(app, content, status, told):
    problem(post(app, content), status, told)


SHORT = request()["pairs"][0]["target"]["metrics"] | {"m3": [1.0]}
UNJUDGED = {
    "has no run at all; expected those of both sides": (
        spoilt(baseline={"runs": []}, target={"metrics": {"m0": []}}), [0, 0],
    ),
    'pairs[0].target.metrics["m3"]: has 1 values, where others': (target(metrics=SHORT), [3, 3]),
    "has 0 valid of 1 baseline run": (spoilt(baseline={"runs": [{}]}, target={"runs": [{}]}), [1, 1]),
}  # fmt: skip


@pytest.mark.parametrize(("told", "content", "runs"), [(told, *given) for told, given in UNJUDGED.items()])
def test_an_incomplete_pair_is_invalid_beside_judged_ones(app, told, content, runs):
    first, *others = post(app, content).json()["verdicts"]
    assert (first["pair_id"], first["verdict"], first["probability"]) == (ABNORMAL, "invalid", None)
    assert told in first["invalid_reason"]
    invalid = [sum(run["side"] == side for run in first["invalid_runs"]) for side in SIDES]
    assert [first[f"{side}_runs"] + count for side, count in zip(SIDES, invalid, strict=True)] == runs
    # sums of several rows at once may end in another last digit
    alone = post(app, request()).json()["verdicts"][1:]
    assert others == [one | {"probability": pytest.approx(one["probability"], rel=1e-12)} for one in alone]


def test_pairs_without_any_metric_of_the_model_are_invalid(app):
    strangers = request()
    for pair in strangers["pairs"]:
        for name in SIDES:
            pair[name]["metrics"] = {"x": [1.0, 2.0, 3.0]}
    told, answer = "12 of the 12 raw metrics of the model are missing", post(app, strangers).json()
    assert answer["risk_guarantee"] == post(app, request()).json()["risk_guarantee"]
    for verdict in answer["verdicts"]:
        assert (verdict["verdict"], told in verdict["invalid_reason"]) == ("invalid", True)


@pytest.mark.parametrize(
    ("units", "unused"),
    [
        ({"m0": "1/s", "m1": ""}, ""),
        ({"mm0": "1/s", "m0": "1/s"}, 'units["mm0"]'),
        (dict.fromkeys("abcdef", "ms"), 'units["a"], units["b"], units["c"], units["d"] and 2 more'),
    ],
    ids=["of metrics", "misspelt", "many"],
)
def test_units_of_no_metric_are_noted_in_both_interfaces(in_both, app, units, unused):
    told = [f"unused, as no pair has the metric: {unused}"] if unused else []
    assert [note for note in in_both(request() | {"units": units})["notes"] if "unit" in note] == told
    unjudged = post(app, {"pairs": target(metrics=SHORT)["pairs"][:1], "units": units}).json()
    assert unjudged["notes"] == told


def test_a_huge_number_makes_its_run_invalid_in_both_interfaces(in_both):
    whole = request()
    whole["pairs"][0]["target"]["metrics"]["m5"][0] = 1e308
    one = in_both(whole)["verdicts"][0]
    assert [run["reason"] for run in one["invalid_runs"]] == ["m5=1e+308 must be 1e+100 at most in size"]
    assert (one["verdict"], one["target_runs"]) == ("fail", 2)


def test_a_repeated_pair_is_refused_in_files_only(app, model, tmp_path):
    twice, path = {"pairs": request()["pairs"][:1] * 2}, tmp_path / "request.json"
    once, *_ = post(app, request()).json()["verdicts"]
    assert post(app, twice).json()["verdicts"] == [once, once]
    path.write_text(json.dumps(twice))
    refused(judge(path, "--model", model), f'{path} pairs[1]: pair_id="{ABNORMAL}" occurs twice')
