"""What answers say of each comparison, and what another model says of it."""

from __future__ import annotations

import json
from typing import Any

from data.comparisons.request import EXAMPLE
from data.tables.xml_stream import Document, WholeDocument
from serving.comparisons.body import answer_json, answer_xml, judged_json
from serving.comparisons.model import Judge, load, registered, retrospective
from serving.comparisons.promises import decided_answer, promise_answer
from serving.comparisons.schemas import ServedJudge
from serving.http.bodies import JSON
from serving.supply import Loader, Opinion


def given(media_type: str, content: bytes) -> list[Opinion]:
    """Return what an answer says of each comparison, in its order."""
    return _of_json(content) if media_type == JSON else _of_xml(content)


def asked(media_type: str, body: bytes, served: Judge) -> list[Opinion]:
    """Return what a model says of each comparison of a body.

    Reasons are not looked for, which take most of the time. Raises as `serving.comparisons.body.answer_json`.
    """
    if media_type != JSON:
        return _of_xml(answer_xml(body, served).content)
    return [
        Opinion(one.comparison_id, f"{one.benchmark} {one.operation}", one.verdict, one.probability)
        for one in judged_json(body, served).told()
    ]


def _of_json(content: bytes) -> list[Opinion]:
    return [
        Opinion(
            one["comparison_id"], f"{one['benchmark']} {one['operation']}", one["verdict"], one["probability"]
        )
        for one in json.loads(content)["verdicts"]
    ]


def _of_xml(content: bytes) -> list[Opinion]:
    found = []
    for one in WholeDocument(Document.of_bytes(content, "answer")).root.iter("comparison_result"):
        about = f"{one.get('benchmark_name', '')} {one.get('operation_name', '')}"
        verdict, probability = one.get("result_status", ""), one.find("verdict")
        told = None if probability is None else probability.get("probability")
        case = one.get("comparison_id") or about
        found.append(Opinion(case, about, verdict, None if told is None else float(told)))
    return found


def _told(served: Judge) -> dict[str, Any]:
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


def _trial(served: Judge) -> None:
    """Ask what the first question would otherwise wait for; ValueError if the answer is no probability."""
    answer_json(json.dumps(EXAMPLE).encode(), served)
    (probability,) = served.model.probability(served.model.reference[None])
    if not 0 <= probability <= 1:
        raise ValueError(f"probability of {probability}")


LOADER = Loader(registered, load, _told, ServedJudge, trial=_trial, others=lambda: (retrospective(),))
