"""The body of a request, read and unpacked within a limit."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from gzip import BadGzipFile, GzipFile
from http import HTTPStatus
from io import BytesIO
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np
import zstandard
from anyio import to_thread
from fastapi import Request, Response
from fastapi.routing import APIRoute
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from data.errors import InputError
from data.tables.documents import said
from data.tables.files import json_content
from serving.http.schemas import RefusedError
from serving.reports.verdict_lines import Answer, VerdictLine

#: Bytes that are unpacked at a time.
CHUNK = 2**16
#: The largest window of a body in zstd (RFC 9659).
WINDOW = 2**23
#: Into how many members (gzip) or frames (zstd) a body may fall.
PARTS = 100
#: How a member of gzip begins.
_MAGIC = b"\x1f\x8b\x08"


async def body_of(request: Request, limit: int) -> bytes:
    """Read a body, and unpack it as its ``Content-Encoding`` says.

    Parameters
    ----------
    limit : int
        Bytes that it may have, packed and unpacked.

    Raises
    ------
    RefusedError
        413 as soon as more bytes are announced, have come or were unpacked; 415 if it is packed in another
        way than gzip or zstd; 400 if it is not whole.
    """
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    unpack = _UNPACK.get(encoding)
    if unpack is None and encoding != "identity":
        told = f"Content-Encoding {encoding[:100]!r}: expected gzip, zstd or identity"
        headers = {"accept-encoding": "gzip, zstd"}
        raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, told, headers)
    body = await _read(request, limit)
    return body if unpack is None else await to_thread.run_sync(_unpacked, unpack, body, limit)


def media_type_of(request: Request, expected: Collection[str]) -> str:
    """Return the type of a body; RefusedError with 415 if another one is expected."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in expected:
        told = f"Content-Type {media_type[:100]!r}: expected {' or '.join(expected)}"
        raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, told)
    return media_type


async def _read(request: Request, limit: int) -> bytes:
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            _too_large(limit)
        chunks.append(chunk)
    return b"".join(chunks)


def _too_large(limit: int) -> NoReturn:
    told = f"the body has more than {limit} bytes"
    raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, told, {"connection": "close"})


def _unpacked(unpack: Callable[[bytes, int], bytes], body: bytes, limit: int) -> bytes:
    try:
        return unpack(body, limit)
    except (EOFError, BadGzipFile, zlib.error, zstandard.ZstdError) as exc:
        told = f"the body is not what its Content-Encoding says: {' '.join(str(exc).split())[:200]}"
        raise RefusedError(HTTPStatus.BAD_REQUEST, told) from exc


def _gzip(body: bytes, limit: int) -> bytes:
    # a magic number may also occur by chance, in one of 17 million places
    if body.count(_MAGIC) > PARTS:
        raise EOFError(f"it has more than {PARTS} parts")
    with GzipFile(fileobj=BytesIO(body)) as packed:
        return b"".join(_within(iter(partial(packed.read, CHUNK), b""), limit))


def _zstd(body: bytes, limit: int) -> bytes:
    unpacker = zstandard.ZstdDecompressor(max_window_size=WINDOW)
    with unpacker.stream_reader(body, read_across_frames=True) as packed:
        # this holds little, but does not tell whether the end is there; what does, holds all at once
        for _ in _within(iter(partial(packed.read, CHUNK), b""), limit):
            pass
    chunks: list[bytes] = []
    while body:
        if len(chunks) == PARTS:
            raise EOFError(f"it has more than {PARTS} parts")
        frame = unpacker.decompressobj()
        chunks.append(frame.decompress(body))
        if not frame.eof:
            raise EOFError("it ends too early")
        body = frame.unused_data
    return b"".join(chunks)


def _within(chunks: Iterator[bytes], limit: int) -> Iterator[bytes]:
    """Yield chunks; RefusedError as soon as they have more bytes than `limit`."""
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > limit:
            _too_large(limit)
        yield chunk


_UNPACK: dict[str, Callable[[bytes, int], bytes]] = {"gzip": _gzip, "x-gzip": _gzip, "zstd": _zstd}


class BareRoute(APIRoute):
    """A route whose endpoint takes the request as it comes, and is described as any other."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the endpoint itself: it takes the request and has no parameters to resolve."""
        handler: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return handler


#: Replaces the file name in messages about a body.
NAME = "body"
JSON = "application/json"
#: Lists, objects and keys of one body of JSON.
MOST_PARTS = 1_000_000
#: The header with the notes on an answer that has no place for them.
NOTES = "Perfjudge-Notes"
TypedRequest = TypeVar("TypedRequest", bound=BaseModel)


class Countable(Protocol):
    """Verdicts of any family."""

    def count(self, answer: Answer) -> int:
        """Return how many there are of `answer`."""

    def first(self, most: int) -> Iterable[VerdictLine]:
        """Return the first of them, `most` at most, as lines of a table."""


@dataclass(frozen=True)
class Answered:
    """An answer, how it is sent, and its verdicts, if any.

    Attributes
    ----------
    vectors : ndarray of shape (n_questions, n_features) or None
        The model's input, columns in the order of the features in its card.
    unlike : int
        Number of inputs that are out of distribution.
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


def request_of(body: bytes, kind: type[TypedRequest]) -> TypedRequest:
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
    """Raise a RefusedError with 413 if a body has more than `most` occurrences of `marks`; `what` names them.

    Parsing holds the interpreter, so a large body would delay all other requests until its end.
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
