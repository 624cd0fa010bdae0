"""Answers about fingerprints: profiles of applications."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from serving.supply import MEBIBYTE, Counts, Door, Importing, ServingSupply

if TYPE_CHECKING:
    from pydantic import BaseModel
    from typer import Typer

    from serving.doors.bodies import Answered


def _page(root: Path) -> str:
    from serving.fingerprints.page import page

    return page(root)


def _shapes() -> tuple[type[BaseModel], type[BaseModel]]:
    from serving.fingerprints.schemas import IrupRequest, ProfileAnswer

    return IrupRequest, ProfileAnswer


def _answer(body: bytes, _model: None) -> Answered:
    from serving.fingerprints.body import answer_irup

    return answer_irup(body)


def _formats() -> Collection[str]:
    from data.fingerprints.formats import FORMATS

    return FORMATS


def _holds(kind: str, source: Path) -> bool:
    from data.fingerprints.formats import holds_fingerprints

    return holds_fingerprints(kind, source)


def _import(kind: str, sources: list[Path], directory: Path, *, keep_going: bool) -> Counts:
    from serving.fingerprints.command import imported

    return imported(kind, sources, directory, keep_going=keep_going)


def _commands(app: Typer) -> None:
    from serving.fingerprints.commands import add

    add(app)


SUPPLY = ServingSupply(
    page=_page,
    importing=Importing("fingerprints", _import, _formats, recognised=_holds),
    doors=(
        Door(
            "/v1/irup",
            "profile_application",
            "Tell what an application leans on, how far that can be trusted, and predict it elsewhere.",
            _shapes,
            _answer,
            16 * MEBIBYTE,
            alone=True,
        ),
    ),
    commands=_commands,
)
