"""Answers about comparisons of two results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.tables.formats import Format
from serving.comparisons.commands import SERVING, Assumed, Floor, From, Retrospective, add
from serving.comparisons.promises import OPTIONS, FailOnUnsure
from serving.supply import (
    MEBIBYTE,
    Counts,
    Door,
    Importing,
    Judging,
    Options,
    Pages,
    Registered,
    ServingSupply,
    ShadowSupply,
)

if TYPE_CHECKING:
    from fastapi import FastAPI

    from serving.answering import Wanted


def _page(root: Path) -> str:
    from serving.comparisons.page import page

    return page(root)


def _doors() -> Sequence[Door]:
    from data.comparisons.request import JudgeRequest
    from serving.comparisons.body import answer_json, answer_many, answer_xml
    from serving.comparisons.endpoints import LOADER, asked, given
    from serving.comparisons.schemas import JudgeAnswer
    from serving.comparisons.xml.report import xml_schema
    from serving.http.bodies import JSON

    return [
        Door(
            "/v1/comparisons/judge",
            "judge_comparisons",
            "Judge comparisons: JSON is answered in JSON, XML with ``result_status``, ``verdict`` filled in.",
            JudgeRequest,
            JudgeAnswer,
            {JSON: answer_json, "application/xml": answer_xml, "text/xml": answer_xml},
            64 * MEBIBYTE,
            _MODEL,
            LOADER,
            described=xml_schema(),
            told=xml_schema(answered=True),
            together=answer_many,
            refusals=(409,),
            beside=ShadowSupply(given, asked),
        )
    ]


def _judge(source: Path, uri: str | None, wanted: Wanted, *, keep_going: bool, **options: Any) -> int:
    from serving.comparisons.command import judge_source

    return judge_source(source, uri, wanted, keep_going=keep_going, **options)


def _formats() -> Mapping[str, Format[Any]]:
    from data.comparisons.formats import FORMATS

    return FORMATS


def _import(kind: str, sources: list[Path], directory: Path, **options: Any) -> Counts:
    from serving.comparisons.command import imported

    return imported(kind, sources, directory, **options)


def _labels() -> Mapping[str, int]:
    from serving.comparisons.labels.command import counts

    return counts()


def _add_pages(app: FastAPI) -> None:
    from serving.comparisons.labelling import pages
    from serving.comparisons.labels import endpoints

    endpoints.install(app)
    pages.install(app)


def _begun(options: Options) -> Options:
    from serving.comparisons.labels.endpoints import begun

    return begun(options)


def _unseen(app: FastAPI) -> int | None:
    from serving.comparisons.labels.endpoints import unseen

    return unseen(app.state.labels)


def _words(root: Path, comparisons: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    from serving.comparisons.mistakes import told_of

    return told_of(root, comparisons)


_MODEL = Registered("model", "Judges comparisons.", {"floor": Floor, **OPTIONS})
SUPPLY = ServingSupply(
    page=_page,
    importing=Importing("comparisons", _import, _formats, {"better": Assumed}),
    judging=Judging(
        "comparisons",
        _judge,
        {
            "better": Assumed,
            "from_": From,
            "floor": Floor,
            **OPTIONS,
            "fail_on_unsure": FailOnUnsure,
            "retrospective": Retrospective,
        },
    ),
    models=(_MODEL,),
    doors=_doors,
    pages=Pages(_add_pages, SERVING, _begun, _unseen),
    commands=add,
    labels=_labels,
    words=_words,
)
