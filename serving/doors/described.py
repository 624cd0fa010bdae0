"""What OpenAPI says of the doors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from serving.doors.bodies import JSON, NOTES
from serving.doors.problems import ProblemDetails
from serving.supply import Door

#: How any door may refuse a question.
REFUSALS = (400, 413, 415, 422)
_SCHEMAS = "#/components/schemas/"
_TEXT = {"schema": {"type": "string"}}


def request_body(door: Door) -> dict[str, Any]:
    """Return what is said of the body that a door takes."""
    content: dict[str, Any] = {JSON: {"schema": {"$ref": f"{_SCHEMAS}{door.request.__name__}"}}}
    if door.further is not None:
        text = {**_TEXT, "example": door.further.example}
        content |= dict.fromkeys(door.further.types, text)
    return {"requestBody": {"required": True, "content": content}}


def answers(door: Door) -> dict[int | str, dict[str, Any]]:
    """Return what is said of answers beside their JSON."""
    if door.further is None:
        return {}
    says = "What had to be assumed of a body that does not say it; not there otherwise."
    headers = {NOTES: {"description": says, **_TEXT}}
    return {200: {"content": {door.further.types[0]: _TEXT}, "headers": headers}}


def complete(app: FastAPI, doors: Sequence[Door]) -> None:
    """Add the models that only the descriptions of requests and problems refer to."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        """Describe the interface once, and keep the description."""
        if app.openapi_schema is None:
            components = described()["components"]["schemas"]
            models: list[type[BaseModel]] = [*(door.request for door in doors), ProblemDetails]
            for model in models:
                schema = model.model_json_schema(ref_template=f"{_SCHEMAS}{{model}}")
                components.update(schema.pop("$defs", {}))
                components[model.__name__] = schema
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
