"""Every endpoint answers what its description allows, and refuses what it forbids.

``PERFJUDGE_CASES=10000`` tries more requests than a change needs.
"""

import copy
import json
import os

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Config, GenerationMode
from schemathesis.python import asgi

from serving.http.api import create_app
from serving.http.models import all_models
from serving.http.settings import ServerSettings
from tests.system.conftest import comparison
from tests.system.corun import inputs as corun_inputs
from tests.system.fingerprints import inputs as fingerprint_inputs
from tests.system.matrices import inputs as matrix_inputs

CASES = int(os.environ.get("PERFJUDGE_CASES", "500"))
JUDGE, MATRICES = "/v1/comparisons/judge", "/v1/matrices/judge"
LABELS, ONE_LABEL = "/v1/labels", "/v1/labels/{comparison_id}"
STATIC, ONLINE, IRUP = "/v1/corun/static", "/v1/corun/online", "/v1/irup"
ALLOWED, FORBIDDEN = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
#: Per cent of the cases with allowed, forbidden, and right but for a few values: long bodies take long.
SHARES = {JUDGE: (5, 2, 5), MATRICES: (6, 5, 1), STATIC: (8, 8, 3), ONLINE: (8, 8, 4), IRUP: (6, 5, 2)}
#: What refuses what is forbidden: a body that is too long, too.
REFUSING = {
    "checks": {"negative_data_rejection": {"expected-statuses": ["400", "403", "404", "413", "415", "422"]}}
}


class NamedHere:
    """Comparisons that may be labelled: all but a few."""

    def find_identifier(self, name):
        return name if len(name) % 4 else None


@pytest.fixture(scope="module")
def schema(small_models, tmp_path_factory):
    labels = f"sqlite:///{tmp_path_factory.mktemp('labels')}/labels.db"
    app = create_app(all_models(small_models), ServerSettings({"labels": labels}))
    app.state.pool = NamedHere()
    yield schemathesis.openapi.from_asgi("/openapi.json", app, config=Config.from_dict(REFUSING))
    asgi.shutdown_lifespans()


@pytest.fixture(scope="module")
def client(schema):
    with asgi.get_client(schema.app) as client:
        yield client


def cases(share):
    """Return how many cases are generated, always the same ones."""
    return settings(
        max_examples=max(1, CASES * share // 100), derandomize=True, database=None,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("path", "method", "mode"),
    [
        *((path, "POST", mode) for path in SHARES for mode in (ALLOWED, FORBIDDEN)),
        *((ONE_LABEL, "PUT", mode) for mode in (ALLOWED, FORBIDDEN)),
        (ONE_LABEL, "GET", ALLOWED),
    ],
)
def test_allowed_requests_are_answered_and_forbidden_ones_refused(client, schema, path, method, mode):
    @cases(SHARES.get(path, (5, 5))[mode is FORBIDDEN])
    @given(schema[path][method].as_strategy(mode))
    def holds(case):
        case.call_and_validate(session=client)

    holds()


@pytest.mark.parametrize("path", ["/v1/models", "/healthz", "/readyz", "/metrics", LABELS])
def test_state_of_the_server_is_as_described(client, schema, path):
    assert schema[path]["GET"].Case().call_and_validate(session=client).status_code == 200


def test_every_example_of_the_description_is_answered(client, schema):
    described = schema.raw_schema
    for path in SHARES:
        content = described["paths"][path]["post"]["requestBody"]["content"]
        name = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
        example = described["components"]["schemas"][name]["examples"][0]
        case = schema[path]["POST"].Case(body=example, media_type="application/json")
        assert case.call_and_validate(session=client).status_code == 200
        if "text/xml" in content:
            example = content["text/xml"]["schema"]["examples"][0]
            case = schema[path]["POST"].Case(body=example, media_type="text/xml")
            assert b'result_status="pass"' in case.call_and_validate(session=client).content


def corun():
    """A question about a known task and one that the request brings with it."""
    run = {"task": "mine", "machine": "test x2", "solo_seconds": 2.0, "events": corun_inputs.rates("task-7")}
    asked = {"task": "task-1", "corunners": ["mine", "task-2"], "machine": "test x2"}
    return {"coruns": [asked], "tasks": [run]}


RIGHT = {
    JUDGE: lambda: {"comparisons": [comparison("a"), comparison("b", 80.0)]},
    MATRICES: matrix_inputs.request,
    STATIC: corun,
    ONLINE: corun_inputs.request,
    IRUP: lambda: fingerprint_inputs.request(fingerprint_inputs.fingerprints(6), "cached"),
}
ANYTHING = [
    *(None, True, "", "x", "\0", "\u3000", "+", "test x2", [], {}, [1.0, 1.0], [None], {"x": 1}),
    *(-1, 0, 1, 2.0, 0.5, 5e-324, 1e-9, 1e9, 2**63, 1e30, -1.7e308, 1.7e308),
]


def places(node, place=()):
    """Yield where something stands in a JSON document."""
    inside = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in inside:
        yield (*place, key)
        yield from places(value, (*place, key))


@st.composite
def spoilt(draw, right):
    """A few values of a right request replaced by anything, or left out."""
    found = copy.deepcopy(right)
    for _ in range(draw(st.integers(1, 3))):
        *above, key = draw(st.sampled_from(list(places(found)) or [("pairs",)]))
        holder = found
        for step in above:
            holder = holder[step]
        if draw(st.integers(0, 5)):
            holder[key] = copy.deepcopy(draw(st.sampled_from(ANYTHING)))
        else:
            holder.pop(key, None) if isinstance(holder, dict) else holder.pop(key)
    return found


@pytest.mark.parametrize("path", SHARES)
def test_altered_requests_are_answered_where_the_schema_allows_them(client, schema, path):
    described, operation = schema.raw_schema, schema[path]["POST"]
    reference = described["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    allows = jsonschema_rs.Draft202012Validator(reference | {"components": described["components"]}).is_valid
    right, share = json.loads(json.dumps(RIGHT[path]())), SHARES[path][2]
    assert allows(right)

    @cases(share)
    @given(spoilt(right))
    def holds(content):
        case = operation.Case(body=content, media_type="application/json")
        answer = case.call(session=client)
        assert answer.status_code == (200 if allows(content) else 422), answer.text
        operation.validate_response(answer)

    holds()
