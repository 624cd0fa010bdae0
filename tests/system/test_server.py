import json
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from tests.system.conftest import FIGURE, Listening, comparison

JUDGE = "/v1/comparisons/judge"
JSON = {"content-type": "application/json"}
XML = {"content-type": "application/xml"}


def post(server, content, headers=JSON):
    return httpx.post(server.url + JUDGE, content=content, headers=headers, timeout=120)


def asked(*comparisons):
    return json.dumps({"comparisons": list(comparisons)})


def without(comparison, key):
    return {name: value for name, value in comparison.items() if name != key}


def changed(**changes):
    """One comparison whose only configuration is changed."""
    whole = comparison()
    whole["configurations"][0].update(changes)
    return whole


def statuses(xml):
    root = etree.fromstring(xml)
    return [node.get("result_status") for node in root.iter("comparison_result")]


def test_the_start_line_names_host_port_and_model(listening, model_directory):
    assert "LogisticRegression" in listening.announced
    assert str(model_directory) in listening.announced
    assert listening.url.startswith("http://127.0.0.1:")


def test_a_slower_target_fails_and_an_equal_one_passes(listening):
    answer = post(listening, asked(comparison("same"), comparison("slow", 80.0), comparison("fast", 125.0)))
    verdicts = answer.json()["verdicts"]
    assert answer.headers["content-type"] == "application/json"
    assert [(v["comparison_id"], v["verdict"]) for v in verdicts] == [
        ("same", "pass"),
        ("slow", "fail"),
        ("fast", "pass"),
    ]
    assert verdicts[1]["probability"] > 0.9 > verdicts[1]["threshold"] > verdicts[0]["probability"]


def test_every_verdict_comes_with_three_reasons_and_the_model_with_their_unit(listening):
    answer = post(listening, asked(comparison("slow", 80.0))).json()
    reasons = answer["verdicts"][0]["reasons"]
    assert answer["model"]["contribution_unit"] == "log-odds"
    assert len(reasons) == 3
    assert reasons[0]["feature"] in {"medians_min", "medians_med", "medians_max"}
    assert reasons[0]["value"] == pytest.approx(-(0.2**0.5))
    assert reasons[0]["contribution"] > 0


def test_lower_is_better_turns_the_verdict_round(listening):
    answer = post(
        listening, asked(comparison("x", 125.0, better="lower"), comparison("y", 80.0, better="lower"))
    )
    assert [v["verdict"] for v in answer.json()["verdicts"]] == ["fail", "pass"]


def test_what_cannot_be_judged_is_invalid_with_its_reason_and_no_probability(listening):
    answer = post(listening, asked(changed(baseline=[0.0, 0.0, 0.0]), comparison("fine")))
    invalid, fine = answer.json()["verdicts"]
    assert (invalid["verdict"], invalid["probability"], invalid["reasons"]) == ("invalid", None, [])
    assert "not above 0" in invalid["invalid_reason"]
    assert (fine["verdict"], fine["invalid_reason"]) == ("pass", None)


@pytest.mark.parametrize("media_type", ["application/xml", "text/xml; charset=utf-8"])
def test_the_xml_of_a_report_generator_comes_back_with_its_verdicts_filled_in(listening, media_type):
    answer = post(listening, FIGURE, {"content-type": media_type})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/xml")
    assert statuses(answer.content) == ["pass", "fail"]
    blank, filled = etree.fromstring(FIGURE.encode()), etree.fromstring(answer.content)
    for node in filled.iter("comparison_result"):
        del node.attrib["result_status"]
        verdict = node.find("verdict")
        assert float(verdict.get("probability")) >= 0
        node.text = verdict.tail
        node.remove(verdict)
    assert etree.tostring(blank, method="c14n") == etree.tostring(filled, method="c14n")


def test_what_is_assumed_of_xml_stands_in_a_header(listening):
    answer = post(listening, FIGURE, XML)
    assert answer.headers["perfjudge-notes"].startswith("body does not say which values are better")
    said = FIGURE.replace("<comparison_result ", '<comparison_result better="lower" ')
    turned = post(listening, said, XML)
    assert "perfjudge-notes" not in turned.headers
    assert statuses(turned.content) == ["pass", "pass"]


def test_a_request_has_to_say_which_values_are_better_and_so_does_its_description(listening):
    answer = post(listening, asked(without(comparison(), "better")))
    assert (answer.status_code, "lacks better" in answer.json()["detail"]) == (422, True)
    described = httpx.get(listening.url + "/openapi.json").json()["components"]["schemas"]["Comparison"]
    assert set(described["required"]) == {"comparison_id", "operation", "better", "configurations"}


def test_a_status_that_stands_in_the_request_does_not_sway_the_verdict(listening):
    claimed = FIGURE.replace('operation_name="mg_C_x"', 'operation_name="mg_C_x" result_status="pass"')
    assert statuses(post(listening, claimed, XML).content) == ["pass", "fail"]


BOMB = '<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;">]>'
FAR = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
BAD = {
    "no JSON": (b"{", JSON, 400, "JSON"),
    "an empty body": (b"", JSON, 400, "JSON"),
    "NaN": (asked(changed(target=[1.0, float("nan")])).encode(), JSON, 400, "NaN"),
    "infinity": (asked(changed(target=[1.0, float("-inf")])).encode(), JSON, 400, "Infinity"),
    "Latin-1": ('{"comparisons": "é"}'.encode("latin-1"), JSON, 400, "UTF-8"),
    "half a surrogate pair": (asked(comparison("\ud800")).encode(), JSON, 400, "surrogate"),
    "deep nesting": (b"[" * 200_000, JSON, 400, "deep"),
    "a number of 5000 digits": (b'{"comparisons": ' + b"9" * 5000 + b"}", JSON, 400, "JSON"),
    "a list": (b"[]", JSON, 422, "object"),
    "no comparisons": (b"{}", JSON, 422, "comparisons"),
    "a missing key": (asked(without(comparison(), "operation")).encode(), JSON, 422, "operation"),
    "a word for a number": (asked(changed(threads="four")).encode(), JSON, 422, "four"),
    "a word for a sample": (asked(changed(target=[1.0, "x"])).encode(), JSON, 422, "target"),
    "an unknown direction": (asked(comparison(better="bigger")).encode(), JSON, 422, "bigger"),
    "an unknown key": (asked(changed(histroy=[[1.0]])).encode(), JSON, 422, 'did you mean "history"?'),
    "too large a number": (asked(changed(target=[10**400])).encode(), JSON, 422, "target"),
    "a number that overflows": (
        asked(changed(target=[1])).replace("[1]", "[1e999]").encode(),
        JSON,
        422,
        "target",
    ),
    "no XML": (b"<comparison_results", XML, 400, "XML"),
    "an empty XML body": (b"", XML, 400, "XML"),
    "an entity bomb": (
        FIGURE.replace('"1.0"?>', '"1.0"?>' + BOMB).replace("bt_C_x", "&y;").encode(),
        XML,
        422,
        "document type",
    ),
    "a far entity": (FIGURE.replace('"1.0"?>', '"1.0"?>' + FAR).encode(), XML, 422, "document type"),
    "another root": (b"<html/>", XML, 422, "comparison_result"),
    "a missing attribute": (FIGURE.replace('median="7456.5"', "").encode(), XML, 422, "median"),
    "threads in words": (FIGURE.replace('threads_no="4"', 'threads_no="four"').encode(), XML, 422, "four"),
    "NaN in XML": (FIGURE.replace("7456.5", "nan").encode(), XML, 422, "nan"),
    "bytes that are no text": (bytes(range(256)), XML, 400, "XML"),
    "plain text": (b"hello", {"content-type": "text/plain"}, 415, "application/json"),
    "no content type": (b"{}", {}, 415, "application/json"),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD.keys())
def test_bad_bodies_are_refused_with_problem_details(listening, case):
    body, headers, status, named = case
    answer = post(listening, body, headers)
    problem = answer.json()
    assert (answer.status_code, problem["status"]) == (status, status)
    assert answer.headers["content-type"] == "application/problem+json"
    assert named in problem["detail"]
    assert "\n" not in problem["detail"]
    assert problem["title"]


def begun(listening, *header):
    """Begin a request whose body is yet to come."""
    connection = HTTPConnection(listening.url.removeprefix("http://"), timeout=60)
    connection.putrequest("POST", JUDGE)
    connection.putheader("Content-Type", "application/json")
    connection.putheader(*header)
    connection.endheaders()
    return connection


def test_a_body_over_the_limit_is_refused_before_its_end_has_come(listening):
    connection = begun(listening, "Transfer-Encoding", "chunked")
    for _ in range(64):
        connection.send(b"100000\r\n" + b" " * 2**20 + b"\r\n")
    connection.send(b"1\r\n \r\n")
    answer = connection.getresponse()
    assert (answer.status, json.load(answer)["status"]) == (413, 413)
    connection.close()


def test_an_announced_length_over_the_limit_is_refused_unread(listening):
    connection = begun(listening, "Content-Length", str(2**40))
    answer = connection.getresponse()
    assert (answer.status, json.load(answer)["status"]) == (413, 413)
    connection.close()


def test_unknown_addresses_and_methods_are_problems_too(listening):
    for answer, status in (
        (httpx.get(listening.url + "/v1/nothing"), 404),
        (httpx.get(listening.url + JUDGE), 405),
    ):
        assert (answer.status_code, answer.json()["status"]) == (status, status)
        assert answer.headers["content-type"] == "application/problem+json"


def test_state_says_which_model_is_loaded(listening):
    ready = httpx.get(listening.url + "/readyz").json()
    assert (ready["status"], {one["trouble"] for one in ready["models"]}) == ("ok", {None})
    listed = httpx.get(listening.url + "/v1/models").json()["models"]
    # the champions of other families answer beside it, where there are any
    (model,) = (one for one in listed if one["serves"] == "regression-comparison")
    assert (model["estimator"], model["threshold"]) == ("LogisticRegression", 0.5)
    assert model["features"][0] == "medians_min"


def test_metrics_count_the_verdicts(listening):
    def fails():
        lines = httpx.get(listening.url + "/metrics").text.splitlines()
        named = f'perfjudge_verdicts_total{{door="{JUDGE}",verdict="fail"}}'
        found = [line for line in lines if line.startswith(named)]
        return float(found[0].split()[-1]) if found else 0.0

    before = fails()
    post(listening, asked(comparison("a", 80.0), comparison("b", 80.0)))
    assert fails() == before + 2


def test_the_description_of_the_interface_is_complete(listening):
    described = httpx.get(listening.url + "/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    operation = described["paths"][JUDGE]["post"]
    assert {"application/json", "application/xml", "text/xml"} == set(operation["requestBody"]["content"])
    assert {"200", "400", "413", "415", "422", "503"} <= set(operation["responses"])
    schemas = described["components"]["schemas"]
    for reference in set(references(described)):
        assert reference.removeprefix("#/components/schemas/") in schemas


def references(node):
    if isinstance(node, dict):
        yield from [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from references(child)


def test_the_example_of_the_description_is_judged(listening):
    described = httpx.get(listening.url + "/openapi.json").json()
    example = described["components"]["schemas"]["JudgeRequest"]["examples"][0]
    assert [v["verdict"] for v in post(listening, json.dumps(example)).json()["verdicts"]] == ["fail"]


def test_sixteen_clients_at_once_get_the_answers_of_one(listening):
    bodies = [asked(comparison(f"c{k}", 70.0 + 3 * k)) for k in range(16)]
    alone = [post(listening, body).json() for body in bodies]
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda body: post(listening, body).json(), bodies * 3))
    assert together == alone * 3


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=6,
)
numbers = st.integers(-3, 3) | st.floats(allow_nan=False) | st.just(10**400)
five = st.fixed_dictionaries(dict.fromkeys(("min", "q1", "median", "q3", "max"), numbers))
side = st.lists(numbers | junk, max_size=4) | five | junk
configuration = st.fixed_dictionaries(
    {"threads": st.integers(-1, 4) | junk, "baseline": side, "target": side},
    optional={"history": st.lists(side, max_size=3) | junk, "more": junk},
)
words = st.text(max_size=3)
near = st.fixed_dictionaries(
    {
        "comparison_id": words | junk,
        "benchmark": words,
        "operation": words,
        "machine": words,
        "unit": words,
        "better": st.sampled_from(["lower", "higher"]) | junk,
        "configurations": st.lists(configuration | junk, max_size=3) | junk,
    }
)
valid_side = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6)
likely = st.builds(
    lambda name, baseline, target: {**changed(baseline=baseline, target=target), "comparison_id": name},
    words,
    valid_side,
    valid_side,
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.fixed_dictionaries({"comparisons": st.lists(near | likely | junk, max_size=3) | junk}) | junk)
def test_no_json_at_all_makes_the_server_fail(listening, content):
    body = json.dumps(content).encode("utf-8", "surrogatepass")
    answer = post(listening, body)
    assert answer.status_code in {200, 400, 422}
    if answer.status_code == 200:
        assert len(answer.json()["verdicts"]) == len(content["comparisons"])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=40), st.integers(0, len(FIGURE)), st.sampled_from([JSON, XML]))
def test_no_bytes_at_all_make_the_server_fail(listening, noise, place, headers):
    body = FIGURE.encode()[:place] + noise + FIGURE.encode()[place:]
    assert post(listening, body, headers).status_code in {200, 400, 422}


def test_the_server_said_nothing_went_wrong_and_ends_when_asked(model_directory):
    server = Listening("--model", str(model_directory))
    post(server, b"{")
    code, said = server.stop()
    assert {json.loads(line)["level"] for line in said.splitlines()} == {"INFO"}
    assert code in {0, -15}


def test_several_workers_answer_alike_and_end_when_asked(forest_directory):
    server = Listening("--model", str(forest_directory), "--workers", "2")
    answers = {post(server, asked(comparison("slow", 80.0))).text for _ in range(8)}
    code, _ = server.stop()
    assert len(answers) == 1
    assert json.loads(answers.pop())["model"]["contribution_unit"] == "probability"
    assert code in {0, -15}
