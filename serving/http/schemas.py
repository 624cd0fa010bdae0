"""Schemas of requests and answers that several families share, and refusals with problem details."""

from __future__ import annotations

import json
import math
from datetime import datetime
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.config import JsonDict
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from data.errors import InputError, ModelError

if TYPE_CHECKING:
    from fastapi import FastAPI

Better = Literal["lower", "higher"]
Name = Annotated[str, StringConstraints(min_length=1, max_length=300)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def example_config(package: str) -> ConfigDict:
    """Return the ``model_config`` of types with an example, by type, in ``examples.json`` of `package`."""

    def add_example(schema: JsonDict) -> None:
        examples = json.loads((files(package) / "examples.json").read_text(encoding="utf-8"))
        schema["examples"] = [examples[str(schema["title"])]]

    return ConfigDict(json_schema_extra=add_example)


class ModelAnswer(BaseModel):
    """The model that answered."""

    name: str
    version: str
    uri: str
    digest: str = Field(default="", description="SHA-256 of its files at registration.")


class ServedModel(ModelAnswer):
    """A served model and its card."""

    estimator: str
    features: list[str]
    data_digest: str
    serves: str = Field(description="The registered name of such models.")
    since: datetime = Field(description="Time since which it answers.")
    load_failure: str | None = Field(
        description="Reason why the version that its alias names is not served; null if it is."
    )


class Health(BaseModel):
    """The process runs."""

    status: Literal["ok"]


class ModelHealth(BaseModel):
    """The served version, and the reason if it is not the one that its alias names."""

    serves: str
    version: str | None
    load_failure: str | None


class Readiness(BaseModel):
    """Requests are answered; degraded: some of them by another version than the alias names."""

    status: Literal["ok", "degraded"]
    models: list[ModelHealth]
    load_failures: list[str] = Field(
        default=[], description="Failures of other parts, and their consequences."
    )


def finite_or_none(value: float | None) -> float | None:
    """Return the number as a float, or None if it is None, infinite or NaN, which JSON cannot hold."""
    return float(value) if value is not None and math.isfinite(value) else None


MEDIA_TYPE = "application/problem+json"


class ProblemDetails(BaseModel):
    """Problem details of a refused request (RFC 9457)."""

    model_config = example_config("serving.http")

    type: str
    title: str
    status: int
    detail: str
    instance: str | None = Field(
        default=None,
        description="For errors of the server: the request id, which marks the traceback in its log.",
    )


class RefusedError(HTTPException):
    """A refused request: status, detail and headers of the answer with problem details."""


def refusal_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return OpenAPI descriptions of refusals with problem details, by HTTP status."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


def add_error_handlers(app: FastAPI) -> None:
    """Let `app` answer InputError (422), ModelError (503) and HTTPException with problem details."""
    for kind in (InputError, ModelError, HTTPException):
        app.add_exception_handler(kind, _answer_error)


def problem_response(status: int, detail: str, headers: Any = None, **extra_fields: str) -> JSONResponse:
    """Return an answer with problem details (RFC 9457); the title is the phrase of the HTTP `status`."""
    title = HTTPStatus(status).phrase
    content = {"type": "about:blank", "title": title, "status": status, "detail": detail, **extra_fields}
    return JSONResponse(content, status, headers, MEDIA_TYPE)


async def _answer_error(_request: Request, exc: Exception) -> JSONResponse:
    if isinstance(exc, HTTPException):
        return problem_response(exc.status_code, str(exc.detail), exc.headers)
    if isinstance(exc, ModelError):
        return problem_response(HTTPStatus.SERVICE_UNAVAILABLE, str(exc))
    # lone surrogates, which UTF-8 cannot encode, are replaced, and messages with huge values are cut
    return problem_response(
        HTTPStatus.UNPROCESSABLE_ENTITY, str(exc).encode("utf-8", "replace").decode()[:2000]
    )
