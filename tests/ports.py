"""Ports for servers that are told where to listen, beside other tests and checkouts on the same machine."""

import random
import socket
from contextlib import suppress

#: Below those that systems hand out to whoever asks for any port, which would take one that is not used yet.
PORTS = range(10_000, 32_000)


def free_port():
    """Return a port of this machine at which nobody listens, and that nobody gets by asking for any."""
    drawn = random.SystemRandom()
    while True:
        with suppress(OSError), socket.socket() as free:
            free.bind(("127.0.0.1", drawn.choice(PORTS)))
            return free.getsockname()[1]
