"""Answers about matrices of raw metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.tables.formats import Format
from serving.matrices.commands import add
from serving.matrices.options import Only, Without
from serving.supply import MEBIBYTE, Counts, Door, Importing, Judging, Registered, ServingSupply, ShadowSupply

if TYPE_CHECKING:
    from serving.answering import Wanted


def _page(root: Path) -> str:
    from serving.matrices.page import page

    return page(root)


def _doors() -> Sequence[Door]:
    from serving.http.bodies import JSON
    from serving.matrices.body import answer_matrices, asked, given
    from serving.matrices.judge import LOADER
    from serving.matrices.schemas import MatricesAnswer, MatricesRequest

    return [
        Door(
            "/v1/matrices/judge",
            "judge_matrices",
            "Judge pairs of matrices: validity, group, verdict, and the raw metrics that drove it.",
            MatricesRequest,
            MatricesAnswer,
            {JSON: answer_matrices},
            32 * MEBIBYTE,
            _MODEL,
            LOADER,
            beside=ShadowSupply(given, asked),
        )
    ]


def _recognised(source: Path) -> bool:
    from serving.matrices.request import recognised

    return recognised(source)


def _judge(source: Path, uri: str | None, wanted: Wanted, *, keep_going: bool) -> int:
    from serving.matrices.command import judge_matrices

    return judge_matrices(source, uri, wanted, keep_going=keep_going)


def _formats() -> Mapping[str, Format[Any]]:
    from data.matrices.formats import FORMATS

    return FORMATS


def _import(kind: str, sources: list[Path], directory: Path, **options: Any) -> Counts:
    from serving.matrices.command import imported

    return imported(kind, sources, directory, **options)


_MODEL = Registered("matrices", "Judges matrices.")
SUPPLY = ServingSupply(
    page=_page,
    importing=Importing("matrices", _import, _formats, {"only": Only, "without": Without}),
    judging=Judging("matrices", _judge, recognised=_recognised),
    models=(_MODEL,),
    doors=_doors,
    commands=add,
)
