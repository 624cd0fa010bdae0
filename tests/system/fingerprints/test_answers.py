import json
import re
from functools import partial

import httpx
import pandas as pd
import pytest

from tests.commands import perfjudge, perfjudge_process
from tests.system.browsing import faults
from tests.system.fingerprints.inputs import STRESSORS, fingerprints, request, written

irup = partial(perfjudge, "irup")


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    return written(tmp_path_factory.mktemp("irup") / "machines.csv", fingerprints())


@pytest.fixture(scope="module")
def profiles(machines):
    """Profiles of both applications as files."""
    paths = {}
    for name in ("cached", "copying"):
        paths[name] = machines.with_name(f"{name}.json")
        assert irup("profile", machines, name, "--json", "-o", paths[name]).returncode == 0
    return paths


def test_a_trusted_profile_ranks_what_the_application_follows_first(profiles):
    for name, first in (("cached", "cache"), ("copying", "stream")):
        told = json.loads(profiles[name].read_text())
        assert told["trust"] == told["trust"] | {"verdict": "trusted", "reasons": [], "machines": 40}
        assert next(row["stressor"] for row in told["features"]) == first
        assert told["features"][0]["importance"] == 100
        assert told["features"][0]["low"] <= 100 <= told["features"][0]["high"]
        assert {row["stressor"] for row in told["features"]} == set(STRESSORS)


def test_the_same_profile_twice_is_the_same_bytes(machines, profiles):
    again = perfjudge_process("irup", "profile", machines, "cached", "--json", OMP_NUM_THREADS="1")
    assert again.stdout == profiles["cached"].read_text()


def test_two_profiles_differ_in_what_was_exchanged_and_one_does_not_differ_from_itself(profiles):
    done = irup("diff", profiles["cached"], profiles["copying"], "--json", "--fail-on-regression")
    told = json.loads(done.stdout)
    assert {"cache", "stream"} == set(told["moved"])
    assert (done.returncode, told["reasons"], told["seed_algorithm"]["stops_at"]) == (1, [], "cache")
    same = irup("diff", profiles["cached"], profiles["cached"], "--fail-on-regression")
    assert (same.returncode, "no stressor changed significantly" in same.stdout) == (0, True)
    assert "equivalent" in same.stdout


def test_own_measurements_are_profiled_and_machines_without_one_predicted(machines, tmp_path):
    table = fingerprints()
    own = table[["machine"]].assign(value=table["cached"]).iloc[5:]
    path = written(tmp_path / "mine.csv", own)
    done = irup("profile", machines, path, "--metric", "ms", "--predict", "--json")
    told = json.loads(done.stdout)
    assert (told["application"], told["metric"], told["better"]) == ("mine", "ms", "lower")
    predicted = {row["machine"]: row for row in told["predictions"]}
    assert set(predicted) == {f"m{number}" for number in range(5)}
    inside = [predicted[f"m{n}"]["low"] < table["cached"][n] < predicted[f"m{n}"]["high"] for n in range(5)]
    assert sum(inside) >= 4


def test_too_few_machines_to_trust_are_refused_in_words_and_no_line_looks_trusted(tmp_path):
    few = written(tmp_path / "few.csv", fingerprints(8))
    done = irup("profile", few, "cached")
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert "not enough diversity: 8 machines, fewer than 15" in lines[0]
    ranked = [line for line in lines if line.startswith("│")]
    assert len(ranked) == len(STRESSORS)
    assert all(line.rstrip("│ ").endswith("no") for line in ranked)


def test_gaps_are_named_with_their_machine_and_nothing_is_cut_short_in_json(tmp_path):
    table = fingerprints()
    table.loc[:7, "vm"] = None
    path, answer = written(tmp_path / "m.csv", table), tmp_path / "answer.json"
    done = irup("profile", path, "cached", "--json", "-o", answer)
    told = json.loads(answer.read_text())["warnings"]
    assert (done.returncode, told) == (0, [f'imputed on machine "m{number}": vm' for number in range(8)])


@pytest.fixture(scope="module")
def pages(machines, profiles, tmp_path_factory):
    directory = tmp_path_factory.mktemp("pages")
    whole, difference = directory / "profile.html", directory / "difference.html"
    own = written(
        directory / "mine.csv",
        fingerprints()[["machine", "cached"]].set_axis(["machine", "value"], axis=1)[3:],
    )
    html = ("--format", "html", "-o")
    assert irup("profile", machines, own, "--predict", *html, whole).returncode == 0
    assert irup("diff", *profiles.values(), *html, difference).returncode == 0
    return whole, difference


def test_pages_of_profiles_and_differences_hold_everything_themselves(pages):
    whole, difference = pages
    assert "mine depends on cache" in whole.read_text()
    assert '<th scope="row">m2</th>' in whole.read_text()
    assert "cached against copying" in difference.read_text()
    for page in (whole, difference):
        assert not re.search(r"https?://|<script[^>]|@import", page.read_text())
        assert page.read_text().count("<script>") == 1
        assert "Recommendations" in page.read_text()


@pytest.mark.browser
def test_pages_of_profiles_and_differences_read_well_at_every_width(pages, browser):
    assert [fault for page in pages for fault in faults(browser, page)] == []


def test_halves_of_the_same_machines_are_compared_from_two_files_of_values(machines, tmp_path):
    own = fingerprints()[["machine", "cached"]].set_axis(["machine", "value"], axis="columns")
    halves = [written(tmp_path / f"{name}.csv", own[start::2]) for start, name in enumerate(("even", "odd"))]
    done = irup("diff", *halves, "--machines", machines, "--json")
    assert (done.returncode, json.loads(done.stdout)["moved"]) == (0, [])


TWO = fingerprints(2)
BAD = {
    "two machines only": (TWO, "cached", "2 of 2 machines"),
    "a negative rate": (fingerprints().assign(cache=-1.0), "cached", "ops_per_second=-1 must be above 0"),
    "a rate of zero": (fingerprints().assign(vm=0.0), "cached", "must be above 0"),
    "a machine twice": (pd.concat([fingerprints(), TWO]), "cached", "twice"),
    "no such application": (fingerprints(), "nobody", "neither a file nor an application"),
    "a constant application": (fingerprints().assign(cached=3.0), "cached", "same value"),
    "all stressors constant": (fingerprints().assign(**dict.fromkeys(STRESSORS, 5.0)), "cached", "no str"),
}  # fmt: skip


@pytest.mark.parametrize(("table", "application", "told"), BAD.values(), ids=BAD)
def test_bad_fingerprints_get_one_line_and_exit_2(table, application, told, tmp_path):
    done = irup("profile", written(tmp_path / "bad.csv", table), application)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr.splitlines()[-1]
    assert done.stderr.count("\n") == 1


def test_a_bad_rate_is_told_with_its_file(tmp_path):
    path = written(tmp_path / "bad.csv", fingerprints().assign(vm=0.0))
    assert irup("profile", path, "cached").stderr.startswith(f"perfjudge: {path} machine ")


@pytest.mark.parametrize(
    ("content", "told"),
    [("{}", "is no profile"), ("no json", "1: is not JSON"), ('{"measured": 1}', "is no profile")],
)
def test_a_file_that_is_no_profile_is_refused(profiles, tmp_path, content, told):
    path = tmp_path / "bad.json"
    path.write_text(content)
    done = irup("diff", profiles["cached"], path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"{path}:" in done.stderr
    assert told in done.stderr


def test_a_stressor_that_is_left_out_and_machines_without_fingerprint_are_named(machines, tmp_path):
    table = fingerprints()
    table.loc[5:, "vm"] = None
    own = pd.DataFrame({"machine": [*table["machine"], "stranger"], "value": [*table["cached"], 7.0]})
    done = irup("profile", written(tmp_path / "m.csv", table), written(tmp_path / "a.csv", own), "--json")
    told = json.loads(done.stdout)
    assert any('stressor "vm"' in line for line in told["warnings"])
    assert any('machine "stranger": has no fingerprint' in line for line in told["warnings"])
    assert "vm" not in {row["stressor"] for row in told["features"]}


def post(listening, content, **headers):
    return httpx.post(
        f"{listening.url}/v1/irup",
        content=content if isinstance(content, bytes) else json.dumps(content).encode(),
        headers={"content-type": "application/json"} | headers,
        timeout=120,
    )


def test_the_server_answers_the_profile_of_the_command_line_with_predictions(listening, profiles):
    answer = post(listening, request(fingerprints(), "cached", without=("m3", "m4")))
    assert answer.status_code == 200
    told = answer.json()
    assert told["trust"]["verdict"] == "trusted"
    assert told["features"][0]["stressor"] == "cache"
    assert [row["machine"] for row in told["predictions"]] == ["m3", "m4"]
    assert "measured" not in told
    whole = post(listening, request(fingerprints(), "cached")).json()
    saved = json.loads(profiles["cached"].read_text())
    assert {name: whole[name] for name in ("features", "trust")} == {
        name: saved[name] for name in ("features", "trust")
    }


def changed(**changes):
    asked = request(fingerprints(), "cached")
    return asked | {"application": asked["application"] | changes}


REFUSED = {
    "no JSON": (b"{", 400, "JSON"),
    "a list": ([], 422, "dictionary"),
    "no machines": ({"machines": [], "application": {"name": "x", "values": {}}}, 422, "machines"),
    "an unknown direction": (changed(better="up"), 422, "application.better='up'"),
    "a negative value": (changed(values={"m0": -1}), 422, "application.values.m0=-1"),
    "a word for a value": (changed(values={"m0": "x"}), 422, "application.values.m0='x'"),
    "an unknown key": (changed(beter="higher"), 422, 'application.beter is unknown; did you mean "better"?'),
    "an overflowing number": (b'{"machines": [{"machine": "a", "rates": {"cpu": 1e999}}]}', 422, "cpu=inf"),
    "no value": (changed(values={}), 422, "application.values={}"),
    "too large": (b" " * (16 * 1024 * 1024 + 1), 413, "bytes"),
}


@pytest.mark.parametrize(("content", "status", "told"), REFUSED.values(), ids=REFUSED)
def test_bad_requests_are_answered_with_problem_details(listening, content, status, told):
    answer = post(listening, content)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.json()["status"] == status
    assert told in answer.json()["detail"]


TOO_LITTLE = {
    "values of strangers only": (changed(values={"nobody": 1.0}), "0 machines"),
    "two machines": (request(TWO, "cached"), "2 of 2 machines"),
}


@pytest.mark.parametrize(("content", "told"), TOO_LITTLE.values(), ids=TOO_LITTLE)
def test_too_little_to_learn_from_is_answered_with_its_reason_and_no_feature(listening, content, told):
    found = post(listening, content).json()
    assert (found["trust"]["verdict"], found["trust"]["r2"]) == ("not enough diversity", None)
    assert told in found["trust"]["reasons"][0]
    assert (found["features"], found["predictions"]) == ([], [])


def test_of_a_machine_that_stands_twice_the_first_counts(listening):
    once = request(fingerprints(), "cached")
    again = once["machines"][0] | {"rates": dict.fromkeys(STRESSORS, 1.0)}
    found = post(listening, once | {"machines": [*once["machines"], again]}).json()
    told, warnings = post(listening, once).json(), found["warnings"]
    assert 'machines[40]: machine "m0" occurs twice; the first counts' in warnings[0]
    assert found | {"warnings": told["warnings"]} == told


def test_anything_but_json_is_refused(listening):
    assert post(listening, b"<a/>", **{"content-type": "application/xml"}).status_code == 415


def test_the_example_of_the_openapi_description_is_answered(listening):
    described = httpx.get(f"{listening.url}/openapi.json", timeout=30).json()
    body = described["paths"]["/v1/irup"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    example = described["components"]["schemas"][body["$ref"].rsplit("/", 1)[-1]]["examples"][0]
    told = post(listening, example).json()
    assert told["trust"]["verdict"] == "not enough diversity"
    assert [row["machine"] for row in told["predictions"]] == ["m5"]
