"""Limits on the head of a request: its size, its number of lines, and the time in which it has to come."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, Literal

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from serving.http import schemas

#: Bytes and lines of the fields of a request, those after a chunked body included.
MOST_BYTES, MOST_LINES = 64 * 1024, 100
#: Bytes of the address in a request line.
LONGEST_ADDRESS = 8 * 1024
#: Seconds in which a head has to come, and in which a client may send the rest of a body that was refused.
SECONDS = 10.0
#: Seconds for which a client that was refused may go on to send before it reads the answer.
LINGER = 2.0


class _HeadRefusedError(Exception):
    """Ends the parsing of a request."""


class LimitedProtocol(HttpToolsProtocol):
    """HTTP/1.1 as uvicorn speaks it, with limits on request heads, which it leaves to others.

    A head beyond the limits is answered with 414, 431 or 408, and the connection is closed. Requests of the
    same connection that came before are answered first; then the connection is closed without that answer.
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._stage: Literal["idle", "head", "body"] = "idle"
        self._timer: asyncio.TimerHandle | None = None
        self._chunk = self._unfinished = 0
        self._refusal: tuple[HTTPStatus, str] | None = None
        self._closing = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came, unless the connection is being closed."""
        if self._closing:
            return
        if self._stage == "idle":
            self._start_timer()
        self._chunk = len(data)
        super().data_received(data)
        # bytes of a field that has not ended are kept by the parser, which tells of none of them
        self._unfinished += len(data)
        if self._unfinished > MOST_BYTES or (self.headers is not None and len(self.headers) > MOST_LINES):
            self._refuse(*_too_large())

    def on_message_begin(self) -> None:
        """Note that a head has begun."""
        self._stage = "head"
        self._start_timer()
        self._progressed()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        super().on_url(url)
        if len(self.url) > LONGEST_ADDRESS:
            told = f"the address has more than {LONGEST_ADDRESS} bytes"
            self._refusal = HTTPStatus.REQUEST_URI_TOO_LONG, told
            raise _HeadRefusedError

    def on_headers_complete(self) -> None:
        """Begin to answer a request whose head is within the limits."""
        self._stage = "body"
        self._stop_timer()
        size = sum(len(name) + len(value) for name, value in self.headers)
        if len(self.headers) > MOST_LINES or size + len(self.url) > MOST_BYTES:
            self._refusal = _too_large()
            raise _HeadRefusedError
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._progressed()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that a request has come completely."""
        self._stage = "idle"
        self._stop_timer()
        self._progressed()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the next request; a body that nobody reads any more has its time to end."""
        super().on_response_complete()
        if self._stage == "body":
            self._start_timer()

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser did not take, or what was beyond a limit."""
        self._refuse(*(self._refusal or (HTTPStatus.BAD_REQUEST, msg)))

    def _progressed(self) -> None:
        """Count anew; what is left of the present chunk is not counted, which is bounded by its size."""
        self._unfinished = -self._chunk

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(SECONDS, self._late)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if self._answers and not self._closing:
            # reading waits meanwhile, which is not the client's fault
            self._start_timer()
        elif self._stage == "head" and not self._closing:
            told = f"the head of the request did not come within {SECONDS:g} s"
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, told)
        else:
            # a client that has sent nothing would take an answer for that to its next request
            self.transport.close()

    @property
    def _answers(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        if self._closing or self.transport.is_closing():
            return
        self._closing = True
        self._stop_timer()
        if self._answers:
            self.cycle.keep_alive = False
            return
        response = schemas.answer(status, detail, {"connection": "close"})
        fields = b"".join(b"%b: %b\r\n" % field for field in response.raw_headers)
        head = f"HTTP/1.1 {status} {status.phrase}\r\n".encode()
        self.transport.write(head + fields + b"\r\n" + bytes(response.body))
        # closed at once with bytes unread, the connection would be reset, and the answer lost
        self.transport.write_eof()
        self._timer = self.loop.call_later(LINGER, self.transport.close)


def _too_large() -> tuple[HTTPStatus, str]:
    told = f"the head of the request has more than {MOST_BYTES} bytes or {MOST_LINES} lines"
    return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, told
