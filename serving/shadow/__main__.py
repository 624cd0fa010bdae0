"""``python -m serving.shadow``: challengers judge the requests that a server answered."""

from __future__ import annotations

import logging
import os
import select
import shutil
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from data.errors import InputError
from serving.http import request_context
from serving.http.models import HotReloadingModel, follow_aliases
from serving.http.schemas import RefusedError
from serving.http.settings import ServerSettings
from serving.plugins import Endpoint, all_endpoints
from serving.shadow import figures
from serving.shadow.figures import HTTP, Contenders, OpinionCounts
from serving.shadow.request_log import FAILED, AnsweredRequest, drain_requests
from training.registry.champions import CHALLENGER

LOG = logging.getLogger("perfjudge")
#: Niceness of this process, so that the processes of the server have priority.
NICE = 10
#: Seconds between checks for new requests.
PAUSE = 0.1
#: By path, an endpoint and the challenger that judges its requests.
Judges = Mapping[str, tuple[Endpoint, HotReloadingModel]]


def main() -> None:
    """Judge the requests that a server records by the challengers, until the server closes standard input.

    The settings are those that the server passes in the environment; AssertionError if shadow mode is off.
    Lowers the priority of this process. At the end, the directory of requests is removed, since a killed
    server leaves it.
    """
    settings = ServerSettings.from_environment()
    request_context.configure_logging(settings.log_level, settings.log_format)
    os.nice(NICE)
    judges = _find_challengers(settings)
    models = [challenger for _, challenger in judges.values()]
    for challenger in models:
        challenger.check_alias()
    assert settings.shadow is not None
    with follow_aliases(models, settings.watch):
        while not select.select([sys.stdin], [], [], PAUSE)[0]:
            try:
                for requests in drain_requests(Path(settings.shadow), judges):
                    _judge_requests(requests, judges)
            except Exception:
                # other files are judged after the next pause
                LOG.exception("shadow: requests of a file are lost")
    shutil.rmtree(settings.shadow, ignore_errors=True)


def _find_challengers(settings: ServerSettings) -> Judges:
    judges, given = {}, settings.options
    for endpoint in all_endpoints():
        if endpoint.shadow is not None and endpoint.model is not None and endpoint.loader is not None:
            options = {name: given[name] for name in endpoint.model.params if name in given}
            uri = f"models:/{endpoint.loader.name()}@{CHALLENGER}"
            judges[endpoint.path] = endpoint, HotReloadingModel(endpoint.loader, uri, options)
    return judges


def _judge_requests(requests: Sequence[AnsweredRequest], judges: Judges) -> None:
    """Let challengers judge requests that other versions answered, and record the agreement."""
    groups = defaultdict[tuple[str, str, str], list[AnsweredRequest]](list)
    for request in requests:
        groups[request.path, request.name, request.version].append(request)
    failed = 0
    for (path, name, champion), group in groups.items():
        endpoint, model = judges[path]
        challenger = None
        with suppress(InputError):
            challenger = None if model.ref is None else model.ensure_loaded().ref.version
        if challenger in {None, champion}:
            continue
        counts = OpinionCounts()
        failed += sum(not _add_opinions(counts, endpoint, request, model) for request in group)
        figures.record_counts(figures.figures_file(), Contenders(name, champion, challenger, HTTP), counts)
    if failed:
        figures.record_lost(figures.figures_file(), FAILED, failed)


def _add_opinions(
    counts: OpinionCounts, endpoint: Endpoint, request: AnsweredRequest, model: HotReloadingModel
) -> bool:
    readers, media_type = endpoint.shadow, request.media_type
    assert readers is not None
    try:
        challenger = readers.opinions_of_model(media_type, request.body, model.ensure_loaded())
        counts.compare_opinions(readers.opinions_in_answer(media_type, request.content), challenger)
    except (InputError, RefusedError) as exc:
        LOG.warning("shadow: %s cannot judge what the champion did (%s)", model.loader.name(), exc)
        return False
    except Exception:
        LOG.exception("shadow: %s fails", model.loader.name())
        return False
    return True


if __name__ == "__main__":
    main()
