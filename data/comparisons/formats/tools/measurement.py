"""Measurements as readers return them, and functions that read files of tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from data.comparisons.params import Measure
from data.comparisons.tables import STATS
from data.comparisons.units import UNKNOWN
from data.errors import InputError, MalformedError
from data.tables.documents import require_unique_keys
from data.tables.files import naming_unreadable, read_bytes
from data.tables.problems import Problems


class Measurement(NamedTuple):
    """Values of one series at one version; measurements of the same series and version are merged.

    `operation` includes the parameters that the tool varies. An empty `benchmark` means the tool's name, an
    empty `version` the name of the source. `when`, a time that `parse_time` can read, sorts the versions of a
    source if all have it. `summary` maps names of ``STATS`` to numbers, for measurements without values.
    `mode` is how the tool measured; it follows the name of an operation that was measured in several modes.
    """

    operation: str
    values: Sequence[float]
    unit: str
    better: str
    benchmark: str = ""
    machine: str = UNKNOWN
    threads: int = 1
    version: str = ""
    when: str | float | None = None
    summary: Mapping[str, float] | None = None
    mode: str = ""


@dataclass(frozen=True)
class SourceFiles:
    """The files of one source, in order; `path` is the source as the user named it.

    `measure` has the user's choice of better values ("lower" or "higher"), for formats that do not define it.
    """

    path: Path
    files: Sequence[Path]
    problems: Problems
    measure: Measure

    def better_direction(self, defined: str | None = None) -> str:
        """Return "lower" or "higher": `defined` by the format, else the user's choice, else assumed."""
        return defined or self.measure.better or self.problems.assume_higher(self.path)

    def note_omission(self, part: str, reason: str) -> None:
        """Add a note to `problems` that `part` of the source is left out, with the reason."""
        self.problems.add_note(f"{self.path}: {part} is left out: {reason}")


#: A reader yields the measurements of a source; InputError if a file cannot be read or is invalid.
Read = Callable[[SourceFiles], Iterator[Measurement]]


def name_with_parameters(operation: str, parameters: Mapping[str, object]) -> str:
    """Return an operation's name with its parameters, such as ``sort[size=10,kind=heap]``.

    They are in the order of `parameters`, with values as `str` writes them. Without parameters, the name is
    returned unchanged.
    """
    texts = ",".join(f"{name}={value}" for name, value in parameters.items())
    return f"{operation}[{texts}]" if texts else operation


class Summary(msgspec.Struct):
    """A summary as tools write it; each number may be missing."""

    min: float | None = None
    q1: float | None = None
    median: float | None = None
    q3: float | None = None
    max: float | None = None
    mean: float | None = None
    stddev: float | None = None

    @property
    def present_numbers(self) -> dict[str, float]:
        """The numbers that are not None, by names of `STATS`."""
        numbers = {stat: getattr(self, {"stdev": "stddev"}.get(stat, stat)) for stat in STATS}
        return {stat: number for stat, number in numbers.items() if number is not None}


#: Larger numbers are milliseconds since 1970, not seconds.
_MILLISECONDS = 1e11
_BASIC_DATE = re.compile(r"(?:19|20)\d{6}")


@lru_cache(2**16)
def parse_time(text: str | float | None) -> str:
    """Return a time as ISO 8601 in UTC, which sorts as text; empty if `text` is not a time.

    The result always has six decimals and ``+00:00``. Accepted are ISO 8601 with ``-``, ``.`` or ``/`` in the
    date (year first; UTC without a zone), the text of dates like ``20261126``, and seconds since 1970, as a
    number or as digits, maybe with a decimal point; numbers above 1e11 are milliseconds. None, the empty text
    and the number 0 give the empty text, but the text "0" is 1970.
    """
    try:
        if isinstance(text, str) and (_BASIC_DATE.fullmatch(text) or not text.replace(".", "", 1).isdigit()):
            day, clock = text.strip()[:10].replace(".", "-").replace("/", "-"), text.strip()[10:]
            clock = clock.replace(" +", "+").replace(" -", "-").replace(" UTC", "Z")
            at = datetime.fromisoformat(day + clock)
            at = at.replace(tzinfo=at.tzinfo or UTC)
        else:
            seconds = float(text or "nan")
            at = datetime.fromtimestamp(seconds / 1000 if seconds > _MILLISECONDS else seconds, UTC)
        return at.astimezone(UTC).isoformat(timespec="microseconds")
    except (ValueError, OverflowError, OSError):
        return ""


def parse_number(text: str, file: Path, line: int, name: str) -> float:
    """Return the number in `text`, nan or inf too; else InputError with `file`, `line`, `name` and `text`."""
    try:
        return float(text)
    except ValueError as exc:
        raise InputError(f'{name} "{text[:60]}" is not a number', file=file, line=line) from exc


T = TypeVar("T")
#: Number of lines whose keys are checked together.
_CHECKED_LINES = 1000
#: Maximum size of a file in bytes; users must split larger ones.
MAX_BYTES = 2**30
#: Floats that Python writes into JSON although the standard has no such numbers; and strings, which are kept.
#: A string ends at the end of the line at the latest.
_NO_JSON = re.compile(rb'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?|NaN|Infinity|-Infinity')
_QUOTED = 200


def read_content(path: Path) -> bytes:
    """Return the content of a file without the byte order mark of UTF-8.

    InputError if the file cannot be read, is blank or larger than `MAX_BYTES` (1 GiB).
    """
    return read_bytes(path, MAX_BYTES, "measurements").removeprefix(b"\xef\xbb\xbf")


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number (from 1) and the text of each line that is not blank; only the line break is removed.

    Lines end with a line feed, a carriage return or both; blank ones are counted. A byte order mark at the
    start is removed, too. InputError, before any line, if the file cannot be read, is blank, larger than 1
    GiB or not UTF-8.
    """
    try:
        text = read_content(path).decode()
    except UnicodeDecodeError as exc:
        raise InputError(f"is not text (byte {exc.start} is not UTF-8)", file=path) from exc
    # str.splitlines also splits at form feeds, U+2028 and others
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        if line.strip():
            yield number, line


def read_json_lines(path: Path, kind: type[T]) -> Iterator[tuple[int, str, T | None]]:
    """Yield the number, the text and the decoded object of each line that is not blank.

    Numbers begin at 1; only the line break is removed from the text. The object is None for lines that do not
    begin with ``{`` after white space. Others are decoded as the type `kind`, ignoring unknown keys; NaN and
    infinities are read as null. InputError as by `read_lines`; while iterating, with the line, if JSON is
    malformed (MalformedError), does not have the type, or has a key twice, which is detected up to
    `_CHECKED_LINES` objects later.
    """
    decoder = msgspec.json.Decoder(kind)
    numbers: list[int] = []
    texts: list[str] = []
    for number, line in read_lines(path):
        text = line.strip()
        if not text.startswith("{"):
            yield number, line, None
            continue
        try:
            decoded = decoder.decode(text)
        except (ValueError, RecursionError):
            text = standard_json(text.encode()).decode()
            decoded = decode_json(text.encode(), kind, path, f"line {number}")
        numbers.append(number)
        texts.append(text)
        if len(texts) == _CHECKED_LINES:
            _require_unique_keys(numbers, texts, path)
        yield number, line, decoded
    _require_unique_keys(numbers, texts, path)


def _require_unique_keys(numbers: list[int], texts: list[str], path: Path) -> None:
    """Check the objects of lines together, which is faster than one by one, and remove them."""
    try:
        require_unique_keys("[{}]".format(",\n".join(texts)).encode())
    except InputError as exc:
        raise InputError(exc.problem, file=path, line=numbers[(exc.line or 1) - 1]) from exc
    numbers.clear()
    texts.clear()


def delimiter_of(path: Path) -> str:
    """Return the delimiter of a table: comma, semicolon or tab, whichever is most frequent in its first line.

    After a tie it is the first of these; without any (also in an empty file) a comma. Quotes are not parsed.
    InputError if the file cannot be read.
    """
    with naming_unreadable(path), path.open(encoding="utf-8-sig", errors="replace") as file:
        header = file.readline(10_000)
    return max(",;\t", key=header.count)


def standard_json(content: bytes) -> bytes:
    """Return JSON with NaN and infinities, which the standard does not allow, replaced by null.

    Text in strings is kept. The bytes are not parsed: other invalid JSON is returned, still invalid.
    """
    is_extended = b"NaN" in content or b"Infinity" in content
    return _NO_JSON.sub(_without_number, content) if is_extended else content


def _without_number(found: re.Match[bytes]) -> bytes:
    return found[0] if found[0].startswith(b'"') else b"null"


def read_json(path: Path, kind: type[T]) -> T:
    """Return a JSON file decoded as the type `kind`; unknown keys are ignored, NaN and infinities are null.

    MalformedError (an InputError) if the file is not JSON. InputError if it cannot be read, is blank or
    larger than 1 GiB, a value does not have the type that `kind` expects, or an object has a key twice.
    """
    content = read_content(path)
    # replaced only if needed: the search takes a tenth of the time
    try:
        return decode_json(content, kind, path)
    except MalformedError:
        return decode_json(standard_json(content), kind, path)


def decode_json(content: bytes | msgspec.Raw, kind: type[T], path: Path, place: str = "") -> T:
    """Return JSON, a whole document or a raw part of one, decoded as the type `kind`, ignoring unknown keys.

    `place` is the part's position in the document, for messages. Errors name the file `path`: MalformedError
    (an InputError) if `content` is not JSON; InputError if a value does not have the type that `kind` expects
    or a required key is missing (with its position), or if an object in a whole document has a key twice. In
    a raw part, repeated keys are not detected.
    """
    try:
        decoded = msgspec.json.decode(content, type=kind, strict=True)
        if isinstance(content, bytes):
            require_unique_keys(content)
    except msgspec.ValidationError as exc:
        problem, _, within = str(exc).partition(" - at `$")
        message = f"{place}{within.rstrip('`')}: {problem}".removeprefix(".").removeprefix(": ")
        raise InputError(message[:_QUOTED], file=path) from exc
    except (ValueError, RecursionError) as exc:
        raise MalformedError(f"is not JSON ({str(exc)[:_QUOTED]})", file=path, place=place or None) from exc
    except InputError as exc:
        raise exc.with_file(path) from exc
    return decoded


def decode_each(parts: list[msgspec.Raw], kind: type[T], path: Path, place: str) -> Iterator[tuple[str, T]]:
    """Decode the elements of a list one at a time; yield ("place[index]", element).

    Unknown keys are ignored, repeated keys not detected. InputError, with `path` and place, at the first
    element that is not of the type `kind`.
    """
    decoder = msgspec.json.Decoder(kind)
    for index, part in enumerate(parts):
        element_place = f"{place}[{index}]"
        try:
            decoded = decoder.decode(part)
        except (ValueError, RecursionError):
            decoded = decode_json(part, kind, path, element_place)
        yield element_place, decoded
