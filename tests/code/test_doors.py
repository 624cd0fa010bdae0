"""What holds for every door of every family."""

import pytest

from serving.http.api import create_app
from serving.http.models import all_models
from serving.plugins import all_endpoints
from tests.asking import ask

JSON = {"content-type": "application/json"}
every_door = pytest.mark.parametrize("door", list(all_endpoints()), ids=lambda door: door.path)


@pytest.fixture
def app(tmp_path, monkeypatch):
    """A server without any champion."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/none.db")
    return create_app(all_models({}))


@every_door
def test_endpoints_refuse_media_types_large_bodies_and_lacking_champions(app, door):
    too_many = {**JSON, "content-length": str(door.limit + 1)}
    plain, large, answer = ask(
        app,
        ("POST", door.path, {"content": b"x", "headers": {"content-type": "text/plain"}}),
        ("POST", door.path, {"content": b"{}", "headers": too_many}),
        ("POST", door.path, {"content": b"{}", "headers": JSON}),
        started=True,
    )
    assert (plain.status_code, "expected application/json" in plain.json()["detail"]) == (415, True)
    assert (large.status_code, str(door.limit) in large.json()["detail"]) == (413, True)
    lacks = door.model is not None and not door.champion_optional
    named = "dvc repro" in answer.json()["detail"]
    assert (answer.status_code, named) == ((503, True) if lacks else (422, False))


@every_door
def test_endpoints_are_described_with_request_and_error_responses(app, door):
    described = ask(app, ("GET", "/openapi.json"))[0].json()
    operation = described["paths"][door.path]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    assert schema == {"$ref": f"#/components/schemas/{door.request.__name__}"}
    assert door.request.__name__ in described["components"]["schemas"]
    assert {"400", "413", "415", "422"} <= set(operation["responses"])
    assert ("503" in operation["responses"]) == (door.model is not None)


def test_a_server_without_champions_is_not_ready(app):
    paths = "/v1/models", "/readyz", "/healthz"
    models, ready, health = ask(app, *[("GET", path) for path in paths], started=True)
    assert (models.json(), health.json()) == ({"models": []}, {"status": "ok"})
    assert ready.status_code == 503
