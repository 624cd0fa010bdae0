"""Bodies of requests, read and unpacked within limits, and bodies of answers."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from gzip import BadGzipFile, GzipFile
from http import HTTPStatus
from importlib.util import find_spec
from io import BytesIO
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np
from anyio import to_thread
from fastapi import Request, Response
from fastapi.routing import APIRoute
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from data.errors import InputError, ModelError
from data.tables.documents import validation_message
from data.tables.files import json_content, line_of_constant
from serving.http.schemas import RefusedError
from serving.reports.verdict_lines import Answer, VerdictLine

#: Number of bytes that are unpacked at a time.
CHUNK = 2**16
#: Maximum window of a body in zstd (RFC 9659).
WINDOW = 2**23
#: Maximum number of members (gzip) or frames (zstd) of a body.
PARTS = 100
#: Magic number of a gzip member.
_MAGIC = b"\x1f\x8b\x08"


async def body_of(request: Request, limit: int) -> bytes:
    """Return the body of a request, unpacked according to its ``Content-Encoding``.

    RefusedError with 413 as soon as more than `limit` bytes are announced, received or unpacked; 415 if the
    encoding is not gzip, x-gzip, zstd (if zstandard is installed) or identity; 400 if a packed body is
    incomplete, does not have this encoding or has more than 100 parts (members or frames). starlette's
    ClientDisconnect if the client closes the connection.
    """
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    unpack = _UNPACK.get(encoding)
    if unpack is None and encoding != "identity":
        known = ", ".join(name for name in _UNPACK if not name.startswith("x-"))
        problem = f"Content-Encoding {encoding[:100]!r}: expected {known} or identity"
        raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, problem, {"accept-encoding": known})
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        _refuse_size(limit)
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            _refuse_size(limit)
        chunks.append(chunk)
    body = b"".join(chunks)
    if unpack is None:
        return body
    try:
        return await to_thread.run_sync(unpack, body, limit)
    except (EOFError, BadGzipFile, zlib.error) as exc:
        reason = "no gzip, or damaged" if isinstance(exc, BadGzipFile) else " ".join(str(exc).split())[:200]
        problem = f"the body is not what its Content-Encoding says: {reason}"
        raise RefusedError(HTTPStatus.BAD_REQUEST, problem) from exc


def media_type_of(request: Request, expected: Collection[str]) -> str:
    """Return a body's media type in lower case, without parameters; RefusedError (415) if not `expected`."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in expected:
        problem = f"Content-Type {media_type[:100]!r}: expected {' or '.join(expected)}"
        raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, problem)
    return media_type


def _refuse_size(limit: int) -> NoReturn:
    problem, headers = f"the body has more than {limit} bytes", {"connection": "close"}
    raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, problem, headers)


def _unpack_gzip(body: bytes, limit: int) -> bytes:
    # a magic number may also occur by chance, in one of 17 million places
    if body.count(_MAGIC) > PARTS:
        raise EOFError(f"it has more than {PARTS} parts")
    with GzipFile(fileobj=BytesIO(body)) as packed:
        return b"".join(_limit_size(iter(partial(packed.read, CHUNK), b""), limit))


def _unpack_zstd(body: bytes, limit: int) -> bytes:
    import zstandard

    unpacker, frames = zstandard.ZstdDecompressor(max_window_size=WINDOW), list[bytes]()
    try:
        with unpacker.stream_reader(body, read_across_frames=True) as packed:
            # a stream reader uses little memory, but does not report a truncated body; the second pass does
            for _ in _limit_size(iter(partial(packed.read, CHUNK), b""), limit):
                pass
        while body:
            if len(frames) == PARTS:
                raise EOFError(f"it has more than {PARTS} parts")
            frame = unpacker.decompressobj()
            frames.append(frame.decompress(body))
            if not frame.eof:
                raise EOFError("it ends too early")
            body = frame.unused_data
    except zstandard.ZstdError as exc:
        raise EOFError(str(exc)) from exc
    return b"".join(frames)


def _limit_size(chunks: Iterator[bytes], limit: int) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > limit:
            _refuse_size(limit)
        yield chunk


_UNPACK = {"gzip": _unpack_gzip, "x-gzip": _unpack_gzip}
if find_spec("zstandard"):
    _UNPACK["zstd"] = _unpack_zstd


class BareRoute(APIRoute):
    """A route whose endpoint gets the request itself, without FastAPI's parsing of parameters and body."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the endpoint itself: it takes the request and has no parameters to resolve."""
        return self.endpoint


#: Replaces the file name in messages about a body.
NAME = "body"
JSON = "application/json"
#: Maximum number of lists, objects and keys in a JSON body.
MOST_PARTS = 1_000_000
#: The header with notes, for answers whose format has no field for them.
NOTES = "Perfjudge-Notes"
T = TypeVar("T")
TypedRequest = TypeVar("TypedRequest", bound=BaseModel)


class Countable(Protocol):
    """Verdicts of any family."""

    def count_verdicts(self, answer: Answer) -> int:
        """Return the number of verdicts that are `answer`."""

    def first_lines(self, max_lines: int) -> Iterable[VerdictLine]:
        """Return the first verdicts, at most `max_lines`, as lines of a table."""


@dataclass(frozen=True)
class Answered:
    """An answer, its media type and headers, and its verdicts, if any.

    ``vectors``, shape (n_inputs, n_features), are the model's inputs in the order of the features in its
    card; ``n_out_of_distribution`` is the number of inputs that are out of distribution.
    """

    content: bytes
    judged: Countable | None = None
    media_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    vectors: NDArray[np.float64] | None = None
    n_out_of_distribution: int = 0

    @classmethod
    def from_schema(cls, answer: BaseModel, judged: Countable | None = None) -> Answered:
        """Return an answer with `answer` as JSON; `judged` are the verdicts to count, if any."""
        return cls(answer.model_dump_json().encode(), judged)


def result_or_error(compute: Callable[[], T]) -> T | Exception:
    """Return the result of `compute`, or the RefusedError, InputError or ModelError that it raises."""
    try:
        return compute()
    except (RefusedError, InputError, ModelError) as exc:
        return exc


def request_of(body: bytes, kind: type[TypedRequest]) -> TypedRequest:
    """Return a JSON body as a `kind`; RefusedError as in `parse_json`, and with 422 if it is invalid."""
    try:
        return kind.model_validate(parse_json(body))
    except ValidationError as exc:
        problem = InputError(validation_message(exc, "the request"), file=NAME)
        raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, str(problem)) from exc


def parse_json(body: bytes) -> Any:
    """Return the content of strict JSON (RFC 8259): UTF-8, optionally with BOM, no NaN, no repeated keys.

    A number such as 1e999 becomes infinite. RefusedError with 400 if the body is not such JSON, is nested too
    deeply, or has an integer of more than 4,300 digits or half of a surrogate pair; with 413 as in
    `limit_json_parts`.
    """
    limit_json_parts(body)
    if not body.strip():
        raise RefusedError(HTTPStatus.BAD_REQUEST, "the body is empty; expected JSON")
    try:
        content = json_content(body.decode("utf-8-sig"))
        if b"\\ud" in body.lower():
            json.dumps(content, ensure_ascii=False).encode()
    except RecursionError as exc:
        raise RefusedError(HTTPStatus.BAD_REQUEST, "the body is not JSON: nested too deeply") from exc
    except ValueError as exc:
        problem = str(exc)
        if isinstance(exc, UnicodeDecodeError):
            problem = f"byte {exc.start} is not UTF-8"
        elif isinstance(exc, UnicodeEncodeError):
            problem = "a string holds half a surrogate pair"
        line = line_of_constant(body, exc)
        place = "" if line is None else f" (line {line})"
        raise RefusedError(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {problem}{place}") from exc
    except InputError as exc:
        raise RefusedError(HTTPStatus.BAD_REQUEST, str(exc.with_file(NAME))) from exc
    return content


def limit_occurrences(body: bytes, marks: Iterable[bytes], max_count: int, what: str) -> None:
    """Raise a RefusedError with 413 if the `marks` (in words: `what`) occur more than `max_count` times.

    Parsing holds the interpreter, so a large body would delay all other requests until it is parsed.
    """
    if sum(map(body.count, marks)) > max_count:
        problem = f"the body holds more than {max_count} {what}; send it in parts"
        raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, problem)


def limit_json_parts(body: bytes) -> None:
    """Raise a RefusedError with 413 if JSON holds more than 1,000,000 of ``[``, ``{`` and ``:`` in all."""
    limit_occurrences(body, (b"[", b"{", b":"), MOST_PARTS, "lists, objects and keys")
