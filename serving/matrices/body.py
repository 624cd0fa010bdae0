"""A request to judge matrices becomes its answer."""

from __future__ import annotations

from data.matrices import formats as matrix_formats
from data.tables.problems import Problems
from serving.doors.bodies import NAME, Answered, request_of
from serving.matrices.judge import judge
from serving.matrices.model import Engine
from serving.matrices.request import tables_of
from serving.matrices.schemas import MatricesRequest


def answer_matrices(body: bytes, served: Engine) -> Answered:
    """Judge the pairs of a request.

    Raises
    ------
    RefusedError
        400 if the body is not JSON, 422 if it is not a request.
    InputError
        If the pairs cannot be used as they stand.
    """
    tables = tables_of(request_of(body, MatricesRequest))
    found = judge(matrix_formats.asked(tables, NAME, Problems()).tables, served)
    return Answered.of(found, found)
