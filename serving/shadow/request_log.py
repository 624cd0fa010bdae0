"""Answered requests as JSON lines, which a process with the challengers replays."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Lock, Thread

import msgspec
from prometheus_client import Counter

from data.errors import InputError
from serving.http.request_context import RequestContext
from serving.http.settings import ServerSettings
from serving.shadow import figures

LOG = logging.getLogger("perfjudge")
#: Maximum number of queued requests of a process, of their bytes with answers, and of files to be replayed.
WAITING, BYTES, FILES = 2000, 32 * 2**20, 8
#: Seconds of requests that are collected in one file.
COLLECTED = 0.05
#: Reasons why requests were not judged: the queue was full, or the challenger could not judge them.
DROPPED, FAILED = "dropped", "failed"
#: Seconds until a process that ended is started again: first, doubled up to the maximum.
_SOON, _LATE = 1.0, 60.0
#: Seconds for the process to end before it is killed.
_ENDING = 5.0


class AnsweredRequest(msgspec.Struct):
    """A request that was answered: its endpoint and body, the answer, and the version that gave it."""

    path: str
    media_type: str
    body: bytes
    content: bytes
    name: str
    version: str


class RequestLog:
    """Writes answered requests to a directory in a thread; those beyond its queue are dropped and counted."""

    def __init__(self, directory: str, dropped: Counter) -> None:
        self._directory, self._counter = Path(directory), dropped
        self._waiting = deque[AnsweredRequest]()
        self._bytes = self._dropped = 0
        self._lock, self._coming = Lock(), Event()
        self._thread: Thread | None = None

    def add_request(self, context: RequestContext) -> None:
        """Queue an answered request, if its endpoint supports shadow mode; this takes microseconds."""
        endpoint, answered, ref = context.endpoint, context.answered, context.ref
        if endpoint is None or endpoint.shadow is None or answered is None or ref is None:
            return
        if context.status != HTTPStatus.OK:
            return
        body, content = context.body, answered.content
        size = len(body) + len(content)
        request = AnsweredRequest(endpoint.path, context.media_type, body, content, ref.name, ref.version)
        with self._lock:
            if len(self._waiting) >= WAITING or self._bytes + size > BYTES:
                self._dropped += 1
                self._counter.inc()
            else:
                self._waiting.append(request)
                self._bytes += size
        if self._thread is None:
            self._thread = Thread(target=self._write_requests, name="shadow", daemon=True)
            self._thread.start()
        self._coming.set()

    def _write_requests(self) -> None:
        encode = msgspec.json.Encoder().encode_lines
        while True:
            self._coming.wait()
            time.sleep(COLLECTED)
            if len(list(self._directory.glob("*.jsonl"))) >= FILES:
                continue
            with self._lock:
                self._coming.clear()
                requests, dropped = list(self._waiting), self._dropped
                self._waiting.clear()
                self._bytes = self._dropped = 0
            try:
                if dropped:
                    figures.record_lost(figures.figures_file(), DROPPED, dropped)
                if requests:
                    # the file gets its name when it is complete
                    path = self._directory / f"{time.time_ns()}-{os.getpid()}.writing"
                    path.write_bytes(encode(requests))
                    path.rename(path.with_suffix(".jsonl"))
            except (OSError, InputError):
                LOG.exception("shadow: %s requests are lost", len(requests))
                self._counter.inc(len(requests))


def drain_requests(directory: Path, endpoints: Container[str]) -> Iterator[list[AnsweredRequest]]:
    """Yield the requests in each ``*.jsonl`` file of a directory as a list, in the order of the files' names.

    Each file is removed before its requests are yielded. Lines that are no request to one of the `endpoints`
    (their paths) are logged and counted as lost in `figures_file`; InputError if that cannot be written.
    """
    decode = msgspec.json.Decoder(AnsweredRequest).decode
    for path in sorted(directory.glob("*.jsonl")):
        requests, failed = [], 0
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            try:
                request = decode(line)
                known = request.path in endpoints
                problem = "" if known else f"{request.path!r} is no endpoint of shadow mode - at `$.path`"
            except ValueError as exc:
                problem = str(exc)
            if problem:
                LOG.warning("shadow: %s:%s cannot be replayed: %s", path.name, number, problem)
                failed += 1
            else:
                requests.append(request)
        path.unlink()
        if failed:
            figures.record_lost(figures.figures_file(), FAILED, failed)
        yield requests


@contextmanager
def run_challengers(settings: ServerSettings, *, wanted: bool) -> Iterator[ServerSettings]:
    """While the block runs, run challengers in another process if `wanted`; yield the settings of the server.

    If `wanted`, they have a temporary directory for answered requests as ``shadow``. The process is restarted
    if it ends; after the block, it is stopped.
    """
    if not wanted:
        yield settings
        return
    with TemporaryDirectory(prefix="perfjudge-shadow-") as directory:
        settings, ended = replace(settings, shadow=directory), Event()
        supervisor = Thread(target=_supervise_process, args=(settings, ended), name="shadow supervisor")
        supervisor.start()
        try:
            yield settings
        finally:
            ended.set()
            supervisor.join()


def _supervise_process(settings: ServerSettings, ended: Event) -> None:
    wait = _SOON
    # inherited by the process: it ends, and removes the directory, when its standard input is closed, also
    # if both get SIGTERM before the server can handle it
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    while not ended.is_set():
        # Ctrl-C is for the server
        command, env = [sys.executable, "-m", "serving.shadow"], os.environ | settings.environment_variables
        with subprocess.Popen(command, stdin=subprocess.PIPE, env=env, start_new_session=True) as process:
            while process.poll() is None and not ended.wait(0.2):
                pass
            try:
                # closes its standard input, and waits
                process.communicate(timeout=_ENDING)
            except subprocess.TimeoutExpired:
                process.kill()
        if not ended.is_set():
            LOG.warning("the shadow ended (%s); another one begins in %g s", process.returncode, wait)
            ended.wait(wait)
            wait = min(2 * wait, _LATE)
