import json
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations

import httpx
import pytest

from data.errors import InputError
from serving.http.models import all_models
from tests.system.conftest import comparison


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
    def post(number):
        content = {"comparisons": [comparison("c", 70.0 + 3 * number)]}
        return httpx.post(f"{listening.url}/v1/comparisons/judge", json=content, timeout=120).json()

    alone = [post(number) for number in range(16)]
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(post, [*range(16)] * 3)) == alone * 3


KINDS = {
    "model": "comparisons (regression-comparison)",
    "matrices": "matrices (regression-matrix)",
    "corun_static": "corun (corun-static)",
    "corun_online": "corun (corun-online)",
}


@pytest.mark.parametrize(("option", "given_for"), [*permutations(KINDS, 2)])
def test_a_model_of_another_kind_is_refused_with_both_kinds(small_models, option, given_for):
    directory = small_models[given_for]
    with pytest.raises(InputError) as error:
        all_models({option: directory})[option].ensure_loaded()
    told = f"is a model of {KINDS[given_for]}; expected one of {KINDS[option]}"
    assert str(error.value) == f"{directory}: {told}"
