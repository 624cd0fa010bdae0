import json
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from data.errors import InputError
from serving.http.models import all_models
from tests.commands import perfjudge
from tests.system.conftest import FIGURE, comparison, problem, refused
from tests.system.matrices.inputs import engine

JUDGE = "/v1/comparisons/judge"
JSON = {"content-type": "application/json"}
XML = {"content-type": "application/xml"}


def post(server, content, headers=JSON):
    return httpx.post(server.url + JUDGE, content=content, headers=headers, timeout=120)


def asked(*comparisons):
    return json.dumps({"comparisons": list(comparisons)})


def changed(**changes):
    """One comparison whose only configuration is changed."""
    (configuration,) = comparison()["configurations"]
    return comparison(configurations=[configuration | changes])


def statuses(xml):
    return [node.get("result_status") for node in etree.fromstring(xml).iter("comparison_result")]


def test_the_start_line_names_host_port_and_model(listening, model_directory):
    assert "LogisticRegression" in listening.announced
    assert str(model_directory) in listening.announced
    assert listening.url.startswith("http://127.0.0.1:")


def test_a_slower_target_fails_with_three_reasons(listening):
    cases = [
        comparison("same"), comparison("slow", 80.0), comparison("fast", 125.0),
        comparison("slow, lower is better", 125.0, better="lower"),
        comparison("fast, lower is better", 80.0, better="lower"),
    ]  # fmt: skip
    answer = post(listening, json.dumps({"comparisons": cases, "explain": True})).json()
    found = {one["comparison_id"]: one for one in answer["verdicts"]}
    assert [one["verdict"] for one in found.values()] == ["pass", "fail", "pass", "fail", "pass"]
    slow, same = found["slow"], found["same"]
    assert slow["probability"] > 0.9 > slow["threshold"] > same["probability"]
    assert answer["model"]["contribution_unit"] == "log-odds"
    assert len(slow["reasons"]) == 3
    assert slow["reasons"][0]["feature"] in {"medians_min", "medians_med", "medians_max"}
    assert slow["reasons"][0]["value"] == pytest.approx(-(0.2**0.5))
    assert slow["reasons"][0]["contribution"] > 0


@pytest.mark.parametrize("media_type", ["application/xml", "text/xml; charset=utf-8"])
def test_xml_comes_back_with_its_verdicts_filled_in(listening, media_type):
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


def test_an_assumed_direction_of_xml_is_in_a_header(listening):
    answer = post(listening, FIGURE, XML)
    assert answer.headers["perfjudge-notes"].startswith("body does not say which values are better")
    said = FIGURE.replace("<comparison_result ", '<comparison_result better="lower" ')
    turned = post(listening, said, XML)
    assert "perfjudge-notes" not in turned.headers
    assert statuses(turned.content) == ["pass", "pass"]


DOUBLED = '<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;">]>'
BOMB = FIGURE.replace('"1.0"?>', '"1.0"?>' + DOUBLED).replace("bt_C_x", "&y;")
#: All that readers of JSON and XML refuse, and the other endpoints, is in their own tests.
BAD = {
    "no JSON": (b"{", JSON, 400, "JSON"),
    "half a surrogate pair": (asked(comparison("\ud800")).encode(), JSON, 400, "surrogate"),
    "deep nesting": (b"[" * 200_000, JSON, 400, "deep"),
    "a list": (b"[]", JSON, 422, "object"),
    "an unknown key": (asked(changed(histroy=[[1.0]])).encode(), JSON, 422, 'did you mean "history"?'),
    "too large a number": (asked(changed(target=[10**400])).encode(), JSON, 422, "target"),
    "no XML": (b"<comparison_results", XML, 400, "XML"),
    "an entity bomb": (BOMB.encode(), XML, 422, "document type"),
    "threads in words": (FIGURE.replace('threads_no="4"', 'threads_no="four"').encode(), XML, 422, "four"),
    "bytes that are no text": (bytes(range(256)), XML, 400, "XML"),
    "no content type": (b"{}", {}, 415, "application/json"),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD.keys())
def test_bad_bodies_are_refused_with_problem_details(listening, case):
    body, headers, status, named = case
    problem(post(listening, body, headers), status, named)


@pytest.mark.parametrize(
    ("header", "parts"),
    [
        (("Transfer-Encoding", "chunked"), [b"100000\r\n" + b" " * 2**20 + b"\r\n"] * 64 + [b"1\r\n \r\n"]),
        (("Content-Length", str(2**40)), []),
    ],
    ids=["sent", "announced"],
)
def test_a_body_over_the_limit_is_refused_early(listening, header, parts):
    connection = listening.begin_request(*header)
    for part in parts:
        connection.send(part)
    answer = connection.getresponse()
    assert (answer.status, json.load(answer)["status"]) == (413, 413)
    connection.close()


def test_sixteen_clients_at_once_get_the_answers_of_one(listening):
    bodies = [asked(comparison(f"c{k}", 70.0 + 3 * k)) for k in range(16)]
    alone = [post(listening, body).json() for body in bodies]
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda body: post(listening, body).json(), bodies * 3))
    assert together == alone * 3


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=40), st.integers(0, len(FIGURE)), st.sampled_from([JSON, XML]))
def test_no_bytes_at_all_make_the_server_fail(listening, noise, place, headers):
    body = FIGURE.encode()[:place] + noise + FIGURE.encode()[place:]
    assert post(listening, body, headers).status_code in {200, 400, 422}


@pytest.fixture(scope="module")
def models_by_option(model_directory, corun_project, made_once):
    return {
        "model": model_directory,
        "matrices": made_once("engine", engine),
        "corun_static": corun_project / "models/corun/random-forest",
        "corun_online": corun_project / "models/corun/online",
    }


KINDS = {
    "model": "comparisons (regression-comparison)",
    "matrices": "matrices (regression-matrix)",
    "corun_static": "corun (corun-static)",
    "corun_online": "corun (corun-online)",
}


@pytest.mark.parametrize(("option", "given_for"), [*permutations(KINDS, 2)])
def test_a_model_of_another_kind_is_refused_with_both_kinds(models_by_option, option, given_for):
    directory = models_by_option[given_for]
    with pytest.raises(InputError) as error:
        all_models({option: str(directory)})[option].ensure_loaded()
    told = f"is a model of {KINDS[given_for]}; expected one of {KINDS[option]}"
    assert str(error.value) == f"{directory}: {told}"


def test_serving_a_model_of_another_kind_ends_with_one_line(models_by_option):
    done = perfjudge("serve", "--port", "0", "--model", models_by_option["matrices"])
    refused(done, "is a model of matrices (regression-matrix); expected one of comparisons (")
