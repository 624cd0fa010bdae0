"""A request to judge comparisons becomes its answer, in JSON or in the XML of seed 000."""

from __future__ import annotations

from http import HTTPStatus

from data.errors import MalformedError
from data.tables.problems import Problems
from serving.comparisons import render
from serving.comparisons.judge import judge
from serving.comparisons.model import Judge
from serving.doors.bodies import NAME, NOTES, Answered, parse_json
from serving.doors.problems import RefusedError


def answer_json(body: bytes, served: Judge) -> Answered:
    """Judge the comparisons of a request.

    Raises
    ------
    RefusedError
        400 if the body is not JSON.
    InputError
        If it is not a request.
    """
    from data.comparisons.formats.comparison_json import tables_of

    judgement = judge(tables_of(parse_json(body), NAME), served)
    return Answered(render.as_json(judgement).encode(), judgement, vectors=judgement.vectors)


def answer_xml(body: bytes, served: Judge) -> Answered:
    """Judge the comparisons of figure 6.1, and fill in their ``result_status``; raises as `answer_json`."""
    from data.comparisons.formats.comparison_status import with_status
    from data.comparisons.formats.comparison_xml import tables_of

    problems = Problems()
    try:
        judgement = judge(tables_of(body, NAME, problems), served, notes=problems.notes)
        filled = with_status(body, judgement.statuses, NAME)
    except MalformedError as exc:
        raise RefusedError(HTTPStatus.BAD_REQUEST, str(exc)) from exc
    headers = {NOTES: "; ".join(judgement.notes)} if judgement.notes else {}
    return Answered(filled, judgement, "application/xml", headers, judgement.vectors)
