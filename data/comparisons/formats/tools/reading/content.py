"""The bytes of a tool's file: bounded, without a byte order mark, and typed JSON out of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar
from warnings import catch_warnings, simplefilter

import msgspec
import pandas as pd

from data.errors import InputError, MalformedError
from data.tables.cells import cells
from data.tables.unique_keys import require_unique_keys

T = TypeVar("T")
#: A file that is larger, in bytes, is to be divided by who measures.
MOST = 2**30
_MARK = b"\xef\xbb\xbf"
#: What Python writes for floats that JSON has no words for.
_NO_JSON = re.compile(rb"(?<=[\[,:\s])(?:NaN|-?Infinity)(?=[\],}\s])")
_QUOTED = 200
#: Letters of a header that are looked at.
_HEADER = 10_000


def bytes_of(path: Path) -> bytes:
    """Return what a file holds.

    Raises
    ------
    InputError
        If it cannot be read, is empty or too large.
    """
    try:
        size = path.stat().st_size
        if size > MOST:
            raise InputError(f"has {size >> 20} MB; up to {MOST >> 20} MB are read at once", file=path)
        content = path.read_bytes()
    except OSError as exc:
        raise InputError(exc.strerror or "cannot be read", file=path) from exc
    if not content.strip():
        raise InputError("is empty; expected measurements", file=path)
    return content.removeprefix(_MARK)


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file that hold anything, with their numbers, counted from one."""
    try:
        text = bytes_of(path).decode()
    except UnicodeDecodeError as exc:
        raise InputError(f"is not text (byte {exc.start} is not UTF-8)", file=path) from exc
    for line, one in enumerate(text.splitlines(), 1):
        if one.strip():
            yield line, one


def delimiter_of(path: Path) -> str:
    """Return what separates the cells of a table, by its first line."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        header = file.readline(_HEADER)
    return max(",;\t", key=header.count)


def table_of(path: Path, columns: Sequence[str], **options: Any) -> pd.DataFrame:
    """Read a table as `data.tables.cells.cells` does; a row that is longer than the header is wrong."""
    with catch_warnings():
        simplefilter("error", pd.errors.ParserWarning)
        try:
            return cells(path, columns, index_col=False, **options)
        except pd.errors.ParserWarning as exc:
            raise InputError("has rows that are longer than its header", file=path) from exc


def standard(content: bytes) -> bytes:
    """Return JSON with null in place of what is no number of JSON."""
    strange = b"NaN" in content or b"Infinity" in content
    return _NO_JSON.sub(b"null", content) if strange else content


def json_of(path: Path, kind: type[T]) -> T:
    """Decode a JSON file; what `kind` does not name is passed over.

    Raises
    ------
    InputError
        If the file cannot be read, is no JSON, or not of that kind: names the place and what was expected.
    """
    return decoded(standard(bytes_of(path)), kind, path)


def decoded(content: bytes | msgspec.Raw, kind: type[T], path: Path, place: str = "") -> T:
    """Decode a whole document, or a part of one that stands at `place`; raises as `json_of`."""
    try:
        found = msgspec.json.decode(content, type=kind, strict=True)
        if isinstance(content, bytes):
            require_unique_keys(content)
    except msgspec.ValidationError as exc:
        raise InputError(_told(str(exc), place), file=path) from exc
    except (ValueError, RecursionError) as exc:
        raise MalformedError(f"is not JSON ({str(exc)[:_QUOTED]})", file=path) from exc
    except InputError as exc:
        raise exc.within(path) from exc
    return found


def each(parts: list[msgspec.Raw], kind: type[T], path: Path, place: str) -> Iterator[tuple[str, T]]:
    """Decode the elements of a list one by one, holding one at a time; yield each with its place."""
    for index, part in enumerate(parts):
        at = f"{place}[{index}]"
        yield at, decoded(part, kind, path, at)


def _told(problem: str, place: str) -> str:
    """Say what msgspec says, with the place first."""
    what, _, within = problem.partition(" - at `$")
    return f"{place}{within.rstrip('`')}: {what}".removeprefix(".").removeprefix(": ")[:_QUOTED]
