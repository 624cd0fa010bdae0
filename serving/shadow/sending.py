"""A server tells what it was asked, after it has answered, as long as there is room."""

from __future__ import annotations

import socket
import time
from collections import deque
from contextlib import suppress
from http import HTTPStatus
from threading import Event, Lock, Thread

from prometheus_client import Counter

from serving.http.request_context import Exchange
from serving.shadow.messages import AnsweredBody, AnsweredMany, written

#: How many requests may wait, and of how many bytes in all, with their answers.
WAITING, BYTES = 2000, 32 * 2**20
#: Seconds in which what was asked is collected, and between two attempts to be heard.
COLLECTED, AGAIN = 0.05, 0.5


class HandingOn:
    """Tells one process what another one was asked.

    Whoever asks waits for none of it: what finds no room is dropped and counted, and another thread sends.

    Parameters
    ----------
    address : str
        The socket of the process that listens.
    dropped : Counter
        Of Prometheus.
    """

    def __init__(self, address: str, dropped: Counter) -> None:
        self._address, self._counter = address, dropped
        self._waiting = deque[AnsweredBody]()
        self._bytes = self._dropped = 0
        self._lock, self._coming = Lock(), Event()
        self._thread: Thread | None = None

    def asked(self, exchange: Exchange) -> None:
        """Note a request that was answered; this takes microseconds."""
        door, answered, ref = exchange.door, exchange.answered, exchange.ref
        if door is None or door.beside is None or answered is None or ref is None:
            return
        if exchange.status != HTTPStatus.OK:
            return
        one = AnsweredBody(
            door.path, exchange.media_type, exchange.body, answered.content, ref.name, ref.version
        )
        with self._lock:
            if len(self._waiting) >= WAITING or self._bytes + one.size > BYTES:
                self._lose(1)
                return
            self._waiting.append(one)
            self._bytes += one.size
        if self._thread is None:
            self._thread = Thread(target=self._send, name="shadow", daemon=True)
            self._thread.start()
        self._coming.set()

    def _lose(self, count: int) -> None:
        self._dropped += count
        self._counter.inc(count)

    def _send(self) -> None:
        while True:
            with suppress(OSError), socket.socket(socket.AF_UNIX) as listener:
                listener.connect(self._address)
                while True:
                    self._send_some(listener)
            # whoever listens has yet to begin, or begins anew
            time.sleep(AGAIN)

    def _send_some(self, listener: socket.socket) -> None:
        self._coming.wait()
        # what comes meanwhile goes with it
        time.sleep(COLLECTED)
        message = self._take()
        try:
            listener.sendall(written(message))
        except OSError:
            with self._lock:
                self._dropped += message.dropped
                self._lose(len(message.asked))
            raise

    def _take(self) -> AnsweredMany:
        with self._lock:
            self._coming.clear()
            message = AnsweredMany(list(self._waiting), self._dropped)
            self._waiting.clear()
            self._bytes = self._dropped = 0
        return message
