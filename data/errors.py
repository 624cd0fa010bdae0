"""The errors that a person gets to read: bad input, and a model that cannot be used."""

from __future__ import annotations

import re
from pathlib import Path
from unicodedata import category

#: Letters and marks without a shape of their own: joiners, fillers, vowels that no font draws.
_BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\uffa0\u2800"
#: What starts a command anywhere in a log line: of GitHub (``##[``), Azure (``##vso[``), TeamCity.
_COMMAND = re.compile(r"##(?=\w*\[)")
#: What may be escaped: few characters of most texts, so that a look at each of them is rare.
_SUSPECT = re.compile(rf"[^\x20-\x7e\xa1-\xac\xae-\u02ff\n]|[{_BLANK}]")


def visible(text: str) -> str:
    r"""Return `text` with characters that have no shape, or change that of others, as escapes.

    Parameters
    ----------
    text : str
        In any encoding error mode: lone surrogates are escaped, too.

    Returns
    -------
    str
        Control characters (but line feeds), bidirectional controls, zero-width and unassigned characters, and
        line and paragraph separators are written as ``\x1b``, ``\u202e`` or ``\U000e0001``.

    Examples
    --------
    >>> visible("sort\x1b[31m \u202egnp")
    'sort\\x1b[31m \\u202egnp'
    """
    return _SUSPECT.sub(lambda found: _escaped(found[0]), text)


def _escaped(char: str) -> str:
    # a space of any width is none of these, nor is U+FE0F, which makes a picture of the sign before it
    kept = char.isprintable() or category(char) == "Zs"
    if kept and not re.match(f"[{_BLANK}]", char):
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004 - as Python writes them


def one_line(text: str) -> str:
    """Return `text` as one line of a log, which no CI system takes for a command to itself."""
    line = _COMMAND.sub(r"#\\x23", visible(" ".join(text.split())))
    return rf"\x3a{line[1:]}" if line.startswith("::") else line


def visible_xml(document: bytes) -> bytes:
    """Return a document of UTF-8 with such characters as references, which parsers read as what they were."""
    text = document.decode()
    return _SUSPECT.sub(lambda found: _referenced(found[0]), text).encode()


def _referenced(char: str) -> str:
    # whitespace means something between elements
    return char if char in "\t\r" or _escaped(char) == char else f"&#{ord(char)};"


class InputError(Exception):
    """Input that cannot be used, told in one line.

    Parameters
    ----------
    problem : str
        What is wrong and what was expected, naming field and value, for example
        ``threads_no="four" is not a whole number``.
    file : path or str, optional
        The file that holds it.
    line : int, optional
        The line in that file, counted from one.
    place : str, optional
        The element, row or key, for example ``operation "bt_C_x"``.

    Examples
    --------
    >>> str(InputError('threads_no="four" is not a whole number',
    ...                file="a.xml", line=41, place='operation "bt_C_x"'))
    'a.xml:41 operation "bt_C_x": threads_no="four" is not a whole number'
    """

    def __init__(
        self,
        problem: str,
        *,
        file: Path | str | None = None,
        line: int | None = None,
        place: str | None = None,
    ) -> None:
        self.problem = problem
        self.file = file
        self.line = line
        self.place = place
        super().__init__(self._line())

    def _line(self) -> str:
        spot = "" if self.file is None else str(self.file)
        if self.line is not None:
            spot += f":{self.line}"
        where = " ".join(part for part in (spot, self.place) if part)
        text = f"{where}: {self.problem}" if where else self.problem
        return one_line(text)

    def within(self, file: Path | str) -> InputError:
        """Return the same error told of `file`, where it names none."""
        if self.file is not None:
            return self
        return type(self)(self.problem, file=file, line=self.line, place=self.place)


class ModelError(ValueError):
    """A model whose answer is no finite number: the model is at fault, whatever the input."""


class MalformedError(InputError):
    """Input that breaks the syntax of its own format: no XML, no JSON, empty, binary."""


class RepeatedError(InputError):
    """Input that stands a second time, where every time may be right and nobody can tell which is meant."""
