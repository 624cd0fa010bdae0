"""Filling verdicts into comparison XML, and touching nothing else of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from data.comparisons.formats.comparison_xml import ReportNames, identifier
from data.errors import InputError, MalformedError
from data.tables.xml_stream import Document, refuse_declarations

#: A start tag up to the end of its attributes, which may hold ``>``.
_TAG = re.compile(rb"<[^\s/>]+(?:\s+[^\s=/>]+\s*=\s*(?:\"[^\"]*\"|'[^']*'))*")
_STATUS = re.compile(rb"(\sresult_status\s*=\s*)(\"[^\"]*\"|'[^']*')")


def with_status(
    source: Path | bytes, verdicts: Mapping[str, str], name: str = "request.xml", otherwise: str | None = None
) -> bytes:
    """Return comparison XML byte by byte as it is, except for the attribute ``result_status``.

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

    Raises
    ------
    InputError
        If the document is not well-formed, or not in an encoding that extends ASCII.
    """
    document = Document.of_bytes(source, name) if isinstance(source, bytes) else Document.of_path(source)
    refuse_declarations(document)
    with document.open() as file:
        content = file.read()
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError("is UTF-16; verdicts can be filled into UTF-8 only", file=document.name)
    parts, begin = [], 0
    for offset, verdict in _places(content, document, verdicts, otherwise):
        end = _TAG.match(content, offset).end()  # type: ignore[union-attr]  # expat has found a tag here
        parts += [content[begin:offset], _filled(content[offset:end], verdict)]
        begin = end
    return b"".join([*parts, content[begin:]])


def _places(
    content: bytes, document: Document, verdicts: Mapping[str, str], otherwise: str | None
) -> list[tuple[int, str]]:
    """Return the byte offsets of the start tags that get a verdict, ascending, with it."""
    names, report, seen = ReportNames(), "", set[str]()
    found: list[tuple[int, str]] = []
    parser = expat.ParserCreate()

    def started(tag: str, attributes: dict[str, str]) -> None:
        nonlocal report
        if tag == "comparison_results":
            report = names.name(document.stem, attributes)
        elif tag == "comparison_result":
            report = report or names.name(document.stem, {})
            key = identifier(report, attributes)
            verdict = "invalid" if key in seen else verdicts.get(key, otherwise)
            seen.add(key)
            if verdict is not None:
                found.append((parser.CurrentByteIndex, verdict))

    parser.StartElementHandler = started
    try:
        parser.Parse(content, True)
    except expat.ExpatError as exc:
        problem = f"is not well-formed XML ({expat.ErrorString(exc.code)})"
        raise MalformedError(problem, file=document.name, line=exc.lineno) from exc
    return found


def _filled(tag: bytes, verdict: str) -> bytes:
    value = quoteattr(verdict).encode()
    filled, count = _STATUS.subn(lambda match: match[1] + value, tag, count=1)
    return filled if count else tag + b" result_status=" + value
