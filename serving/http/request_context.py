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
from typing import Any, Literal, get_args
from uuid import uuid4

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

from serving.http.bodies import Answered
from serving.models import ModelRef
from serving.reports.verdict_lines import ANSWERS
from serving.supply import Endpoint

#: Logged for all paths without an endpoint, so that their number is bounded.
UNKNOWN = "unknown"
_KEY = "perfjudge.exchange"
#: Allowed request ids: no characters that would need escaping.
_HARMLESS = re.compile(rb"[A-Za-z0-9._:-]{1,100}")


@dataclass(slots=True)
class RequestContext:
    """One request and its answer.

    Attributes
    ----------
    request_id : str
        The client's request id, or else a random one.
    has_body : bool
        Whether the request has a body.
    began, whole : float
        When the request began and when its body was complete, in seconds of `perf_counter`.
    status : int
        0 until the answer begins.
    received, sent : int
        Bytes of the bodies.
    token : str or None
        The name of the token.
    door, answered, served, media_type, body
        Set by `note`.
    """

    method: str
    request_id: str
    has_body: bool
    began: float = field(default_factory=perf_counter)
    whole: float = 0.0
    status: int = 0
    received: int = 0
    sent: int = 0
    token: str | None = None
    door: Endpoint | None = None
    answered: Answered | None = None
    served: Any = None
    media_type: str = ""
    body: bytes = b""

    @classmethod
    def of(cls, scope: MutableMapping[str, Any], headers: Mapping[bytes, bytes]) -> RequestContext:
        """Begin, and let `note` find it."""
        given = headers.get(b"x-request-id", b"")
        named = given.decode("ascii") if _HARMLESS.fullmatch(given) else uuid4().hex
        has_body = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
        begun = scope[_KEY] = cls(scope["method"], named, has_body)
        return begun

    @property
    def ref(self) -> ModelRef | None:
        """The model that answered."""
        return None if self.served is None else self.served.ref

    def verdicts(self) -> dict[str, int]:
        """Count the verdicts of the answer by kind; kinds that do not occur are left out."""
        judged = None if self.answered is None else self.answered.judged
        counts = {} if judged is None else {answer: judged.count(answer) for answer in ANSWERS}
        return {answer: count for answer, count in counts.items() if count}


def note(
    scope: Mapping[str, Any], door: Endpoint, asked: tuple[str, bytes], answered: Answered, served: Any
) -> None:
    """Record endpoint, body (`asked`: media type and bytes), answer and model of a request in its context."""
    exchange = scope.get(_KEY)
    if exchange is not None:
        exchange.door, exchange.answered, exchange.served = door, answered, served
        exchange.media_type, exchange.body = asked


def route_of(scope: Mapping[str, Any]) -> str:
    """Return the template of the path, never the path."""
    return getattr(scope.get("route"), "path", None) or UNKNOWN


Level = Literal["debug", "info", "warning", "error"]
Form = Literal["json", "text"]
LEVELS: tuple[Level, ...] = get_args(Level)
LOG = logging.getLogger("perfjudge.requests")
_OURS = ("perfjudge", "uvicorn")
_ENCODED = json.JSONEncoder().encode
_NAMES = {"levelname": "level", "name": "logger"}


class JsonLines(JsonFormatter):
    """JSON formatter with a fast path for the access log, which takes a quarter of the time."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        told = getattr(record, "told", None)
        if told is None:
            return super().format(record)
        about = {"level": record.levelname, "logger": record.name, "message": record.getMessage()}
        time = datetime.fromtimestamp(record.created, UTC).isoformat()
        return _ENCODED({**about, **told, "time": time})


def begin(level: Level | None = None, form: Form | None = None) -> None:
    """Send the log records of this process to standard error.

    Parameters
    ----------
    level : {"debug", "info", "warning", "error"}, optional
        Level of perfjudge and of the server; libraries log warnings and worse. Default: ``warning`` at a
        terminal,
        else ``info``, which has a line per request.
    form : {"json", "text"}, optional
        Default: text at a terminal, else JSON.
    """
    terminal = sys.stderr.isatty()
    handler = logging.StreamHandler()
    handler.setFormatter(_formatter(form or ("text" if terminal else "json")))
    # unused, and a tenth of the cost of a line
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in _OURS:
        logging.getLogger(name).setLevel((level or ("warning" if terminal else "info")).upper())


def _formatter(form: Form) -> logging.Formatter:
    if form == "json":
        return JsonLines(
            ["levelname", "name", "message"],
            rename_fields=_NAMES,
            timestamp="time",
            # uvicorn's messages once more, in colours
            reserved_attrs=[*RESERVED_ATTRS, "color_message"],
        )
    return logging.Formatter("{asctime} {levelname:7} {message}", style="{")


def tell(exchange: RequestContext, route: str, verdicts: dict[str, int]) -> None:
    """Tell of a request that was answered: nothing of its body, its path or its token."""
    if not LOG.isEnabledFor(logging.INFO):
        return
    seconds, ref = perf_counter() - exchange.began, exchange.ref
    told: dict[str, Any] = {
        "request_id": exchange.request_id,
        "method": exchange.method,
        "route": route,
        "status": exchange.status,
        "seconds": round(seconds, 6),
        "received_bytes": exchange.received,
        "sent_bytes": exchange.sent,
        "token": exchange.token,
    }
    if ref is not None:
        told |= {"model": ref.name, "version": ref.version, "verdicts": verdicts}
    # one line of text says the same
    words = "%s %s %d in %.1f ms, %s"
    LOG.info(
        words,
        exchange.method,
        route,
        exchange.status,
        1000 * seconds,
        exchange.request_id,
        extra={"told": told},
    )
