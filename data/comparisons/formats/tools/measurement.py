"""Measurements as readers return them, and helpers for reading files of tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from warnings import catch_warnings, simplefilter

import msgspec
import pandas as pd

from data.comparisons.params import Measure
from data.comparisons.tables import STATS
from data.comparisons.units import UNKNOWN
from data.errors import InputError, MalformedError
from data.tables.cells import cells
from data.tables.documents import require_unique_keys
from data.tables.problems import Problems

#: Suffixes of the units of rates, where higher is better.
_PER_TIME = ("/s", "/sec", "/ms", "/us", "/ns", "/min")


class Measurement(NamedTuple):
    """Values of one series at one version; measurements of the same series and version are merged.

    `operation` includes the parameters that the tool varies. An empty `benchmark` stands for the tool's name,
    an empty `version` for the name of the source. `when` sorts the versions of a source if all have it.
    `summary` maps names of ``STATS`` to numbers, for measurements without values.
    """

    operation: str
    values: Sequence[float]
    unit: str
    better: str
    benchmark: str = ""
    machine: str = UNKNOWN
    threads: int = 1
    version: str = ""
    when: str = ""
    summary: Mapping[str, float] | None = None


@dataclass(frozen=True)
class SourceFiles:
    """The files of one source, in order; `path` is the source as the user named it.

    `measure` has the user's choice of which values are better, for formats that do not define it.
    """

    path: Path
    files: Sequence[Path]
    problems: Problems
    measure: Measure

    def better(self, told: str | None = None) -> str:
        """Return which values are better: as `told` by the format, else the user's choice, else assumed."""
        return told or self.measure.better or self.problems.assume_higher(self.path)

    def summed_up(self) -> None:
        """Note that the source holds no repetitions."""
        self.problems.note(f"{self.path} holds summaries only, without the repetitions behind them")

    def left_out(self, what: str, why: str) -> None:
        """Note that the part `what` is skipped, and why."""
        self.problems.note(f"{self.path}: {what} is left out: {why}")


Read = Callable[[SourceFiles], Iterator[Measurement]]


def named(operation: str, parameters: Mapping[str, object]) -> str:
    """Return an operation's name with its parameters, such as ``sort[size=10,kind=heap]``."""
    told = ",".join(f"{name}={value}" for name, value in parameters.items())
    return f"{operation}[{told}]" if told else operation


def of_unit(unit: str) -> str:
    """Return which values of a unit are better: "higher" for rates, else "lower"."""
    return "higher" if unit.endswith(_PER_TIME) else "lower"


def known(summary: Mapping[str, float | None]) -> dict[str, float]:
    """Return a summary without its missing numbers."""
    return {name: value for name, value in summary.items() if value is not None}


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
    def known(self) -> dict[str, float]:
        """The numbers that are present, by names of `STATS`."""
        return known({stat: getattr(self, {"stdev": "stddev"}.get(stat, stat)) for stat in STATS})


def moment(text: str | float | None) -> str:
    """Return a time as ISO 8601 in UTC, which sorts as text; empty if `text` is not a time.

    Accepts ISO 8601 with ``-``, ``.`` or ``/`` in the date, and seconds or milliseconds since 1970.
    """
    try:
        if isinstance(text, str) and not text.replace(".", "", 1).isdigit():
            year, rest = text.strip()[:10].replace(".", "-").replace("/", "-"), text.strip()[10:]
            at = datetime.fromisoformat(
                year + rest.replace(" +", "+").replace(" -", "-").replace(" UTC", "Z")
            )
            at = at.replace(tzinfo=at.tzinfo or UTC)
        else:
            seconds = float(text or "nan")
            at = datetime.fromtimestamp(seconds / 1000 if seconds > _MILLISECONDS else seconds, UTC)
        return at.astimezone(UTC).isoformat(timespec="microseconds")
    except (ValueError, OverflowError, OSError):
        return ""


#: Larger numbers are milliseconds since 1970, not seconds.
_MILLISECONDS = 1e11


def number(text: str, file: Path, line: int, what: str) -> float:
    """Return the number that `text` holds; an InputError names the line and the value."""
    try:
        return float(text)
    except ValueError as exc:
        raise InputError(f'{what} "{text[:60]}" is not a number', file=file, line=line) from exc


T = TypeVar("T")
#: Maximum size of a file in bytes; users must split larger ones.
MOST = 2**30
_MARK = b"\xef\xbb\xbf"
#: Floats that Python writes into JSON although the standard has no such numbers.
_NO_JSON = re.compile(rb"(?<=[\[,:\s])(?:NaN|-?Infinity)(?=[\],}\s])")
_QUOTED = 200
#: Characters of a header that are read.
_HEADER = 10_000


def bytes_of(path: Path) -> bytes:
    """Return the content of a file without byte order mark.

    InputError if the file cannot be read, is empty or larger than `MOST`.
    """
    try:
        size = path.stat().st_size
        if size > MOST:
            raise InputError(f"has {size >> 20} MB; up to {MOST >> 20} MB are read at once", file=path)
        content = path.read_bytes()
    except OSError as exc:
        raise InputError(exc.strerror or "cannot be read", file=path) from exc
    if not content.strip():
        raise InputError("is empty; expected measurements", file=path)
    return content.removeprefix(_MARK)


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file that are not blank, with their numbers from 1."""
    try:
        text = bytes_of(path).decode()
    except UnicodeDecodeError as exc:
        raise InputError(f"is not text (byte {exc.start} is not UTF-8)", file=path) from exc
    for line, one in enumerate(text.splitlines(), 1):
        if one.strip():
            yield line, one


def delimiter_of(path: Path) -> str:
    """Return the delimiter of a table: comma, semicolon or tab, whichever is most frequent in its header."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        header = file.readline(_HEADER)
    return max(",;\t", key=header.count)


def table_of(path: Path, columns: Sequence[str], **options: Any) -> pd.DataFrame:
    """Read a table with `data.tables.cells.cells`; InputError if a row is longer than the header."""
    with catch_warnings():
        simplefilter("error", pd.errors.ParserWarning)
        try:
            return cells(path, columns, index_col=False, **options)
        except pd.errors.ParserWarning as exc:
            raise InputError("has rows that are longer than its header", file=path) from exc


def standard(content: bytes) -> bytes:
    """Return JSON with NaN and infinities replaced by null."""
    strange = b"NaN" in content or b"Infinity" in content
    return _NO_JSON.sub(b"null", content) if strange else content


def json_of(path: Path, kind: type[T]) -> T:
    """Decode a JSON file as `kind`, ignoring unknown keys; an InputError names the place in the document."""
    return decoded(standard(bytes_of(path)), kind, path)


def decoded(content: bytes | msgspec.Raw, kind: type[T], path: Path, place: str = "") -> T:
    """Decode a document, or the part of one at `place`, as `json_of` does."""
    try:
        found = msgspec.json.decode(content, type=kind, strict=True)
        if isinstance(content, bytes):
            require_unique_keys(content)
    except msgspec.ValidationError as exc:
        raise InputError(_told(str(exc), place), file=path) from exc
    except (ValueError, RecursionError) as exc:
        raise MalformedError(f"is not JSON ({str(exc)[:_QUOTED]})", file=path) from exc
    except InputError as exc:
        raise exc.within(path) from exc
    return found


def each(parts: list[msgspec.Raw], kind: type[T], path: Path, place: str) -> Iterator[tuple[str, T]]:
    """Decode the elements of a list one at a time, to save memory; yield the place and the element."""
    for index, part in enumerate(parts):
        at = f"{place}[{index}]"
        yield at, decoded(part, kind, path, at)


def _told(problem: str, place: str) -> str:
    """Return msgspec's message with the place at its beginning."""
    what, _, within = problem.partition(" - at `$")
    return f"{place}{within.rstrip('`')}: {what}".removeprefix(".").removeprefix(": ")[:_QUOTED]
