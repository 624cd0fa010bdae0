"""The process in which challengers judge what a server was asked; it answers nobody."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from asyncio import IncompleteReadError, StreamReader, StreamWriter
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from data.errors import InputError
from serving.http import request_context
from serving.http.models import Lazy, following
from serving.http.schemas import RefusedError
from serving.http.settings import ServerSettings
from serving.shadow import kept
from serving.shadow.held import Contenders, HeldTogether
from serving.shadow.messages import HEAD, AnsweredBody, AnsweredMany, read
from serving.supply import Door, doors
from training.registry.champions import CHALLENGER

LOG = logging.getLogger("perfjudge")
#: How far it stands back behind those that answer.
NICE = 10
#: Why requests were not looked at: there was no room for them, or the challenger could not judge them.
DROPPED, FAILED = "dropped", "failed"


@dataclass
class Challengers:
    """Challengers of all doors that have one."""

    doors: Mapping[str, Door]
    models: Mapping[str, Lazy]
    path: Path = field(default_factory=kept.place)

    def judge(self, message: AnsweredMany) -> None:
        """Judge what was asked, and keep what is found."""
        if message.dropped:
            kept.lose(self.path, DROPPED, message.dropped)
        failed = 0
        for (path, name, version), asked in _together(message.asked).items():
            lazy = self.models.get(path)
            if lazy is None or (challenger := _challenger(lazy, version)) is None:
                continue
            contenders, held = Contenders(name, version, challenger, kept.HTTP), HeldTogether()
            failed += sum(not _added(held, self.doors[path], one, lazy) for one in asked)
            kept.keep(self.path, contenders, held)
        if failed:
            kept.lose(self.path, FAILED, failed)


def _together(asked: Sequence[AnsweredBody]) -> dict[tuple[str, str, str], list[AnsweredBody]]:
    found = defaultdict[tuple[str, str, str], list[AnsweredBody]](list)
    for one in asked:
        found[one.path, one.name, one.version].append(one)
    return found


def _challenger(lazy: Lazy, champion: str) -> str | None:
    """Return the version that judges beside a champion; None if there is none but itself."""
    if lazy.ref is None:
        return None
    with suppress(InputError):
        version: str = lazy.get().ref.version
        return None if version == champion else version
    return None


def _added(held: HeldTogether, door: Door, one: AnsweredBody, lazy: Lazy) -> bool:
    """Hold both against each other; tell whether that could be done."""
    assert door.beside is not None
    try:
        asked = door.beside.asked(one.media_type, one.body, lazy.get())
        held.add(door.beside.given(one.media_type, one.content), asked)
    except (InputError, RefusedError) as exc:
        LOG.warning("shadow: %s cannot judge what the champion did (%s)", lazy.loader.name(), exc)
        return False
    except Exception:
        LOG.exception("shadow: %s fails", lazy.loader.name())
        return False
    return True


def challengers(settings: ServerSettings) -> Iterator[tuple[str, Lazy]]:
    """Yield the challenger of each door, with the knobs that the server was given for its champion."""
    for door in doors():
        if door.beside is not None and door.model is not None and door.loader is not None:
            knobs = {name: settings.options[name] for name in door.model.knobs if name in settings.options}
            yield door.path, Lazy(door.loader, f"models:/{door.loader.name()}@{CHALLENGER}", knobs)


async def _listen(settings: ServerSettings) -> None:
    beside = Challengers({door.path: door for door in doors()}, dict(challengers(settings)))
    for lazy in beside.models.values():
        await asyncio.to_thread(lazy.look)
    turn = asyncio.Lock()

    async def connected(reader: StreamReader, writer: StreamWriter) -> None:
        # a server that ends in the middle of a message has said nothing, and who is told to end, ends
        with suppress(IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                size = int.from_bytes(await reader.readexactly(HEAD), "big")
                message = read(await reader.readexactly(size))
                async with turn:
                    await asyncio.to_thread(_judge, beside, message)
        writer.close()

    with following(beside.models.values(), settings.watch):
        listening = await asyncio.start_unix_server(connected, settings.shadow)
        # it ends with the server, which holds the other end
        await asyncio.get_running_loop().run_in_executor(None, partial(sys.stdin.buffer.read, 1))
        listening.close()


def _judge(beside: Challengers, message: AnsweredMany) -> None:
    try:
        beside.judge(message)
    except Exception:
        LOG.exception("shadow: %s requests are lost", len(message.asked))


def main() -> None:
    """Listen until the server ends."""
    settings = ServerSettings.handed_on()
    request_context.begin(settings.log_level, settings.log_format)
    os.nice(NICE)
    asyncio.run(_listen(settings))
