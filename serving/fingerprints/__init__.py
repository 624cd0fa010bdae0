"""Answers about fingerprints: profiles of applications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from data.tables.formats import Format
from serving.fingerprints.commands import add
from serving.supply import MEBIBYTE, Counts, Door, Importing, ServingSupply


def _page(root: Path) -> str:
    from serving.fingerprints.page import page

    return page(root)


def _doors() -> Sequence[Door]:
    from serving.fingerprints.body import answer_irup
    from serving.fingerprints.schemas import IrupRequest, ProfileAnswer
    from serving.http.bodies import JSON

    return [
        Door(
            "/v1/irup",
            "profile_application",
            "Tell what an application leans on, how far that can be trusted, and predict it elsewhere.",
            IrupRequest,
            ProfileAnswer,
            {JSON: lambda body, _: answer_irup(body)},
            16 * MEBIBYTE,
            alone=True,
        )
    ]


def _formats() -> Mapping[str, Format[Any]]:
    from data.fingerprints.formats import FORMATS

    return FORMATS


def _import(kind: str, sources: list[Path], directory: Path, *, keep_going: bool) -> Counts:
    from serving.fingerprints.command import imported

    return imported(kind, sources, directory, keep_going=keep_going)


SUPPLY = ServingSupply(
    page=_page,
    importing=Importing("fingerprints", _import, _formats),
    doors=_doors,
    commands=add,
)
