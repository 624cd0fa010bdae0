"""What answers say of each comparison, and what another model says of it."""

from __future__ import annotations

import json

from data.tables.xml_stream import Document, WholeDocument
from serving.comparisons.body import answer_xml, judged_json
from serving.comparisons.model import Judge
from serving.http.bodies import JSON
from serving.supply import Opinion


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
