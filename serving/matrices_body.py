"""A request to judge matrices becomes its answer."""

from __future__ import annotations

from dataclasses import dataclass

from data import matrix_formats
from data.reading import Problems
from serving.json_bodies import request_of
from serving.matrices_json import answer
from serving.matrices_judge import Judged, judge
from serving.matrices_model import ServedEngine
from serving.matrices_request import tables_of
from serving.matrices_schemas import MatricesRequest


@dataclass(frozen=True)
class AnsweredMatrices:
    """Verdicts, and the JSON that tells them."""

    judged: Judged
    content: bytes


def answer_matrices(body: bytes, served: ServedEngine) -> AnsweredMatrices:
    """Judge the pairs of a request.

    Raises
    ------
    RefusedError
        400 if the body is not JSON, 422 if it is not a request.
    InputError
        If the pairs cannot be used as they stand.
    """
    tables = tables_of(request_of(body, MatricesRequest))
    found = judge(matrix_formats.asked(tables, "body", Problems()).tables, served)
    return AnsweredMatrices(found, answer(found).model_dump_json().encode())
