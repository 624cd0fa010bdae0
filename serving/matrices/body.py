"""A request to judge matrices becomes its answer."""

from __future__ import annotations

from dataclasses import dataclass

from data.matrices import formats as matrix_formats
from data.tables.problems import Problems
from serving.doors.json_bodies import request_of
from serving.matrices.json import answer
from serving.matrices.judge import Judged, judge
from serving.matrices.model import ServedEngine
from serving.matrices.request import tables_of
from serving.matrices.schemas import MatricesRequest


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
