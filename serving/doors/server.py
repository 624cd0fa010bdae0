"""A server that listens: the model is loaded first, then the port is opened."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass

from data.errors import InputError
from serving.comparisons.model import Served, load
from serving.corun.served import CorunModels
from serving.doors.api import (
    FLOOR_VARIABLE,
    MATRICES_VARIABLE,
    MODEL_VARIABLE,
    ONLINE_VARIABLE,
    STATIC_VARIABLE,
    create_app,
)
from serving.matrices.served import MatrixModels

#: Seconds that requests have to end once the server is told to.
GRACE = 5


@dataclass(frozen=True)
class Addresses:
    """Which models answer: each as `serving.comparisons.model.load` takes it, None = the champion.

    Attributes
    ----------
    judging, static, online, matrices : str, optional
        Of comparisons, of co-runs before they run and from their first seconds, and of matrices.
    floor : float, optional
        In place of the floor of the model that judges comparisons, as a share.
    """

    judging: str | None = None
    static: str | None = None
    online: str | None = None
    matrices: str | None = None
    floor: float | None = None


def serve(uris: Addresses, host: str, port: int, workers: int) -> int:
    """Answer over HTTP until SIGTERM or Ctrl-C.

    Parameters
    ----------
    uris : Addresses
    host, port : str, int
        Port 0 takes any that is free.
    workers : int
        How many processes answer; each loads the model.

    Raises
    ------
    InputError
        If there is no such model, or the address cannot be taken.
    """
    import uvicorn

    served = load(uris.judging, uris.floor)
    coruns = CorunModels.of(uris.static, uris.online)
    matrices = MatrixModels.of(uris.matrices)
    listening = _listen(host, port)
    announcement = _announcement(served, host, listening.getsockname()[1])
    if workers == 1:
        config = uvicorn.Config(
            create_app(served, coruns, matrices), log_level="warning", timeout_graceful_shutdown=GRACE
        )

        class Announcing(uvicorn.Server):
            """Says where it listens once it does, and once it takes signals."""

            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                _say(announcement)

        Announcing(config).run(sockets=[listening])
        return 0
    from uvicorn.supervisors import Multiprocess

    os.environ[MODEL_VARIABLE] = served.ref.uri
    named = {
        STATIC_VARIABLE: uris.static,
        ONLINE_VARIABLE: uris.online,
        # all workers answer with the version of now
        MATRICES_VARIABLE: matrices.uri,
        FLOOR_VARIABLE: None if uris.floor is None else str(uris.floor),
    }
    for variable, uri in named.items():
        if uri is not None:
            os.environ[variable] = uri
    config = uvicorn.Config(
        "serving.doors.api:application",
        factory=True,
        workers=workers,
        log_level="warning",
        timeout_graceful_shutdown=GRACE,
    )
    # constructed, it takes signals; requests wait in the queue of the socket until a process answers
    several = Multiprocess(config, sockets=[listening])
    _say(announcement)
    several.run()
    return 0


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen()
    except OSError as exc:
        raise InputError(f"cannot listen ({exc.strerror})", place=f"{host}:{port}") from exc
    listening.set_inheritable(True)
    return listening


def _announcement(served: Served, host: str, port: int) -> str:
    shown = f"[{host}]" if ":" in host else host
    ref = served.ref
    return f"perfjudge serves {ref.name} {ref.version} ({ref.uri}) on http://{shown}:{port}\n"


def _say(announcement: str) -> None:
    sys.stdout.write(announcement)
    sys.stdout.flush()
