"""The endpoint that judges comparisons: its model, and its answers in shadow mode."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from data.comparisons.request import EXAMPLE, JudgeRequest
from data.tables.xml_stream import Document, WholeDocument
from serving.comparisons import MODEL
from serving.comparisons.body import answer_json, answer_many, answer_xml, judged_json
from serving.comparisons.model import Judge, load, registered, retrospective
from serving.comparisons.promises import decided_answer, promise_answer
from serving.comparisons.schemas import JudgeAnswer, ServedJudge
from serving.comparisons.xml.report import xml_schema
from serving.http.bodies import JSON
from serving.supply import MEBIBYTE, Endpoint, Loader, Opinion, ShadowSupply


def doors() -> Sequence[Endpoint]:
    """Return the endpoint ``/v1/comparisons/judge``."""
    return [
        Endpoint(
            "/v1/comparisons/judge",
            "judge_comparisons",
            "Judge comparisons: JSON is answered in JSON, XML with ``result_status``, ``verdict`` filled in.",
            JudgeRequest,
            JudgeAnswer,
            {JSON: answer_json, "application/xml": answer_xml, "text/xml": answer_xml},
            64 * MEBIBYTE,
            MODEL,
            LOADER,
            described=xml_schema(),
            told=xml_schema(answered=True),
            together=answer_many,
            refusals=(409,),
            beside=ShadowSupply(_champion_opinions, _challenger_opinions),
        )
    ]


def _champion_opinions(media_type: str, content: bytes) -> list[Opinion]:
    if media_type != JSON:
        return _xml_opinions(content)
    return [
        Opinion(
            one["comparison_id"], f"{one['benchmark']} {one['operation']}", one["verdict"], one["probability"]
        )
        for one in json.loads(content)["verdicts"]
    ]


def _challenger_opinions(media_type: str, body: bytes, served: Judge) -> list[Opinion]:
    """Judge a body without reasons, which take most of the time."""
    if media_type != JSON:
        return _xml_opinions(answer_xml(body, served).content)
    return [
        Opinion(one.comparison_id, f"{one.benchmark} {one.operation}", one.verdict, one.probability)
        for one in judged_json(body, served).told()
    ]


def _xml_opinions(content: bytes) -> list[Opinion]:
    opinions = []
    for one in WholeDocument(Document.of_bytes(content, "answer")).root.iter("comparison_result"):
        about = f"{one.get('benchmark_name', '')} {one.get('operation_name', '')}"
        verdict = one.find("verdict")
        probability = None if verdict is None else verdict.get("probability")
        opinions.append(
            Opinion(
                one.get("comparison_id") or about,
                about,
                one.get("result_status", ""),
                None if probability is None else float(probability),
            )
        )
    return opinions


def _card_answer(served: Judge) -> dict[str, Any]:
    card = served.model.card
    return {
        "contribution_unit": served.model.unit,
        "estimator": card.model,
        "threshold": card.deciding.high,
        "unsure_from": card.deciding.low,
        "floor": card.floor,
        "set": card.set,
        "decided": decided_answer(card),
        "promise": None if card.promise is None else promise_answer(card.promise),
        "features": card.features,
        "data_digest": card.data_digest,
    }


def _require_probability(served: Judge) -> None:
    """Judge an example once, so that no request waits for it; ValueError if the answer is no probability."""
    answer_json(json.dumps(EXAMPLE).encode(), served)
    (probability,) = served.model.probability(served.model.reference[None])
    if not 0 <= probability <= 1:
        raise ValueError(f"probability of {probability}")


LOADER = Loader(
    registered,
    load,
    _card_answer,
    ServedJudge,
    trial=_require_probability,
    others=lambda: (retrospective(),),
)
