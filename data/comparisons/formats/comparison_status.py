"""Filling verdicts into comparison XML, and touching nothing else of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from data.comparisons.formats.comparison_xml import COMPARISON, VERDICT, ReportNames, identifier
from data.errors import InputError
from data.tables.xml_stream import Document, Walk

#: A start tag up to the end of its attributes, which may hold ``>``.
_TAG = re.compile(rb"<[^\s/>]+(?:\s+[^\s=/>]+\s*=\s*(?:\"[^\"]*\"|'[^']*'))*")
_CLOSE = re.compile(rb"\s*(/?)>")
_STATUS = re.compile(rb"(\sresult_status\s*=\s*)(\"[^\"]*\"|'[^']*')")


def with_status(
    source: Path | bytes,
    verdicts: Mapping[str, str],
    name: str = "request.xml",
    otherwise: str | None = None,
    written: Mapping[str, bytes] | None = None,
) -> bytes:
    """Return comparison XML byte by byte as it is, except for ``result_status`` and elements ``verdict``.

    Parameters
    ----------
    source : Path or bytes
        As `data.comparisons.formats.comparison_xml.read` has read it.
    verdicts : mapping of comparison_id to str
        A comparison that stands a second time becomes ``invalid``.
    name : str
        What messages call bytes.
    otherwise : str, optional
        The verdict on a comparison that has none; by default it is left as it is.
    written : mapping of comparison_id to bytes, optional
        Elements ``verdict``, in place of those that are there; by default these stay.

    Raises
    ------
    InputError
        If the document is not well-formed, or not in an encoding that extends ASCII.
    """
    document = Document.of_bytes(source, name) if isinstance(source, bytes) else Document.of_path(source)
    with document.open() as file:
        content = file.read()
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError("is UTF-16; verdicts can be filled into UTF-8 only", file=document.name)
    places = _Places(document, verdicts, otherwise)
    places.look(content)
    edits = [edit for place in places.found for edit in _edits(content, place, written)]
    if written is not None:
        edits += [(start, stop, b"") for start, stop in places.earlier]
    return _edited(content, sorted(edits))


@dataclass(frozen=True)
class _Place:
    """Where the start tag of a comparison begins, and what is said of it."""

    offset: int
    key: str
    verdict: str


class _Places:
    """Finds the comparisons of a document that get a verdict, and the elements ``verdict`` that they hold."""

    def __init__(self, document: Document, verdicts: Mapping[str, str], otherwise: str | None) -> None:
        self._document, self._verdicts, self._otherwise = document, verdicts, otherwise
        self._names, self._report, self._seen = ReportNames(), "", set[str]()
        self._open: list[str] = []
        self._began = 0
        self.found: list[_Place] = []
        self.earlier: list[tuple[int, int]] = []

    def look(self, content: bytes) -> None:
        """Walk over the document."""
        walk = Walk(self._document)
        for opened, element in walk:
            if opened:
                self._open.append(element.tag)
                if self._is_verdict():
                    self._began = walk.offset
                self._start(element.tag, element.attrib, walk.offset)
                continue
            if self._is_verdict():
                # behind an element without content stands what follows, else its end tag
                begins = _begins(content, self._began)
                stop = begins.stop if begins.empty else content.index(b">", walk.offset) + 1
                self.earlier.append((self._began, stop))
            self._open.pop()

    def _is_verdict(self) -> bool:
        return self._open[-2:] == [COMPARISON, VERDICT]

    def _start(self, tag: str, attributes: dict[str, str], offset: int) -> None:
        if tag == "comparison_results":
            self._report = self._names.name(self._document.stem, attributes)
        elif tag == COMPARISON:
            self._report = self._report or self._names.name(self._document.stem, {})
            key = identifier(self._report, attributes)
            verdict = "invalid" if key in self._seen else self._verdicts.get(key, self._otherwise)
            if verdict is not None:
                self.found.append(_Place(offset, "" if key in self._seen else key, verdict))
            self._seen.add(key)


def _edits(
    content: bytes, place: _Place, written: Mapping[str, bytes] | None
) -> Iterator[tuple[int, int, bytes]]:
    """Yield what becomes of a start tag, and what is put behind it."""
    tag = _begins(content, place.offset)
    yield place.offset, tag.named, _filled(content[place.offset : tag.named], place.verdict)
    told = (written or {}).get(place.key)
    if told is not None:
        yield tag.named, tag.stop, b">" + told + (b"</%b>" % COMPARISON.encode() if tag.empty else b"")


class _StartTag(NamedTuple):
    """Where the attributes of a start tag end, where it does, and whether its element is empty."""

    named: int
    stop: int
    empty: bool


def _begins(content: bytes, offset: int) -> _StartTag:
    named = _TAG.match(content, offset).end()  # type: ignore[union-attr]  # a tag stands here
    close = _CLOSE.match(content, named)
    return _StartTag(named, close.end(), close[1] == b"/")  # type: ignore[union-attr, index]  # likewise


def _edited(content: bytes, edits: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Return the content with each span replaced; spans ascend, and what lies within one goes with it."""
    parts, begin = [], 0
    for start, stop, text in edits:
        if start < begin:
            continue
        parts += [content[begin:start], text]
        begin = stop
    return b"".join([*parts, content[begin:]])


def _filled(tag: bytes, verdict: str) -> bytes:
    value = quoteattr(verdict).encode()
    filled, count = _STATUS.subn(lambda match: match[1] + value, tag, count=1)
    return filled if count else tag + b" result_status=" + value
