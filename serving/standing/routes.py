"""Where registered versions come from, over HTTP."""

from __future__ import annotations

from http import HTTPStatus

from anyio import to_thread
from fastapi import FastAPI

from data.errors import InputError
from serving.doors import problems
from serving.doors.problems import RefusedError
from training.registry.origins import NoVersionError, Origin, origin


def install(app: FastAPI) -> None:
    """Let `app` tell where a version comes from."""

    @app.get("/v1/models/{name}/{version}", responses=problems.responses(404, 503))
    async def model(name: str, version: str) -> Origin:
        """Tell where a version comes from: data, code, parameters, figures, and who made it champion."""
        return await to_thread.run_sync(_origin, name, version)


def _origin(name: str, version: str) -> Origin:
    try:
        return origin(name, version)
    except NoVersionError as exc:
        raise RefusedError(HTTPStatus.NOT_FOUND, str(exc)) from exc
    except InputError as exc:
        raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, str(exc)) from exc
