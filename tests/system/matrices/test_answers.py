import json
from functools import partial

import httpx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lxml import etree

from tests.commands import perfjudge, perfjudge_process
from tests.matrix_pairs import MOVED
from tests.system.conftest import Listening
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


def rounded(answers):
    """The same without the last digits, which depend on what else is multiplied in one go."""
    return json.loads(json.dumps(answers), parse_float=lambda digits: float(f"{float(digits):.9g}"))


def refused(done, told):
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert told in done.stderr


def test_a_directory_of_tables_is_judged_with_group_probability_and_what_drove_it(model, source):
    found = verdicts(judge(source, "--model", model, "--json"))
    assert {pair: one["verdict"] for pair, one in found.items()} == {
        f"g{group} c0 v{version}": ("fail", "pass")[version] for group in (0, 1) for version in (0, 1)
    }
    worse = found[ABNORMAL]
    assert (worse["workload"], worse["group"], worse["group_used"]) == ("g0 c0", "g0", "g0")
    assert worse["probability"] > worse["threshold"] > found[NORMAL]["probability"]
    assert (worse["baseline_runs"], worse["target_runs"], worse["invalid_reason"]) == (3, 3, None)
    assert {driver["metric"] for driver in worse["drivers"][:3]} == set(MOVED)
    runs = asked().runs.query("pair_id == @ABNORMAL")
    for driver in worse["drivers"]:
        middle = runs.groupby("side")[driver["metric"]].median()
        assert (driver["baseline"], driver["target"]) == pytest.approx((middle["baseline"], middle["target"]))
        assert driver["unit"] == ("1/s" if driver["metric"] == "m0" else "")


@pytest.mark.parametrize("form", ["parquet", "columns", "rows"])
def test_one_file_of_any_form_is_judged_alike(form, model, source, tmp_path):
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


def test_every_format_tells_the_verdicts(model, source):
    def told(form):
        done = judge(source, "--model", model, "--format", form)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    summary = "4 pairs: 2 fail, 2 pass, 0 invalid (model logistic contrasted abababababab)"
    table = told("table")
    assert summary in table
    assert "m0" in next(line for line in table.splitlines() if ABNORMAL in line)
    markdown = told("markdown").splitlines()
    # a digest may be the name of a commit
    assert markdown[0] == summary.replace("ab" * 6, f"`{'ab' * 6}`")
    assert [line.split("|")[1].strip() for line in markdown[4:]] == ["**fail**", "**fail**", "pass", "pass"]
    pairs = [f"g{group} c0 v{version}" for group in (0, 1) for version in (0, 1)]
    assert sorted(line.split("|")[4].strip() for line in markdown[4:8]) == pairs
    assert [sum(pair in line for line in table.splitlines()) for pair in pairs] == [1, 1, 1, 1]
    suites = etree.fromstring(told("junit").encode())
    assert [(suite.get("name"), suite.get("failures")) for suite in suites] == [("g0", "1"), ("g1", "1")]
    assert [case.get("name") for case in suites.iter("testcase")] == pairs
    results = etree.fromstring(told("xml").encode())
    assert [(node.get("pair_id"), node.get("verdict")) for node in results.iter("matrix_result")] == [
        (f"g{group} c0 v{version}", ("fail", "pass")[version]) for group in (0, 1) for version in (0, 1)
    ]
    assert {node.get("metric") for node in results[0].iter("driver")} >= set(MOVED)


def test_an_abnormal_pair_is_exit_1_only_when_asked_for_and_the_file_is_whole(model, source, tmp_path):
    answer = tmp_path / "answer.json"
    done = judge(source, "--model", model, "--fail-on-regression", "--json", "-o", answer)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(json.loads(answer.read_text())["verdicts"]) == 4
    assert judge(source, "--model", model).returncode == 0


def test_an_invalid_run_is_left_out_with_its_rule_and_the_pair_judged_without_it(model, source):
    runs = changed(source, 4, m5=-3.0)
    found = verdicts(judge(source, "--model", model, "--json"))
    name = runs["run_id"][4]
    assert found[ABNORMAL]["invalid_runs"] == [
        {
            "run_id": name,
            "side": "target",
            "by": "rule",
            "rule": "0 or more",
            "reason": "m5=-3 must be 0 or more",
        }
    ]
    assert (found[ABNORMAL]["verdict"], found[ABNORMAL]["target_runs"]) == ("fail", 2)
    table = judge(source, "--model", model).stdout
    assert f'left out: run "{name}": m5=-3 must be 0 or more' in table


def test_a_run_that_went_wrong_is_left_out_with_its_path_through_the_tree(model, source):
    runs = pd.read_parquet(source / "matrices.parquet")
    wild = np.random.default_rng(5).normal(0, 2, 12)
    names = [f"m{number}" for number in range(12)]
    for row in (3, 9):
        runs.loc[row, names] = runs.loc[row, names].to_numpy(float) * np.exp(wild)
    runs.to_parquet(source / "matrices.parquet")
    found = verdicts(judge(source, "--model", model, "--json"))
    left = [run for one in found.values() for run in one["invalid_runs"]]
    assert [(run["run_id"], run["by"], run["rule"]) for run in left] == [
        (runs["run_id"][row], "tree", "") for row in (3, 9)
    ]
    assert all(" > " in run["reason"] or " <= " in run["reason"] for run in left)
    assert (found[ABNORMAL]["verdict"], found[NORMAL]["verdict"]) == ("fail", "pass")


def test_a_pair_with_one_baseline_run_is_invalid_and_the_others_are_judged(model, source):
    path = source / "matrices.parquet"
    pd.read_parquet(path).drop(index=[0, 1]).to_parquet(path)
    found = verdicts(judge(source, "--model", model, "--json"))
    one = found[ABNORMAL]
    assert (one["verdict"], one["probability"], one["drivers"]) == ("invalid", None, [])
    assert one["invalid_reason"] == "has 1 valid of 1 baseline run; expected at least 2"
    assert found[NORMAL]["verdict"] == "pass"


def test_what_the_model_does_not_know_is_noted_and_the_rest_answers(model, source):
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


def test_the_order_of_columns_a_constant_and_a_metric_without_values_do_no_harm(model, source):
    usual = verdicts(judge(source, "--model", model, "--json"))
    path = source / "matrices.parquet"
    runs = pd.read_parquet(path).assign(m8=1.0, m9=np.nan)
    runs[[*reversed(runs.columns)]].to_parquet(path)
    done = judge(source, "--model", model, "--json")
    assert 'metric "m9" has no value in any run' in json.loads(done.stdout)["notes"]
    found = verdicts(done)
    assert {pair: one["verdict"] for pair, one in found.items()} == {
        pair: one["verdict"] for pair, one in usual.items()
    }


def test_a_metric_in_another_unit_than_in_training_is_not_used_and_a_note_says_so(model, source):
    usual = verdicts(judge(source, "--model", model, "--json"))
    path = source / "metrics.parquet"
    pd.read_parquet(path).replace({"unit": {"1/s": "1/ms"}}).to_parquet(path)
    done = judge(source, "--model", model, "--json")
    told = "comes in 1/ms, expected 1/s; it is taken as not measured"
    assert f'metric "m0" {told}' in json.loads(done.stdout)["notes"]
    found = verdicts(done)
    metrics = source / "matrices.parquet"
    pd.read_parquet(metrics).drop(columns="m0").to_parquet(metrics)
    assert found == verdicts(judge(source, "--model", model, "--json"))
    assert found[ABNORMAL]["probability"] != usual[ABNORMAL]["probability"]


def test_a_metric_that_looks_like_another_unit_is_noted_beside_the_verdict(model, source):
    runs = pd.read_parquet(source / "matrices.parquet")
    target = (runs["pair_id"] == NORMAL) & (runs["side"] == "target")
    baseline = runs.loc[(runs["pair_id"] == NORMAL) & (runs["side"] == "baseline"), "m7"].median()
    changed(source, target, m7=1000 * baseline)
    (note,) = verdicts(judge(source, "--model", model, "--json"))[NORMAL]["notes"]
    assert note.startswith("m7 is ")
    assert "times its baseline; is it in another unit?" in note


#: What is done to the runs, and the reason why the abnormal pair is invalid then.
INCOMPARABLE = {
    "a side is missing": (
        lambda runs: runs[~((runs["pair_id"] == ABNORMAL) & (runs["side"] == "baseline"))],
        "has no run of the baseline",
    ),
    "a side mixes versions": (
        lambda runs: runs.assign(version=runs["version"].where(runs.index > 0, "other")),
        'the baseline mixes version "other" and "baseline 0"; expected one',
    ),
    "two fields differ": (
        lambda runs: runs.assign(machine=runs["machine"].where(runs.index > 2, "n")),
        "baseline and target differ in version, machine; expected one field to compare by",
    ),
}


@pytest.mark.parametrize(("spoil", "reason"), INCOMPARABLE.values(), ids=INCOMPARABLE)
def test_a_pair_that_cannot_be_compared_is_invalid_and_the_others_are_judged(spoil, reason, model, source):
    usual = verdicts(judge(source, "--model", model, "--json"))
    path = source / "matrices.parquet"
    spoil(pd.read_parquet(path)).to_parquet(path)
    found = verdicts(judge(source, "--model", model, "--json"))
    spoilt = found.pop(ABNORMAL)
    assert (spoilt["verdict"], spoilt["invalid_reason"]) == ("invalid", reason)
    assert rounded(found) == rounded({pair: one for pair, one in usual.items() if pair != ABNORMAL})
    suites = etree.fromstring(judge(source, "--model", model, "--format", "junit").stdout.encode())
    assert [node.get("message") for node in suites.iter("skipped")] == [reason]


def test_runs_without_elapsed_time_in_a_parquet_file_are_valid(model, source):
    usual = verdicts(judge(source, "--model", model, "--json"))
    path = source / "matrices.parquet"
    pd.read_parquet(path).drop(columns=["summary_elapsed", "summary_transactions"]).to_parquet(path)
    found = verdicts(judge(path, "--model", model, "--json"))
    assert {pair: (one["verdict"], one["invalid_runs"]) for pair, one in found.items()} == {
        pair: (one["verdict"], []) for pair, one in usual.items()
    }


def test_junit_holds_notes_and_the_runs_that_were_left_out(model, source):
    path = source / "matrices.parquet"
    runs = changed(source, 4, m5=-3.0).rename(columns={"m11": "other"})
    runs.to_parquet(path)
    suites = etree.fromstring(judge(source, "--model", model, "--format", "junit").stdout.encode())
    for suite in suites:
        assert 'metric "other" is unknown to the model' in suite.findtext("system-out")
    told = {case.get("name"): case.findtext("system-out") for case in suites.iter("testcase")}
    assert told[ABNORMAL] == f'left out: run "{runs["run_id"][4]}": m5=-3 must be 0 or more'
    assert told[NORMAL] is None


def test_words_for_flags_do_not_matter_to_who_judges(model, source):
    usual = judge(source, "--model", model, "--json").stdout
    path = source / "matrices.parquet"
    runs = pd.read_parquet(path).astype({"valid": object, "abnormal": object})
    runs.assign(valid="yes", abnormal="perhaps").to_parquet(path)
    assert judge(source, "--model", model, "--json").stdout == usual


#: What is done to the runs, and what is said of it.
FLAWS = {
    "a run stands twice": (
        lambda runs: pd.concat([runs, runs.head(1)]),
        f'run "{ABNORMAL} baseline 0": stands twice',
    ),
    "a word for a number": (
        lambda runs: runs.assign(m3=runs["m3"].astype(str).where(runs.index != 2, "many")),
        'row 2: m3="many" is not a number',
    ),
    "no runs": (lambda runs: runs.head(0), "holds no run"),
    "other metrics": (
        lambda runs: runs.rename(columns={f"m{number}": f"other {number}" for number in range(12)}),
        'runs: 12 of the 12 raw metrics of the model are missing, such as "m0"',
    ),
    "no metrics": (lambda runs: runs.loc[:, :"abnormal"], "holds no raw metric"),
    "a column is missing": (lambda runs: runs.drop(columns="pair_id"), "lacks the column 'pair_id'"),
}


@pytest.mark.parametrize(("spoil", "told"), FLAWS.values(), ids=FLAWS)
def test_bad_tables_get_one_line_with_their_file_and_exit_2(spoil, told, model, source):
    path = source / "matrices.parquet"
    spoil(pd.read_parquet(path)).to_parquet(path)
    done = judge(source, "--model", model)
    refused(done, told)
    assert str(source) in done.stderr


def wide(path):
    columns = {f"m{number}": pa.array([0.0]) for number in range(100_000)}
    table = pa.table({"run_id": ["r"], **columns})
    pq.write_table(table, path, use_dictionary=False, write_statistics=False)


BROKEN = {
    "100,000 columns": (wide, "has 100000 metrics; expected 10000 at most"),
    "cut short": (lambda path: path.write_bytes(path.read_bytes()[:-100]), "is not a readable Parquet file"),
    "binary": (lambda path: path.write_bytes(bytes(range(256)) * 10), "is not a readable Parquet file"),
    "empty": (lambda path: path.write_bytes(b""), "is not a readable Parquet file"),
    "a directory": (lambda path: path.unlink() or path.mkdir(), "no such file; expected a Parquet table"),
}


@pytest.mark.parametrize(("spoil", "told"), BROKEN.values(), ids=BROKEN)
def test_a_file_that_is_no_table_gets_one_line_and_exit_2(spoil, told, model, source):
    path = source / "matrices.parquet"
    spoil(path)
    refused(judge(source, "--model", model), f"{path}: {told}")


def test_keep_going_tells_what_it_skipped_and_judges_the_rest(model, source):
    spoil, told = FLAWS["a run stands twice"]
    path = source / "matrices.parquet"
    spoil(pd.read_parquet(path)).to_parquet(path)
    done = judge(source, "--model", model, "--json", "--keep-going")
    found = {one["pair_id"]: one["verdict"] for one in json.loads(done.stdout)["verdicts"]}
    assert done.returncode == 0
    assert told in done.stderr
    assert found["g1 c0 v0"] == "fail"
    assert len(found) == 4


def test_a_model_that_is_none_and_no_champion_are_named(source, tmp_path, monkeypatch):
    refused(judge(source, "--model", tmp_path), "model.skops")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/none.db")
    refused(judge(source), 'no champion of "regression-matrix"')


def test_a_model_of_another_family_is_refused(source, model_directory):
    refused(judge(source, "--model", model_directory), "holds no regression-matrix model")


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
REFUSED = {
    "no JSON": (b"{", 400, "JSON"),
    "NaN": (json.dumps(target(metrics={"m0": [float("nan")]})).encode(), 400, "NaN"),
    "a list": ([], 422, "dictionary"),
    "no pairs": ({"pairs": []}, 422, "pairs=[]"),
    "too many pairs": ({"pairs": request()["pairs"] * 300}, 422, "at most 1000"),
    "a missing key": (spoilt(baseline=None), 422, "pairs.0.baseline=None"),
    "an unknown key": (spoilt(verison="2"), 422, 'pairs.0.verison is unknown; did you mean "version"?'),
    "an unknown key of a side": (target(metrcs={}), 422, "pairs.0.target.metrcs is unknown; did you"),
    "a word for a number": (target(metrics={"m0": ["x"]}), 422, "pairs.0.target.metrics.m0.0='x'"),
    "a truth value": (target(metrics={"m0": [True]}), 422, "pairs.0.target.metrics.m0.0=True"),
    "a number of 400 digits": (target(metrics={"m0": [10**400]}), 422, "pairs.0.target.metrics.m0.0"),
    "rows and columns": (target(runs=[{"m0": 1.0}]), 422, "either metrics (columns) or runs (rows)"),
    "neither": (spoilt(target={"version": "2"}), 422, "either metrics (columns) or runs (rows)"),
    "a metric that is none": (spoilt(target={"runs": [{"group": 1}]}), 422, "expected another name"),
    "no group": (spoilt(group=""), 422, "pairs.0.group=''"),
    "too many metrics": (
        spoilt(target={"runs": [{f"x{number}": 1.0 for number in range(10_001)}]}), 422, "at most",
    ),
    "too much": (
        {"pairs": [{
            "pair_id": "x", "workload": "w", "group": "g",
            "baseline": {"runs": [{"m0": 1.0}] * 1000},
            "target": {"runs": [{f"x{number}": 1.0 for number in range(9_999)}], "version": "2"},
        }]},
        413, "have 1001 runs of 10000 metrics; expected 10000000 numbers at most",
    ),
    "too large": (b" " * (32 * 1024 * 1024 + 1), 413, "bytes"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "status", "told"), REFUSED.values(), ids=REFUSED)
def test_bad_requests_are_answered_with_problem_details(listening_matrices, content, status, told):
    answer = post(listening_matrices, content)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert told in answer.json()["detail"]
    assert "\n" not in answer.json()["detail"]


TWICE = {"pairs": request()["pairs"][:1] * 2}
UNJUDGED = {
    "no run": (
        spoilt(baseline={"runs": []}, target={"metrics": {"m0": []}}),
        "has no run at all; expected those of both sides",
    ),
    "columns of different lengths": (
        target(metrics=SHORT), 'pairs[0].target.metrics["m3"]: has 1 values, where others',
    ),
    "other metrics only": (strangers(), "lack 12 of the 12 raw metrics"),
    "no metric": (spoilt(baseline={"runs": [{}]}, target={"runs": [{}]}), "has 0 valid of 1 baseline run"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "told"), UNJUDGED.values(), ids=UNJUDGED)
def test_a_pair_that_cannot_be_judged_is_invalid_and_the_others_get_their_verdict(
    listening_matrices, content, told
):
    verdicts = post(listening_matrices, content).json()["verdicts"]
    first = verdicts[0]
    assert (first["pair_id"], first["verdict"], first["probability"]) == (ABNORMAL, "invalid", None)
    assert told in first["invalid_reason"]
    alone = post(listening_matrices, request()).json()["verdicts"]
    # sums of several rows at once may end in another last digit
    same = [one | {"probability": pytest.approx(one["probability"], rel=1e-12)} for one in alone[1:]]
    assert verdicts[1:] == same or content is UNJUDGED["other metrics only"][0]


def test_a_pair_that_stands_twice_is_judged_in_both_places(listening_matrices):
    once, *_ = post(listening_matrices, request()).json()["verdicts"]
    assert post(listening_matrices, TWICE).json()["verdicts"] == [once, once]


BY_FILE = {name: (REFUSED[name][0], REFUSED[name][2]) for name in ("an unknown key", "rows and columns")} | {
    "columns of different lengths": UNJUDGED["columns of different lengths"],
    "a pair twice": (TWICE, f'pair_id="{ABNORMAL}" occurs twice'),
    "other metrics only": UNJUDGED["other metrics only"],
}


@pytest.mark.parametrize("name", BY_FILE)
def test_the_same_request_in_a_file_is_refused_with_its_name(name, model, tmp_path):
    content, told = BY_FILE[name]
    path = tmp_path / "request.json"
    path.write_text(json.dumps(content))
    done = judge(path, "--model", model)
    refused(done, told)
    assert str(path) in done.stderr


def test_an_infinite_or_negative_number_makes_that_run_invalid_and_no_more(listening_matrices):
    whole = request()
    whole["pairs"][0]["target"]["metrics"]["m5"][0] = -1.0
    content = json.dumps(whole).replace("-1.0", "1e999").encode()
    for body in (json.dumps(whole).encode(), content):
        one = post(listening_matrices, body).json()["verdicts"][0]
        assert one["target_runs"] == 2
        assert one["invalid_runs"][0]["rule"] in {"0 or more", "finite"}
        assert one["verdict"] == "fail"


def test_a_pair_that_cannot_be_compared_is_answered_with_invalid(listening_matrices):
    usual = post(listening_matrices, request()).json()["verdicts"]
    assert [one["invalid_runs"] for one in usual] == [[]] * 4
    first = request()["pairs"][0]
    two = "baseline and target differ in version, machine"
    for content, reason in (
        (target(machine="n"), f"{two}; expected one field to compare by"),
        (spoilt(target={"version": "2", "runs": []}), "has no run of the target"),
        (target(metrics={name: [] for name in first["target"]["metrics"]}), "has no run of the target"),
        (spoilt(target={"version": "2", "runs": [{}]}), "has 0 valid of 1 target run; expected at least 1"),
    ):
        spoiled, *others = post(listening_matrices, content).json()["verdicts"]
        told = (spoiled["pair_id"], spoiled["verdict"], spoiled["invalid_reason"])
        assert told == (ABNORMAL, "invalid", reason)
        assert rounded(others) == rounded(usual[1:])


def test_a_number_too_large_to_be_one_makes_that_run_invalid_through_both_doors(
    listening_matrices, model, tmp_path
):
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


def test_a_gap_is_null_and_judged(listening_matrices):
    whole = request()
    whole["pairs"][0]["target"]["metrics"]["m9"] = [None, None, None]
    one = post(listening_matrices, whole).json()["verdicts"][0]
    assert one["verdict"] == "fail"


def test_anything_but_json_is_refused(listening_matrices):
    assert post(listening_matrices, b"<a/>", **{"content-type": "application/xml"}).status_code == 415


def test_without_a_champion_the_server_says_which_command_makes_one(tmp_path, model_directory, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/none.db")
    server = Listening("--model", str(model_directory))
    answer = post(server, request())
    server.stop()
    assert (answer.status_code, "dvc repro" in answer.json()["detail"]) == (503, True)


def test_openapi_describes_the_request_with_an_example_of_its_shape(listening_matrices):
    described = httpx.get(f"{listening_matrices.url}/openapi.json", timeout=30).json()
    body = described["paths"][JUDGE]["post"]["requestBody"]["content"]["application/json"]["schema"]
    example = described["components"]["schemas"][body["$ref"].rsplit("/", 1)[-1]]["examples"][0]
    # its metrics are not those of this model, which is told; its shape is right
    (one,) = post(listening_matrices, example).json()["verdicts"]
    assert "raw metrics of the model are missing" in one["invalid_reason"]


def test_verdicts_on_matrices_are_counted(listening_matrices):
    def counted():
        text = httpx.get(f"{listening_matrices.url}/metrics", timeout=30).text
        named = 'perfjudge_verdicts_total{door="/v1/matrices/judge",verdict="fail"}'
        found = [line for line in text.splitlines() if line.startswith(named)]
        return float(found[0].rsplit(" ", 1)[-1]) if found else 0.0

    before = counted()
    post(listening_matrices, request())
    assert counted() == before + 2


def test_a_process_of_its_own_judges_matrices(model, source):
    done = perfjudge_process("judge", source, "--model", model)
    assert (done.returncode, "2 fail, 2 pass" in done.stdout, done.stderr) == (0, True, "")
