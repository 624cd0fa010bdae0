"""The HTTP server: limits on requests, workers, and a graceful end."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import math
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, MutableSequence, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from http import HTTPStatus
from multiprocessing.sharedctypes import RawArray
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
from serving.http.authentication import resolve_address
from serving.http.models import HotReloadingModel, all_models
from serving.http.settings import ServerSettings
from serving.plugins import all_pages
from serving.shadow.request_log import run_challengers

#: Maximum number of bytes and lines of header fields, including those after a chunked body.
MOST_BYTES, MOST_LINES = 64 * 1024, 100
#: Maximum number of bytes of the address in a request line.
LONGEST_ADDRESS = 8 * 1024
#: Seconds in which a head must arrive, and in which a client may send the rest of a refused body.
SECONDS = 10.0
#: Seconds for which a refused client may continue to send before it reads the answer.
LINGER = 2.0


class _HeadRefusedError(Exception):
    """Ends the parsing of a request."""


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 with limits on request heads, which uvicorn has not.

    A head beyond the limits is answered with 414, 431 or 408, and the connection is closed. Earlier requests
    of the same connection are answered first; then the connection is closed without that answer.
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._stage: Literal["idle", "head", "body"] = "idle"
        self._timer: asyncio.TimerHandle | None = None
        self._chunk = self._unfinished = 0
        self._refusal: tuple[HTTPStatus, str] | None = None
        self._closing = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit of the first head."""
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time limit."""
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
            self._refuse_request(*_HEAD_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Start the time limit of a head."""
        self._stage = "head"
        self._start_timer()
        self._restart_count()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Add a part of the address, within the limit."""
        super().on_url(url)
        if len(self.url) > LONGEST_ADDRESS:
            problem = f"the address has more than {LONGEST_ADDRESS} bytes"
            self._refusal = HTTPStatus.REQUEST_URI_TOO_LONG, problem
            raise _HeadRefusedError

    def on_headers_complete(self) -> None:
        """Begin to answer a request whose head is within the limits."""
        self._stage = "body"
        self._stop_timer()
        size = sum(len(name) + len(value) for name, value in self.headers)
        if len(self.headers) > MOST_LINES or size + len(self.url) > MOST_BYTES:
            self._refusal = _HEAD_TOO_LARGE
            raise _HeadRefusedError
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Add a part of the body."""
        self._restart_count()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the time limit of a request that has arrived completely."""
        self._stage = "idle"
        self._stop_timer()
        self._restart_count()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Continue with the next request; the unread rest of a body gets a time limit."""
        super().on_response_complete()
        if self._stage == "body":
            self._start_timer()

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that the parser rejected or that exceeded a limit."""
        self._refuse_request(*(self._refusal or (HTTPStatus.BAD_REQUEST, msg)))

    def _restart_count(self) -> None:
        # without the rest of the current chunk, whose size is bounded
        self._unfinished = -self._chunk

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(SECONDS, self._on_timeout)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timeout(self) -> None:
        self._timer = None
        if self._is_answering and not self._closing:
            # reading is paused while an earlier request is answered, which is not the client's fault
            self._start_timer()
        elif self._stage == "head" and not self._closing:
            problem = f"the head of the request did not come within {SECONDS:g} s"
            self._refuse_request(HTTPStatus.REQUEST_TIMEOUT, problem)
        else:
            # a client that has sent nothing would mistake an answer for the one to its next request
            self.transport.close()

    def end_after_answer(self) -> None:
        """Announce the closing of the connection in the answer to the current request, if there is one."""
        if self._is_answering:
            self.cycle.keep_alive = False

    def move_after_answer(self) -> bool:
        """Announce the closing of the connection in the current answer; return False if it is too late."""
        if not self._is_answering or self.cycle.response_started or self.pipeline:
            return False
        self.end_after_answer()
        return True

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse_request(self, status: HTTPStatus, detail: str) -> None:
        if self._closing or self.transport.is_closing():
            return
        self._closing = True
        self._stop_timer()
        if self._is_answering:
            self.end_after_answer()
            return
        response = schemas.problem_response(status, detail, {"connection": "close"})
        fields = b"".join(b"%b: %b\r\n" % field for field in response.raw_headers)
        head = f"HTTP/1.1 {status} {status.phrase}\r\n".encode()
        self.transport.write(head + fields + b"\r\n" + bytes(response.body))
        # closed at once with bytes unread, the connection would be reset, and the answer lost
        self.transport.write_eof()
        self._timer = self.loop.call_later(LINGER, self.transport.close)


_HEAD_TOO_LARGE = (
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    f"the head of the request has more than {MOST_BYTES} bytes or {MOST_LINES} lines",
)
#: Seconds for which clients may send requests on open connections; the answers announce the closing.
DRAIN = 3.0


#: A program of the Berkeley packet filter (linux/filter.h) for TCP segments: load the byte of flags; continue
#: if ACK is set, else skip one instruction; keep the segment; drop it.
_DROP_SYN = struct.pack("HBBI" * 4, 0x30, 0, 0, 13, 0x45, 0, 1, 0x10, 6, 0, 0, 0xFFFFFFFF, 6, 0, 0, 0)
_SO_ATTACH_FILTER = 26


def stop_handshakes(listening: socket.socket) -> None:
    """Let no client begin to connect to a socket, in any process that listens there.

    Connections that arrive between the last accept and the closing of a socket are reset, whatever the client
    has sent. Without new ones, all can be accepted before. The system of a client tries again after a second,
    and is refused then.
    """
    program = ctypes.create_string_buffer(_DROP_SYN)
    # only Linux has this option
    with suppress(OSError):
        described = struct.pack("HP", len(_DROP_SYN) // 8, ctypes.addressof(program))
        listening.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, described)


#: Seconds for which a worker leaves a new connection to another worker that has fewer connections.
PATIENCE = 0.001
#: How often in a row it does so: the other worker may be busy.
MOST_WAITS = 20
#: Seconds without a word from a worker, after which no connection is left to it.
UNRESPONSIVE = 1.0
#: A worker that has so many more connections than another one lets some of its clients reconnect.
UNEQUAL = 4
#: Seconds for which a process without free file descriptors accepts no connection.
EXHAUSTED = 1.0


class WorkerLoads:
    """The number of connections of each worker, in shared memory, and when it published that number."""

    def __init__(self, workers: int) -> None:
        self._connections: MutableSequence[int] = RawArray("i", workers)
        self._published: MutableSequence[float] = RawArray("d", workers)

    def publish(self, worker: int, connections: int) -> None:
        """Set the number of connections of a worker that accepts connections."""
        self._connections[worker], self._published[worker] = connections, time.monotonic()

    def leave_out(self, worker: int) -> None:
        """Leave no connection to a worker until it publishes its number."""
        self._published[worker] = -math.inf

    def fewest_connections(self) -> float:
        """Return the least number of connections of a worker that has published it in the last second."""
        since = time.monotonic() - UNRESPONSIVE
        responsive = zip(self._connections, self._published, strict=True)
        return min((number for number, published in responsive if published > since), default=math.inf)


class DrainingServer(Server):
    """A uvicorn server that shares connections equally with other workers, and drains them on shutdown.

    On shutdown it answers pending requests and makes clients reconnect elsewhere. `worker` is its place in
    `loads`. Left to the event loop, the first worker to wake accepts nearly all connections that arrive at
    once. If one still has more than others, some of its clients are made to reconnect.
    """

    def __init__(self, config: Config, loads: WorkerLoads | None = None, worker: int = 0) -> None:
        super().__init__(config)
        self.loads = loads or WorkerLoads(1)
        self.worker = worker
        self._retries: dict[socket.socket, asyncio.TimerHandle] = {}
        self._accepted: set[asyncio.Task[Any]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, then accept connections at `sockets`."""
        await super().startup([])
        self._publish_load()
        for listening in sockets or []:
            listening.setblocking(False)
            self._await_connection(listening)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, answer connected clients up to the time limit, then close."""
        loop = asyncio.get_running_loop()
        # added to all answers, after which uvicorn closes the connection
        self.server_state.default_headers.append((b"connection", b"close"))
        # uvicorn replaces that list every second; a request that has begun keeps the list of its beginning
        for begun in self.server_state.connections:
            if isinstance(begun, LimitedProtocol):
                begun.end_after_answer()
        for retry in self._retries.values():
            retry.cancel()
        for listening in sockets or []:
            loop.remove_reader(listening)
            with listening, suppress(OSError):
                while True:
                    self._accept(listening)
        self.loads.leave_out(self.worker)
        if self._accepted:
            await asyncio.wait(self._accepted)
        end = loop.time() + DRAIN
        # uvicorn has no event for closed connections
        while self.server_state.connections and loop.time() < end and not self.force_exit:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Move connections to workers with fewer, every second; return whether the server is to end."""
        surplus = self._publish_load()
        if counter % 10 == 0 and surplus >= UNEQUAL:
            self._move_connections(int(surplus // 2))
        return await super().on_tick(counter)

    def _move_connections(self, number: int) -> None:
        for connection in list(self.server_state.connections):
            if number and isinstance(connection, LimitedProtocol):
                number -= connection.move_after_answer()

    def _publish_load(self) -> float:
        """Publish the number of connections; return by how many it exceeds the least of all workers."""
        connections = len(self.server_state.connections) + len(self._accepted)
        self.loads.publish(self.worker, connections)
        return connections - self.loads.fewest_connections()

    def _await_connection(self, listening: socket.socket) -> None:
        asyncio.get_running_loop().add_reader(listening, self._share_connection, listening)

    def _share_connection(self, listening: socket.socket, waits: int = 0) -> None:
        if self._publish_load() > 0 and waits < MOST_WAITS:
            self._retry_later(listening, PATIENCE, partial(self._share_connection, listening, waits + 1))
            return
        try:
            self._accept(listening)
        except (BlockingIOError, ConnectionAbortedError):
            # another worker was faster, or the client has gone
            pass
        except OSError as exc:
            LOG.error("connections wait for %g s: %s", EXHAUSTED, exc.strerror)  # noqa: TRY400
            self._retry_later(listening, EXHAUSTED, partial(self._await_connection, listening))
            return
        if waits:
            self._await_connection(listening)

    def _retry_later(self, listening: socket.socket, seconds: float, action: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        self._retries[listening] = loop.call_later(seconds, action)

    def _accept(self, listening: socket.socket) -> None:
        connection, _ = listening.accept()
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        protocol: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        make_protocol = partial(protocol, self.config, self.server_state, self.lifespan.state)
        loop = asyncio.get_running_loop()
        task = loop.create_task(loop.connect_accepted_socket(make_protocol, connection))
        self._accepted.add(task)
        task.add_done_callback(self._accepted.discard)
        self._publish_load()


#: Added to the number of a second signal, which ends a server at once: its exit code, as a shell reports it.
SIGNALLED = 128


class SingleProcessServer(DrainingServer):
    """The only process of a server."""

    def __init__(self, config: Config, listening: socket.socket, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self.listening = listening
        self.announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Announce the address once the server listens and handles signals."""
        await super().startup(sockets)
        self.announce()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Shut down gracefully on the first signal, and at once on the second."""
        if self.should_exit:
            os._exit(SIGNALLED + sig)
        stop_handshakes(self.listening)
        # uvicorn would raise the signal again after the shutdown
        self.should_exit = True


LOG = logging.getLogger("perfjudge")


class Worker(Process):
    """A worker process; see `DrainingServer` for `loads` and `place`."""

    def __init__(self, config: Config, sockets: list[socket.socket], loads: WorkerLoads, place: int) -> None:
        super().__init__(config, sockets)
        self.loads = loads
        self.place = place

    @cached_property
    def server(self) -> DrainingServer:
        """The uvicorn server of the worker process."""
        return DrainingServer(self.config, self.loads, self.place)


#: How many workers in a row may end before they serve until the server ends.
MOST_FAILED_STARTS = 3


class Workers(Multiprocess):
    """Supervises a number of worker processes until it is stopped, or until a worker cannot start."""

    exit_code = 0

    def init_processes(self) -> None:
        """Start all processes."""
        self.loads = WorkerLoads(self.processes_num)
        self.processes = [self._start_worker(place) for place in range(self.processes_num)]
        # by place: how many of its workers in a row ended before they served; -1 once its worker serves
        self.failed_starts = [0] * self.processes_num

    def keep_subprocess_alive(self) -> None:
        """Replace processes that have ended or fail their health check."""
        for place, process in enumerate(self.processes):
            if process.is_alive(self.config.timeout_worker_healthcheck):
                if process.is_ready(self.config.timeout_worker_healthcheck):
                    self.failed_starts[place] = -1
                continue
            process.kill()
            process.join()
            self.failed_starts[place] += 1
            if process.exitcode == STARTUP_FAILURE or self.failed_starts[place] == MOST_FAILED_STARTS:
                LOG.error("a worker cannot start (exit code %s); the server ends", process.exitcode)
                self.exit_code = STARTUP_FAILURE
                self.should_exit.set()
                return
            # remove its gauges, keep its counters
            mark_process_dead(process.pid)  # type: ignore[no-untyped-call]
            LOG.warning("worker %s ended (%s); another takes its place", process.pid, process.exitcode)
            self.processes[place] = self._start_worker(place)

    def terminate_all(self) -> None:
        """Stop all workers, and close the sockets so that no client waits for an answer."""
        for listening in self.sockets:
            stop_handshakes(listening)
            listening.close()
        super().terminate_all()

    def join_all(self) -> None:
        """Wait until all workers have ended; kill them on a second SIGINT or SIGTERM."""
        for worker in self.processes:
            while worker.exitcode is None:
                worker.process.join(0.1)
                if second_signals := {signal.SIGINT, signal.SIGTERM}.intersection(self.signal_queue):
                    self.exit_code = SIGNALLED + max(second_signals)
                    for other_worker in self.processes:
                        other_worker.process.kill()

    def handle_hup(self) -> None:
        """End the server, as SIGTERM does."""
        self.handle_term()

    def handle_ttin(self) -> None:
        """Ignore the signal: the number of processes is fixed."""

    handle_ttou = handle_ttin

    def _start_worker(self, place: int) -> Worker:
        self.loads.leave_out(place)
        worker = Worker(self.config, self.sockets, self.loads, place)
        worker.start()
        return worker


#: Seconds without a health check after which a worker is replaced.
SILENCE = 20
#: Seconds for which an idle connection is kept: longer than clients keep it, which could otherwise send a
#: request while it is being closed.
KEPT = 75
#: Maximum number of connections that wait to be accepted.
BACKLOG = 2048


def serve_http(settings: ServerSettings, host: str, port: int, workers: int, *, shadow: bool = False) -> int:
    """Serve HTTP until SIGTERM or Ctrl-C; a second signal ends it at once.

    Returns 0, with several `workers` 128 and the number of a second signal (a single process ends with that
    code), or 3 if a worker cannot start. `port` 0 is any free port; the address is printed. With `shadow`,
    challengers judge the same requests in a separate process. InputError if a model is missing or unusable,
    the address cannot be used or is reachable from other machines without tokens, or an option is invalid.
    """
    # detect a hanging tracking server after seconds, not after minutes
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    family, address = resolve_address(host, port, settings.tokens)
    if settings.tokens is not None:
        authentication.read_tokens(Path(settings.tokens))
    request_context.configure_logging(settings.log_level, settings.log_format)
    options = settings.options
    for family_pages in all_pages():
        options = family_pages.complete_options(options)
    settings = replace(settings, options=options, hosts=None if settings.tokens else [host])
    models = all_models(settings.options)
    eager_models = [model for model in models.values() if model.eager]
    for model in eager_models:
        model.ensure_loaded()
    listening = _open_socket(family, address, host)
    announce = partial(_print_address, eager_models, host, listening.getsockname()[1])
    with run_challengers(settings, wanted=shadow) as settings:
        if workers > 1:
            with TemporaryDirectory(prefix="perfjudge-") as shared:
                replace(settings, shared=shared).export_to_environment()
                app = "serving.http.api:application"
                config = _uvicorn_config(settings, app, factory=True, workers=workers)
                # the constructor installs signal handlers; requests wait at the socket for the first worker
                supervisor = Workers(config, sockets=[listening])
                announce()
                supervisor.run()
            return supervisor.exit_code
        config = _uvicorn_config(settings, create_app(models, settings))
        SingleProcessServer(config, listening, announce).run(sockets=[listening])
    return 0


def _uvicorn_config(settings: ServerSettings, app: Any, **extra_options: Any) -> Config:
    return Config(
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
        timeout_graceful_shutdown=math.ceil(settings.timeout),
        timeout_worker_healthcheck=SILENCE,
        **extra_options,
    )


def _open_socket(family: socket.AddressFamily, address: Any, host: str) -> socket.socket:
    try:
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as exc:
        raise InputError(f"cannot listen ({exc.strerror})", place=f"{host}:{address[1]}") from exc
    listening.set_inheritable(True)
    return listening


def _print_address(models: Sequence[HotReloadingModel], host: str, port: int) -> None:
    shown_host = f"[{host}]" if ":" in host else host
    refs = [model.ref for model in models if model.ref is not None]
    names = ", ".join(f"{ref.name} {ref.version} ({ref.uri})" for ref in refs)
    sys.stdout.write(f"perfjudge serves {names} on http://{shown_host}:{port}\n")
    sys.stdout.flush()
