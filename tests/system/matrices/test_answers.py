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
    asked().write(tmp_path / "asked")
    return tmp_path / "asked"


def test_a_file_of_any_form_is_judged_like_the_tables(model, source, tmp_path):
    paths = [source, source / "matrices.parquet", tmp_path / "columns.json", tmp_path / "rows.json"]
    for path in paths[2:]:
        path.write_text(json.dumps(request(rows=path.stem == "rows")))
    answers = [json.loads(judge(path, "--model", model, "--json").stdout)["verdicts"] for path in paths]
    usual, *others = [
        {one["pair_id"]: (one["verdict"], one["probability"]) for one in told} for told in answers
    ]
    assert usual
    for found in others:
        # a request has no summary metrics, which the validity tree looks at too
        assert found == {pair: (verdict, pytest.approx(share)) for pair, (verdict, share) in usual.items()}


def test_unknown_metrics_and_groups_and_left_out_runs_are_named(model, source):
    path = source / "matrices.parquet"
    runs = pd.read_parquet(path).rename(columns={"m11": "other"})
    runs.loc[runs["group"] == "g1", "group"] = "new"
    runs.loc[4, "m5"] = -3.0
    runs.to_parquet(path)
    judged = partial(judge, source, "--model", model)
    answer = json.loads(judged("--json").stdout)
    assert 'metric "other" is unknown to the model; it is not used' in answer["notes"]
    assert any(note.startswith('group "new" is unknown to the model') for note in answer["notes"])
    groups = {one["pair_id"]: one["group_used"] for one in answer["verdicts"]}
    assert (groups["g1 c0 v0"], groups[ABNORMAL]) == ("fallback", "g0")
    # an abnormal pair fails the command only on request
    text = judged()
    assert (text.returncode, "new (fallback)" in text.stdout) == (0, True)
    junit = judged("--format", "junit", "--fail-on-regression")
    suites = etree.fromstring(junit.stdout.encode())
    assert junit.returncode == 1
    assert all('metric "other" is unknown' in suite.findtext("system-out") for suite in suites)
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
    assert (done.returncode, told in done.stderr, len(json.loads(done.stdout)["verdicts"])) == (0, True, 4)


def test_tables_with_none_of_the_known_metrics_are_refused(model, source):
    path = source / "matrices.parquet"
    pd.read_parquet(path).rename(columns=lambda name: re.sub(r"^m(\d+)$", r"other \1", name)).to_parquet(path)
    told = '12 of the 12 raw metrics of the model are missing, such as "m0"'
    refused(judge(source, "--model", model), f"{source} runs: {told}")


def spoilt(**changes):
    """Return a request whose first pair is changed."""
    whole = request()
    whole["pairs"][0] |= changes
    return whole


def target(**changes):
    """Return a request whose first pair has another target."""
    return spoilt(target=request()["pairs"][0]["target"] | changes)


#: What every family's requests refuse is in the tests of the server.
BOTH = "either metrics (columns) or runs (rows)"
FIRST, WIDE = request()["pairs"][0], {f"x{number}": 1.0 for number in range(10_000)}
REFUSED = {
    "too many pairs": ({"pairs": request()["pairs"] * 300}, 422, "pairs has more than 1000 entries"),
    "rows and columns": (target(runs=[{"m0": 1.0}]), 422, BOTH),
    "neither": (spoilt(target={"version": "2"}), 422, BOTH),
    "too many metrics": (
        spoilt(target={"runs": [WIDE | {"y": 1.0}]}), 422, "runs[0] has more than 10000 entries",
    ),
    "too much": (
        {"pairs": [FIRST | {"baseline": {"runs": [{"x0": 1.0}] * 1000}, "target": {"runs": [WIDE]}}]},
        413, "have 1001 runs of 10000 metrics; expected 10000000 numbers at most",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("content", "status", "told"), REFUSED.values(), ids=REFUSED)
def test_bad_requests_are_answered_with_problem_details(app, content, status, told):
    problem(post(app, content), status, told)


SHORT = FIRST["target"]["metrics"] | {"m3": [1.0]}
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


def test_a_repeated_pair_is_refused_in_files_only(app, model, tmp_path):
    twice, path = {"pairs": request()["pairs"][:1] * 2}, tmp_path / "request.json"
    once, *_ = post(app, request()).json()["verdicts"]
    assert post(app, twice).json()["verdicts"] == [once, once]
    path.write_text(json.dumps(twice))
    refused(judge(path, "--model", model), f'{path} pairs[1]: pair_id="{ABNORMAL}" occurs twice')
