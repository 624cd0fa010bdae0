"""Which tool wrote a file, by what is in it; and if none did, which come nearest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path

import msgspec

from data.comparisons.formats.tools.measurement import Read, bytes_of, standard
from data.errors import InputError


@dataclass(frozen=True)
class Keys:
    """A sign in JSON: the path ``benchmarks.stats`` is the key ``stats`` of the first of ``benchmarks``.

    `lines`: every line of the file is such a document.
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
    """A format that a benchmark tool writes, recognised by any of its signs.

    `file`, `holds` and `direction` are for the documentation: the file of the tool, raw repetitions or
    summaries, and what says which values are better. `folder` is the pattern of files in a directory that is
    one source. `versions`: a source holds several versions, and all files of a directory are one source.
    """

    name: str
    file: str
    signs: Sequence[Sign]
    holds: str
    direction: str
    read: Read = field(repr=False)
    folder: str = ""
    versions: bool = False


#: So many lines are looked at, of which each is cut off after so many letters.
_LINES, _LETTERS = 200, 2000
#: So many formats are named to somebody whose file is none of them.
_NEAREST = 2
_DELIMITERS = ",;\t"


class _JsonOutline:
    """JSON of which only what is asked for is looked at."""

    def __init__(self, raw: bytes | msgspec.Raw) -> None:
        self._raw = raw

    @cached_property
    def members(self) -> dict[str, _JsonOutline]:
        """What an object holds, or the first element of a list."""
        try:
            found = msgspec.json.decode(self._raw, type=dict[str, msgspec.Raw] | list[msgspec.Raw])
        except (ValueError, RecursionError):
            return {}
        if isinstance(found, dict):
            return {key: _JsonOutline(one) for key, one in found.items()}
        return _JsonOutline(found[0]).members if found else {}

    def has(self, path: str) -> bool:
        """Tell whether a key is there, such as ``benchmarks.stats``; ``*`` is any."""
        key, _, rest = path.partition(".")
        one = next(iter(self.members.values()), None) if key == "*" else self.members.get(key)
        return one is not None and (not rest or one.has(rest))


class UnreadFile:
    """A file that may be of any tool."""

    def __init__(self, path: Path, content: bytes | None = None) -> None:
        self.path, self.content = path, standard(bytes_of(path) if content is None else content)

    @cached_property
    def is_json(self) -> bool:
        """Whether the whole of it is one JSON document."""
        try:
            msgspec.json.decode(self.content, type=msgspec.Raw)
        except (ValueError, RecursionError):
            return False
        return True

    @cached_property
    def outline(self) -> _JsonOutline:
        """The file as one JSON document."""
        return _JsonOutline(self.content)

    @cached_property
    def lines(self) -> list[str]:
        """The first lines that hold anything."""
        ends = islice(self._ends(), _LINES)
        told = (self.content[start : min(end, start + _LETTERS)] for start, end in ends)
        return [line for line in (one.decode(errors="replace").strip() for one in told) if line]

    def _ends(self) -> Iterator[tuple[int, int]]:
        start = 0
        while start < len(self.content):
            end = self.content.find(b"\n", start)
            end = len(self.content) if end < 0 else end
            yield start, end
            start = end + 1

    @cached_property
    def first_document(self) -> _JsonOutline:
        """The first line that is JSON on its own."""
        first = next((line for line in self.lines if line.startswith("{")), "{}")
        start = self.content.find(first[:_LETTERS].encode())
        end = self.content.find(b"\n", max(start, 0))
        return _JsonOutline(self.content[start : end if end >= 0 else None] if start >= 0 else b"{}")

    @cached_property
    def header(self) -> set[str]:
        """The cells of the first line, if it is that of a table."""
        first = next((line for line in self.lines if not line.startswith("#")), "")
        delimiter = max(_DELIMITERS, key=first.count)
        return {cell.strip().strip("'\"") for cell in first.split(delimiter)}

    def lacks(self, sign: Keys | Columns | TextLine | Root) -> tuple[list[str], int]:
        """Return what a sign wants and the file lacks, and how much it wants."""
        if isinstance(sign, Keys):
            outline = self.first_document if sign.lines else self.outline
            return [path for path in sign.paths if not outline.has(path)], len(sign.paths)
        if isinstance(sign, Columns):
            return sign.lacks(self.header), len(sign.groups)
        if isinstance(sign, TextLine):
            found = any(sign.pattern.search(line) for line in self.lines)
            return ([] if found else [sign.told]), 1
        return [f"<{sign.tag}>"], 1


def recognised(file: UnreadFile, tools: Iterable[ToolFormat]) -> str | None:
    """Return the name of the first tool with a sign that the file bears; None if there is none."""
    for tool in tools:
        if any(not isinstance(sign, Root) and not file.lacks(sign)[0] for sign in tool.signs):
            return tool.name
    return None


def unknown_content(file: UnreadFile, tools: Iterable[ToolFormat], what: str) -> InputError:
    """Return an error that names the formats which come nearest, and what the file lacks for each."""
    is_table = len(file.header) > 1
    shares: list[tuple[float, str]] = []
    for tool in tools:
        for sign in (one for one in tool.signs if isinstance(one, Keys | Columns)):
            lacking, wanted = file.lacks(sign)
            share = 1 - len(lacking) / wanted
            # any table is near to formats that are tables
            if share > 0 or (is_table and isinstance(sign, Columns)):
                shares.append((share, f"{tool.name} (lacks {', '.join(lacking)})"))
    near = [told for _, told in sorted(shares, key=lambda one: -one[0])][:_NEAREST]
    nearest = f"; nearest: {'; '.join(near)}" if near else ""
    return InputError(f"is {what} in no known format{nearest}; --from FORMAT names one", file=file.path)
