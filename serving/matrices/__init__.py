"""Answers about matrices of raw metrics."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from serving.supply import MEBIBYTE, Counts, Door, Importing, Judging, Loader, Registered, ServingSupply

if TYPE_CHECKING:
    from pydantic import BaseModel

    from serving.answering import Wanted
    from serving.doors.bodies import Answered
    from serving.matrices.model import Engine


def _page(root: Path) -> str:
    from serving.matrices.page import page

    return page(root)


def _loader() -> Loader:
    from serving.matrices.model import LOADER

    return LOADER


def _shapes() -> tuple[type[BaseModel], type[BaseModel]]:
    from serving.matrices.schemas import MatricesAnswer, MatricesRequest

    return MatricesRequest, MatricesAnswer


def _answer(body: bytes, served: Engine) -> Answered:
    from serving.matrices.body import answer_matrices

    return answer_matrices(body, served)


def _recognised(source: Path) -> bool:
    from serving.matrices.source import recognised

    return recognised(source)


def _judge(source: Path, uri: str | None, wanted: Wanted, *, keep_going: bool) -> int:
    from serving.matrices.command import judge_matrices

    return judge_matrices(source, uri, wanted, keep_going=keep_going)


def _formats() -> Collection[str]:
    from data.matrices.formats import FORMATS

    return FORMATS


def _holds(kind: str, source: Path) -> bool:
    from data.matrices.formats import holds_matrices

    return holds_matrices(kind, source)


def _choice() -> Mapping[str, Any]:
    from serving.matrices.options import Only, Without

    return {"only": Only, "without": Without}


def _import(kind: str, sources: list[Path], directory: Path, **options: Any) -> Counts:
    from serving.matrices.command import imported

    return imported(kind, sources, directory, **options)


_MODEL = Registered("matrices", "Judges matrices.", _loader)
SUPPLY = ServingSupply(
    page=_page,
    importing=Importing("matrices", _import, _formats, _choice, _holds),
    judging=Judging("matrices", _judge, recognised=_recognised),
    models=(_MODEL,),
    doors=(
        Door(
            "/v1/matrices/judge",
            "judge_matrices",
            "Judge pairs of matrices: validity, group, verdict, and the raw metrics that drove it.",
            _shapes,
            _answer,
            32 * MEBIBYTE,
            _MODEL,
        ),
    ),
)
