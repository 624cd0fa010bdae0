"""XML read element by element in bounded memory, or whole where it is small: without entities or network."""

from __future__ import annotations

import io
import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from xml.parsers import expat

from lxml import etree

from data.errors import InputError, MalformedError

Element = etree._Element  # noqa: SLF001 - lxml has no public name for it
CHUNK = 1 << 16
MAX_DEPTH = 100
#: Bytes of a document that is read whole.
MAX_WHOLE = 64 * 2**20
_QUOTED = 60
_TOO_DEEP = f"is nested more than {MAX_DEPTH} elements deep"
_CAREFUL: Any = {
    "resolve_entities": False,
    "no_network": True,
    "load_dtd": False,
    "remove_comments": True,
    "remove_pis": True,
}


@dataclass(frozen=True)
class Document:
    """An XML document, wherever its bytes are.

    Attributes
    ----------
    name : str
        For messages.
    stem : str
        The name without directory and suffix.
    open : callable
        Returns the bytes as a stream, from the beginning.
    """

    name: str
    stem: str
    open: Callable[[], BinaryIO]

    @classmethod
    def of_path(cls, path: Path) -> Document:
        """Take a file."""
        return cls(str(path), path.stem, lambda: path.open("rb"))

    @classmethod
    def of_bytes(cls, content: bytes, name: str) -> Document:
        """Take bytes that came with a request."""
        return cls(name, Path(name).stem, lambda: io.BytesIO(content))


class Attributes:
    """What stands in the attributes of the element that is being read, and where that is."""

    document: Document

    @property
    def line(self) -> int:
        """The line where the element begins."""
        raise NotImplementedError

    def error(
        self, problem: str, place: str | None = None, kind: type[InputError] = InputError
    ) -> InputError:
        """Make an error at the element that is being read."""
        return kind(problem, file=self.document.name, line=self.line, place=place)

    def text(self, element: Element, name: str, place: str | None = None) -> str:
        """Return the attribute `name`; InputError if it is missing."""
        value = element.get(name)
        if value is None:
            raise self.error(f"<{element.tag}> lacks the attribute {name}", place)
        return value

    def number(self, element: Element, name: str, place: str | None = None) -> float:
        """Return the attribute `name` as a finite number; InputError if it is missing or anything else."""
        return self._number(name, self.text(element, name, place), place)

    def numbers(self, element: Element, name: str, place: str | None = None) -> array[float]:
        """Return the attribute `name` as finite numbers with blanks between; InputError if one is none."""
        words = self.text(element, name, place).split()
        return array("d", [self._number(name, word, place) for word in words])

    def _number(self, name: str, text: str, place: str | None) -> float:
        try:
            value = float(text) if text.isascii() and "_" not in text else None
        except ValueError:
            value = None
        if value is None:
            raise self.error(f"{_attribute(name, text)} is not a number", place)
        if not math.isfinite(value):
            raise self.error(f"{_attribute(name, text)} is not a finite number", place)
        return value

    def whole(self, element: Element, name: str, place: str | None = None) -> int:
        """Return the attribute `name` as a whole number from 1; InputError if it is anything else."""
        text = self.text(element, name, place)
        if not (text.isascii() and text.isdigit()):
            raise self.error(f"{_attribute(name, text)} is not a whole number", place)
        if len(text) > 6 or int(text) == 0:  # noqa: PLR2004 - a machine has less than a million threads
            raise self.error(f"{_attribute(name, text)} is not between 1 and 999999", place)
        return int(text)


class Walk(Attributes):
    """One pass over the elements of a document.

    Iterating yields ``(opened, element)``: at the beginning of an element its attributes are there; at its
    end, nothing of it. What has been passed is forgotten.

    Raises
    ------
    InputError
        If the document is missing, empty, binary, malformed, nested deeper than `MAX_DEPTH`, or declares a
        document type (and with it, perhaps, entities).
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self._started = 0
        self._lines: _Lines | None = None

    def __iter__(self) -> Iterator[tuple[bool, Element]]:
        refuse_declarations(self.document)
        try:
            with self.document.open() as file:
                yield from self._elements(file)
        except etree.XMLSyntaxError as exc:
            raise _malformed(self.document, exc) from exc
        finally:
            if self._lines is not None:
                self._lines.close()

    def _elements(self, file: BinaryIO) -> Iterator[tuple[bool, Element]]:
        depth = 0
        for event, element in etree.iterparse(
            file,
            events=("start", "end"),
            **_CAREFUL,
        ):
            if event == "start":
                depth += 1
                self._started += 1
                if depth > MAX_DEPTH:
                    raise self.error(_TOO_DEEP)
                yield True, element
            else:
                depth -= 1
                yield False, element
                _forget(element)

    @property
    def line(self) -> int:
        """The line of the element that began last."""
        if self._lines is None:
            self._lines = _Lines(self.document)
        return self._lines.of(self._started)


class WholeDocument(Attributes):
    """A document of a bearable size that is read whole.

    Parameters
    ----------
    document : Document

    Attributes
    ----------
    root : Element
    here : Element
        The one that is being read; errors are told of it.

    Raises
    ------
    InputError
        As of `Walk`, or if the document is larger than `MAX_WHOLE`.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        refuse_declarations(document)
        with document.open() as file:
            content = file.read(MAX_WHOLE + 1)
        if len(content) > MAX_WHOLE:
            limit = MAX_WHOLE >> 20
            raise InputError(f"is larger than {limit} MB; it is read whole, up to that", file=document.name)
        try:
            self.root = self.here = etree.fromstring(content, etree.XMLParser(**_CAREFUL))
        except etree.XMLSyntaxError as exc:
            raise _malformed(document, exc) from exc
        too_deep: Any = self.root.xpath(f"({'/*' * (MAX_DEPTH + 1)})[1]")
        if too_deep:
            self.here = too_deep[0]
            raise self.error(_TOO_DEEP)

    @property
    def line(self) -> int:
        """The line where the element begins."""
        return self.lines([self.here])[0]

    def each(self, elements: Sequence[Element], name: str, place: str | None = None) -> list[float]:
        """Return the attribute `name` of all these elements; as `number` does of each, but at once."""
        texts = [element.get(name, "nan") for element in elements]
        together = "".join(texts)
        try:
            values = [float(text) for text in texts] if together.isascii() and "_" not in together else []
        except ValueError:
            values = []
        if len(values) == len(texts) and all(map(math.isfinite, values)):
            return values
        return [self._of(element, name, place) for element in elements]

    def _of(self, element: Element, name: str, place: str | None) -> float:
        self.here = element
        return self.number(element, name, place)

    def lines(self, elements: Sequence[Element]) -> list[int]:
        """Return the lines where elements begin, which stand as they do in the document."""
        wanted, lines = set(elements), _Lines(self.document)
        try:
            every = enumerate(self.root.iter(), start=1)
            return [lines.of(ordinal) for ordinal, element in every if element in wanted]
        finally:
            lines.close()


def _attribute(name: str, text: str) -> str:
    return f'{name}="{text if len(text) <= _QUOTED else text[:_QUOTED] + "…"}"'


def _forget(element: Element) -> None:
    element.clear()
    parent = element.getparent()
    if parent is not None:
        while element.getprevious() is not None:
            del parent[0]


def refuse_declarations(document: Document) -> str:
    """Look at a document up to its first element, before anything else does.

    Returns
    -------
    str
        The name of the root element.

    Raises
    ------
    InputError
        If it is missing, empty, binary, no XML so far, or declares a document type.
    """
    root: list[str] = []
    parser = expat.ParserCreate()

    def declared(*_: object) -> None:
        raise InputError(
            "declares a document type; entities are not read",
            file=document.name,
            line=parser.CurrentLineNumber,
        )

    def started(name: str, _: object) -> None:
        root.append(name)
        parser.StartElementHandler = None

    parser.StartDoctypeDeclHandler = declared
    parser.StartElementHandler = started
    try:
        with document.open() as file:
            _feed(parser, file, document, root)
    except OSError as exc:
        raise InputError(_missing(exc), file=document.name) from exc
    return root[0]


def _feed(parser: expat.XMLParserType, file: BinaryIO, document: Document, root: list[str]) -> None:
    first = True
    while not root:
        chunk = file.read(CHUNK)
        if first and not chunk.strip():
            raise MalformedError("is empty; expected XML", file=document.name)
        if first and b"\0" in chunk and not chunk.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise MalformedError("is a binary file; expected XML", file=document.name)
        first = False
        try:
            parser.Parse(chunk, not chunk)
        except (expat.ExpatError, ValueError, LookupError) as exc:
            if root:
                return  # lxml will meet it, and say it better
            code = expat.ErrorString(exc.code) if isinstance(exc, expat.ExpatError) else str(exc)
            line = exc.lineno if isinstance(exc, expat.ExpatError) else 1
            raise MalformedError(f"is not well-formed XML ({code})", file=document.name, line=line) from exc


def _malformed(document: Document, error: etree.XMLSyntaxError) -> InputError:
    """Say what is malformed; where lxml does not know the place, expat does."""
    problem, line = str(error.msg), error.lineno
    if not line:
        parser = expat.ParserCreate()
        try:
            with document.open() as file:
                parser.ParseFile(file)
        except expat.ExpatError as exc:
            problem, line = expat.ErrorString(exc.code), exc.lineno
    problem = problem.partition(", line ")[0]
    return MalformedError(f"is not well-formed XML ({problem})", file=document.name, line=line or None)


def _missing(error: OSError) -> str:
    return "no such file" if isinstance(error, FileNotFoundError) else error.strerror or "cannot be read"


class _Lines:
    """The line where every element begins, in step with the walk: libxml2 counts in 16 bits only."""

    def __init__(self, document: Document) -> None:
        self._file = document.open()
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._started
        self._passed = 0
        self._ahead: list[int] = []

    def of(self, ordinal: int) -> int:
        """Return the line of the element that began as number `ordinal`, counted from one."""
        while self._passed + len(self._ahead) < ordinal:
            self._passed += len(self._ahead)
            self._ahead.clear()
            chunk = self._file.read(CHUNK)
            try:
                self._parser.Parse(chunk, not chunk)
            except expat.ExpatError:
                break
            if not chunk:
                break
        index = ordinal - self._passed - 1
        return self._ahead[index] if 0 <= index < len(self._ahead) else self._parser.CurrentLineNumber

    def close(self) -> None:
        """Close the document."""
        self._file.close()

    def _started(self, _name: str, _attributes: object) -> None:
        self._ahead.append(self._parser.CurrentLineNumber)
