"""What a server tells on standard error: JSON lines for machines, quiet text for a person at a terminal."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, Literal, get_args

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

from serving.doors.exchange import Exchange

Level = Literal["debug", "info", "warning", "error"]
Form = Literal["json", "text"]
LEVELS: tuple[Level, ...] = get_args(Level)
LOG = logging.getLogger("perfjudge.requests")
_OURS = ("perfjudge", "uvicorn")
_ENCODED = json.JSONEncoder().encode
_NAMES = {"levelname": "level", "name": "logger"}


class JsonLines(JsonFormatter):
    """JSON lines, of which those about requests take a quarter of the time."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        told = getattr(record, "told", None)
        if told is None:
            return super().format(record)
        about = {"level": record.levelname, "logger": record.name, "message": record.getMessage()}
        time = datetime.fromtimestamp(record.created, UTC).isoformat()
        return _ENCODED({**about, **told, "time": time})


def begin(level: Level | None = None, form: Form | None = None) -> None:
    """Let everything that this process logs go to standard error.

    Parameters
    ----------
    level : {"debug", "info", "warning", "error"}, optional
        What is told of perfjudge and of the server; libraries tell warnings and worse. By default
        ``warning`` at a terminal, else ``info``, which has a line per request.
    form : {"json", "text"}, optional
        By default text at a terminal, else JSON.
    """
    terminal = sys.stderr.isatty()
    handler = logging.StreamHandler()
    handler.setFormatter(_formatter(form or ("text" if terminal else "json")))
    # nobody reads them, and they cost a tenth of a line
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


def tell(exchange: Exchange, route: str, verdicts: dict[str, int]) -> None:
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
