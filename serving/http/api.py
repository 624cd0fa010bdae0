"""The FastAPI application: the endpoints of all families, and the state of the server."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import reduce
from http import HTTPStatus
from operator import or_
from typing import Any

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, create_model

from data.errors import InputError
from serving.http import browser_pages, middleware, overview, request_context, schemas
from serving.http.batching import RequestBatcher, loaded
from serving.http.bodies import JSON, NOTES, BareRoute, body_of, media_type_of
from serving.http.models import HotReloadingModel, all_models, following
from serving.http.request_context import note
from serving.http.schemas import Health, ProblemDetails, Readiness
from serving.http.settings import ServerSettings
from serving.promotion import tracing
from serving.shadow import figures
from serving.supply import Endpoint, doors, pages

#: The refusals that every endpoint may answer.
REFUSALS = (400, 413, 415, 422)
_SCHEMAS = "#/components/schemas/"
_TEXT = {"schema": {"type": "string"}}


def create_app(models: Mapping[str, HotReloadingModel], settings: ServerSettings | None = None) -> FastAPI:
    """Make the application."""
    app = FastAPI(
        title="perfjudge",
        summary="Verdicts on performance measurements",
        version="1",
        docs_url=None,
        redoc_url=None,
        lifespan=_begun,
    )
    app.state.models = models
    #: Each returns a message about a family's part that does not work; None if all works.
    app.state.troubles = list[Callable[[], str | None]]()
    app.state.settings = settings or ServerSettings()
    schemas.install(app)
    overview.install(app)
    browser_pages.install(app)
    for door in doors():
        _add(app, door)
    for one in pages():
        one.add(app)
    _add_state(app)
    tracing.install(app)
    figures.install(app)
    middleware.install(app, app.state.settings)
    _describe(app)
    return app


def application() -> FastAPI:
    """Make the application as the environment says (for uvicorn's workers)."""
    settings = ServerSettings.handed_on()
    request_context.begin(settings.log_level, settings.log_format)
    return create_app(all_models(settings.options, settings.shared), settings)


@asynccontextmanager
async def _begun(app: FastAPI) -> AsyncIterator[None]:
    """Load the eager models before the first request, and follow the registry while the application runs."""
    # a thread that loads the next version lets the others go on five times as often
    sys.setswitchinterval(0.001)
    models, shared = app.state.models, CapacityLimiter(max(2, os.cpu_count() or 1))
    # endpoints that keep every core busy have their own queue, so that others are still answered
    app.state.desks = {
        door.path: RequestBatcher.of(
            door, models[door.model.key] if door.model else None, CapacityLimiter(1) if door.alone else shared
        )
        for door in doors()
    }
    for model in models.values():
        if model.eager:
            with suppress(InputError):
                await to_thread.run_sync(model.get)
    # exclude the objects loaded so far from garbage collection, which would delay requests by 0.1 s
    gc.collect()
    gc.freeze()
    with following(models.values(), app.state.settings.watch):
        yield


def _add(app: FastAPI, door: Endpoint) -> None:
    async def answer(request: Request) -> Response:
        media_type = media_type_of(request, door.handlers)
        body = await body_of(request, door.limit)
        answered, served = await app.state.desks[door.path].answer(media_type, body)
        note(request.scope, door, (media_type, body), answered, served)
        return Response(answered.content, media_type=answered.media_type, headers=answered.headers)

    needed = (*REFUSALS, *door.refusals, *(() if door.model is None else (HTTPStatus.SERVICE_UNAVAILABLE,)))
    told: dict[int | str, dict[str, Any]] = {}
    if door.others:
        says = "What had to be assumed of a body that does not say it; not there otherwise."
        headers = {NOTES: {"description": says, **_TEXT}}
        told[200] = {"content": {door.others[0]: {"schema": door.told}}, "headers": headers}
    app.router.add_api_route(
        door.path,
        answer,
        route_class_override=BareRoute,
        methods=["POST"],
        name=door.name,
        description=door.says,
        response_model=door.answer,
        openapi_extra=_request_body(door),
        responses=told | schemas.responses(*needed),
    )


def _request_body(door: Endpoint) -> dict[str, Any]:
    """Return the OpenAPI description of an endpoint's request body."""
    content: dict[str, Any] = {JSON: {"schema": {"$ref": f"{_SCHEMAS}{door.request.__name__}"}}}
    content |= {media_type: {"schema": door.described} for media_type in door.others}
    return {"requestBody": {"required": True, "content": content}}


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

    @app.get("/readyz", response_model=Readiness, responses=schemas.responses(503))
    async def readyz() -> Any:
        """Say that the models that are waited for are loaded, and which are not those that they should be."""
        for model in app.state.models.values():
            if model.eager and model.loaded is None:
                await to_thread.run_sync(loaded, model)
        known = [one for one in (model.health for model in app.state.models.values()) if one is not None]
        troubles = [told for trouble in app.state.troubles if (told := trouble()) is not None]
        well = not troubles and all(one["trouble"] is None for one in known)
        return {"status": "ok" if well else "degraded", "models": known, "troubles": troubles}

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Count requests, verdicts and times of all workers, in the format of Prometheus."""
        app.state.metrics.look(app.state.models)
        return Response(await to_thread.run_sync(app.state.metrics.text), media_type=CONTENT_TYPE_LATEST)


def _listed() -> type[BaseModel]:
    """Return the type of a list with the entries of every family."""
    entry: Any = reduce(or_, dict.fromkeys(door.loader.shape for door in doors() if door.loader))
    return create_model("Models", __doc__="The models that answer.", models=(list[entry], ...))


def _describe(app: FastAPI) -> None:
    """Add to OpenAPI the request and problem schemas, and the responses of the middleware."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        """Build the OpenAPI document on the first call, and return the cached one afterwards."""
        if app.openapi_schema is None:
            document = described()
            components = document["components"]["schemas"]
            models: list[type[BaseModel]] = [*(door.request for door in doors()), ProblemDetails]
            for model in models:
                schema = model.model_json_schema(ref_template=f"{_SCHEMAS}{{model}}")
                components.update(schema.pop("$defs", {}))
                components[model.__name__] = schema
            middleware.describe(document, app.state.settings)
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
