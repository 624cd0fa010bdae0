"""Request bodies become answers, by content type."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NoReturn

from data.errors import MalformedError
from data.tables.problems import Problems
from serving.comparisons import render
from serving.comparisons.judge import Judgement, judge
from serving.comparisons.model import Served
from serving.doors.problems import RefusedError

#: What stands for a file's name in the messages about a body.
NAME = "body"
#: The header with the notes on XML, which has no place for them.
NOTES = "Perfjudge-Notes"


@dataclass(frozen=True)
class Answered:
    """A judgement and how it is sent."""

    judgement: Judgement
    content: bytes
    media_type: str
    headers: Mapping[str, str] = field(default_factory=dict)


Answer = Callable[[bytes, Served], Answered]


def answer_for(content_type: str) -> Answer:
    """Return what answers a body of this ``Content-Type``.

    Raises
    ------
    RefusedError
        415 if there is none.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type not in _ANSWERS:
        raise RefusedError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"Content-Type {media_type[:100]!r}: expected one of {', '.join(_ANSWERS)}",
        )
    return _ANSWERS[media_type]


def parse_json(body: bytes) -> Any:
    """Parse JSON as RFC 8259 has it: UTF-8 (a mark before it is skipped), no NaN or infinity, not too deep.

    Raises
    ------
    RefusedError
        400 if the body is anything else.
    """
    try:
        content = json.loads(body.decode("utf-8-sig"), parse_constant=_not_json)
        if b"\\ud" in body.lower():
            json.dumps(content, ensure_ascii=False).encode()
    except UnicodeDecodeError as exc:
        raise _malformed(f"byte {exc.start} is not UTF-8") from exc
    except UnicodeEncodeError as exc:
        raise _malformed("a string holds half a surrogate pair") from exc
    except RecursionError as exc:
        raise _malformed("nested too deeply") from exc
    except ValueError as exc:
        raise _malformed(str(exc)) from exc
    return content


def _answer_json(body: bytes, served: Served) -> Answered:
    from data.comparisons.formats.comparison_json import tables_of

    judgement = judge(tables_of(parse_json(body), NAME), served)
    return Answered(judgement, render.as_json(judgement).encode(), "application/json")


def _answer_xml(body: bytes, served: Served) -> Answered:
    from data.comparisons.formats.comparison_status import with_status
    from data.comparisons.formats.comparison_xml import tables_of

    problems = Problems()
    try:
        judgement = judge(tables_of(body, NAME, problems), served, notes=problems.notes)
        filled = with_status(body, judgement.statuses, NAME)
    except MalformedError as exc:
        raise RefusedError(HTTPStatus.BAD_REQUEST, str(exc)) from exc
    headers = {NOTES: "; ".join(judgement.notes)} if judgement.notes else {}
    return Answered(judgement, filled, "application/xml", headers)


def _not_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _malformed(why: str) -> RefusedError:
    return RefusedError(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {why}")


_ANSWERS: dict[str, Answer] = {
    "application/json": _answer_json,
    "application/xml": _answer_xml,
    "text/xml": _answer_xml,
}
