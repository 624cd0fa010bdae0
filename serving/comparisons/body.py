"""A request to judge comparisons becomes its answer, in JSON or in the XML of seed 000."""

from __future__ import annotations

from http import HTTPStatus

from data.errors import InputError, MalformedError, RepeatedError
from data.tables.problems import Problems
from serving.comparisons import render
from serving.comparisons.judge import judge
from serving.comparisons.model import Judge
from serving.doors.bodies import NAME, NOTES, Answered, parse_json
from serving.doors.problems import RefusedError


class _Repeated(Problems):
    """Keeps what stands twice, as that cannot be judged but is well-formed; raises all else."""

    def add(self, error: InputError) -> None:
        if not isinstance(error, RepeatedError):
            raise error
        self.skipped.append(error)


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
    return Answered(render.as_json(judgement).encode(), judgement)


def answer_xml(body: bytes, served: Judge) -> Answered:
    """Judge the comparisons of figure 6.1, and fill in their ``result_status``; raises as `answer_json`."""
    from data.comparisons.formats.comparison_status import with_status
    from data.comparisons.formats.comparison_xml import tables_of

    problems = _Repeated()
    try:
        tables = tables_of(body, NAME, problems)
        if problems.skipped:
            told = "what stands twice in the body, or has a number of threads twice, is invalid"
            problems.note(f"{told} ({len(problems.skipped)})")
        judgement = judge(tables, served, notes=problems.notes)
        filled = with_status(body, judgement.statuses, NAME, "invalid")
    except MalformedError as exc:
        raise RefusedError(HTTPStatus.BAD_REQUEST, str(exc)) from exc
    headers = {NOTES: "; ".join(judgement.notes)} if judgement.notes else {}
    return Answered(filled, judgement, "application/xml", headers)
