"""Request context and logging to standard error: JSON lines, or text at a terminal."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, Literal
from uuid import uuid4

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter
from starlette.routing import Match

from serving.http.bodies import Answered
from serving.models import ModelRef
from serving.plugins import Endpoint
from serving.reports.verdict_lines import ANSWERS

#: Logged in place of paths without an endpoint, so that the number of routes is bounded.
UNKNOWN = "unknown"
_KEY = "perfjudge.context"
#: Allowed request ids: no characters that would need escaping.
_HARMLESS = re.compile(rb"[A-Za-z0-9._:-]{1,100}")


@dataclass(slots=True)
class RequestContext:
    """One request and its answer.

    ``request_id`` is the client's, or else a random one. ``began`` and ``body_complete_at`` are the times of
    the first byte and of the complete body, in seconds of `perf_counter`. ``status`` is 0 until the answer
    begins; ``received`` and ``sent`` are bytes of the bodies; ``token`` is a name. `record_answer` sets the
    last five fields.
    """

    method: str
    request_id: str
    has_body: bool
    began: float = field(default_factory=perf_counter)
    body_complete_at: float = 0.0
    status: int = 0
    received: int = 0
    sent: int = 0
    token: str | None = None
    # set by `record_answer`
    endpoint: Endpoint | None = None
    answered: Answered | None = None
    served: Any = None
    media_type: str = ""
    body: bytes = b""

    @classmethod
    def from_scope(cls, scope: MutableMapping[str, Any], headers: Mapping[bytes, bytes]) -> RequestContext:
        """Return the context of a request that begins now, and store it in `scope` for `record_answer`."""
        client_id = headers.get(b"x-request-id", b"")
        request_id = client_id.decode("ascii") if _HARMLESS.fullmatch(client_id) else uuid4().hex
        has_body = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
        context = scope[_KEY] = cls(scope["method"], request_id, has_body)
        return context

    @property
    def ref(self) -> ModelRef | None:
        """The model that answered; None if no model did."""
        return None if self.served is None else self.served.ref

    def count_verdicts(self) -> dict[str, int]:
        """Return the number of verdicts in the answer by kind; kinds that do not occur are left out."""
        if self.answered is None or self.answered.judged is None:
            return {}
        return {answer: count for answer in ANSWERS if (count := self.answered.judged.count_verdicts(answer))}


def record_answer(
    scope: Mapping[str, Any],
    endpoint: Endpoint,
    typed_body: tuple[str, bytes],
    answered: Answered,
    served: Any,
) -> None:
    """Record endpoint, body (media type and bytes), answer and model in the context of `scope`, if any."""
    context = scope.get(_KEY)
    if context is not None:
        context.endpoint, context.answered, context.served = endpoint, answered, served
        context.media_type, context.body = typed_body


def route_of(scope: Mapping[str, Any]) -> str:
    """Return the path template of the route that answered, else the first with the path, else ``unknown``."""
    route = scope.get("route")
    if route is None and "app" in scope:
        # FastAPI records only its own routes, and Starlette's, such as /openapi.json, not
        matching = (route for route in scope["app"].routes if route.matches(scope)[0] is not Match.NONE)
        route = next(matching, None)
    return getattr(route, "path", None) or UNKNOWN


Level = Literal["debug", "info", "warning", "error"]
Form = Literal["json", "text"]
LOG = logging.getLogger("perfjudge.requests")
_OURS = ("perfjudge", "uvicorn")
_encode_json = json.JSONEncoder().encode


class JsonLines(JsonFormatter):
    """JSON formatter with a fast path for the access log, which takes a quarter of the time."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line of JSON."""
        fields = getattr(record, "access_fields", None)
        if fields is None:
            return super().format(record)
        about = {"level": record.levelname, "logger": record.name, "message": record.getMessage()}
        time = datetime.fromtimestamp(record.created, UTC).isoformat()
        return _encode_json({**about, **fields, "time": time})


def configure_logging(level: Level | None = None, form: Form | None = None) -> None:
    """Send the log records of this process to standard error, in place of any earlier destination.

    `level` is that of perfjudge and of the server, by default ``warning`` at a terminal, else ``info``, which
    has a line per request; libraries log warnings and worse. `form` is by default text at a terminal, else
    JSON.
    """
    terminal = sys.stderr.isatty()
    formatter: logging.Formatter = logging.Formatter("{asctime} {levelname:7} {message}", style="{")
    if form == "json" or (form is None and not terminal):
        renamed = {"levelname": "level", "name": "logger"}
        # a copy of uvicorn's messages with colours
        ignored = [*RESERVED_ATTRS, "color_message"]
        fields = [*renamed, "message"]
        formatter = JsonLines(fields, timestamp="time", rename_fields=renamed, reserved_attrs=ignored)
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    # unused, and a tenth of the cost of a line
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in _OURS:
        logging.getLogger(name).setLevel((level or ("warning" if terminal else "info")).upper())


def log_request(context: RequestContext, route: str, verdicts: dict[str, int]) -> None:
    """Log an answered request as one record of level info, if that level is on.

    As JSON, it has ``model, version, verdicts`` only if a model answered; as text, only method, route,
    status, milliseconds and request id. It has nothing of the body, the path or the token itself.
    """
    if not LOG.isEnabledFor(logging.INFO):
        return
    seconds, ref = perf_counter() - context.began, context.ref
    fields: dict[str, Any] = {
        "request_id": context.request_id,
        "method": context.method,
        "route": route,
        "status": context.status,
        "seconds": round(seconds, 6),
        "received_bytes": context.received,
        "sent_bytes": context.sent,
        "token": context.token,
    }
    if ref is not None:
        fields |= {"model": ref.name, "version": ref.version, "verdicts": verdicts}
    values = context.method, route, context.status, 1000 * seconds, context.request_id
    LOG.info("%s %s %d in %.1f ms, %s", *values, extra={"access_fields": fields})
