"""Request middleware: authentication, time limit, request id and access log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from time import perf_counter
from typing import Any

from anyio import to_thread
from fastapi import FastAPI, Response
from starlette.datastructures import State
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from data.stage import summary
from serving.http import authentication, request_context, schemas
from serving.http.authentication import Access, Csrf
from serving.http.drift import Drift
from serving.http.metrics import ServerCounters
from serving.http.overview import Recent
from serving.http.request_context import RequestContext, route_of
from serving.http.schemas import RefusedError
from serving.http.settings import ServerSettings
from serving.shadow.figures import ShadowCollector
from serving.shadow.request_log import RequestLog

LOG = logging.getLogger("perfjudge")
#: Seconds between two looks at models and drift.
EVERY = 1.0
#: Of an answer whose client is gone (as nginx has it).
GONE = 499
#: How a token is sent, as OpenAPI names it.
_SCHEMES = {"bearer": "A line of the file of tokens.", "basic": "Any name, the token as password."}
_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
#: What an answer says unless it says otherwise itself, as a page may of its policy.
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)


def install(app: FastAPI, settings: ServerSettings) -> None:
    """Stand before all that an application answers, which has its models in ``app.state``."""
    allowed = Access.of(settings.tokens)
    app.state.csrf = Csrf(settings.secret, settings.hosts)
    app.state.drift = Drift(app.state.models, settings.shared)
    app.state.recent = Recent(settings.shared)
    further = () if settings.shadow is None else (ShadowCollector(),)
    app.state.metrics = ServerCounters(settings.shared, app.state.drift, *further)
    app.state.shadow = (
        None if settings.shadow is None else RequestLog(settings.shadow, app.state.metrics.dropped)
    )
    app.add_middleware(Front, state=app.state, settings=settings, allowed=allowed)


def describe(document: dict[str, Any], settings: ServerSettings) -> None:
    """Add to an OpenAPI document which addresses need a token, and the refusals of all of them."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            refusals = [HTTPStatus.GATEWAY_TIMEOUT]
            refusals += [HTTPStatus.REQUEST_TIMEOUT] if "requestBody" in operation else []
            if settings.hosts is not None:
                refusals += [HTTPStatus.FORBIDDEN]
            if settings.tokens is not None and path not in authentication.OPEN:
                refusals += [HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN]
                ways = _SCHEMES if method in {"get", "put"} else ("bearer",)
                operation["security"] = [{way: []} for way in ways]
            told = {str(status): told for status, told in schemas.responses(*refusals).items()}
            operation["responses"].update(told)
    if settings.tokens is not None:
        document["components"]["securitySchemes"] = {
            way: {"type": "http", "scheme": way, "description": told} for way, told in _SCHEMES.items()
        }


class Front:
    """ASGI around an application."""

    def __init__(self, app: ASGIApp, state: State, settings: ServerSettings, allowed: Access) -> None:
        self._app, self._state, self._settings, self._allowed = app, state, settings, allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or begin and end with the server."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            async with self._looking():
                await self._app(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        exchange = RequestContext.of(scope, headers)
        timed_request = TimedRequest(exchange, receive, send, self._settings.timeout)
        self._state.metrics.flying.inc()
        try:
            instead = await self._passed(scope, timed_request, headers)
            # where an answer has begun, the server closes the connection
            if instead is not None and not exchange.status:
                await instead(scope, timed_request.receive, timed_request.send)
        finally:
            self._state.metrics.flying.dec()
            self._tell(exchange, route_of(scope))

    async def _passed(
        self, scope: Scope, timed_request: TimedRequest, headers: Mapping[bytes, bytes]
    ) -> Response | None:
        """Let the application answer; return what is to be answered in its place."""
        exchange, settings = timed_request.exchange, self._settings
        try:
            token = self._allowed.allowed(scope["method"], scope["path"], headers.get(b"authorization", b""))
            exchange.token = None if token is None else token.name
            scope[authentication.HOLDER] = token
            self._state.csrf.check(scope["method"], headers, token)
            async with asyncio.timeout(settings.reading if exchange.has_body else settings.timeout) as timer:
                timed_request.timer = timer
                await self._app(scope, timed_request.receive, timed_request.send)
        except RefusedError as exc:
            return schemas.answer(exc.status_code, str(exc.detail), exc.headers)
        except ClientDisconnect:
            exchange.status = exchange.status or GONE
        except Exception as exc:  # noqa: BLE001 - the net below every request
            if timed_request.timer is not None and timed_request.timer.expired():
                return self._late(exchange)
            return _unexpected(exchange, route_of(scope), exc)
        return None

    def _late(self, exchange: RequestContext) -> Response:
        if exchange.has_body and not exchange.whole:
            told = f"the body did not come within {self._settings.reading:g} s"
            return schemas.answer(HTTPStatus.REQUEST_TIMEOUT, told, {"connection": "close"})
        told = f"no answer within {self._settings.timeout:g} s"
        return schemas.answer(HTTPStatus.GATEWAY_TIMEOUT, told)

    def _tell(self, exchange: RequestContext, route: str) -> None:
        verdicts = exchange.verdicts()
        self._state.metrics.count(exchange, route, verdicts)
        self._state.drift.asked(exchange)
        if exchange.door is not None and exchange.answered is not None:
            self._state.recent.add(exchange.door, exchange.answered)
        if self._state.shadow is not None:
            self._state.shadow.add(exchange)
        request_context.tell(exchange, route, verdicts)

    @asynccontextmanager
    async def _looking(self) -> AsyncIterator[None]:
        looking = asyncio.create_task(self._look())
        try:
            yield
        finally:
            looking.cancel()

    async def _look(self) -> None:
        while True:
            try:
                self._state.metrics.look(self._state.models)
                await to_thread.run_sync(self._state.drift.count)
            except Exception:
                LOG.exception("counting failed")
            await asyncio.sleep(EVERY)


class TimedRequest:
    """The `receive` and `send` of one request, with time limits and byte counts."""

    __slots__ = ("_receive", "_seconds", "_send", "exchange", "timer")

    def __init__(self, exchange: RequestContext, receive: Receive, send: Send, seconds: float) -> None:
        self.exchange, self._receive, self._send, self._seconds = exchange, receive, send, seconds
        self.timer: asyncio.Timeout | None = None

    async def receive(self) -> Message:
        """Return the next message, and count its bytes."""
        message = await self._receive()
        if message["type"] == "http.request":
            self.exchange.received += len(message.get("body", b""))
            if not message.get("more_body", False):
                self._whole()
        return message

    async def send(self, message: Message) -> None:
        """Send an answer with the headers that all have, and count it."""
        if message["type"] == "http.response.start":
            self.exchange.status = message["status"]
            message = {**message, "headers": self._headed(message["headers"])}
        else:
            self.exchange.sent += len(message.get("body", b""))
        await self._send(message)

    def _whole(self) -> None:
        self.exchange.whole = perf_counter()
        if self.exchange.has_body and self.timer is not None and not self.timer.expired():
            self.timer.reschedule(asyncio.get_running_loop().time() + self._seconds)

    def _headed(self, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        own = list(headers)
        names = {name for name, _ in own}
        request_id = (b"x-request-id", self.exchange.request_id.encode())
        return [*own, *(one for one in _HEADERS if one[0] not in names), request_id]


def _unexpected(exchange: RequestContext, route: str, exc: Exception) -> Response:
    instance = exchange.request_id
    LOG.error("%s: %s %s: unexpected %s", instance, exchange.method, route, summary(exc), exc_info=exc)
    detail = "an error of the server; its log says more beside the instance"
    return schemas.answer(HTTPStatus.INTERNAL_SERVER_ERROR, detail, instance=instance)
