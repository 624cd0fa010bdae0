"""What holds for every door of every family."""

import pytest

from serving.http.api import create_app
from serving.http.models import all_models
from serving.plugins import all_endpoints
from tests.asking import ask

JSON = {"content-type": "application/json"}
every_door = pytest.mark.parametrize("door", list(all_endpoints()), ids=lambda door: door.path)


@pytest.fixture
def client(tmp_path, monkeypatch):
    """Return what asks a server without any champion."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/none.db")

    def asking(method, path, **further):
        return ask(create_app(all_models({})), (method, path, further), started=True)[0]

    return asking


@every_door
def test_endpoints_refuse_wrong_media_types_and_large_bodies(client, door):
    plain = client("POST", door.path, content=b"x", headers={"content-type": "text/plain"})
    large = client("POST", door.path, content=b"{}", headers={**JSON, "content-length": str(door.limit + 1)})
    assert (plain.status_code, "expected application/json" in plain.json()["detail"]) == (415, True)
    assert (large.status_code, str(door.limit) in large.json()["detail"]) == (413, True)


@every_door
def test_endpoints_without_champion_name_the_command_for_one(client, door):
    answer = client("POST", door.path, content=b"{}", headers=JSON)
    lacks = door.model is not None and not door.champion_optional
    assert (answer.status_code, "dvc repro" in answer.json()["detail"]) == (
        (503, True) if lacks else (422, False)
    )


@every_door
def test_endpoints_are_described_with_request_and_error_responses(client, door):
    described = client("GET", "/openapi.json").json()
    operation = described["paths"][door.path]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    assert schema == {"$ref": f"#/components/schemas/{door.request.__name__}"}
    assert door.request.__name__ in described["components"]["schemas"]
    assert {"400", "413", "415", "422"} <= set(operation["responses"])
    assert ("503" in operation["responses"]) == (door.model is not None)


def test_a_server_without_champions_is_not_ready(client):
    assert client("GET", "/v1/models").json() == {"models": []}
    assert client("GET", "/readyz").status_code == 503
    assert client("GET", "/healthz").json() == {"status": "ok"}
