"""A tool whose files are read: how they are recognised, and what the documentation says of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from data.comparisons.formats.tools.reading.measurement import Read


@dataclass(frozen=True)
class Keys:
    """JSON is recognised by keys: ``benchmarks.stats`` is the key ``stats`` of the first of ``benchmarks``.

    Attributes
    ----------
    paths : tuple of str
    lines : bool
        Whether the file holds such a document in every line.
    """

    paths: tuple[str, ...]
    lines: bool = False

    def __str__(self) -> str:
        told = ", ".join(f"`{path}`" for path in self.paths)
        return f"{'JSON lines with ' if self.lines else 'JSON with '}{told}"


@dataclass(frozen=True)
class Root:
    """XML is recognised by its outermost element."""

    tag: str

    def __str__(self) -> str:
        return f"`<{self.tag}>`"


@dataclass(frozen=True)
class Columns:
    """A table is recognised by its header, which has one of each group of names."""

    groups: tuple[tuple[str, ...], ...]

    def lacks(self, header: set[str]) -> list[str]:
        """Return what the header lacks."""
        return [" or ".join(names) for names in self.groups if not header.intersection(names)]

    def __str__(self) -> str:
        return f"a header with {', '.join('`' + '` or `'.join(names) + '`' for names in self.groups)}"


@dataclass(frozen=True)
class TextLine:
    """Text is recognised by a line of it."""

    pattern: re.Pattern[str]
    told: str

    def __str__(self) -> str:
        return self.told


Sign = Keys | Root | Columns | TextLine


@dataclass(frozen=True)
class ToolFormat:
    """A format that a benchmark tool writes.

    Attributes
    ----------
    name : str
        What the user calls it.
    file : str
        Which file of the tool it is.
    signs : sequence of Sign
        Any of them recognises it.
    holds, direction : str
        What the documentation says: raw repetitions or summaries; what says which values are better.
    read : callable
    folder : str
        A pattern of what lies in a directory that is one source.
    versions : bool
        Whether a source holds several versions: then all files of a directory are one source.
    """

    name: str
    file: str
    signs: Sequence[Sign]
    holds: str
    direction: str
    read: Read = field(repr=False)
    folder: str = ""
    versions: bool = False
