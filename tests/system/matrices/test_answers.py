import json
from functools import partial

import httpx
import pandas as pd
import pytest
from lxml import etree

from data.matrices.tables import SIDES
from tests.commands import perfjudge
from tests.system.conftest import Listening, problem, refused
from tests.system.matrices.inputs import ABNORMAL, NORMAL, asked, engine, request

judge = partial(perfjudge, "judge")
JUDGE = "/v1/matrices/judge"


@pytest.fixture(scope="module")
def model(made_once):
    return made_once("engine", engine)


@pytest.fixture(scope="module")
def listening_matrices(model, model_directory):
    server = Listening("--model", str(model_directory), "--matrices", str(model))
    yield server
    server.stop()


@pytest.fixture
def source(tmp_path):
    """A directory of tables to be judged."""
    asked().write(tmp_path / "asked")
    return tmp_path / "asked"


def changed(source, rows=None, **columns):
    """Change columns of some rows of the runs at `source`."""
    path = source / "matrices.parquet"
    runs = pd.read_parquet(path)
    for name, value in columns.items():
        runs.loc[runs.index if rows is None else rows, name] = value
    runs.to_parquet(path)
    return runs


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


def test_junit_holds_notes_and_left_out_runs(model, source):
    path = source / "matrices.parquet"
    runs = changed(source, 4, m5=-3.0).rename(columns={"m11": "other"})
    runs.to_parquet(path)
    suites = etree.fromstring(judge(source, "--model", model, "--format", "junit").stdout.encode())
    for suite in suites:
        assert 'metric "other" is unknown to the model' in suite.findtext("system-out")
    told = {case.get("name"): case.findtext("system-out") for case in suites.iter("testcase")}
    assert told[ABNORMAL] == f'left out: run "{runs["run_id"][4]}": m5=-3 must be 0 or more'
    assert told[NORMAL] is None


def twice(path):
    runs = pd.read_parquet(path)
    pd.concat([runs, runs.head(1)]).to_parquet(path)


def with_other_metrics(path):
    names = {f"m{number}": f"other {number}" for number in range(12)}
    pd.read_parquet(path).rename(columns=names).to_parquet(path)


FLAWS = {
    "a run twice": (twice, f'run "{ABNORMAL} baseline 0": occurs twice'),
    "other metrics": (with_other_metrics, '12 of the 12 raw metrics of the model are missing, such as "m0"'),
    "a directory": (lambda path: path.unlink() or path.mkdir(), "no such file; expected a Parquet table"),
}


@pytest.mark.parametrize(("spoil", "told"), FLAWS.values(), ids=FLAWS)
def test_bad_tables_end_with_one_line_and_exit_2(spoil, told, model, source):
    spoil(source / "matrices.parquet")
    done = judge(source, "--model", model)
    refused(done, told)
    assert str(source) in done.stderr


def test_keep_going_names_skipped_rows_and_judges_the_rest(model, source):
    twice(source / "matrices.parquet")
    done = judge(source, "--model", model, "--json", "--keep-going")
    assert (done.returncode, FLAWS["a run twice"][1] in done.stderr) == (0, True)
    found = {one["pair_id"]: one["verdict"] for one in json.loads(done.stdout)["verdicts"]}
    assert (found["g1 c0 v0"], len(found)) == ("fail", 4)


def test_a_missing_model_or_champion_is_named(source, tmp_path, monkeypatch):
    refused(judge(source, "--model", tmp_path), "model.skops")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/none.db")
    refused(judge(source), 'no champion of "regression-matrix"')


def post(server, content, **headers):
    return httpx.post(
        server.url + JUDGE,
        content=content if isinstance(content, bytes) else json.dumps(content).encode(),
        headers={"content-type": "application/json"} | headers,
        timeout=120,
    )


def test_the_server_answers_as_the_command_line_does(listening_matrices, model, tmp_path):
    path = tmp_path / "request.json"
    path.write_text(json.dumps(request()))
    answer = post(listening_matrices, request())
    assert answer.status_code == 200
    assert answer.json() == json.loads(judge(path, "--model", model, "--json").stdout)
    listed = httpx.get(f"{listening_matrices.url}/v1/models", timeout=30).json()["models"]
    (own,) = (one for one in listed if one["serves"] == "regression-matrix")
    assert (own["estimator"], own["groups"]) == ("logistic contrasted", ["g0", "g1"])
    assert own["features"][:2] == ["m0", "m1"]


def spoilt(**changes):
    """A request whose first pair is changed."""
    whole = request()
    whole["pairs"][0] |= changes
    return whole


def target(**changes):
    """The same with another target."""
    return spoilt(target=request()["pairs"][0]["target"] | changes)


def strangers():
    """A request with none of the model's metrics."""
    whole = request()
    for pair in whole["pairs"]:
        for name in ("baseline", "target"):
            pair[name]["metrics"] = {"x": [1.0, 2.0, 3.0]}
    return whole


SHORT = request()["pairs"][0]["target"]["metrics"] | {"m3": [1.0]}
#: What every family's requests refuse is in the tests of the server.
REFUSED = {
    "no pairs": ({"pairs": []}, 422, "pairs is empty; expected at least one"),
    "too many pairs": ({"pairs": request()["pairs"] * 300}, 422, "pairs has more than 1000 entries"),
    "an unknown key of a side": (target(metrcs={}), 422, "pairs[0].target.metrcs is unknown; did you"),
    "a truth value": (target(metrics={"m0": [True]}), 422, "target.metrics.m0[0]=true is not a number"),
    "rows and columns": (target(runs=[{"m0": 1.0}]), 422, "either metrics (columns) or runs (rows)"),
    "neither": (spoilt(target={"version": "2"}), 422, "either metrics (columns) or runs (rows)"),
    "a metric that is none": (spoilt(target={"runs": [{"group": 1}]}), 422, "expected another name"),
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
def test_bad_requests_are_answered_with_problem_details(listening_matrices, content, status, told):
    problem(post(listening_matrices, content), status, told)


UNJUDGED = {
    "no run": (
        spoilt(baseline={"runs": []}, target={"metrics": {"m0": []}}),
        "has no run at all; expected those of both sides",
    ),
    "columns of different lengths": (
        target(metrics=SHORT), 'pairs[0].target.metrics["m3"]: has 1 values, where others',
    ),
    "other metrics only": (strangers(), "12 of the 12 raw metrics of the model are missing"),
    "no metric": (spoilt(baseline={"runs": [{}]}, target={"runs": [{}]}), "has 0 valid of 1 baseline run"),
}  # fmt: skip


def runs_of(side):
    return len(side["runs"] if "runs" in side else next(iter(side["metrics"].values())))


@pytest.mark.parametrize(("content", "told"), UNJUDGED.values(), ids=UNJUDGED)
def test_an_incomplete_pair_is_invalid_beside_judged_ones(listening_matrices, content, told):
    verdicts = post(listening_matrices, content).json()["verdicts"]
    first = verdicts[0]
    assert (first["pair_id"], first["verdict"], first["probability"]) == (ABNORMAL, "invalid", None)
    assert told in first["invalid_reason"]
    n_runs = [
        first[f"{side}_runs"] + sum(run["side"] == side for run in first["invalid_runs"]) for side in SIDES
    ]
    assert n_runs == [runs_of(content["pairs"][0][side]) for side in SIDES]
    alone = post(listening_matrices, request()).json()["verdicts"]
    # sums of several rows at once may end in another last digit
    same = [one | {"probability": pytest.approx(one["probability"], rel=1e-12)} for one in alone[1:]]
    assert verdicts[1:] == same or content is UNJUDGED["other metrics only"][0]


@pytest.mark.parametrize(
    ("units", "unused"),
    [
        ({"m0": "1/s", "m1": ""}, ""),
        ({"mm0": "1/s"}, 'units["mm0"]'),
        ({"other": "ms", "m0": "1/s"}, 'units["other"]'),
        (
            dict.fromkeys("abcdef", "ms"),
            'units["a"], units["b"], units["c"], units["d"] and 2 more',
        ),
    ],
    ids=["of metrics", "misspelt", "of no metric", "many"],
)
def test_units_of_no_metric_are_noted_in_both_interfaces(listening_matrices, model, tmp_path, units, unused):
    (path := tmp_path / "request.json").write_text(json.dumps(request() | {"units": units}))
    answer = post(listening_matrices, request() | {"units": units}).json()
    told = [f"unused, as no pair has the metric: {unused}"] if unused else []
    assert [note for note in answer["notes"] if "unit" in note] == told
    assert answer == json.loads(judge(path, "--model", model, "--json").stdout)
    pairs = target(metrics=SHORT)["pairs"][:1]
    unjudged = post(listening_matrices, {"pairs": pairs, "units": units}).json()
    assert unjudged["notes"] == told


def test_a_huge_number_makes_its_run_invalid_in_both_interfaces(listening_matrices, model, tmp_path):
    whole = request()
    whole["pairs"][0]["target"]["metrics"]["m5"][0] = 1e308
    (tmp_path / "request.json").write_text(json.dumps(whole))
    answers = (
        post(listening_matrices, whole).json(),
        json.loads(judge(tmp_path / "request.json", "--model", model, "--json").stdout),
    )
    for answer in answers:
        one = answer["verdicts"][0]
        assert [run["reason"] for run in one["invalid_runs"]] == ["m5=1e+308 must be 1e+100 at most in size"]
        assert (one["verdict"], one["target_runs"]) == ("fail", 2)


def test_a_repeated_pair_is_refused_in_files_only(listening_matrices, model, tmp_path):
    twice, path = {"pairs": request()["pairs"][:1] * 2}, tmp_path / "request.json"
    once, *_ = post(listening_matrices, request()).json()["verdicts"]
    assert post(listening_matrices, twice).json()["verdicts"] == [once, once]
    path.write_text(json.dumps(twice))
    refused(judge(path, "--model", model), f'{path} pairs[1]: pair_id="{ABNORMAL}" occurs twice')
