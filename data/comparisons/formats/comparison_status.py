"""Filling verdicts into comparison XML, and touching nothing else of it."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from data.comparisons.formats.comparison_xml import ReportNames, identifier
from data.errors import InputError, MalformedError
from data.tables.xml_stream import CHUNK, Document, refuse_declarations

#: A start tag up to the end of its attributes, which may hold ``>``.
_TAG = re.compile(rb"<[^\s/>]+(?:\s+[^\s=/>]+\s*=\s*(?:\"[^\"]*\"|'[^']*'))*")
_STATUS = re.compile(rb"(\sresult_status\s*=\s*)(\"[^\"]*\"|'[^']*')")


def with_status(source: Path | bytes, verdicts: Mapping[str, str], name: str = "request.xml") -> bytes:
    """Return the XML of `source` with ``result_status`` filled in; see `write_with_status`."""
    out = io.BytesIO()
    document = Document.of_bytes(source, name) if isinstance(source, bytes) else Document.of_path(source)
    write_with_status(document, verdicts, out)
    return out.getvalue()


def write_with_status(document: Document, verdicts: Mapping[str, str], out: BinaryIO) -> None:
    """Copy comparison XML byte by byte, except for the attribute ``result_status``.

    Parameters
    ----------
    document : Document
        As `data.comparisons.formats.comparison_xml.read` has read it.
    verdicts : mapping of comparison_id to str
        A comparison without a verdict is left as it is; one that stands a second time becomes ``invalid``.
    out : binary file

    Raises
    ------
    InputError
        If the document is not well-formed, or not in an encoding that extends ASCII.
    """
    refuse_declarations(document)
    places = _Places(document, verdicts)
    with document.open() as file:
        if file.read(2) in {b"\xff\xfe", b"\xfe\xff"}:
            raise InputError("is UTF-16; verdicts can be filled into UTF-8 only", file=document.name)
        file.seek(0)
        _copy(file, out, places)


class _Places:
    """Where the start tags are that get a verdict: byte offsets, in step with the copying."""

    def __init__(self, document: Document, verdicts: Mapping[str, str]) -> None:
        self._document, self._verdicts = document, verdicts
        self._names, self._report = ReportNames(), ""
        self._seen: set[str] = set()
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._started
        self.found: list[tuple[int, str]] = []

    def feed(self, chunk: bytes) -> None:
        """Look at the next bytes; none ends the document."""
        try:
            self._parser.Parse(chunk, not chunk)
        except expat.ExpatError as exc:
            problem = f"is not well-formed XML ({expat.ErrorString(exc.code)})"
            raise MalformedError(problem, file=self._document.name, line=exc.lineno) from exc

    @property
    def position(self) -> int:
        """Byte offset up to which everything is known."""
        return self._parser.CurrentByteIndex

    def _started(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "comparison_results":
            self._report = self._names.name(self._document.stem, attributes)
        elif tag == "comparison_result":
            self._report = self._report or self._names.name(self._document.stem, {})
            key = identifier(self._report, attributes)
            verdict = "invalid" if key in self._seen else self._verdicts.get(key)
            self._seen.add(key)
            if verdict is not None:
                self.found.append((self._parser.CurrentByteIndex, verdict))


def _copy(file: BinaryIO, out: BinaryIO, places: _Places) -> None:
    held, begin = b"", 0
    while True:
        chunk = file.read(CHUNK)
        places.feed(chunk)
        held += chunk
        found, places.found = places.found, []
        for offset, verdict in found:
            out.write(held[: offset - begin])
            held, begin = held[offset - begin :], offset
            end = _TAG.match(held).end()  # type: ignore[union-attr]  # expat has just found a tag here
            out.write(_filled(held[:end], verdict))
            held, begin = held[end:], begin + end
        if not chunk:
            out.write(held)
            return
        # a tag may be open at the end of what was read: expat tells of it once it is closed
        keep = max(places.position - begin, 0)
        out.write(held[:keep])
        held, begin = held[keep:], begin + keep


def _filled(tag: bytes, verdict: str) -> bytes:
    value = quoteattr(verdict).encode()
    filled, count = _STATUS.subn(lambda match: match[1] + value, tag, count=1)
    return filled if count else tag + b" result_status=" + value
