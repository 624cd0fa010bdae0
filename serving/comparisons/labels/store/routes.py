"""``/v1/labels``: labels are put, and read."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel

from data.comparisons.labels.store.given import AwayError, GivenLabel, KeyTakenError, TooManyError
from data.comparisons.labels.store.kept import LabelStore
from data.errors import InputError
from serving.comparisons.labels.store.adding import Adding
from serving.comparisons.labels.store.beginning import RATE
from serving.comparisons.labels.store.pool import Labellable
from serving.comparisons.labels.store.schemas import (
    CurrentLabels,
    LabelAnswer,
    LabelEntry,
    LabelHistory,
    LabelRequest,
    SignedLabelRequest,
)
from serving.doors import problems
from serving.doors.access import holder
from serving.doors.api import BareRoute
from serving.doors.bodies import JSON, request_of
from serving.doors.csrf import HEADER
from serving.doors.problems import RefusedError
from serving.doors.unpacked import body_of

T = TypeVar("T")
LOG = logging.getLogger("perfjudge.labels")
PATH = "/v1/labels"
#: Bytes of a request.
LIMIT = 16 * 1024
AWAY = "the store of labels does not answer; a label is to be sent again, with the same key"
#: Seconds after which to try again: a store that does not answer, and what came too quickly.
_AWAY, _QUICK = "2", "5"
_TEXT = {"type": "string"}
_ID = {"name": "comparison_id", "in": "path", "required": True, "schema": {**_TEXT, "minLength": 1}}
_FORGERY = {
    "name": HEADER,
    "in": "header",
    "schema": _TEXT,
    "description": "What pages of this server send; programs don't need it.",
}


def install(app: FastAPI) -> None:
    """Let `app`, whose ``state`` has a ``pool``, take and tell labels; the ``state`` gets ``labels``.

    They are None where the server was told of no place for them.
    """
    options = app.state.settings.options
    address = options.get("labels")
    app.state.labels = None if address is None else LabelStore(address)
    app.state.troubles.append(lambda: AWAY if app.state.labels and app.state.labels.away else None)
    app.add_exception_handler(AwayError, _away)
    kind = SignedLabelRequest if app.state.settings.tokens is None else LabelRequest
    desk = LabelDesk(app, kind, options.get("label_rate") or RATE)
    one = f"{PATH}/{{comparison_id:path}}"
    for path, method, endpoint, answer, refusals, described in (
        (one, "PUT", desk.put, LabelAnswer, (400, 403, 404, 409, 413, 415, 422, 429, 503), _put(kind)),
        (one, "GET", desk.history, LabelHistory, (404, 503), {"parameters": [_ID]}),
        (PATH, "GET", desk.current, CurrentLabels, (503,), {}),
    ):
        app.router.add_api_route(
            path,
            endpoint,
            route_class_override=BareRoute,
            methods=[method],
            name=f"label_{endpoint.__name__}",
            response_model=answer,
            openapi_extra=described,
            responses=problems.responses(*refusals),
        )


@dataclass
class LabelDesk:
    """Answers requests about labels.

    Attributes
    ----------
    app : FastAPI
    kind : type
        Of requests.
    most : int
        How many labels a person may give in a minute.
    adding : Adding or None
        What keeps them, from the first one on.
    threads : CapacityLimiter
        Those in which the store is asked.
    """

    app: FastAPI
    kind: type[LabelRequest]
    most: int
    adding: Adding | None = None
    # a store that hangs keeps no thread busy that others need
    threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(4))

    async def put(self, request: Request) -> Response:
        """Keep what a person says of a comparison."""
        _require_json(request)
        asked = request_of(await body_of(request, LIMIT), self.kind)
        store = self._store()
        label = self._given(request, asked, await self._identifier(request.path_params["comparison_id"]))
        if self.adding is None:
            self.adding = Adding(store, self.most)
        try:
            added = await self.adding.add(label)
        except KeyTakenError as exc:
            raise RefusedError(HTTPStatus.CONFLICT, str(exc)) from exc
        except TooManyError as exc:
            told = f"{exc}: at most {self.most} labels in a minute"
            raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, told, {"retry-after": _QUICK}) from exc
        if added.fresh:
            self._tell(label)
        return _json(LabelAnswer.model_validate(added))

    async def history(self, request: Request) -> Response:
        """Tell all that people said of a comparison."""
        comparison_id = request.path_params["comparison_id"]
        found = await self._read(partial(self._store().history, comparison_id))
        history = [LabelEntry.model_validate(one) for one in found]
        if not history:
            await self._identifier(comparison_id)
        return _json(LabelHistory(comparison_id=comparison_id, history=history))

    async def current(self, _request: Request) -> Response:
        """Tell what everybody says now."""
        labels = await self._read(self._store().current)
        rows = labels.drop(columns="annotator").to_dict("records")
        return _json(CurrentLabels(labels=rows))

    async def _read(self, ask: Callable[[], T]) -> T:
        return await to_thread.run_sync(ask, limiter=self.threads)

    def _store(self) -> LabelStore:
        store: LabelStore | None = self.app.state.labels
        if store is None:
            raise RefusedError(
                HTTPStatus.SERVICE_UNAVAILABLE, "no labels are kept here; perfjudge serve --labels URL"
            )
        return store

    async def _identifier(self, name: str) -> str:
        """Return the comparison_id of an offered comparison; 404 if there is none of this name or key."""
        pool: Labellable | None = self.app.state.pool
        try:
            found = None if pool is None else await self._read(partial(pool.identifier, name))
        except InputError as exc:
            raise RefusedError(
                HTTPStatus.SERVICE_UNAVAILABLE, f"the comparisons cannot be read: {exc}"
            ) from exc
        if found is None:
            raise RefusedError(HTTPStatus.NOT_FOUND, f"there is no comparison {name[:200]!r}")
        return found

    def _given(self, request: Request, asked: LabelRequest, comparison_id: str) -> GivenLabel:
        model = self.app.state.models.get("model")
        ref = None if model is None or not asked.saw_verdict else model.ref
        return GivenLabel(
            comparison_id,
            asked.status,
            _person(request, asked),
            asked.key,
            asked.saw_verdict,
            "" if ref is None else f"{ref.name} {ref.version}",
        )

    def _tell(self, label: GivenLabel) -> None:
        status = label.status or "withdrawn"
        self.app.state.metrics.labels.labels(status).inc()
        told = {"labelled_by": label.labelled_by, "comparison_id": label.comparison_id, "label": status}
        LOG.info("%s says %s of %r", label.labelled_by, status, label.comparison_id, extra=told)


def _person(request: Request, asked: LabelRequest) -> str:
    """Return who labels: whoever has the token, where one is needed."""
    token = holder(request.scope)
    if token is None:
        # what a server without tokens takes has a name
        return asked.labelled_by or ""
    if asked.labelled_by not in {None, token.name}:
        told = f'the token is that of "{token.name}", labelled_by="{asked.labelled_by}" is not'
        raise RefusedError(HTTPStatus.FORBIDDEN, told)
    return token.name


def _require_json(request: Request) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != JSON:
        told = f"Content-Type {media_type[:100]!r}: expected {JSON}"
        raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, told)


def _json(answer: BaseModel) -> Response:
    return Response(answer.model_dump_json(), media_type=JSON)


async def _away(_request: Request, exc: Exception) -> Response:
    LOG.warning("%s", exc)
    return problems.answer(HTTPStatus.SERVICE_UNAVAILABLE, AWAY, {"retry-after": _AWAY})


def _put(kind: type[LabelRequest]) -> dict[str, Any]:
    """Return what OpenAPI says of a request to put a label."""
    body = {"required": True, "content": {JSON: {"schema": kind.model_json_schema()}}}
    return {"parameters": [_ID, _FORGERY], "requestBody": body}
