"""Request bodies become typed requests, and answers become bodies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from data.errors import InputError
from data.tables.files import json_content
from data.tables.given import said
from serving.doors.problems import RefusedError
from serving.pages.verdict_lines import Answer, VerdictLine

#: What stands for a file's name in the messages about a body.
NAME = "body"
JSON = "application/json"
#: Lists, objects and keys of one body of JSON.
MOST_PARTS = 1_000_000
#: The header with the notes on an answer that has no place for them.
NOTES = "Perfjudge-Notes"
Request = TypeVar("Request", bound=BaseModel)


class Countable(Protocol):
    """Verdicts of any family."""

    def count(self, answer: Answer) -> int:
        """Return how many there are of `answer`."""

    def first(self, most: int) -> Iterable[VerdictLine]:
        """Return the first of them, `most` at most, as lines of a table."""


@dataclass(frozen=True)
class Answered:
    """An answer, how it is sent, and the verdicts that it gives, if any.

    Attributes
    ----------
    content : bytes
    judged : Countable or None
    media_type : str
    headers : mapping
    vectors : ndarray of shape (n_questions, n_features) or None
        What the model was asked, in the order of the features that its card names.
    unlike : int
        How many of the questions are unlike what the model was trained on.
    """

    content: bytes
    judged: Countable | None = None
    media_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    vectors: NDArray[np.float64] | None = None
    unlike: int = 0

    @classmethod
    def of(cls, answer: BaseModel, judged: Countable | None = None) -> Answered:
        """Write an answer as JSON."""
        return cls(answer.model_dump_json().encode(), judged)


def request_of(body: bytes, kind: type[Request]) -> Request:
    """Return the request that a body holds.

    Raises
    ------
    RefusedError
        400 if the body is not JSON, 422 if it is not a request.
    """
    try:
        return kind.model_validate(parse_json(body))
    except ValidationError as exc:
        raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, said(exc, "the body")) from exc


def parse_json(body: bytes) -> Any:
    """Parse JSON as RFC 8259 has it: UTF-8 (a mark before it is skipped), no NaN or infinity, not too deep.

    No object may have a key twice.

    Raises
    ------
    RefusedError
        400 if the body is anything else, 413 as of `require_few_parts`.
    """
    require_few_parts(body)
    try:
        content = json_content(body.decode("utf-8-sig"))
        if b"\\ud" in body.lower():
            json.dumps(content, ensure_ascii=False).encode()
    except (RecursionError, ValueError) as exc:
        told = f"the body is not JSON: {_wrong(exc)}"
        raise RefusedError(HTTPStatus.BAD_REQUEST, told) from exc
    except InputError as exc:
        raise RefusedError(HTTPStatus.BAD_REQUEST, str(exc.within(NAME))) from exc
    return content


def require_few(body: bytes, marks: Iterable[bytes], most: int, what: str) -> None:
    """Raise a RefusedError with 413 if JSON holds more than `most` of `marks`, which stand for `what`.

    Parsing holds the interpreter, so that no other request is answered before its end.
    """
    if sum(map(body.count, marks)) > most:
        told = f"the body holds more than {most} {what}; send it in parts"
        raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, told)


def require_few_parts(body: bytes) -> None:
    """Raise a RefusedError with 413 if JSON holds more lists, objects and keys than `MOST_PARTS`."""
    require_few(body, (b"[", b"{", b":"), MOST_PARTS, "lists, objects and keys")


def _wrong(exc: RecursionError | ValueError) -> str:
    match exc:
        case RecursionError():
            return "nested too deeply"
        case UnicodeDecodeError():
            return f"byte {exc.start} is not UTF-8"
        case UnicodeEncodeError():
            return "a string holds half a surrogate pair"
    return str(exc)
