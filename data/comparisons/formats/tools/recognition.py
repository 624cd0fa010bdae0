"""Recognise the tool that wrote a file by its content; for unknown content, name the nearest formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from data.comparisons.formats.tools.measurement import Read, read_content, standard_json
from data.errors import InputError


class Keys:
    """Recognises JSON by paths of keys.

    The path ``benchmarks.stats`` is the key ``stats`` of the first element of ``benchmarks``. With `lines`,
    the file has one JSON document per line.
    """

    def __init__(self, *paths: str, lines: bool = False) -> None:
        self.paths, self.lines = paths, lines


class Columns:
    """Recognises a table by its header, which has at least one name of each group."""

    def __init__(self, *groups: Sequence[str]) -> None:
        self.groups = groups


#: Content that identifies a format; a pattern is searched in every line of a text.
Sign = Keys | Columns | re.Pattern[str]


@dataclass(frozen=True)
class ToolFormat:
    """A format that a benchmark tool writes, recognised by any of its signs; docs/formats.md describes it.

    `root` is the root element of its XML, `folder` the pattern of the files in a directory that is one
    source. `versions` is whether a source has several versions, and all files of a directory are one source.
    """

    name: str
    read: Read
    signs: Sequence[Sign]
    root: str = ""
    folder: str = ""
    versions: bool = False


def tool_format(name: str, *signs: Sign, **options: Any) -> Callable[[Read], ToolFormat]:
    """Return a decorator that makes a reader the `ToolFormat` `name`, recognised by any of `signs`.

    Signs are `Keys` of JSON, `Columns` of a table or patterns of a line; `options` are the fields `root`,
    `folder` and `versions`.
    """
    return lambda read: ToolFormat(name, read, signs, **options)


#: Number of lines in which signs of any kind are searched, and the characters of each line.
_LINES, _LETTERS = 200, 2000
#: Number of formats that the error for unknown content names.
_NEAREST = 2
_DELIMITERS = ",;\t"


class _JsonOutline:
    def __init__(self, raw: bytes | msgspec.Raw) -> None:
        self._raw = raw

    @cached_property
    def members(self) -> dict[str, _JsonOutline]:
        """The members of an object, or of a list's first element; empty for other or invalid JSON."""
        try:
            parts = msgspec.json.decode(self._raw, type=dict[str, msgspec.Raw] | list[msgspec.Raw])
        except (ValueError, RecursionError):
            return {}
        if isinstance(parts, dict):
            return {key: _JsonOutline(part) for key, part in parts.items()}
        return _JsonOutline(parts[0]).members if parts else {}

    def has_path(self, path: str) -> bool:
        """Return whether a path such as ``benchmarks.stats`` exists; ``*`` is the first member."""
        key, _, rest = path.partition(".")
        member = next(iter(self.members.values()), None) if key == "*" else self.members.get(key)
        return member is not None and (not rest or member.has_path(rest))


class UnreadFile:
    """A file with an unknown format; reads `path` (InputError if unreadable) unless `content` is given."""

    def __init__(self, path: Path, content: bytes | None = None) -> None:
        self.path, self.content = path, standard_json(read_content(path) if content is None else content)

    @cached_property
    def is_json(self) -> bool:
        """Whether the content is one JSON document."""
        try:
            msgspec.json.decode(self.content, type=msgspec.Raw)
        except (ValueError, RecursionError):
            return False
        return True

    @cached_property
    def json_outline(self) -> _JsonOutline:
        """The content as one JSON document, decoded lazily; without members if it is not JSON."""
        return _JsonOutline(self.content)

    @cached_property
    def _raw_lines(self) -> list[bytes]:
        return [*islice(BytesIO(self.content), _LINES)]

    @cached_property
    def first_lines(self) -> list[str]:
        """The first lines that are not blank, stripped and shortened."""
        return [line for line in map(_shortened, self._raw_lines) if line]

    @property
    def later_lines(self) -> Iterator[str]:
        """The lines after the first ones, stripped and shortened; none if the content is JSON."""
        lines = () if self.is_json else islice(BytesIO(self.content), _LINES, None)
        return map(_shortened, lines)

    @cached_property
    def first_document(self) -> _JsonOutline:
        """The first line that begins a JSON object; an empty object without one."""
        return _JsonOutline(next((line for line in self._raw_lines if line.lstrip()[:1] == b"{"), b"{}"))

    @cached_property
    def header_cells(self) -> set[str]:
        """The cells of the first line that is not a comment, read as the header of a table."""
        first = next((line for line in self.first_lines if not line.startswith("#")), "")
        delimiter = max(_DELIMITERS, key=first.count)
        return {cell.strip().strip("'\"") for cell in first.split(delimiter)}

    def missing_parts(self, sign: Sign) -> tuple[list[str], int]:
        """Return the parts of a sign that the file does not have, and the number of parts of the sign.

        Parts are the paths of `Keys`, the groups of `Columns`, or one pattern.
        """
        if isinstance(sign, Keys):
            outline = self.first_document if sign.lines else self.json_outline
            return [path for path in sign.paths if not outline.has_path(path)], len(sign.paths)
        if isinstance(sign, Columns):
            missing = [names for names in sign.groups if self.header_cells.isdisjoint(names)]
            return [" or ".join(names) for names in missing], len(sign.groups)
        return ([] if any(map(sign.search, self.first_lines)) else [sign.pattern]), 1


def _shortened(line: bytes) -> str:
    return line[:_LETTERS].decode(errors="replace").strip()


def recognise_tool(file: UnreadFile, tools: Collection[ToolFormat]) -> str | None:
    """Return the name of the first of `tools` that may have written the file; None if none may.

    The file must have one of the tool's signs in full: all paths of JSON keys, a name of each group of
    columns in the header, or a pattern in a line. Patterns in the first 200 lines precede those in others.
    """
    for tool in tools:
        if any(not file.missing_parts(sign)[0] for sign in tool.signs):
            return tool.name
    patterns = [(tool.name, sign) for tool in tools for sign in tool.signs if isinstance(sign, re.Pattern)]
    return next((name for line in file.later_lines for name, sign in patterns if sign.search(line)), None)


def unknown_content(file: UnreadFile, tools: Iterable[ToolFormat], kind: str) -> InputError:
    """Return an InputError (not raised) that names up to two nearest formats and their missing parts.

    A format has one or more signs, each with parts. The nearest sign of a format is that of whose parts the
    file has the largest share, and the nearest formats are those with the largest such share. Formats without
    any part are not named; but formats of tables are, if the file is a table.
    `kind` is the kind of the content in the message, such as "JSON".
    """
    is_table = len(file.header_cells) > 1
    nearest_signs: list[tuple[float, str]] = []
    for tool in tools:
        shares: list[tuple[float, str]] = []
        for sign in tool.signs:
            missing, n_parts = file.missing_parts(sign)
            share = 1 - len(missing) / n_parts
            # every table is close to formats that are tables
            if share > 0 or (is_table and isinstance(sign, Columns)):
                shares.append((share, f"{tool.name} (lacks {', '.join(missing)})"))
        nearest_signs += sorted(shares, key=lambda share: -share[0])[:1]
    near = [text for _, text in sorted(nearest_signs, key=lambda share: -share[0])][:_NEAREST]
    nearest = f"; nearest: {'; '.join(near)}" if near else ""
    return InputError(f"is {kind} in no known format{nearest}; --from FORMAT names one", file=file.path)
