"""Names from files as text that neither a terminal nor the log of a CI system takes for anything else."""

from __future__ import annotations

import re
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
