"""The HTTP interface: the doors of all families, and the state of the server."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import reduce
from http import HTTPStatus
from operator import or_
from time import perf_counter
from typing import Any

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from pydantic import BaseModel, create_model

from data.errors import InputError
from serving.browser import docs_page, overview
from serving.doors import problems
from serving.doors.bodies import JSON, NOTES, Countable
from serving.doors.lazy import Lazy, all_models
from serving.doors.problems import ProblemDetails, RefusedError
from serving.doors.schemas import Health
from serving.doors.settings import Settings
from serving.pages.verdict_lines import ANSWERS
from serving.supply import Door, Handle, doors

#: How any door may refuse a question.
REFUSALS = (400, 413, 415, 422)
_SCHEMAS = "#/components/schemas/"
_TEXT = {"schema": {"type": "string"}}


class ProcessCounters:
    """Counters of one serving process, for Prometheus: verdicts given, and how long judging took."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._verdicts = Counter("perfjudge_verdicts", "Verdicts given", ["verdict"], registry=self.registry)
        self._seconds = Histogram(
            "perfjudge_judging_seconds", "Time from a body to its answer", registry=self.registry
        )

    def count(self, judged: Countable, seconds: float) -> None:
        """Count the verdicts of one answer, and the time that it took."""
        self._seconds.observe(seconds)
        for answer in ANSWERS:
            self._verdicts.labels(answer).inc(judged.count(answer))


def create_app(models: Mapping[str, Lazy], settings: Settings | None = None) -> FastAPI:
    """Make the application.

    Parameters
    ----------
    models : mapping of str to Lazy
        By the key of what is registered. A door whose model is not there answers 503.
    settings : Settings, optional
    """
    app = FastAPI(
        title="perfjudge",
        summary="Verdicts on performance measurements",
        version="1",
        docs_url=None,
        redoc_url=None,
        lifespan=_begun,
    )
    app.state.models = models
    app.state.settings = settings or Settings()
    app.state.metrics = ProcessCounters()
    problems.install(app)
    overview.install(app)
    docs_page.install(app)
    for door in doors():
        _add(app, door)
    _add_state(app)
    _describe(app)
    return app


def application() -> FastAPI:
    """Make the application as the environment says (for uvicorn's workers)."""
    settings = Settings.handed_on()
    return create_app(all_models(settings.models), settings)


@asynccontextmanager
async def _begun(app: FastAPI) -> AsyncIterator[None]:
    """Load what the first request would otherwise wait for."""
    shared = CapacityLimiter(max(2, os.cpu_count() or 1))
    # what keeps every core busy has its own queue, so that others are still answered meanwhile
    app.state.limiters = {door.path: CapacityLimiter(1) if door.alone else shared for door in doors()}
    for model in app.state.models.values():
        if model.eager:
            with suppress(InputError):
                await to_thread.run_sync(model.get)
    yield


def _add(app: FastAPI, door: Door) -> None:
    async def answer(request: Request) -> Response:
        handle = _handle(door, request.headers.get("content-type", ""))
        body = await _body(request, door.limit)
        started = perf_counter()
        model = None if door.model is None else app.state.models[door.model.key]
        answered = await to_thread.run_sync(
            lambda: handle(body, None if model is None else _loaded(model)),
            limiter=app.state.limiters[door.path],
        )
        if answered.judged is not None:
            app.state.metrics.count(answered.judged, perf_counter() - started)
        app.state.recent.add(door, answered)
        return Response(answered.content, media_type=answered.media_type, headers=answered.headers)

    needed = REFUSALS if door.model is None else (*REFUSALS, HTTPStatus.SERVICE_UNAVAILABLE)
    told: dict[int | str, dict[str, Any]] = {}
    if door.others:
        says = "What had to be assumed of a body that does not say it; not there otherwise."
        headers = {NOTES: {"description": says, **_TEXT}}
        told[200] = {"content": {door.others[0]: _TEXT}, "headers": headers}
    app.add_api_route(
        door.path,
        answer,
        methods=["POST"],
        name=door.name,
        description=door.says,
        response_model=door.answer,
        openapi_extra=_request_body(door),
        responses=told | problems.responses(*needed),
    )


def _request_body(door: Door) -> dict[str, Any]:
    """Return what OpenAPI says of the body that a door takes."""
    content: dict[str, Any] = {JSON: {"schema": {"$ref": f"{_SCHEMAS}{door.request.__name__}"}}}
    content |= {media_type: {**_TEXT, "example": door.example} for media_type in door.others}
    return {"requestBody": {"required": True, "content": content}}


def _loaded(model: Lazy) -> Any:
    try:
        return model.get()
    except InputError as exc:
        raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, str(exc)) from exc


def _handle(door: Door, content_type: str) -> Handle:
    """Return what answers a body of this ``Content-Type``; RefusedError with 415 if nothing does."""
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type not in door.handlers:
        told = f"Content-Type {media_type[:100]!r}: expected {' or '.join(door.handlers)}"
        raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, told)
    return door.handlers[media_type]


async def _body(request: Request, limit: int) -> bytes:
    """Read the body; refuse as soon as more than `limit` bytes are announced or have come."""
    announced = request.headers.get("content-length", "")
    chunks: list[bytes] = []
    if not announced.isdecimal() or int(announced) <= limit:
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                break
            chunks.append(chunk)
        else:
            return b"".join(chunks)
    told = f"the body has more than {limit} bytes"
    raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, told, {"connection": "close"})


def _add_state(app: FastAPI) -> None:
    @app.get("/v1/models", response_model=_listed())
    async def models() -> Any:
        """Say which models answer."""
        entries = [model.entry for model in app.state.models.values()]
        return {"models": [entry for entry in entries if entry is not None]}

    @app.get("/healthz", response_model=Health)
    async def healthz() -> Any:
        """Say that the process runs."""
        return {"status": "ok"}

    @app.get("/readyz", response_model=Health, responses=problems.responses(503))
    async def readyz() -> Any:
        """Say that the models that are waited for are loaded, and requests are answered."""
        for model in app.state.models.values():
            if model.eager:
                await to_thread.run_sync(_loaded, model)
        return {"status": "ok"}

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Count verdicts and times of this process, in the format of Prometheus."""
        return Response(generate_latest(app.state.metrics.registry), media_type=CONTENT_TYPE_LATEST)


def _listed() -> type[BaseModel]:
    """Return the type of a list with the entries of every family."""
    entry: Any = reduce(or_, dict.fromkeys(door.loader.shape for door in doors() if door.loader))
    return create_model("Models", __doc__="The models that answer.", models=(list[entry], ...))


def _describe(app: FastAPI) -> None:
    """Add the models that only the descriptions of requests and problems refer to."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        """Describe the interface once, and keep the description."""
        if app.openapi_schema is None:
            components = described()["components"]["schemas"]
            models: list[type[BaseModel]] = [*(door.request for door in doors()), ProblemDetails]
            for model in models:
                schema = model.model_json_schema(ref_template=f"{_SCHEMAS}{{model}}")
                components.update(schema.pop("$defs", {}))
                components[model.__name__] = schema
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
