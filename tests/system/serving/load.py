"""Clients that send one request after the other, and count whatever goes wrong."""

import json
from collections import Counter
from contextlib import suppress
from http.client import HTTPConnection, IncompleteRead
from threading import Event, Thread
from time import sleep

from tests.system.conftest import comparison

#: Seconds between an answer and the next question: others want a processor, too.
PAUSE = 0.002
BODY = json.dumps({"comparisons": [comparison("slow", 80.0)]})


class Client(Thread):
    """One connection, opened again only where the server closes it after an answer."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.connection = HTTPConnection(address, timeout=60)
        self.answered, self.failed = Counter(), []
        self.last, self.refused, self.ended = "", False, Event()

    def run(self):
        while not self.ended.is_set():
            try:
                if self.connection.sock is None:
                    self.connection.connect()
            except ConnectionRefusedError:
                # nobody listens any more
                self.refused = True
                return
            try:
                self.ask()
            except Exception as exc:  # noqa: BLE001 - whatever it is, it is counted
                # whoever answers is gone: before the question was sent, or before all of the answer came
                gone = "gone: " if isinstance(exc, ConnectionError | IncompleteRead) else ""
                self.failed.append(f"{gone}{exc!r}")
                self.connection.close()
            sleep(PAUSE)

    def ask(self):
        kind = {"Content-Type": "application/json"}
        self.connection.request("POST", "/v1/comparisons/judge", BODY, kind)
        answer = self.connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            self.failed.append(f"{answer.status} {content[:300]}")
            return
        told = json.loads(content)
        assert told["verdicts"][0]["verdict"] == "fail"
        self.last = told["model"]["version"]
        self.answered[self.last] += 1


class Load:
    """Several clients of a server, from the beginning of a block to its end."""

    def __init__(self, server, clients=16):
        address = server.url.removeprefix("http://")
        self.clients = [Client(address) for _ in range(clients)]

    def __enter__(self):
        for client in self.clients:
            client.start()
        return self

    def __exit__(self, *raised):
        for client in self.clients:
            client.ended.set()
        for client in self.clients:
            client.join(120)
            with suppress(OSError):
                client.connection.close()

    @property
    def failed(self):
        return [failure for client in self.clients for failure in client.failed]

    @property
    def answered(self):
        return sum((client.answered for client in self.clients), Counter())

    @property
    def now(self):
        return {client.last for client in self.clients}
