"""A request to judge comparisons becomes its answer, in JSON or in the XML of seed 000."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from data.comparisons import posted
from data.comparisons.posted import NamedSides, PostedComparison
from data.errors import InputError, MalformedError, ModelError, RepeatedError
from data.tables.problems import Problems
from serving.comparisons import render
from serving.comparisons.judge import Judgement, judge, judged
from serving.comparisons.model import Judge, wishing
from serving.comparisons.xml.verdict import verdicts_written
from serving.doors.bodies import NAME, NOTES, Answered, parse_json
from serving.doors.problems import RefusedError

#: As they stand in a request.
_WISHED = (b'"missed"', b'"false_alarms"', b'"costs"')


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
    comparisons = _comparisons(body)
    return judged(NamedSides.posted(comparisons), _deciding(body, served))


def answer_many(bodies: Sequence[bytes], served: Judge) -> list[Answered | Exception]:
    """Judge the comparisons of several requests at once.

    Returns
    -------
    list
        For each request what `answer_json` returns or raises.
    """
    if any(map(_wishes, bodies)):
        return [_alone(body, served) for body in bodies]
    read = [_read(body) for body in bodies]
    right = [comparisons for comparisons in read if not isinstance(comparisons, Exception)]
    try:
        judgement = judged(NamedSides.posted([one for comparisons in right for one in comparisons]), served)
    except ModelError:
        # what the model cannot answer is not to fail the requests beside it
        return [_alone(body, served) for body in bodies]
    answers = map(_answered, judgement.parts([len(comparisons) for comparisons in right]))
    return [found if isinstance(found, Exception) else next(answers) for found in read]


def _wishes(body: bytes) -> bool:
    """Tell whether a request may say what its verdicts are to keep."""
    return any(key in body for key in _WISHED)


def _deciding(body: bytes, served: Judge) -> Judge:
    """Return the model, deciding as a request that was found right wants it."""
    if not _wishes(body):
        return served
    content = parse_json(body)
    try:
        return wishing(served, *(content.get(key.decode().strip('"')) for key in _WISHED))
    except InputError as exc:
        raise RefusedError(HTTPStatus.CONFLICT, str(exc)) from exc


def _alone(body: bytes, served: Judge) -> Answered | Exception:
    try:
        return answer_json(body, served)
    except (RefusedError, InputError, ModelError) as exc:
        return exc


def _read(body: bytes) -> list[PostedComparison] | Exception:
    try:
        return _comparisons(body)
    except (RefusedError, InputError) as exc:
        return exc


def _comparisons(body: bytes) -> list[PostedComparison]:
    """Return what is asked; what is not right at first sight is read again, to say what is wrong with it."""
    found = posted.read(body)
    if found is None:
        from data.comparisons.formats.comparison_json import checked

        content = parse_json(body)
        found = [posted.posted(one) for _, one in checked(content, NAME, Problems(), None)]
    return found


def _answered(judgement: Judgement) -> Answered:
    content = render.as_json(judgement, flipped=len(judgement) <= render.FLIPPED)
    return Answered(
        content.encode(), judgement, vectors=judgement.asked, unlike=int(judgement.strange().sum())
    )


def answer_xml(body: bytes, served: Judge) -> Answered:
    """Judge the comparisons of figure 6.1, and fill in what is said of them; raises as `answer_json`."""
    from data.comparisons.formats.comparison_status import with_status
    from data.comparisons.formats.comparison_xml import tables_of

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
