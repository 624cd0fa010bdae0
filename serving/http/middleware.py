"""Request middleware: authentication, time limit, request id and access log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from time import perf_counter
from typing import Any

from anyio import to_thread
from fastapi import FastAPI, Response
from starlette.datastructures import State
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from data.stage import error_summary
from serving.http import authentication, request_context, schemas
from serving.http.authentication import Csrf, Tokens, require_token
from serving.http.drift import Drift
from serving.http.metrics import ServerCounters
from serving.http.overview import RecentVerdicts
from serving.http.request_context import RequestContext, route_of
from serving.http.schemas import RefusedError
from serving.http.settings import ServerSettings
from serving.shadow.figures import ShadowCollector
from serving.shadow.request_log import RequestLog

LOG = logging.getLogger("perfjudge")
#: Seconds between updates of the metrics of models and drift, and of the verdicts for other processes.
EVERY = 1.0
#: Status in the log for requests whose client closed the connection (nginx's convention).
GONE = 499
#: OpenAPI's security schemes, with descriptions.
_SCHEMES = {"bearer": "A line of the file of tokens.", "basic": "Any name, the token as password."}
_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
#: Headers of every answer that does not set them itself.
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)


def install_middleware(app: FastAPI, settings: ServerSettings) -> None:
    """Add the middleware to an application that has its models in ``app.state.models``.

    Sets ``app.state.csrf``, ``drift``, ``recent`` and ``metrics``, and ``shadow``, which is None without
    shadow mode. The token file, if any, need not be readable yet.
    """
    shadow = settings.shadow
    app.state.csrf = Csrf(settings.secret, settings.hosts)
    app.state.drift = Drift(app.state.models, settings.shared)
    app.state.recent = RecentVerdicts(settings.shared)
    collectors = () if shadow is None else (ShadowCollector(),)
    app.state.metrics = ServerCounters(settings.shared, app.state.drift, *collectors)
    app.state.shadow = None if shadow is None else RequestLog(shadow, app.state.metrics.dropped)
    tokens = None if settings.tokens is None else Tokens(Path(settings.tokens))
    app.add_middleware(RequestMiddleware, state=app.state, settings=settings, tokens=tokens)


def extend_openapi(document: dict[str, Any], settings: ServerSettings) -> None:
    """Add the required tokens and the refusals of the middleware to an OpenAPI document, in place.

    The refusals are 504; 408 for operations with a request body; 403 if `settings` has ``hosts``; and, if it
    has a token file, 401 and 403, with a security requirement, for paths that need a token.
    """
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            refusals = [HTTPStatus.GATEWAY_TIMEOUT]
            refusals += [HTTPStatus.REQUEST_TIMEOUT] if "requestBody" in operation else []
            if settings.hosts is not None:
                refusals += [HTTPStatus.FORBIDDEN]
            if settings.tokens is not None and path not in authentication.OPEN:
                refusals += [HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN]
                schemes = _SCHEMES if method in {"get", "put"} else ("bearer",)
                operation["security"] = [{scheme: []} for scheme in schemes]
            responses = schemas.refusal_responses(*refusals).items()
            operation["responses"].update({str(status): response for status, response in responses})
    if settings.tokens is not None:
        document["components"]["securitySchemes"] = {
            scheme: {"type": "http", "scheme": scheme, "description": description}
            for scheme, description in _SCHEMES.items()
        }


class RequestMiddleware:
    """ASGI middleware: authentication, time limits, headers, metrics and the access log."""

    def __init__(self, app: ASGIApp, state: State, settings: ServerSettings, tokens: Tokens | None) -> None:
        self._app, self._state, self._settings, self._tokens = app, state, settings, tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; while the server runs, update the metrics."""
        if scope["type"] == "http":
            await self._answer_request(scope, receive, send)
        elif scope["type"] == "lifespan":
            updating = asyncio.create_task(self._update_metrics())
            try:
                await self._app(scope, receive, send)
            finally:
                updating.cancel()
        else:
            await self._app(scope, receive, send)

    async def _answer_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        context = RequestContext.from_scope(scope, headers)
        timed_request = TimedRequest(context, receive, send, self._settings.timeout)
        self._state.metrics.in_flight.inc()
        try:
            refusal = await self._answer_or_refuse(scope, timed_request, headers)
            # if an answer has begun, the server closes the connection
            if refusal is not None and not context.status:
                await refusal(scope, timed_request.receive, timed_request.send)
        finally:
            self._state.metrics.in_flight.dec()
            self._record_request(context, route_of(scope))

    async def _answer_or_refuse(
        self, scope: Scope, timed_request: TimedRequest, headers: Mapping[bytes, bytes]
    ) -> Response | None:
        context, settings = timed_request.context, self._settings
        try:
            authorization = headers.get(b"authorization", b"")
            token = require_token(self._tokens, scope["method"], scope["path"], authorization)
            context.token = None if token is None else token.name
            scope[authentication.HOLDER] = token
            self._state.csrf.check_request(scope["method"], headers, token)
            seconds = settings.body_timeout if context.has_body else settings.timeout
            async with asyncio.timeout(seconds) as timer:
                timed_request.timer = timer
                await self._app(scope, timed_request.receive, timed_request.send)
        except RefusedError as exc:
            return schemas.problem_response(exc.status_code, str(exc.detail), exc.headers)
        except ClientDisconnect:
            context.status = context.status or GONE
        except Exception as exc:  # noqa: BLE001 - the last resort of every request
            if timed_request.timer is None or not timed_request.timer.expired():
                return _unexpected_error(context, route_of(scope), exc)
            if context.has_body and not context.body_complete_at:
                problem = f"the body did not come within {settings.body_timeout:g} s"
                return schemas.problem_response(HTTPStatus.REQUEST_TIMEOUT, problem, {"connection": "close"})
            problem = f"no answer within {settings.timeout:g} s"
            return schemas.problem_response(HTTPStatus.GATEWAY_TIMEOUT, problem)
        return None

    def _record_request(self, context: RequestContext, route: str) -> None:
        verdicts = context.count_verdicts()
        self._state.metrics.count_request(context, route, verdicts)
        self._state.drift.queue_inputs(context)
        if context.answered is not None:
            self._state.recent.add_answer(context.answered)
        if self._state.shadow is not None:
            self._state.shadow.add_request(context)
        request_context.log_request(context, route, verdicts)

    async def _update_metrics(self) -> None:
        while True:
            try:
                self._state.metrics.update_gauges(self._state.models)
                await to_thread.run_sync(self._state.drift.count_queued)
            except Exception:
                LOG.exception("counting failed")
            try:
                await to_thread.run_sync(self._state.recent.share_verdicts)
            except Exception:
                LOG.exception("recent verdicts cannot be shared")
            await asyncio.sleep(EVERY)


class TimedRequest:
    """The `receive` and `send` of one request, with time limits and byte counts."""

    __slots__ = ("_receive", "_seconds", "_send", "context", "timer")

    def __init__(self, context: RequestContext, receive: Receive, send: Send, seconds: float) -> None:
        self.context, self._receive, self._send, self._seconds = context, receive, send, seconds
        self.timer: asyncio.Timeout | None = None

    async def receive(self) -> Message:
        """Return the next message and count its bytes; after a whole body, limit the time of the answer."""
        message = await self._receive()
        if message["type"] == "http.request":
            self.context.received += len(message.get("body", b""))
            if not message.get("more_body", False):
                self.context.body_complete_at = perf_counter()
                if self.context.has_body and self.timer is not None and not self.timer.expired():
                    self.timer.reschedule(asyncio.get_running_loop().time() + self._seconds)
        return message

    async def send(self, message: Message) -> None:
        """Send a message, with the headers of every answer, and count its bytes."""
        if message["type"] == "http.response.start":
            self.context.status = message["status"]
            headers = list(message["headers"])
            names = {name for name, _ in headers}
            headers += [header for header in _HEADERS if header[0] not in names]
            headers.append((b"x-request-id", self.context.request_id.encode()))
            message = {**message, "headers": headers}
        else:
            self.context.sent += len(message.get("body", b""))
        await self._send(message)


def _unexpected_error(context: RequestContext, route: str, exc: Exception) -> Response:
    instance = context.request_id
    LOG.error("%s: %s %s: unexpected %s", instance, context.method, route, error_summary(exc), exc_info=exc)
    detail = "an error of the server; its log says more beside the instance"
    return schemas.problem_response(HTTPStatus.INTERNAL_SERVER_ERROR, detail, instance=instance)
