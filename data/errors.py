"""Errors whose message is meant for users: invalid input, and a model that cannot be used."""

from __future__ import annotations

import re
from pathlib import Path
from unicodedata import category

#: Letters and marks that fonts draw as nothing: joiners, fillers, inherent vowels.
_BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\uffa0\u2800"
#: The beginning of a command in a log line of GitHub (``##[``), Azure (``##vso[``) or TeamCity.
_COMMAND = re.compile(r"##(?=\w*\[)")
#: Candidates for escaping; most texts have few, so that the check of each one costs little.
_SUSPECT = re.compile(rf"[^\x20-\x7e\xa1-\xac\xae-\u02ff\n]|[{_BLANK}]")


def escape_invisible(text: str) -> str:
    r"""Return `text` with escapes in place of characters that are invisible or change how others are drawn.

    Lone surrogates, control characters (also tabs, but no line feeds), bidirectional controls, zero-width,
    blank, private-use and unassigned characters, and line and paragraph separators are written as ``\x1b``,
    ``\u202e`` or ``\U000e0001``. Spaces of any width, and variation selectors (U+FE0F), are not changed.
    """
    return _SUSPECT.sub(lambda match: _escape_char(match[0]), text)


def _escape_char(char: str) -> str:
    # spaces of any width stay, and U+FE0F, which makes a picture of the sign before it
    if (char.isprintable() or category(char) == "Zs") and not re.match(f"[{_BLANK}]", char):
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004 - as Python writes them


def one_line(text: str) -> str:
    r"""Return `text` as one line for a log; invisible characters and starts of CI commands are escaped.

    White space, also a line break, becomes one space; at both ends it is removed. ``##[`` and ``##word[``
    become ``#\x23[`` and ``#\x23word[``; at the start of the line, ``::`` becomes ``\x3a:``.
    """
    line = _COMMAND.sub(r"#\\x23", escape_invisible(" ".join(text.split())))
    return rf"\x3a{line[1:]}" if line.startswith("::") else line


def shorten(text: str, length: int) -> str:
    """Return `text`, or its first `length` characters and "..." if it is longer."""
    return text if len(text) <= length else f"{text[:length]}..."


def escape_invisible_xml(document: bytes) -> bytes:
    """Return XML (UTF-8) with references for invisible characters, except tabs and carriage returns."""

    def character_reference(match: re.Match[str]) -> str:
        char = match[0]
        # whitespace has a meaning between elements
        return char if char in "\t\r" or _escape_char(char) == char else f"&#{ord(char)};"

    return _SUSPECT.sub(character_reference, document.decode()).encode()


class InputError(Exception):
    """Invalid input, described in one line.

    Parameters
    ----------
    problem : str
        The field, its value and the expectation.
    file : path or str, optional
        The file that contains the problem.
    line : int, optional
        The line in that file, counted from one.
    place : str, optional
        The element, row or key.

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
        position = ("" if file is None else str(file)) + ("" if line is None else f":{line}")
        location = " ".join(filter(None, (position, place)))
        super().__init__(one_line(f"{location}: {problem}" if location else problem))

    def with_file(self, file: Path | str) -> InputError:
        """Return a copy of the error that names `file`; the error itself if it already names a file."""
        if self.file is not None:
            return self
        return type(self)(self.problem, file=file, line=self.line, place=self.place)


class ModelError(ValueError):
    """A model returned a number that is not finite: the model is at fault, whatever the input."""


class MalformedError(InputError):
    """Input that breaks the syntax of its own format: no XML, no JSON, empty, binary."""


class RepeatedError(InputError):
    """Input that occurs twice, where each occurrence may be valid and the intended one is ambiguous."""
