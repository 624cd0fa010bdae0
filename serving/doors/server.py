"""A server that listens: what must be there is loaded first, then the port is opened."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from data.errors import InputError
from serving.doors import logs, tokens
from serving.doors.access import Address, address
from serving.doors.api import create_app
from serving.doors.lazy import Lazy, all_models
from serving.doors.settings import ServerSettings
from serving.shadow.starting import shadowed
from serving.supply import Options, pages

#: Seconds for which a worker may say nothing of itself before another one takes its place.
SILENCE = 20
#: Seconds for which a connection is kept that nobody uses: longer than clients keep it, who would else ask
#: while it is being closed.
KEPT = 75
#: How many connections may wait for a process.
BACKLOG = 2048


def serve(settings: ServerSettings, host: str, port: int, workers: int, *, shadow: bool = False) -> int:
    """Answer over HTTP until SIGTERM or Ctrl-C; at a second one, end at once.

    Parameters
    ----------
    settings : ServerSettings
    host, port : str, int
        Port 0 takes any that is free.
    workers : int
        How many processes answer; each loads the models, and follows the registry by itself.
    shadow : bool
        Whether challengers judge beside the champions, in a process of their own.

    Raises
    ------
    InputError
        If there is no such model, the address cannot be taken, others reach it and there are no tokens, or
        the file of tokens cannot be used.
    """
    # a tracking server that hangs is noticed after seconds, not after minutes
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    place = address(host, port, settings.tokens)
    if settings.tokens is not None:
        tokens.read(Path(settings.tokens))
    logs.begin(settings.log_level, settings.log_format)
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
    models: Mapping[str, Lazy],
    listening: socket.socket,
    announce: Callable[[], None],
) -> None:
    if workers == 1:
        from serving.doors.ending import Alone

        Alone(_configured(settings, create_app(models, settings)), announce).run(sockets=[listening])
        return
    from serving.doors.workers import Workers

    with TemporaryDirectory(prefix="perfjudge-") as shared:
        replace(settings, shared=shared).hand_on()
        config = _configured(settings, "serving.doors.api:application", factory=True, workers=workers)
        # constructed, it takes signals; requests wait in the queue of the socket until a process answers
        several = Workers(config, sockets=[listening])
        announce()
        several.run()


def _begun(options: Options) -> Options:
    """Let families look at the options, and add what they take by default."""
    for one in pages():
        options = one.begun(options)
    return options


def _configured(settings: ServerSettings, app: Any, **further: Any) -> Any:
    import uvicorn

    from serving.doors.heads import LimitedProtocol

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
        # who was told to end answers whatever may still be answered in time
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


def _announce(models: Sequence[Lazy], host: str, port: int) -> None:
    """Say on standard output who listens where."""
    shown = f"[{host}]" if ":" in host else host
    refs = [model.ref for model in models if model.ref is not None]
    told = ", ".join(f"{ref.name} {ref.version} ({ref.uri})" for ref in refs)
    sys.stdout.write(f"perfjudge serves {told} on http://{shown}:{port}\n")
    sys.stdout.flush()
