"""Errors of requests name the JSON path, the JSON value and the expectation, for every endpoint alike."""

import copy
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.comparisons.formats.comparison_json import checked_request
from data.comparisons.request import JudgeRequest
from data.errors import InputError
from serving.comparisons.endpoints import UploadedResults
from serving.comparisons.labels.endpoints import SignedLabelRequest
from serving.corun.schemas import OnlineRequest, StaticRequest
from serving.fingerprints.schemas import IrupRequest
from serving.http.bodies import parse_json, request_of
from serving.http.schemas import RefusedError
from serving.matrices.schemas import MatricesRequest

KINDS = [
    *(JudgeRequest, UploadedResults, SignedLabelRequest),
    *(StaticRequest, OnlineRequest, MatricesRequest, IrupRequest),
]
EXAMPLES = {kind: kind.model_json_schema()["examples"][0] for kind in KINDS}
#: Objects whose keys are names that a client chooses.
FREE = {"events", "metrics", "rates", "values", "units", "runs"}
#: Words of Python and of pydantic.
FOREIGN = re.compile(r"None|True|False|Input|Field|dictionary|Section|instance|validation|constrained")


def example(kind):
    return copy.deepcopy(EXAMPLES[kind])


def refusal_of(kind, content):
    body = json.dumps(content).encode()
    with pytest.raises((RefusedError, InputError)) as error:
        checked_request(parse_json(body), "body") if kind is JudgeRequest else request_of(body, kind)
    return str(getattr(error.value, "detail", error.value))


def places(node, above=()):
    """Yield the path of each value in a JSON document, and the object or list that has it."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        yield (*above, key), node
        if isinstance(value, dict | list):
            yield from places(value, (*above, key))


def written(path):
    steps = (
        f".{step}" if isinstance(step, str) and "." not in step else f"[{json.dumps(step)}]" for step in path
    )
    return "".join(steps).removeprefix(".")


@pytest.mark.parametrize("kind", KINDS)
def test_a_misspelt_key_is_reported_before_the_key_that_lacks(kind):
    keys = [path for path, _ in places(EXAMPLES[kind]) if isinstance(path[-1], str)]
    for path in (path for path in keys if not FREE.intersection(path[:-1])):
        content = example(kind)
        holder = next(node for place, node in places(content) if place == path)
        *above, key = path
        misspelt = f"{key[:-1]}x{key[-1]}"
        holder[misspelt] = holder.pop(key)
        told = f'body: {written((*above, misspelt))} is unknown; did you mean "{key}"?'
        assert refusal_of(kind, content) == told


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=30)
def test_an_error_has_the_path_and_the_value_in_json(kind, data):
    content = example(kind)
    path, holder = data.draw(st.sampled_from([*places(content)]))
    wrong = data.draw(st.sampled_from([True, {"x": True}, [[None]]]))
    if isinstance(wrong, bool) and path[-1] in {"saw_verdict", "explain"}:
        return
    holder[path[-1]] = wrong
    told = refusal_of(kind, content)
    # an object or a list may be allowed here, but not its content
    deeper = "" if wrong is True else r"(\.x|\[0\])*"
    shown = r"((=(true|null|\[\.\.\.\]|\{\.\.\.\}))? is not | is unknown; | lacks )"
    assert re.match(f"body: {re.escape(written(path))}{deeper}{shown}", told), told
    assert not FOREIGN.search(told), told


MANY = {"task": "a", "corunners": ["a"] * 64}
SOLO = {"t_seconds": [0], "events": {}}


@pytest.mark.parametrize(
    ("kind", "content", "told"),
    [
        (StaticRequest, [], "the request=[...] is not an object"),
        (StaticRequest, {}, "lacks coruns"),
        (StaticRequest, {"coruns": []}, "coruns is empty; expected at least one"),
        (StaticRequest, {"coruns": [{"corunners": ["a"]}]}, "coruns[0] lacks task"),
        (StaticRequest, {"coruns": [{"task": "", "corunners": ["a"]}]}, "coruns[0].task is empty"),
        (StaticRequest, {"coruns": [MANY]}, "coruns[0].corunners has more than 63 entries"),
        (OnlineRequest, {"solo": SOLO}, "solo.t_seconds[0]=0 is not a number of at"),
        (OnlineRequest, {"solo": SOLO | {"t_seconds": [10**400]}}, "solo.t_seconds[0]=a huge number is"),
    ],
)
def test_wrong_requests_are_refused_as_those_to_judge_are(kind, content, told):
    assert refusal_of(kind, content).startswith(f"body: {told}")


@pytest.mark.parametrize(
    ("rate", "told"),
    [
        ("fast", '="fast" is not a number'),
        ([1.0, "fast"], '[1]="fast" is not a number'),
        ([[1.0]], "[0]=[...] is not a number"),
        (0, "=0 is not a number of at least 1e-30"),
    ],
)
def test_errors_of_unions_are_those_of_the_intended_type(rate, told):
    content = example(IrupRequest)
    content["machines"][0]["rates"] = {"cpu": rate}
    assert refusal_of(IrupRequest, content) == f"body: machines[0].rates.cpu{told}"
    content = example(MatricesRequest)
    content["pairs"][0]["target"] = {"metrics": {"workload": [1.0]}}
    told = 'body: pairs[0].target.metrics: the key "workload" is taken; expected another name'
    assert refusal_of(MatricesRequest, content) == told


@pytest.mark.parametrize("body", [b"", b" \r\n\t"])
def test_an_empty_body_is_called_empty(body):
    with pytest.raises(RefusedError, match="the body is empty; expected JSON") as error:
        parse_json(body)
    assert error.value.status_code == 400
