"""Read XML as a stream in bounded memory, or small documents as a whole; no entities, no network."""

from __future__ import annotations

import io
import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from xml.etree import ElementTree as ET
from xml.parsers import expat

from data.errors import InputError, MalformedError

Element = ET.Element
#: Minimum size of a chunk in bytes.
CHUNK = 1 << 16
MAX_DEPTH = 100
#: Maximum number of attributes of an element, including declarations of namespaces.
MAX_ATTRIBUTES = 100
#: Maximum size in bytes of a tag, a comment or a processing instruction.
MAX_TAG = 2**20
#: Maximum number of characters of text between two tags.
MAX_TEXT = 10_000_000
#: Maximum number of different names of elements and attributes in a document.
MAX_NAMES = 10_000
#: Maximum size in bytes of a document that is read as a whole.
MAX_WHOLE = 64 * 2**20
_QUOTED = 60
#: Whether an element begins, the element, the line where it begins, and the byte position of the tag.
Event = tuple[bool, Element, int, int]


@dataclass(frozen=True)
class Document:
    """An XML document: its name for messages, that name without directory and suffix, and how to open it."""

    name: str
    stem: str
    open: Callable[[], BinaryIO]

    @classmethod
    def from_path(cls, path: Path) -> Document:
        """Return the document in a file, which is not opened yet."""
        return cls(str(path), path.stem, lambda: path.open("rb"))

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> Document:
        """Return the document in the body of a request."""
        return cls(name, Path(name).stem, lambda: io.BytesIO(content))


class Attributes:
    """Typed access to attributes of elements; errors have the element's line and the text ``place``."""

    document: Document

    def line_of(self, element: Element) -> int:
        """Return the line where an element begins, counted from 1."""
        raise NotImplementedError

    def error_at(
        self, element: Element, problem: str, place: str | None = None, kind: type[InputError] = InputError
    ) -> InputError:
        """Return, without raising it, an error of the type `kind` at the line of an element."""
        return kind(problem, file=self.document.name, line=self.line_of(element), place=place)

    def text_attribute(self, element: Element, name: str, place: str | None = None) -> str:
        """Return the attribute `name` as text, which may be empty; InputError if it is missing."""
        value = element.get(name)
        if value is None:
            raise self.error_at(element, f"<{element.tag}> has no attribute {name}", place)
        return value

    def number_attribute(self, element: Element, name: str, place: str | None = None) -> float:
        """Return the attribute `name` as a number; InputError if it is missing or not a finite number."""
        return self._parse_number(element, name, self.text_attribute(element, name, place), place)

    def numbers_attribute(self, element: Element, name: str, place: str | None = None) -> array[float]:
        """Return the attribute `name`, a list of numbers; InputError if missing or not all are finite."""
        words = self.text_attribute(element, name, place).split()
        return array("d", [self._parse_number(element, name, word, place) for word in words])

    def _parse_number(self, element: Element, name: str, text: str, place: str | None) -> float:
        try:
            value = float(text) if text.isascii() and "_" not in text else None
        except ValueError:
            value = None
        if value is None or not math.isfinite(value):
            kind = "number" if value is None else "finite number"
            raise self.error_at(element, f"{_shown_attribute(name, text)} is not a {kind}", place)
        return value

    def whole_attribute(self, element: Element, name: str, place: str | None = None) -> int:
        """Return the attribute `name` as a whole number from 1 to 999999; InputError if it is not one."""
        text = self.text_attribute(element, name, place)
        if not (text.isascii() and text.isdigit()):
            raise self.error_at(element, f"{_shown_attribute(name, text)} is not a whole number", place)
        if len(text) > 6 or int(text) == 0:  # noqa: PLR2004 - a machine has less than a million threads
            raise self.error_at(element, f"{_shown_attribute(name, text)} is not between 1 and 999999", place)
        return int(text)


class Walk(Attributes):
    """One pass over the elements of a document in bounded memory.

    Iterating yields ``(opened, element)`` at the begin and at the end of each element. At its begin an
    element has its attributes, at its end also the first words of the text before its first child. `offset`
    is the byte position of the tag; at the end of an empty element without end tag, that of the content after
    it. InputError if the document is missing, empty, binary, malformed, beyond a limit (``MAX_*``), or
    declares a document type (which may define entities).
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        #: The line of the element that began last.
        self.line, self.offset = 1, 0

    def __iter__(self) -> Iterator[tuple[bool, Element]]:
        for events in _LimitedParser(self.document).parse_chunks():
            for opened, element, line, self.offset in events:
                self.line = line if opened else self.line
                yield opened, element
            # they may hold many elements while the next ones are read
            events.clear()

    def line_of(self, element: Element) -> int:  # noqa: ARG002
        """Return the line of the element that began last, whatever the `element`."""
        return self.line


class WholeDocument(Attributes):
    """A document that is read as a whole; `root` is the outermost element.

    InputError if the document is missing, empty, binary or malformed, declares a document type, is larger
    than `MAX_WHOLE`, or exceeds a limit of `Walk`.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self._lines: dict[Element, int] = {}
        for events in _LimitedParser(document, whole=True).parse_chunks():
            self._lines |= {element: line for opened, element, line, _ in events if opened}
        self.root = next(iter(self._lines))

    def number_attributes(
        self, elements: Sequence[Element], name: str, place: str | None = None
    ) -> list[float]:
        """Return the attribute `name` of each element as a number; InputError if missing or not finite."""
        texts = [element.get(name, "nan") for element in elements]
        joined = "".join(texts)
        with suppress(ValueError):
            values = [float(text) for text in texts] if joined.isascii() and "_" not in joined else []
            if len(values) == len(texts) and all(map(math.isfinite, values)):
                return values
        return [self.number_attribute(element, name, place) for element in elements]

    def line_of(self, element: Element) -> int:
        """Return the line where an element of the document begins, counted from 1."""
        return self._lines[element]


def _shown_attribute(name: str, text: str) -> str:
    return f'{name}="{text if len(text) <= _QUOTED else text[:_QUOTED] + "…"}"'


def root_of(document: Document) -> str:
    """Return the name of the root element, ``{namespace}name`` if it has a namespace; errors: see `Walk`."""
    # a document without elements is malformed
    return next(str(element.tag) for _, element in Walk(document))


class _LimitedParser:
    """Expat with limits, which parses any document in linear time and bounded memory.

    Expat keeps a tag, comment or instruction until its end, and every name until the end of the document.
    With `whole`, elements keep their children, and all of their text before the first one.
    """

    def __init__(self, document: Document, *, whole: bool = False) -> None:
        self._document, self._whole = document, whole
        self._names: dict[str, str] = {}
        self._parser = expat.ParserCreate(namespace_separator="}", intern=self._names)
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype
        self._parser.StartNamespaceDeclHandler = self._count_namespace
        self._parser.StartElementHandler = self._start_element
        self._parser.EndElementHandler = self._end_element
        self._parser.CharacterDataHandler = self._add_text
        self._open: list[tuple[Element, int]] = []
        self._namespaces = self._text_length = 0
        # text of the element that began last; None after its first child or its end
        self._text_before_child: list[str] | None = None
        self._events: list[Event] = []

    def parse_chunks(self) -> Iterator[list[Event]]:
        try:
            with self._document.open() as file:
                yield from self._parse_file(file)
        except OSError as exc:
            problem = "no such file" if isinstance(exc, FileNotFoundError) else exc.strerror
            raise InputError(problem or "cannot be read", file=self._document.name) from exc

    def _parse_file(self, file: BinaryIO) -> Iterator[list[Event]]:
        fed = unparsed = 0
        ended = False
        while not ended:
            # expat rescans an unfinished tag with every chunk; growing chunks keep the total time linear
            chunk = file.read(max(CHUNK, unparsed))
            ended = not chunk
            if not fed and not chunk.strip():
                raise MalformedError("is empty; expected XML", file=self._document.name)
            if not fed and b"\0" in chunk and not chunk.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise MalformedError("is a binary file; expected XML", file=self._document.name)
            fed += len(chunk)
            if self._whole and fed > MAX_WHOLE:
                problem = f"is larger than {MAX_WHOLE >> 20} MB; it is read whole, up to that"
                raise InputError(problem, file=self._document.name)
            self._events = []
            try:
                self._parser.Parse(chunk, ended)
            except (expat.ExpatError, ValueError, LookupError) as exc:
                raise self._malformed(exc) from exc
            finally:
                # also those before an error
                yield self._events
            unparsed = fed - self._parser.CurrentByteIndex
            if unparsed > MAX_TAG:
                raise self._error_here(f"has a tag, comment or instruction of more than {MAX_TAG} bytes")
            if len(self._names) > MAX_NAMES:
                problem = f"has more than {MAX_NAMES} different names of elements and attributes"
                raise self._error_here(problem)

    def _error_here(self, problem: str) -> InputError:
        return InputError(problem, file=self._document.name, line=self._parser.CurrentLineNumber)

    def _malformed(self, exc: Exception) -> MalformedError:
        problem, line = str(exc), 1
        if isinstance(exc, expat.ExpatError):
            problem, line = expat.ErrorString(exc.code), exc.lineno
        if problem == expat.errors.XML_ERROR_TAG_MISMATCH:
            element, begin = self._open[-1]
            problem += f": <{element.tag}> of line {begin} is open"
        return MalformedError(f"is not well-formed XML ({problem})", file=self._document.name, line=line)

    def _refuse_doctype(self, *_: object) -> None:
        raise self._error_here("declares a document type; entities are not read")

    def _count_namespace(self, *_: object) -> None:
        self._namespaces += 1

    def _start_element(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) == MAX_DEPTH:
            raise self._error_here(f"is nested more than {MAX_DEPTH} elements deep")
        if len(attributes) + self._namespaces > MAX_ATTRIBUTES:
            raise self._error_here(f"<{_qualified_name(name)}> has more than {MAX_ATTRIBUTES} attributes")
        self._namespaces = 0
        self._end_text()
        named = {_qualified_name(key): value for key, value in attributes.items()}
        element = Element(_qualified_name(name), named)
        if self._whole and self._open:
            self._open[-1][0].append(element)
        line = self._parser.CurrentLineNumber
        self._open.append((element, line))
        self._text_before_child = []
        self._events.append((True, element, line, self._parser.CurrentByteIndex))

    def _end_element(self, _: str) -> None:
        self._end_text()
        element, line = self._open.pop()
        self._events.append((False, element, line, self._parser.CurrentByteIndex))

    def _add_text(self, text: str) -> None:
        # without `whole`, only the first words are kept
        self._text_length += len(text)
        if self._text_length > MAX_TEXT:
            raise self._error_here(f"has a text of more than {MAX_TEXT} characters")
        if self._text_before_child is None:
            return
        if self._whole:
            self._text_before_child.append(text)
        elif not self._text_before_child and (words := text.strip()):
            self._text_before_child.append(words[:_QUOTED])

    def _end_text(self) -> None:
        if self._text_before_child:
            self._open[-1][0].text = "".join(self._text_before_child)
        self._text_before_child, self._text_length = None, 0


def _qualified_name(name: str) -> str:
    """Return a name as lxml and ElementTree write it: ``{namespace}name``."""
    return "{" + name if "}" in name else name
