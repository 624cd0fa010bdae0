"""The HTTP interface: comparisons in, verdicts out."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import pandas as pd
from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request, Response

from data.errors import InputError
from serving.comparisons import schemas
from serving.comparisons.model import Served, load, registered
from serving.corun import schemas as corun_schemas
from serving.corun.served import CorunModels
from serving.doors import bodies, problems
from serving.doors.metrics import Metrics
from serving.doors.problems import RefusedError
from serving.fingerprints import schemas as irup_schemas
from serving.matrices import schemas as matrices_schemas
from serving.matrices.served import MatrixModels

#: The largest body that is read, in bytes.
BODY_LIMIT = 64 * 1024 * 1024
#: The largest body that asks for a profile; the work grows with it.
IRUP_LIMIT = 16 * 1024 * 1024
#: The largest body that asks about co-runs.
CORUN_LIMIT = 16 * 1024 * 1024
#: The largest body with matrices.
MATRICES_LIMIT = 32 * 1024 * 1024
#: Where `perfjudge serve` tells its workers which models answer; unset = the champions.
MODEL_VARIABLE = "PERFJUDGE_MODEL"
STATIC_VARIABLE = "PERFJUDGE_CORUN_STATIC"
ONLINE_VARIABLE = "PERFJUDGE_CORUN_ONLINE"
MATRICES_VARIABLE = "PERFJUDGE_MATRICES"
#: The floor that was asked for in place of the model's own, as a share.
FLOOR_VARIABLE = "PERFJUDGE_FLOOR"


def create_app(
    served: Served | None,
    coruns: CorunModels | None = None,
    matrices: MatrixModels | None = None,
    *,
    body_limit: int = BODY_LIMIT,
    why_none: str = "",
) -> FastAPI:
    """Make the application.

    Parameters
    ----------
    served : Served or None
        The model that answers. Without one, ``/readyz`` and judging answer 503.
    coruns : CorunModels, optional
        The models of co-runs; by default the champions. Without one, its questions are answered with 503.
    matrices : MatrixModels, optional
        The model of matrices; likewise.
    body_limit : int
        The largest body that is read, in bytes.
    why_none : str
        What the 503 says.
    """
    app = FastAPI(
        title="perfjudge",
        summary="Verdicts on performance measurements",
        version="1",
        docs_url=None,
        redoc_url=None,
        lifespan=_warmed_up,
    )
    app.state.served = served
    app.state.coruns = CorunModels.of() if coruns is None else coruns
    app.state.matrices = MatrixModels.of() if matrices is None else matrices
    app.state.why_none = why_none
    app.state.body_limit = body_limit
    app.state.metrics = Metrics()
    problems.install(app)
    _add_judging(app)
    _add_profiles(app)
    _add_coruns(app)
    _add_matrices(app)
    _add_state(app)
    _complete_schema(app)
    return app


def application() -> FastAPI:
    """Make the application with the model that the environment names (for uvicorn's workers)."""
    uri, floor = os.environ.get(MODEL_VARIABLE), os.environ.get(FLOOR_VARIABLE)
    coruns = CorunModels.of(os.environ.get(STATIC_VARIABLE), os.environ.get(ONLINE_VARIABLE))
    matrices = MatrixModels.of(os.environ.get(MATRICES_VARIABLE))
    try:
        return create_app(load(uri, None if floor is None else float(floor)), coruns, matrices)
    except InputError as exc:
        return create_app(None, coruns, matrices, why_none=str(exc))


@asynccontextmanager
async def _warmed_up(app: FastAPI) -> AsyncIterator[None]:
    """Load what the first request would otherwise wait for."""
    app.state.limiter = CapacityLimiter(max(2, os.cpu_count() or 1))
    # a profile takes seconds on every core: one at a time, so that verdicts are still given meanwhile
    app.state.profiling = CapacityLimiter(1)
    if app.state.served is not None:
        model = app.state.served.model
        await to_thread.run_sync(model.contributions, pd.DataFrame([model.card.reference]))
    yield


def _served(app: FastAPI) -> Served:
    served: Served | None = app.state.served
    if served is None:
        raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, app.state.why_none or "no model is loaded")
    return served


def _add_judging(app: FastAPI) -> None:
    @app.post(
        "/v1/comparisons/judge",
        response_model=schemas.JudgeAnswer,
        openapi_extra=schemas.request_body(),
        responses={
            200: schemas.xml_answer(bodies.NOTES),
            **problems.responses(400, 413, 415, 422, 503),
        },
    )
    async def judge_comparisons(request: Request) -> Response:
        """Judge comparisons: JSON is answered in JSON, XML with its ``result_status`` filled in."""
        served = _served(app)
        answer = bodies.answer_for(request.headers.get("content-type", ""))
        body = await _body(request, app.state.body_limit)
        with app.state.metrics.timed():
            result = await to_thread.run_sync(answer, body, served, limiter=app.state.limiter)
        app.state.metrics.count(result.judgement)
        return Response(result.content, media_type=result.media_type, headers=result.headers)


def _add_profiles(app: FastAPI) -> None:
    @app.post(
        "/v1/irup",
        response_model=irup_schemas.ProfileAnswer,
        openapi_extra=irup_schemas.request_body(),
        responses=problems.responses(400, 413, 415, 422),
    )
    async def profile_application(request: Request) -> Response:
        """Tell what an application leans on, how far that can be trusted, and predict it elsewhere."""
        from serving.doors.json_bodies import MEDIA_TYPE
        from serving.fingerprints.body import answer_irup
        from serving.fingerprints.command import Learning

        body = await _json_body(app, request, IRUP_LIMIT)
        content = await to_thread.run_sync(answer_irup, body, Learning(), limiter=app.state.profiling)
        return Response(content, media_type=MEDIA_TYPE)


def _add_coruns(app: FastAPI) -> None:
    @app.post(
        "/v1/corun/static",
        response_model=corun_schemas.StaticAnswer,
        openapi_extra=corun_schemas.body_of("StaticRequest"),
        responses=problems.responses(400, 413, 415, 422, 503),
    )
    async def predict_coruns(request: Request) -> Response:
        """Tell how much slower tasks get beside others, before they run: from their solo runs."""
        from serving.corun.body import answer_static

        return await _corun(app, request, lambda body: answer_static(body, app.state.coruns.static.get()))

    @app.post(
        "/v1/corun/online",
        response_model=corun_schemas.OnlineAnswer,
        openapi_extra=corun_schemas.body_of("OnlineRequest"),
        responses=problems.responses(400, 413, 415, 422, 503),
    )
    async def sample_corun(request: Request) -> Response:
        """Tell how much slower a new task gets beside others, from its first seconds alone and with them."""
        from serving.corun.body import answer_online

        return await _corun(app, request, lambda body: answer_online(body, app.state.coruns.online.get()))


def _add_matrices(app: FastAPI) -> None:
    @app.post(
        "/v1/matrices/judge",
        response_model=matrices_schemas.MatricesAnswer,
        openapi_extra=corun_schemas.body_of("MatricesRequest"),
        responses=problems.responses(400, 413, 415, 422, 503),
    )
    async def judge_matrices(request: Request) -> Response:
        """Judge pairs of matrices: validity, group, verdict, and the raw metrics that drove it."""
        from serving.doors.json_bodies import MEDIA_TYPE
        from serving.matrices.body import answer_matrices

        body = await _json_body(app, request, MATRICES_LIMIT)
        engine = app.state.matrices.engine
        with app.state.metrics.timed():
            result = await to_thread.run_sync(
                lambda: answer_matrices(body, engine.get()), limiter=app.state.limiter
            )
        app.state.metrics.count(result.judged)
        return Response(result.content, media_type=MEDIA_TYPE)


async def _corun(app: FastAPI, request: Request, answer: Callable[[bytes], bytes]) -> Response:
    from serving.doors.json_bodies import MEDIA_TYPE

    body = await _json_body(app, request, CORUN_LIMIT)
    content = await to_thread.run_sync(answer, body, limiter=app.state.limiter)
    return Response(content, media_type=MEDIA_TYPE)


async def _json_body(app: FastAPI, request: Request, limit: int) -> bytes:
    from serving.doors.json_bodies import check_media_type

    check_media_type(request.headers.get("content-type", ""))
    return await _body(request, min(limit, app.state.body_limit))


def _add_state(app: FastAPI) -> None:
    @app.get("/v1/models", response_model=schemas.Models)
    async def models() -> Any:
        """Say which models answer."""
        judging = [] if app.state.served is None else [_model(app.state.served)]
        return {"models": [*judging, *app.state.coruns.cards, *app.state.matrices.cards]}

    @app.get("/healthz", response_model=schemas.Health)
    async def healthz() -> Any:
        """Say that the process runs."""
        return {"status": "ok"}

    @app.get("/readyz", response_model=schemas.Health, responses=problems.responses(503))
    async def readyz() -> Any:
        """Say that a model is loaded and requests are answered."""
        _served(app)
        return {"status": "ok"}

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Count verdicts and times of this process, in the format of Prometheus."""
        content, media_type = app.state.metrics.exposition()
        return Response(content, media_type=media_type)


def _model(served: Served) -> dict[str, Any]:
    card = served.model.card
    return {
        "name": served.ref.name,
        "version": served.ref.version,
        "uri": served.ref.uri,
        "contribution_unit": served.model.unit,
        "estimator": card.model,
        "threshold": card.threshold,
        "floor": card.floor,
        "features": list(card.features),
        "data_digest": card.data_digest,
        "serves": registered(),
    }


async def _body(request: Request, limit: int) -> bytes:
    """Read the body; refuse as soon as more than `limit` bytes are announced or have come."""
    announced = request.headers.get("content-length", "")
    chunks: list[bytes] = []
    size = int(announced) if announced.isdecimal() else 0
    if size <= limit:
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                break
            chunks.append(chunk)
    if size > limit:
        raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body has more than {limit} bytes")
    return b"".join(chunks)


def _complete_schema(app: FastAPI) -> None:
    """Add the models that only the request's and the problems' descriptions refer to."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        """Describe the interface once, and keep the description."""
        if app.openapi_schema is None:
            components = described()["components"]["schemas"]
            for model in (
                schemas.JudgeRequest,
                irup_schemas.IrupRequest,
                corun_schemas.StaticRequest,
                corun_schemas.OnlineRequest,
                matrices_schemas.MatricesRequest,
                problems.ProblemDetails,
            ):
                schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
                components.update(schema.pop("$defs", {}))
                components[model.__name__] = schema
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
