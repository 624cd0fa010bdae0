"""The body of a request, read and unpacked within a limit."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from typing import NoReturn

import zstandard
from anyio import to_thread
from fastapi import Request

from serving.doors.problems import RefusedError

#: Bytes that are unpacked at a time.
CHUNK = 2**16
#: The largest window of a body in zstd (RFC 9659).
WINDOW = 2**23
#: Into how many members (gzip) or frames (zstd) a body may fall.
PARTS = 100
#: zlib reads gzip with its header and checksum.
_GZIP = 31


async def body_of(request: Request, limit: int) -> bytes:
    """Read a body, and unpack it as its ``Content-Encoding`` says.

    Parameters
    ----------
    request : Request
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
    except (EOFError, zlib.error, zstandard.ZstdError) as exc:
        told = f"the body is not what its Content-Encoding says: {' '.join(str(exc).split())[:200]}"
        raise RefusedError(HTTPStatus.BAD_REQUEST, told) from exc


def _gzip(body: bytes, limit: int) -> bytes:
    return b"".join(_within(_members(body), limit))


def _members(body: bytes) -> Iterator[bytes]:
    unpacker, members = zlib.decompressobj(wbits=_GZIP), 1
    for start in range(0, len(body), CHUNK):
        rest, more = body[start : start + CHUNK], True
        while more:
            if rest and unpacker.eof:
                unpacker, members = zlib.decompressobj(wbits=_GZIP), _counted(members)
            chunk = unpacker.decompress(rest, CHUNK)
            yield chunk
            rest = unpacker.unused_data or unpacker.unconsumed_tail
            more = bool(rest) or len(chunk) == CHUNK
    _require_end(unpacker.eof)


def _zstd(body: bytes, limit: int) -> bytes:
    unpacker = zstandard.ZstdDecompressor(max_window_size=WINDOW)
    with unpacker.stream_reader(body, read_across_frames=True) as packed:
        # this holds little, but does not tell whether the end is there; what does, holds all at once
        for _ in _within(iter(partial(packed.read, CHUNK), b""), limit):
            pass
    chunks: list[bytes] = []
    frames = 0
    while body:
        frame, frames = unpacker.decompressobj(), _counted(frames)
        chunks.append(frame.decompress(body))
        _require_end(frame.eof)
        body = frame.unused_data
    return b"".join(chunks)


def _counted(parts: int) -> int:
    if parts == PARTS:
        raise EOFError(f"it has more than {PARTS} parts")
    return parts + 1


def _require_end(reached: bool) -> None:
    if not reached:
        raise EOFError("it ends too early")


def _within(chunks: Iterator[bytes], limit: int) -> Iterator[bytes]:
    """Yield chunks; RefusedError as soon as they have more bytes than `limit`."""
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > limit:
            _too_large(limit)
        yield chunk


_UNPACK: dict[str, Callable[[bytes, int], bytes]] = {"gzip": _gzip, "x-gzip": _gzip, "zstd": _zstd}
