"""What is wrong with a request, as RFC 9457 problem details."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from data.errors import InputError, ModelError
from serving.doors.schemas import example

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
    """Return what OpenAPI says of these refusals."""
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
