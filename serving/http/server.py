"""The HTTP server: required models are loaded before the port is opened."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from http import HTTPStatus
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, Literal

from prometheus_client.multiprocess import mark_process_dead
from uvicorn import Config, Server
from uvicorn.config import STARTUP_FAILURE
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from data.errors import InputError
from serving.http import authentication, request_context, schemas
from serving.http.api import create_app
from serving.http.authentication import Address, address
from serving.http.models import HotReloadingModel, all_models
from serving.http.settings import ServerSettings
from serving.shadow.request_log import shadowed
from serving.supply import Options, pages

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
        """Parse received bytes, unless the connection is being closed."""
        if self._closing:
            return
        if self._stage == "idle":
            self._start_timer()
        self._chunk = len(data)
        super().data_received(data)
        # the parser does not report the buffered bytes of an unfinished header field
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
        """Go on with the next request; the unread rest of a body gets a time limit."""
        super().on_response_complete()
        if self._stage == "body":
            self._start_timer()

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that the parser rejected or that exceeded a limit."""
        self._refuse(*(self._refusal or (HTTPStatus.BAD_REQUEST, msg)))

    def _progressed(self) -> None:
        """Restart the byte count; the rest of the current chunk is excluded, as its size is bounded."""
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


#: Seconds for which clients may go on to ask on open connections, and learn that these are being closed.
DRAIN = 3.0


class Draining(Server):
    """A uvicorn server that on shutdown answers pending requests and makes clients reconnect elsewhere."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, answer connected clients up to the time limit, then close."""
        # cycles copy it into their answers, after which uvicorn closes the connection
        self.server_state.default_headers.append((b"connection", b"close"))
        for connection in self._last(sockets or []):
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, connection)
        await self._drain()
        await super().shutdown(sockets)

    def _last(self, sockets: list[socket.socket]) -> list[socket.socket]:
        """Stop listening; return the connections that the kernel has made and that were not accepted yet."""
        held = [one.dup() for one in sockets]
        for server in self.servers:
            server.close()
        return [connection for one in held for connection in _accepted(one)]

    def _protocol(self) -> asyncio.Protocol:
        protocol: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        return protocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    async def _drain(self) -> None:
        """Wait until all connections are closed, at most `DRAIN` seconds."""
        loop = asyncio.get_running_loop()
        end = loop.time() + DRAIN
        # uvicorn has no event for it
        while self.server_state.connections and loop.time() < end and not self.force_exit:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


class Alone(Draining):
    """The only process of a server."""

    def __init__(self, config: Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self.announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Say where it listens once it does, and once it takes signals."""
        await super().startup(sockets)
        self.announce()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down gracefully on the first signal, and at once on the second."""
        if self.should_exit:
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        super().handle_exit(sig, frame)


def _accepted(listening: socket.socket) -> Iterator[socket.socket]:
    """Yield who waits at a socket, then close it."""
    listening.setblocking(False)
    with listening, suppress(BlockingIOError):
        while True:
            connection, _ = listening.accept()
            connection.setblocking(False)
            yield connection


LOG = logging.getLogger("perfjudge")


class Worker(Process):
    """A process that answers."""

    @cached_property
    def server(self) -> Draining:
        """The uvicorn server of the worker process."""
        return Draining(self.config)


class Workers(Multiprocess):
    """Supervises a number of worker processes until it is stopped."""

    def init_processes(self) -> None:
        """Start all processes."""
        self.processes = [self._started() for _ in range(self.processes_num)]

    def keep_subprocess_alive(self) -> None:
        """Put another process in the place of one that ended, or no longer says that it runs."""
        for place, process in enumerate(self.processes):
            if process.is_alive(self.config.timeout_worker_healthcheck):
                continue
            process.kill()
            process.join()
            if process.exitcode == STARTUP_FAILURE:
                LOG.error("a worker cannot start; the server ends")
                self.should_exit.set()
                return
            # remove its gauges, keep its counters
            mark_process_dead(process.pid)  # type: ignore[no-untyped-call]
            LOG.warning("worker %s ended (%s); another takes its place", process.pid, process.exitcode)
            self.processes[place] = self._started()

    def terminate_all(self) -> None:
        """Stop all workers, and close the sockets so that no client waits for an answer."""
        for listening in self.sockets:
            listening.close()
        super().terminate_all()

    def join_all(self) -> None:
        """Wait until all workers have ended; kill them on a second SIGINT or SIGTERM."""
        for worker in self.processes:
            while worker.exitcode is None:
                worker.process.join(0.1)
                if {signal.SIGINT, signal.SIGTERM}.intersection(self.signal_queue):
                    for one in self.processes:
                        one.process.kill()

    def handle_hup(self) -> None:
        """Who hangs up wants no server any more."""
        self.handle_term()

    def handle_ttin(self) -> None:
        """Leave the number of processes as it is."""

    handle_ttou = handle_ttin

    def _started(self) -> Worker:
        worker = Worker(self.config, self.sockets)
        worker.start()
        return worker


#: Seconds for which a worker may say nothing of itself before another one takes its place.
SILENCE = 20
#: Seconds for which a connection is kept that nobody uses: longer than clients keep it, who would else ask
#: while it is being closed.
KEPT = 75
#: How many connections may wait for a process.
BACKLOG = 2048


def serve(settings: ServerSettings, host: str, port: int, workers: int, *, shadow: bool = False) -> int:
    """Serve HTTP until SIGTERM or Ctrl-C; a second one ends the server at once.

    Parameters
    ----------
    settings : ServerSettings
        Its options are completed with the families' defaults.
    host, port : str, int
        Port 0 takes any that is free.
    workers : int
        Number of processes; each loads the models and follows the registry by itself.
    shadow : bool
        Whether challengers judge the same requests, in a process of their own.

    Returns
    -------
    int
        The exit code 0.

    Raises
    ------
    InputError
        If a model is missing, the address cannot be used, it is reachable from other machines and no tokens
        are
        given, or the token file cannot be used.
    """
    # a tracking server that hangs is noticed after seconds, not after minutes
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    place = address(host, port, settings.tokens)
    if settings.tokens is not None:
        authentication.read(Path(settings.tokens))
    request_context.begin(settings.log_level, settings.log_format)
    settings = replace(settings, options=_begun(settings.options), hosts=None if settings.tokens else [host])
    models = all_models(settings.options)
    waited = [model for model in models.values() if model.eager]
    for model in waited:
        model.get()
    listening = _listen(place, host)
    announce = partial(_announce, waited, host, listening.getsockname()[1])
    with shadowed(settings, wanted=shadow) as told:
        _run(told, workers, models, listening, announce)
    return 0


def _run(
    settings: ServerSettings,
    workers: int,
    models: Mapping[str, HotReloadingModel],
    listening: socket.socket,
    announce: Callable[[], None],
) -> None:
    if workers == 1:
        Alone(_configured(settings, create_app(models, settings)), announce).run(sockets=[listening])
        return

    with TemporaryDirectory(prefix="perfjudge-") as shared:
        replace(settings, shared=shared).hand_on()
        config = _configured(settings, "serving.http.api:application", factory=True, workers=workers)
        # constructed, it takes signals; requests wait in the queue of the socket until a process answers
        several = Workers(config, sockets=[listening])
        announce()
        several.run()


def _begun(options: Options) -> Options:
    """Let each family check the options and add its defaults."""
    for one in pages():
        options = one.begun(options)
    return options


def _configured(settings: ServerSettings, app: Any, **further: Any) -> Any:
    import uvicorn

    return uvicorn.Config(
        app,
        loop="uvloop",
        http=LimitedProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEPT,
        # a stopped worker answers pending requests within the time limit
        timeout_graceful_shutdown=ceil(settings.timeout),
        timeout_worker_healthcheck=SILENCE,
        **further,
    )


def _listen(place: Address, host: str) -> socket.socket:
    try:
        listening = socket.socket(place.family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place.place)
        listening.listen(BACKLOG)
    except OSError as exc:
        raise InputError(f"cannot listen ({exc.strerror})", place=f"{host}:{place.place[1]}") from exc
    listening.set_inheritable(True)
    return listening


def _announce(models: Sequence[HotReloadingModel], host: str, port: int) -> None:
    """Say on standard output who listens where."""
    shown = f"[{host}]" if ":" in host else host
    refs = [model.ref for model in models if model.ref is not None]
    told = ", ".join(f"{ref.name} {ref.version} ({ref.uri})" for ref in refs)
    sys.stdout.write(f"perfjudge serves {told} on http://{shown}:{port}\n")
    sys.stdout.flush()
