"""Answers about comparisons of two results."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from serving.supply import (
    MEBIBYTE,
    Counts,
    Door,
    Further,
    Importing,
    Judging,
    Loader,
    Registered,
    ServingSupply,
)

if TYPE_CHECKING:
    from pydantic import BaseModel
    from typer import Typer

    from serving.answering import Wanted
    from serving.comparisons.model import Judge
    from serving.doors.bodies import Answered


def _page(root: Path) -> str:
    from serving.comparisons.page import page

    return page(root)


def _loader() -> Loader:
    from serving.comparisons.model import LOADER

    return LOADER


def _floor() -> Mapping[str, Any]:
    from serving.comparisons.commands import Floor

    return {"floor": Floor}


def _better() -> Mapping[str, Any]:
    from serving.comparisons.commands import Assumed

    return {"better": Assumed}


def _shapes() -> tuple[type[BaseModel], type[BaseModel]]:
    from data.comparisons.request import JudgeRequest
    from serving.comparisons.schemas import JudgeAnswer

    return JudgeRequest, JudgeAnswer


def _json(body: bytes, served: Judge) -> Answered:
    from serving.comparisons.body import answer_json

    return answer_json(body, served)


def _xml(body: bytes, served: Judge) -> Answered:
    from serving.comparisons.body import answer_xml

    return answer_xml(body, served)


def _example() -> str:
    from serving.comparisons.schemas import XML_EXAMPLE

    return XML_EXAMPLE


def _judge(source: Path, uri: str | None, wanted: Wanted, *, keep_going: bool, **options: Any) -> int:
    from serving.comparisons.command import judge_source

    return judge_source(source, uri, wanted, keep_going=keep_going, **options)


def _formats() -> Collection[str]:
    from data.comparisons.formats import FORMATS

    return FORMATS


def _import(kind: str, sources: list[Path], directory: Path, **options: Any) -> Counts:
    from serving.comparisons.command import imported

    return imported(kind, sources, directory, **options)


def _commands(app: Typer) -> None:
    from serving.comparisons.commands import add

    add(app)


_MODEL = Registered("model", "Judges comparisons.", _loader, knobs=_floor)
SUPPLY = ServingSupply(
    page=_page,
    importing=Importing("comparisons", _import, _formats, _better),
    judging=Judging("comparisons", _judge, lambda: {**_better(), **_floor()}),
    models=(_MODEL,),
    doors=(
        Door(
            "/v1/comparisons/judge",
            "judge_comparisons",
            "Judge comparisons: JSON is answered in JSON, XML with its ``result_status`` filled in.",
            _shapes,
            _json,
            64 * MEBIBYTE,
            _MODEL,
            further=Further(("application/xml", "text/xml"), _xml, _example),
        ),
    ),
    commands=_commands,
)
