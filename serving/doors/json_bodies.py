"""Bodies that can only be JSON: checked and turned into typed requests."""

from __future__ import annotations

from http import HTTPStatus
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from data.tables.given import said
from serving.doors.bodies import parse_json
from serving.doors.problems import RefusedError

MEDIA_TYPE = "application/json"
Request = TypeVar("Request", bound=BaseModel)


def check_media_type(content_type: str) -> None:
    """Refuse anything but JSON.

    Raises
    ------
    RefusedError
        415.
    """
    given = content_type.partition(";")[0].strip().lower()
    if given != MEDIA_TYPE:
        problem = f"Content-Type {given[:100]!r}: expected {MEDIA_TYPE}"
        raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, problem)


def request_of(body: bytes, kind: type[Request]) -> Request:
    """Return the request that a body holds.

    Raises
    ------
    RefusedError
        400 if the body is not JSON, 422 if it is not a request.
    """
    try:
        return kind.model_validate(parse_json(body))
    except ValidationError as exc:
        raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, said(exc, "the body")) from exc
