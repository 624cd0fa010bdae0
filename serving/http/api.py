"""The FastAPI application: the endpoints of all families, and the state of the server."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any, Union

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, create_model
from threadpoolctl import threadpool_limits

from data.errors import InputError
from serving.http import browser_pages, middleware, overview, request_context, schemas
from serving.http.batching import RequestBatcher, require_model
from serving.http.bodies import JSON, NOTES, BareRoute, body_of, media_type_of
from serving.http.models import HotReloadingModel, all_models, follow_aliases
from serving.http.request_context import record_answer
from serving.http.schemas import Health, ProblemDetails, Readiness
from serving.http.settings import ServerSettings
from serving.plugins import Endpoint, all_endpoints, all_pages
from serving.promotion import tracing
from serving.shadow import figures

_SCHEMAS = "#/components/schemas/"


def create_app(models: Mapping[str, HotReloadingModel], settings: ServerSettings | None = None) -> FastAPI:
    """Return the application with the endpoints and pages of all families, and the middleware.

    `models` are those of `all_models`; none is loaded here. `settings` None: defaults. InputError if the
    address of the label store in `settings` is invalid.
    """
    app = FastAPI(
        title="perfjudge",
        summary="Verdicts on performance measurements",
        version="1",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
    )
    app.state.models = models
    #: Functions that return a message about a broken part of a family; None if all works.
    app.state.failure_checks = list[Callable[[], str | None]]()
    app.state.settings = settings or ServerSettings()
    schemas.add_error_handlers(app)
    overview.add_start_page(app)
    browser_pages.add_docs_page(app)
    for endpoint in all_endpoints():
        _add_endpoint(app, endpoint)
    for family_pages in all_pages():
        family_pages.add(app)
    _add_state_endpoints(app)
    tracing.add_origin_endpoint(app)
    figures.add_shadow_endpoint(app)
    middleware.install_middleware(app, app.state.settings)
    _complete_openapi(app)
    return app


def application() -> FastAPI:
    """Return the application with the settings that the parent process exported (for uvicorn's workers).

    Configures the process's logging. Errors are those of `ServerSettings.from_environment`, `all_models` and
    `create_app`.
    """
    settings = ServerSettings.from_environment()
    request_context.configure_logging(settings.log_level, settings.log_format)
    return create_app(all_models(settings.options, settings.shared), settings)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    # requests are answered at the same time, and their matrices are small: more threads would only wait
    threadpool_limits(1, "blas")
    # while a thread loads the next version, others get the interpreter five times as often
    sys.setswitchinterval(0.001)
    models, shared = app.state.models, CapacityLimiter(max(2, os.cpu_count() or 1))
    app.state.batchers = {}
    for endpoint in all_endpoints():
        model = models[endpoint.model.key] if endpoint.model else None
        # endpoints that keep every core busy have their own queue, so that others are still answered
        limiter = CapacityLimiter(1) if endpoint.alone else shared
        app.state.batchers[endpoint.path] = RequestBatcher(endpoint, model, limiter)
    for model in models.values():
        if model.eager:
            with suppress(InputError):
                await to_thread.run_sync(model.ensure_loaded)
    _freeze_objects()
    for model in models.values():
        model.after_load = _freeze_objects
    with follow_aliases(models.values(), app.state.settings.watch):
        yield


def _freeze_objects() -> None:
    """Exclude the objects loaded so far from garbage collection, which would delay requests by 0.1 s."""
    gc.collect()
    gc.freeze()


def _add_endpoint(app: FastAPI, endpoint: Endpoint) -> None:
    async def answer_request(request: Request) -> Response:
        media_type = media_type_of(request, endpoint.handlers)
        body = await body_of(request, endpoint.limit)
        answered, served = await app.state.batchers[endpoint.path].answer_body(media_type, body)
        record_answer(request.scope, endpoint, (media_type, body), answered, served)
        return Response(answered.content, media_type=answered.media_type, headers=answered.headers)

    unavailable = () if endpoint.model is None else (HTTPStatus.SERVICE_UNAVAILABLE,)
    responses = schemas.refusal_responses(400, 413, 415, 422, *endpoint.refusals, *unavailable)
    bodies: dict[str, Any] = {JSON: {"schema": {"$ref": f"{_SCHEMAS}{endpoint.request.__name__}"}}}
    bodies |= {kind: {"schema": endpoint.other_body_schema} for kind in endpoint.other_media_types}
    if endpoint.other_media_types:
        description = "Assumptions about facts that the body does not state; absent if there are none."
        headers = {NOTES: {"description": description, "schema": {"type": "string"}}}
        answers = {endpoint.other_media_types[0]: {"schema": endpoint.other_answer_schema}}
        responses = {200: {"content": answers, "headers": headers}, **responses}
    app.router.add_api_route(
        endpoint.path,
        answer_request,
        route_class_override=BareRoute,
        methods=["POST"],
        name=endpoint.name,
        description=endpoint.says,
        response_model=endpoint.answer,
        openapi_extra={"requestBody": {"required": True, "content": bodies}},
        responses=responses,
    )


def _add_state_endpoints(app: FastAPI) -> None:
    entry: Any = Union[*(endpoint.loader.shape for endpoint in all_endpoints() if endpoint.loader)]
    listed = create_model("Models", __doc__="The served models.", models=(list[entry], ...))

    @app.get("/v1/models", response_model=listed)
    async def models() -> Any:
        """Return the served models."""
        return {"models": [*filter(None, (model.models_entry for model in app.state.models.values()))]}

    @app.get("/healthz", response_model=Health)
    async def healthz() -> Any:
        """Return that the process runs."""
        return {"status": "ok"}

    @app.get("/readyz", response_model=Readiness, responses=schemas.refusal_responses(503))
    async def readyz() -> Any:
        """Return that the required models are loaded, and why any is not the version that its alias names."""
        for model in app.state.models.values():
            if model.eager and model.loaded_model is None:
                await to_thread.run_sync(require_model, model)
        models = [*filter(None, (model.readiness_entry for model in app.state.models.values()))]
        load_failures = [*filter(None, (find_failure() for find_failure in app.state.failure_checks))]
        healthy = not load_failures and all(model["load_failure"] is None for model in models)
        return {"status": "ok" if healthy else "degraded", "models": models, "load_failures": load_failures}

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Return counts of requests and verdicts, and durations, of all workers, in the Prometheus format."""
        app.state.metrics.update_gauges(app.state.models)
        text = await to_thread.run_sync(app.state.metrics.prometheus_text)
        return Response(text, media_type=CONTENT_TYPE_LATEST)


def _complete_openapi(app: FastAPI) -> None:
    generated = app.openapi

    def openapi_document() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = generated()
            components = document["components"]["schemas"]
            models: list[type[BaseModel]] = [*(part.request for part in all_endpoints()), ProblemDetails]
            for model in models:
                schema = model.model_json_schema(ref_template=f"{_SCHEMAS}{{model}}")
                components.update(schema.pop("$defs", {}))
                components[model.__name__] = schema
            middleware.extend_openapi(document, app.state.settings)
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi_document  # type: ignore[method-assign]
