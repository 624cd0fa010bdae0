"""``python -m serving.shadow``: challengers judge the requests that a server answered."""

from __future__ import annotations

import logging
import os
import select
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from data.errors import InputError
from serving.http import request_context
from serving.http.models import HotReloadingModel, following
from serving.http.schemas import RefusedError
from serving.http.settings import ServerSettings
from serving.shadow import figures
from serving.shadow.figures import HTTP, Contenders, OpinionCounts
from serving.shadow.request_log import FAILED, AnsweredRequest, replayed
from serving.supply import Endpoint, doors
from training.registry.champions import CHALLENGER

LOG = logging.getLogger("perfjudge")
#: Its niceness, so that the processes that answer come first.
NICE = 10
#: Seconds between two looks for requests.
PAUSE = 0.1
#: An endpoint, and the challenger that judges its requests.
Judges = Mapping[str, tuple[Endpoint, HotReloadingModel]]


def main() -> None:
    """Judge until the server ends, which holds the other end of standard input."""
    settings = ServerSettings.handed_on()
    request_context.begin(settings.log_level, settings.log_format)
    os.nice(NICE)
    judges = challengers(settings)
    lazies = [lazy for _, lazy in judges.values()]
    for lazy in lazies:
        lazy.look()
    assert settings.shadow is not None
    with following(lazies, settings.watch):
        while not select.select([sys.stdin], [], [], PAUSE)[0]:
            for requests in replayed(Path(settings.shadow)):
                try:
                    judge(requests, judges)
                except Exception:
                    LOG.exception("shadow: %s requests are lost", len(requests))


def challengers(settings: ServerSettings) -> Judges:
    """Return the challenger of each endpoint, with the options that the server was given for its champion."""
    found = {}
    for door in doors():
        if door.beside is not None and door.model is not None and door.loader is not None:
            knobs = {name: settings.options[name] for name in door.model.knobs if name in settings.options}
            found[door.path] = (
                door,
                HotReloadingModel(door.loader, f"models:/{door.loader.name()}@{CHALLENGER}", knobs),
            )
    return found


def judge(requests: Sequence[AnsweredRequest], judges: Judges) -> None:
    """Judge requests by the challengers, and record how often they agree with the champions."""
    alike = defaultdict[tuple[str, str, str], list[AnsweredRequest]](list)
    for one in requests:
        alike[one.path, one.name, one.version].append(one)
    failed = 0
    for (path, name, champion), several in alike.items():
        door, lazy = judges[path]
        challenger = None
        with suppress(InputError):
            challenger = None if lazy.ref is None else lazy.get().ref.version
        if challenger in {None, champion}:
            continue
        found = OpinionCounts()
        failed += sum(not _added(found, door, one, lazy) for one in several)
        figures.record(figures.figures_file(), Contenders(name, champion, challenger, HTTP), found)
    if failed:
        figures.record_lost(figures.figures_file(), FAILED, failed)


def _added(found: OpinionCounts, door: Endpoint, one: AnsweredRequest, lazy: HotReloadingModel) -> bool:
    """Add the champion's and the challenger's opinions of a request; return whether that was possible."""
    assert door.beside is not None
    try:
        asked = door.beside.asked(one.media_type, one.body, lazy.get())
        found.add(door.beside.given(one.media_type, one.content), asked)
    except (InputError, RefusedError) as exc:
        LOG.warning("shadow: %s cannot judge what the champion did (%s)", lazy.loader.name(), exc)
        return False
    except Exception:
        LOG.exception("shadow: %s fails", lazy.loader.name())
        return False
    return True


if __name__ == "__main__":
    main()
