"""A server starts the process that judges in its shadow, and another one if that ends."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread

from serving.http.settings import ServerSettings

LOG = logging.getLogger("perfjudge")
#: Seconds after which a process that ended is started again: at first, then ever later.
_SOON, _LATE = 1.0, 60.0
#: Seconds that it has to end in.
_ENDING = 5.0


@contextmanager
def shadowed(settings: ServerSettings, *, wanted: bool) -> Iterator[ServerSettings]:
    """Let challengers judge beside a server while the block lasts, if that is wanted; give its settings."""
    if not wanted:
        yield settings
        return
    with TemporaryDirectory(prefix="perfjudge-shadow-") as own:
        told, ended = replace(settings, shadow=str(Path(own) / "socket")), Event()
        keeping = Thread(target=_keep, args=(told, ended), name="shadow's keeper")
        keeping.start()
        try:
            yield told
        finally:
            ended.set()
            keeping.join()


def _keep(settings: ServerSettings, ended: Event) -> None:
    wait = _SOON
    while not ended.is_set():
        with _started(settings) as process:
            while process.poll() is None and not ended.wait(0.2):
                pass
            _end(process)
        if not ended.is_set():
            LOG.warning("the shadow ended (%s); another one begins in %g s", process.returncode, wait)
            ended.wait(wait)
            wait = min(2 * wait, _LATE)


def _started(settings: ServerSettings) -> subprocess.Popen[bytes]:
    assert settings.shadow is not None
    # a socket of before would be in the way
    Path(settings.shadow).unlink(missing_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "serving.shadow"],
        stdin=subprocess.PIPE,
        env=os.environ | settings.environment,
        # Ctrl-C is for the server
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(_ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
