"""Answers about co-runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from data.tables.formats import Format
from serving.corun.commands import add
from serving.supply import MEBIBYTE, Counts, Door, Importing, Registered, ServingSupply

#: The largest body that asks about co-runs, in bytes.
LIMIT = 16 * MEBIBYTE


def _page(root: Path) -> str:
    from serving.corun.page import page

    return page(root)


def _doors() -> Sequence[Door]:
    from serving.corun.body import answer_online, answer_static
    from serving.corun.model import ONLINE, STATIC
    from serving.corun.schemas import OnlineAnswer, OnlineRequest, StaticAnswer, StaticRequest
    from serving.http.bodies import JSON

    return [
        Door(
            "/v1/corun/static",
            "predict_coruns",
            "Tell how much slower tasks get beside others, before they run: from their solo runs.",
            StaticRequest,
            StaticAnswer,
            {JSON: answer_static},
            LIMIT,
            _STATIC,
            STATIC,
        ),
        Door(
            "/v1/corun/online",
            "sample_corun",
            "Tell how much slower a new task gets beside others, from its first seconds alone and with them.",
            OnlineRequest,
            OnlineAnswer,
            {JSON: answer_online},
            LIMIT,
            _ONLINE,
            ONLINE,
            without=True,
        ),
    ]


def _formats() -> Mapping[str, Format[Any]]:
    from data.corun.formats import FORMATS

    return FORMATS


def _import(kind: str, sources: list[Path], directory: Path, *, keep_going: bool) -> Counts:
    """Write the tables of co-runs to `directory`; errors as of `data.corun.formats.read`."""
    from data.corun.formats import read

    reading = read(kind, sources, keep_going=keep_going)
    tables = reading.tables
    tables.write(directory)
    rows = {
        "machines": tables.tasks["machine"].nunique(),
        "tasks": tables.tasks["task"].nunique(),
        "events": len(tables.events),
        "solo_runs": len(tables.tasks),
        "pairs": len(tables.pairs),
        "samples": len(tables.samples),
    }
    return Counts(rows, reading.skipped)


_STATIC = Registered("corun_static", "Predicts co-runs before they run.")
_ONLINE = Registered("corun_online", "Predicts co-runs from first seconds.")
SUPPLY = ServingSupply(
    page=_page,
    importing=Importing("co-runs", _import, _formats),
    models=(_STATIC, _ONLINE),
    doors=_doors,
    commands=add,
)
