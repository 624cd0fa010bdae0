"""A request to judge comparisons becomes its answer, in JSON or in the XML of seed 000."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import TypeVar

from data.comparisons.posted import named_sides
from data.comparisons.request import AskedCosts, JudgeRequest, read_request
from data.errors import InputError, MalformedError, ModelError, RepeatedError
from data.tables.problems import Problems
from serving.comparisons import render
from serving.comparisons.judge import Judgement, judge, judged
from serving.comparisons.model import Judge, wishing
from serving.comparisons.xml.report import verdicts_written
from serving.http.bodies import NAME, NOTES, Answered, parse_json, require_few, require_few_parts
from serving.http.schemas import RefusedError

#: Values of a request that is wrong, or right in an unusual way: finding out takes a second for as many.
MOST_VALUES = 500_000
_UNUSUAL = (
    "values, and not all are as in most requests (a mistake, labels, numbers of threads with a decimal "
    "point, a byte order mark)"
)
Decoded = TypeVar("Decoded")


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
    return _answered(judged_json(body, served))


def judged_json(body: bytes, served: Judge) -> Judgement:
    """Judge the comparisons of a request, and say nothing yet; raises as `answer_json`."""
    return _judged(_request(body), served)


def answer_many(bodies: Sequence[bytes], served: Judge) -> list[Answered | Exception]:
    """Judge the comparisons of several requests at once.

    Returns
    -------
    list
        For each request what `answer_json` returns or raises.
    """
    requests = [_or_refusal(partial(_request, body)) for body in bodies]
    # a request that decides for itself is judged alone
    together = [one for one in requests if not isinstance(one, Exception) and not _wishes(one)]
    try:
        judgement = judged(named_sides([one for some in together for one in some.comparisons]), served)
    except ModelError:
        # comparisons that the model cannot judge must not fail the other requests
        return [
            one if isinstance(one, Exception) else _or_refusal(partial(_answer, one, served))
            for one in requests
        ]
    answers = map(_answered, judgement.parts([len(one.comparisons) for one in together]))
    return [
        one
        if isinstance(one, Exception)
        else _or_refusal(partial(_answer, one, served))
        if _wishes(one)
        else next(answers)
        for one in requests
    ]


def _answer(request: JudgeRequest, served: Judge) -> Answered:
    return _answered(_judged(request, served))


def _judged(request: JudgeRequest, served: Judge) -> Judgement:
    return judged(named_sides(request.comparisons), _deciding(request, served))


def _wishes(request: JudgeRequest) -> bool:
    """Tell whether a request says what its verdicts are to keep."""
    return (request.missed, request.false_alarms, request.costs) != (None, None, None)


def _deciding(request: JudgeRequest, served: Judge) -> Judge:
    """Return the model, deciding as the request wants it."""
    asked = request.costs
    costs = None if asked is None else {name: getattr(asked, name) for name in AskedCosts.model_fields}
    try:
        return wishing(served, request.missed, request.false_alarms, costs)
    except InputError as exc:
        raise RefusedError(HTTPStatus.CONFLICT, str(exc)) from exc


def _or_refusal(found: Callable[[], Decoded]) -> Decoded | Exception:
    try:
        return found()
    except (RefusedError, InputError, ModelError) as exc:
        return exc


def _request(body: bytes) -> JudgeRequest:
    """Return a request; one that may be wrong is read again, to say what is wrong with it."""
    require_few_parts(body)
    found = read_request(body)
    if found is None:
        from data.comparisons.formats.comparison_json import checked_request

        require_few(body, (b",",), MOST_VALUES, _UNUSUAL)
        found = checked_request(parse_json(body), NAME)
    return found


def _answered(judgement: Judgement) -> Answered:
    content = render.as_json(judgement, flipped=len(judgement) <= render.FLIPPED)
    return Answered(
        content.encode(), judgement, vectors=judgement.asked, unlike=int(judgement.strange().sum())
    )


def answer_xml(body: bytes, served: Judge) -> Answered:
    """Judge the comparisons of figure 6.1, and fill in what is said of them; raises as `answer_json`."""
    from data.comparisons.formats.comparison_xml import tables_of, with_status

    problems = _Repeated()
    try:
        tables = tables_of(body, NAME, problems)
        if problems.skipped:
            told = "what stands twice in the body, or has a number of threads twice, is invalid"
            problems.note(f"{told} ({len(problems.skipped)})")
        judgement = judge(tables, served, notes=problems.notes)
        flipped = len(judgement) <= render.FLIPPED
        if not flipped:
            problems.note(render.UNFLIPPED)
        written = verdicts_written(judgement, flipped=flipped)
        filled = with_status(body, judgement.statuses, NAME, "invalid", written)
    except MalformedError as exc:
        raise RefusedError(HTTPStatus.BAD_REQUEST, str(exc)) from exc
    headers = {NOTES: "; ".join(judgement.notes)} if judgement.notes else {}
    unlike = int(judgement.strange().sum())
    return Answered(filled, judgement, "application/xml", headers, judgement.asked, unlike)
