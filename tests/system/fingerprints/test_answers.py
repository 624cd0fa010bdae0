import json
from functools import partial

import httpx
import pandas as pd
import pytest

from tests.commands import perfjudge
from tests.system.browsing import faults
from tests.system.conftest import problem, refused
from tests.system.fingerprints.inputs import STRESSORS, fingerprints, request, written

irup = partial(perfjudge, "irup")


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    return written(tmp_path_factory.mktemp("irup") / "machines.csv", fingerprints())


@pytest.fixture(scope="module")
def profiles(machines):
    paths = {}
    for name in ("cached", "copying"):
        paths[name] = machines.with_name(f"{name}.json")
        assert irup("profile", machines, name, "--json", "-o", paths[name]).returncode == 0
    return paths


@pytest.mark.parametrize(
    ("changed", "after"),
    [({"metric": "ms"}, "ms (lower is better)"), ({"better": "higher"}, "seconds (higher is better)")],
)
def test_a_difference_of_two_metrics_is_noted(changed, after, profiles, tmp_path):
    content, other = json.loads(profiles["cached"].read_text()), tmp_path / "other.json"
    other.write_text(json.dumps(content | changed))
    done = irup("diff", profiles["cached"], other)
    told = f"A is in seconds (lower is better), B in {after}: a difference may be one of these metrics\n"
    assert (done.returncode, done.stderr) == (0, told)


@pytest.mark.parametrize(
    ("options", "contradiction"),
    [
        ("--metric seconds", ""),
        ("--metric ms", "--metric=ms contradicts seconds"),
        ("--better higher", "--better=higher contradicts lower"),
        ("--keep-going", ""),
    ],
)
def test_options_of_values_are_refused_for_two_profiles(options, contradiction, machines, profiles):
    told = f"{options.split()[0]} needs --machines: without it, A and B are profiles, not values"
    refused(irup("diff", profiles["cached"], profiles["copying"], *options.split()), f"perfjudge: {told}")
    of_values = irup("diff", "cached", "copying", "--machines", machines, *options.split())
    if contradiction:
        refused(of_values, f'perfjudge: {machines} application "cached": {contradiction}')
    else:
        assert (of_values.returncode, of_values.stderr) == (0, "")


def test_machines_without_a_measurement_are_predicted(machines, tmp_path):
    table = fingerprints()
    path = written(tmp_path / "mine.csv", table[["machine"]].assign(value=table["cached"]).iloc[5:])
    told = json.loads(irup("profile", machines, path, "--metric", "ms", "--predict", "--json").stdout)
    assert (told["application"], told["metric"], told["better"]) == ("mine", "ms", "lower")
    predicted = {row["machine"]: row for row in told["predictions"]}
    assert set(predicted) == {f"m{number}" for number in range(5)}
    inside = [predicted[f"m{n}"]["low"] < table["cached"][n] < predicted[f"m{n}"]["high"] for n in range(5)]
    assert sum(inside) >= 4


@pytest.mark.parametrize("value", [1e308, 1e-308])
def test_values_whose_predictions_would_overflow_are_refused(tmp_path, value):
    table = fingerprints()
    table.loc[1, "cached"] = value
    path = written(tmp_path / "all.csv", table)
    told = f'application "cached" machine "m1": value={value:g} is not from 1e-30 to 1e+30'
    refused(irup("profile", path, "cached", "--predict", "--json"), f"perfjudge: {told}")
    left_out = irup("profile", path, "cached", "--json", "--keep-going")
    assert (left_out.returncode, left_out.stderr) == (0, f"skipped: {told}\nskipped 1 in all\n")
    nothing = irup("profile", written(path, table.assign(cached=value)), "cached", "--keep-going")
    assert nothing.returncode == 2
    assert nothing.stderr.endswith('perfjudge: application "cached": has no usable value\n')


@pytest.mark.browser
def test_pages_of_profiles_and_differences_read_well_at_every_width(machines, profiles, tmp_path, browser):
    whole, difference = tmp_path / "profile.html", tmp_path / "difference.html"
    values = fingerprints()[["machine", "cached"]].set_axis(["machine", "value"], axis=1)
    own = written(tmp_path / "mine.csv", values[3:])
    html = ("--format", "html", "-o")
    assert irup("profile", machines, own, "--predict", *html, whole).returncode == 0
    assert irup("diff", *profiles.values(), *html, difference).returncode == 0
    assert [fault for page in (whole, difference) for fault in faults(browser, page)] == []


def test_files_without_profiles_or_rates_are_refused(profiles, tmp_path):
    (path := tmp_path / "bad.json").write_text("{}")
    refused(irup("diff", profiles["cached"], path), f"{path}: is no profile")
    path = written(tmp_path / "bad.csv", fingerprints().assign(vm=0.0))
    refused(irup("profile", path, "cached"), f"{path} machine ")


def test_unused_stressors_and_machines_are_named(machines, tmp_path):
    table = fingerprints()
    table.loc[5:, "vm"] = None
    own = pd.DataFrame({"machine": [*table["machine"], "stranger"], "value": [*table["cached"], 7.0]})
    done = irup("profile", written(tmp_path / "m.csv", table), written(tmp_path / "a.csv", own), "--json")
    told = json.loads(done.stdout)
    assert any('stressor "vm"' in line for line in told["warnings"])
    assert any('machine "stranger": has no fingerprint' in line for line in told["warnings"])
    assert "vm" not in {row["stressor"] for row in told["features"]}


def post(listening, content):
    return httpx.post(f"{listening.url}/v1/irup", json=content, timeout=120)


def test_the_server_answers_as_the_command_line_does(listening, profiles):
    told = post(listening, request(fingerprints(), "cached", without=("m3", "m4"))).json()
    assert [row["machine"] for row in told["predictions"]] == ["m3", "m4"]
    assert "measured" not in told
    whole = post(listening, request(fingerprints(), "cached")).json()
    saved = json.loads(profiles["cached"].read_text())
    assert (whole["features"], whole["trust"]) == (saved["features"], saved["trust"])


def changed(**changes):
    asked = request(fingerprints(), "cached")
    return asked | {"application": asked["application"] | changes}


def test_a_negative_value_is_answered_with_problem_details(listening):
    problem(post(listening, changed(values={"m0": -1})), 422, "application.values.m0=-1 is not a number")


@pytest.mark.parametrize(
    ("about", "better"),
    [
        ({}, "lower"),
        ({"metric": "requests/s"}, "higher"),
        ({"metric": "ms", "better": "higher"}, "higher"),
        ({"metric": "points"}, "lower"),
    ],
)
def test_the_direction_follows_the_metric_unless_it_is_given(listening, about, better):
    answer = post(listening, changed(**about)).json()
    assert (answer["metric"], answer["better"]) == (about.get("metric", "seconds"), better)
    is_assumed = any("application.better is missing" in line for line in answer["warnings"])
    assert is_assumed == (about == {"metric": "points"})


def test_unknown_and_repeated_machines_are_answered_with_reasons(listening):
    found = post(listening, changed(values={"nobody": 1.0})).json()
    assert (found["trust"]["verdict"], found["trust"]["r2"]) == ("not enough diversity", None)
    assert "0 machines" in found["trust"]["reasons"][0]
    assert (found["features"], found["predictions"]) == ([], [])
    # the first of two equal machines counts
    once = request(fingerprints(), "cached")
    again = once["machines"][0] | {"rates": dict.fromkeys(STRESSORS, 1.0)}
    found = post(listening, once | {"machines": [*once["machines"], again]}).json()
    told, warnings = post(listening, once).json(), found["warnings"]
    assert 'machines[40]: machine "m0" occurs twice; the first counts' in warnings[0]
    assert found | {"warnings": told["warnings"]} == told
