"""Answers about co-runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from serving.supply import MEBIBYTE, Counts, Door, Importing, Registered, ServingSupply

if TYPE_CHECKING:
    from pydantic import BaseModel
    from typer import Typer

    from serving.corun.model import Online, Static
    from serving.doors.bodies import Answered
    from serving.models import Head

#: The largest body that asks about co-runs, in bytes.
LIMIT = 16 * MEBIBYTE


def _page(root: Path) -> str:
    from serving.corun.page import page

    return page(root)


def _static_name() -> str:
    from serving.corun.model import static_name

    return static_name()


def _load_static(uri: str | None = None) -> Static:
    from serving.corun.model import load_static

    return load_static(uri).ready()


def _static_card(uri: str | None) -> Head:
    from serving.corun.model import static_card

    return static_card(uri)


def _static_entry(known: Head | Static) -> Mapping[str, Any]:
    from serving.corun.model import static_entry

    return static_entry(known)


def _static_shapes() -> tuple[type[BaseModel], type[BaseModel]]:
    from serving.corun.schemas import StaticAnswer, StaticRequest

    return StaticRequest, StaticAnswer


def _answer_static(body: bytes, static: Static) -> Answered:
    from serving.corun.body import answer_static

    return answer_static(body, static)


def _online_name() -> str:
    from serving.corun.model import online_name

    return online_name()


def _load_online(uri: str | None = None) -> Online:
    from serving.corun.model import load_online

    return load_online(uri)


def _online_card(uri: str | None) -> Head:
    from serving.corun.model import online_card

    return online_card(uri)


def _online_entry(known: Head | Online) -> Mapping[str, Any]:
    from serving.corun.model import online_entry

    return online_entry(known)


def _online_shapes() -> tuple[type[BaseModel], type[BaseModel]]:
    from serving.corun.schemas import OnlineAnswer, OnlineRequest

    return OnlineRequest, OnlineAnswer


def _answer_online(body: bytes, online: Online) -> Answered:
    from serving.corun.body import answer_online

    return answer_online(body, online)


def _served() -> type[BaseModel]:
    from serving.corun.schemas import ServedCorun

    return ServedCorun


def _formats() -> Collection[str]:
    from data.corun.formats import FORMATS

    return FORMATS


def _holds(kind: str, source: Path) -> bool:
    from data.corun.formats import holds_coruns

    return holds_coruns(kind, source)


def _import(kind: str, sources: list[Path], directory: Path, *, keep_going: bool) -> Counts:
    from serving.corun.command import imported

    return imported(kind, sources, directory, keep_going=keep_going)


def _commands(app: Typer) -> None:
    from serving.corun.commands import add

    add(app)


STATIC = Registered(
    "corun_static",
    "Predicts co-runs before they run.",
    _static_name,
    _load_static,
    _static_entry,
    _served,
    _static_card,
)
ONLINE = Registered(
    "corun_online",
    "Predicts co-runs from first seconds.",
    _online_name,
    _load_online,
    _online_entry,
    _served,
    _online_card,
)
SUPPLY = ServingSupply(
    page=_page,
    importing=Importing("co-runs", _import, _formats, recognised=_holds),
    models=(STATIC, ONLINE),
    doors=(
        Door(
            "/v1/corun/static",
            "predict_coruns",
            "Tell how much slower tasks get beside others, before they run: from their solo runs.",
            _static_shapes,
            _answer_static,
            LIMIT,
            STATIC,
        ),
        Door(
            "/v1/corun/online",
            "sample_corun",
            "Tell how much slower a new task gets beside others, from its first seconds alone and with them.",
            _online_shapes,
            _answer_online,
            LIMIT,
            ONLINE,
        ),
    ),
    commands=_commands,
)
