"""JSON schemas of requests and answers that several families share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
)
from pydantic_core.core_schema import CoreSchema, no_info_after_validator_function
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from data.errors import InputError, ModelError

if TYPE_CHECKING:
    from fastapi import FastAPI

Better = Literal["lower", "higher"]
Name = Annotated[str, StringConstraints(min_length=1, max_length=300)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class OtherThan:
    """Annotation of text that must not be one of `names`, which are reserved where it is used."""

    names: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self._required, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(core), "not": {"enum": sorted(self.names)}}

    def _required(self, name: str) -> str:
        if name in self.names:
            raise ValueError("is taken; expected another name")
        return name


def example(content: dict[str, Any]) -> ConfigDict:
    """Return the ``model_config`` of a type that OpenAPI shows an example of."""
    return ConfigDict(json_schema_extra={"examples": [content]})


class ModelAnswer(BaseModel):
    """Which model answers."""

    name: str
    version: str
    uri: str
    digest: str = Field(default="", description="SHA-256 of its files, as they were registered.")


class ServedModel(ModelAnswer):
    """A model that answers, and what its card says."""

    estimator: str
    features: list[str]
    data_digest: str
    serves: str = Field(description="The name under which such models are registered.")
    since: datetime = Field(description="When it began to answer.")
    trouble: str | None = Field(
        description="Why the version that its alias names does not answer, or the registry does not."
    )


class Health(BaseModel):
    """The process runs."""

    status: Literal["ok"]


class ModelHealth(BaseModel):
    """Which version answers, and why not the one that its alias names."""

    serves: str
    version: str | None
    trouble: str | None


class Readiness(BaseModel):
    """Requests are answered; degraded: not all of them by the versions that they should be."""

    status: Literal["ok", "degraded"]
    models: list[ModelHealth]
    troubles: list[str] = Field(default=[], description="What else does not answer, and what that means.")


def finite(value: float | None) -> float | None:
    """Return the number as a float, or None if it is None, infinite or NaN, which JSON cannot hold."""
    return float(value) if value is not None and math.isfinite(value) else None


MEDIA_TYPE = "application/problem+json"


class ProblemDetails(BaseModel):
    """Why a request was refused (RFC 9457)."""

    model_config = example(
        {
            "type": "about:blank",
            "title": "Unprocessable Content",
            "status": 422,
            "detail": 'comparisons[0].configurations[0]: threads="four" is not a whole number',
        }
    )

    type: str
    title: str
    status: int
    detail: str
    instance: str | None = Field(
        default=None,
        description="Of an error of the server: the request's id, which stands in its log beside the trace.",
    )


class RefusedError(HTTPException):
    """A request that is answered with problem details: status, detail, headers."""


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI descriptions of refusals with these HTTP statuses."""
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}},
        }
        for status in statuses
    }


def install(app: FastAPI) -> None:
    """Let `app` answer every refusal with problem details."""
    app.add_exception_handler(InputError, _input)
    app.add_exception_handler(ModelError, _model)
    app.add_exception_handler(HTTPException, _http)


def answer(status: int, detail: str, headers: Any = None, **further: str) -> JSONResponse:
    """Return an answer with problem details."""
    title = HTTPStatus(status).phrase
    content = {"type": "about:blank", "title": title, "status": status, "detail": detail, **further}
    return JSONResponse(content, status, headers, MEDIA_TYPE)


async def _input(_request: Request, exc: Exception) -> JSONResponse:
    # lone surrogates, which UTF-8 cannot hold, are replaced, and what quotes a huge value is cut
    told = str(exc).encode("utf-8", "replace").decode()[:2000]
    return answer(HTTPStatus.UNPROCESSABLE_ENTITY, told)


async def _model(_request: Request, exc: Exception) -> JSONResponse:
    return answer(HTTPStatus.SERVICE_UNAVAILABLE, str(exc))


async def _http(_request: Request, exc: Exception) -> JSONResponse:
    assert isinstance(exc, HTTPException)
    return answer(exc.status_code, str(exc.detail), exc.headers)
