import json
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations

import httpx
import pytest
from lxml import etree

from data.errors import InputError
from serving.http.models import all_models
from tests.system.conftest import FIGURE, comparison, problem
from tests.system.matrices.inputs import engine

JUDGE = "/v1/comparisons/judge"
JSON = {"content-type": "application/json"}
XML = {"content-type": "application/xml"}


def post(server, content, headers=JSON):
    return httpx.post(server.url + JUDGE, content=content, headers=headers, timeout=120)


def asked(*comparisons):
    return json.dumps({"comparisons": list(comparisons)})


def statuses(xml):
    return [node.get("result_status") for node in etree.fromstring(xml).iter("comparison_result")]


def test_the_start_line_names_address_and_model(listening, model_directory):
    served = re.escape(str(model_directory))
    line = rf"perfjudge serves LogisticRegression \w+ \({served}\) on http://127\.0\.0\.1:\d+\n"
    assert re.fullmatch(line, listening.announced)


def test_a_slower_target_fails_with_three_reasons(listening):
    cases = [
        comparison("same"), comparison("slow", 80.0), comparison("fast", 125.0),
        comparison("slower", 125.0, better="lower"), comparison("faster", 80.0, better="lower"),
    ]  # fmt: skip
    answer = post(listening, json.dumps({"comparisons": cases, "explain": True})).json()
    assert [one["verdict"] for one in answer["verdicts"]] == ["pass", "fail", "pass", "fail", "pass"]
    same, slow, *_ = answer["verdicts"]
    assert slow["probability"] > 0.9 > slow["threshold"] > same["probability"]
    assert len(slow["reasons"]) == 3
    assert slow["reasons"][0]["value"] == pytest.approx(-(0.2**0.5))
    assert slow["reasons"][0]["contribution"] > 0


@pytest.mark.parametrize("media_type", ["application/xml", "text/xml; charset=utf-8"])
def test_xml_comes_back_with_its_verdicts_filled_in(listening, media_type):
    answer = post(listening, FIGURE, {"content-type": media_type})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/xml")
    assert statuses(answer.content) == ["pass", "fail"]


def test_an_assumed_direction_of_xml_is_in_a_header(listening):
    answer = post(listening, FIGURE, XML)
    assert answer.headers["perfjudge-notes"].startswith("body does not say which values are better")
    said = FIGURE.replace("<comparison_result ", '<comparison_result better="lower" ')
    turned = post(listening, said, XML)
    assert "perfjudge-notes" not in turned.headers
    assert statuses(turned.content) == ["pass", "pass"]


DOUBLED = '<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;">]>'
BOMB = FIGURE.replace('"1.0"?>', '"1.0"?>' + DOUBLED).replace("bt_C_x", "&y;")
#: More bodies that readers refuse are in the tests of the readers.
BAD = {
    "no JSON": (b"{", JSON, 400, "JSON"),
    "an unknown key": (asked(comparison(mashine="m")).encode(), JSON, 422, 'did you mean "machine"?'),
    "no XML": (b"<comparison_results", XML, 400, "XML"),
    "an entity bomb": (BOMB.encode(), XML, 422, "document type"),
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
