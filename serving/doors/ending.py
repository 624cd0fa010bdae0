"""A server that ends without a failed request."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType

from uvicorn import Config, Server

#: Seconds for which clients may go on to ask on open connections, and learn that these are being closed.
DRAIN = 3.0


class Draining(Server):
    """Answers what was sent before it was told to end, and tells clients to come on another connection."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, answer who is connected, then close; what takes longer has its time to end."""
        # cycles copy it into their answers, after which uvicorn closes the connection
        self.server_state.default_headers.append((b"connection", b"close"))
        for connection in self._last(sockets or []):
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, connection)
        await self._drain()
        await super().shutdown(sockets)

    def _last(self, sockets: list[socket.socket]) -> list[socket.socket]:
        """Stop listening; return the connections that the kernel has made and nobody has accepted yet."""
        held = [one.dup() for one in sockets]
        for server in self.servers:
            server.close()
        return [connection for one in held for connection in _accepted(one)]

    def _protocol(self) -> asyncio.Protocol:
        protocol: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        return protocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    async def _drain(self) -> None:
        """Wait until nobody is connected; who then asks nothing is let go."""
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
        """End; at once when told a second time."""
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
