"""Answered requests as JSON lines, which a process with the challengers replays."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
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
#: How many requests may wait in a process, and of how many bytes in all, with their answers; and how many
#: files of them may wait to be replayed.
WAITING, BYTES, FILES = 2000, 32 * 2**20, 8
#: Seconds of requests that are collected in one file.
COLLECTED = 0.05
#: Why requests were not judged: there was no room for them, or the challenger could not judge them.
DROPPED, FAILED = "dropped", "failed"
#: Seconds after which a process that ended is started again: at first, then ever later.
_SOON, _LATE = 1.0, 60.0
#: Seconds that it has to end in.
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
    """Writes answered requests to a directory, for `replayed`.

    Requests do not wait: another thread writes, and requests beyond its queue are dropped and counted.
    """

    def __init__(self, directory: str, dropped: Counter) -> None:
        self._directory, self._counter = Path(directory), dropped
        self._waiting = deque[AnsweredRequest]()
        self._bytes = self._dropped = 0
        self._lock, self._coming = Lock(), Event()
        self._thread: Thread | None = None

    def add(self, exchange: RequestContext) -> None:
        """Note a request that was answered; this takes microseconds."""
        door, answered, ref = exchange.door, exchange.answered, exchange.ref
        if door is None or door.beside is None or answered is None or ref is None:
            return
        if exchange.status != HTTPStatus.OK:
            return
        size = len(exchange.body) + len(answered.content)
        with self._lock:
            if len(self._waiting) >= WAITING or self._bytes + size > BYTES:
                self._dropped += 1
                self._counter.inc()
            else:
                self._waiting.append(
                    AnsweredRequest(
                        door.path, exchange.media_type, exchange.body, answered.content, ref.name, ref.version
                    )
                )
                self._bytes += size
        if self._thread is None:
            self._thread = Thread(target=self._write, name="shadow", daemon=True)
            self._thread.start()
        self._coming.set()

    def _write(self) -> None:
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
                    # whole, once it has its name
                    path = self._directory / f"{time.time_ns()}-{os.getpid()}.writing"
                    path.write_bytes(encode(requests))
                    path.rename(path.with_suffix(".jsonl"))
            except (OSError, InputError):
                LOG.exception("shadow: %s requests are lost", len(requests))
                self._counter.inc(len(requests))


def replayed(directory: Path) -> Iterator[list[AnsweredRequest]]:
    """Yield the requests of each file in a directory, the oldest first, and remove the file."""
    decode = msgspec.json.Decoder(AnsweredRequest).decode_lines
    for path in sorted(directory.glob("*.jsonl")):
        requests = decode(path.read_bytes())
        path.unlink()
        yield requests


@contextmanager
def shadowed(settings: ServerSettings, *, wanted: bool) -> Iterator[ServerSettings]:
    """Run challengers while the block lasts, if `wanted`; give the server's settings for it."""
    if not wanted:
        yield settings
        return
    with TemporaryDirectory(prefix="perfjudge-shadow-") as directory:
        told, ended = replace(settings, shadow=directory), Event()
        keeping = Thread(target=_keep, args=(told, ended), name="shadow's keeper")
        keeping.start()
        try:
            yield told
        finally:
            ended.set()
            keeping.join()


def _keep(settings: ServerSettings, ended: Event) -> None:
    """Run the process with the challengers, and another one if it ends."""
    wait = _SOON
    while not ended.is_set():
        # Ctrl-C is for the server; the process ends once its standard input does
        with subprocess.Popen(
            [sys.executable, "-m", "serving.shadow"],
            stdin=subprocess.PIPE,
            env=os.environ | settings.environment,
            start_new_session=True,
        ) as process:
            while process.poll() is None and not ended.wait(0.2):
                pass
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(_ENDING)
            except subprocess.TimeoutExpired:
                process.kill()
        if not ended.is_set():
            LOG.warning("the shadow ended (%s); another one begins in %g s", process.returncode, wait)
            ended.wait(wait)
            wait = min(2 * wait, _LATE)
