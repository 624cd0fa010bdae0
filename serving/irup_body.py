"""A request for a profile becomes its answer."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from pydantic import ValidationError

from data.errors import InputError
from serving.bodies import parse_json
from serving.irup import Learning, learned, predicted
from serving.irup_inputs import asked, tables_of
from serving.irup_json import answer
from serving.irup_schemas import IrupRequest
from serving.problems import RefusedError
from training.prediction import Prediction

MEDIA_TYPE = "application/json"


def check_media_type(content_type: str) -> None:
    """Refuse anything but JSON.

    Raises
    ------
    RefusedError
        415.
    """
    given = content_type.partition(";")[0].strip().lower()
    if given != MEDIA_TYPE:
        problem = f"Content-Type {given[:100]!r}: expected {MEDIA_TYPE}"
        raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, problem)


def answer_irup(body: bytes, learning: Learning) -> bytes:
    """Profile the application of a request, and predict it on the machines that have no value of it.

    Raises
    ------
    RefusedError
        400 if the body is not JSON, 422 if it is not a request.
    InputError
        If too little is left of the machines, the stressors or the application.
    """
    question = asked(tables_of(_request(body)), learning.section)
    profile = learned(question.measured, learning)
    predictions: Sequence[Prediction] = ()
    warnings = list(question.warnings)
    try:
        predictions = predicted(question, learning)
    except InputError as exc:
        warnings.append(f"nothing is predicted: {exc}")
    return answer(profile, predictions, warnings).model_dump_json().encode()


def _request(body: bytes) -> IrupRequest:
    try:
        return IrupRequest.model_validate(parse_json(body))
    except ValidationError as exc:
        raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, said(exc)) from exc


def said(exc: ValidationError) -> str:
    """Tell the first thing that is wrong with a request: place, value and what was expected."""
    first = exc.errors(include_url=False, include_context=False)[0]
    place = ".".join(str(part)[:100] for part in first["loc"] if not _of_union(part))
    return f"{place or 'the body'}={_short(first['input'])}: {first['msg']}"


def _of_union(part: int | str) -> bool:
    """Tell whether a part of the place names one of several allowed types."""
    return isinstance(part, str) and part.startswith(("constrained-", "list["))


def _short(value: object) -> str:
    """Quote a number or a word; anything larger is only named."""
    if isinstance(value, (str, int, float, type(None))):
        return repr(str(value)[:100] if isinstance(value, str) else value)[:110]
    return "a list" if isinstance(value, list) else "an object"
