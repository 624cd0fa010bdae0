"""Answers about co-runs."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from serving.supply import MEBIBYTE, Counts, Door, Importing, Loader, Registered, ServingSupply

if TYPE_CHECKING:
    from pydantic import BaseModel
    from typer import Typer

    from serving.corun.model import Online, Static
    from serving.doors.bodies import Answered

#: The largest body that asks about co-runs, in bytes.
LIMIT = 16 * MEBIBYTE


def _page(root: Path) -> str:
    from serving.corun.page import page

    return page(root)


def _static() -> Loader:
    from serving.corun.model import STATIC

    return STATIC


def _static_shapes() -> tuple[type[BaseModel], type[BaseModel]]:
    from serving.corun.schemas import StaticAnswer, StaticRequest

    return StaticRequest, StaticAnswer


def _answer_static(body: bytes, static: Static) -> Answered:
    from serving.corun.body import answer_static

    return answer_static(body, static)


def _online() -> Loader:
    from serving.corun.model import ONLINE

    return ONLINE


def _online_shapes() -> tuple[type[BaseModel], type[BaseModel]]:
    from serving.corun.schemas import OnlineAnswer, OnlineRequest

    return OnlineRequest, OnlineAnswer


def _answer_online(body: bytes, online: Online) -> Answered:
    from serving.corun.body import answer_online

    return answer_online(body, online)


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


_STATIC = Registered("corun_static", "Predicts co-runs before they run.", _static)
_ONLINE = Registered("corun_online", "Predicts co-runs from first seconds.", _online)
SUPPLY = ServingSupply(
    page=_page,
    importing=Importing("co-runs", _import, _formats, recognised=_holds),
    models=(_STATIC, _ONLINE),
    doors=(
        Door(
            "/v1/corun/static",
            "predict_coruns",
            "Tell how much slower tasks get beside others, before they run: from their solo runs.",
            _static_shapes,
            _answer_static,
            LIMIT,
            _STATIC,
        ),
        Door(
            "/v1/corun/online",
            "sample_corun",
            "Tell how much slower a new task gets beside others, from its first seconds alone and with them.",
            _online_shapes,
            _answer_online,
            LIMIT,
            _ONLINE,
        ),
    ),
    commands=_commands,
)
