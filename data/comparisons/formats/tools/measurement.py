"""What a reader gives: measurements of one series, raw or summed up."""

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

#: What makes a rate: amounts per time, of which more is better.
_PER_TIME = ("/s", "/sec", "/ms", "/us", "/ns", "/min")


class Measurement(NamedTuple):
    """Values of one series at one version; several of the same series and version are joined.

    `operation` includes the parameters that the tool varies. An empty `benchmark` stands for the tool's name,
    an empty `version` for the source's. `when` sorts the versions of a source, if all have it. `summary` is
    by names in ``STATS``, where there are no values.
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

    `measure` says which values are better where the format does not.
    """

    path: Path
    files: Sequence[Path]
    problems: Problems
    measure: Measure

    def better(self, told: str | None = None) -> str:
        """Return which values are better: what is `told`, what the user says, or the assumption."""
        return told or self.measure.better or self.problems.assume_higher(self.path)

    def summed_up(self) -> None:
        """Note that the source holds no repetitions."""
        self.problems.note(f"{self.path} holds summaries only, without the repetitions behind them")

    def left_out(self, what: str, why: str) -> None:
        """Note that something was passed over."""
        self.problems.note(f"{self.path}: {what} is left out: {why}")


Read = Callable[[SourceFiles], Iterator[Measurement]]


def named(operation: str, parameters: Mapping[str, object]) -> str:
    """Return an operation's name with its parameters, such as ``sort[size=10,kind=heap]``."""
    told = ",".join(f"{name}={value}" for name, value in parameters.items())
    return f"{operation}[{told}]" if told else operation


def of_unit(unit: str) -> str:
    """Return which values are better by the unit: more of a rate, less of everything else."""
    return "higher" if unit.endswith(_PER_TIME) else "lower"


def known(summary: Mapping[str, float | None]) -> dict[str, float]:
    """Return what a summary really holds."""
    return {name: value for name, value in summary.items() if value is not None}


class Summary(msgspec.Struct):
    """A summary as tools write it; any number may be missing."""

    min: float | None = None
    q1: float | None = None
    median: float | None = None
    q3: float | None = None
    max: float | None = None
    mean: float | None = None
    stddev: float | None = None

    @property
    def known(self) -> dict[str, float]:
        """Return the numbers by their names in tables."""
        return known({stat: getattr(self, {"stdev": "stddev"}.get(stat, stat)) for stat in STATS})


def moment(text: str | float | None) -> str:
    """Return a time as text that sorts; empty if `text` is none.

    Times are ISO 8601, with any separators in the date, or seconds (or milliseconds) since 1970.
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


#: So many seconds since 1970 are milliseconds.
_MILLISECONDS = 1e11


def number(text: str, file: Path, line: int, what: str) -> float:
    """Return a number in a line of text; InputError names the line and the value."""
    try:
        return float(text)
    except ValueError as exc:
        raise InputError(f'{what} "{text[:60]}" is not a number', file=file, line=line) from exc


T = TypeVar("T")
#: A file that is larger, in bytes, is to be divided by who measures.
MOST = 2**30
_MARK = b"\xef\xbb\xbf"
#: What Python writes for floats that JSON has no words for.
_NO_JSON = re.compile(rb"(?<=[\[,:\s])(?:NaN|-?Infinity)(?=[\],}\s])")
_QUOTED = 200
#: Letters of a header that are looked at.
_HEADER = 10_000


def bytes_of(path: Path) -> bytes:
    """Return the content of a file; InputError if it cannot be read, is empty or too large."""
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
    """Yield the lines of a text file that hold anything, with their numbers, counted from one."""
    try:
        text = bytes_of(path).decode()
    except UnicodeDecodeError as exc:
        raise InputError(f"is not text (byte {exc.start} is not UTF-8)", file=path) from exc
    for line, one in enumerate(text.splitlines(), 1):
        if one.strip():
            yield line, one


def delimiter_of(path: Path) -> str:
    """Return what separates the cells of a table, by its first line."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        header = file.readline(_HEADER)
    return max(",;\t", key=header.count)


def table_of(path: Path, columns: Sequence[str], **options: Any) -> pd.DataFrame:
    """Read a table as `data.tables.cells.cells` does; a row that is longer than the header is wrong."""
    with catch_warnings():
        simplefilter("error", pd.errors.ParserWarning)
        try:
            return cells(path, columns, index_col=False, **options)
        except pd.errors.ParserWarning as exc:
            raise InputError("has rows that are longer than its header", file=path) from exc


def standard(content: bytes) -> bytes:
    """Return JSON with null in place of what is no number of JSON."""
    strange = b"NaN" in content or b"Infinity" in content
    return _NO_JSON.sub(b"null", content) if strange else content


def json_of(path: Path, kind: type[T]) -> T:
    """Decode a JSON file as `kind`, ignoring keys that `kind` does not name; errors name the place."""
    return decoded(standard(bytes_of(path)), kind, path)


def decoded(content: bytes | msgspec.Raw, kind: type[T], path: Path, place: str = "") -> T:
    """Decode a whole document, or a part of one that stands at `place`; raises as `json_of`."""
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
    """Decode the elements of a list one by one, holding one at a time; yield each with its place."""
    for index, part in enumerate(parts):
        at = f"{place}[{index}]"
        yield at, decoded(part, kind, path, at)


def _told(problem: str, place: str) -> str:
    """Say what msgspec says, with the place first."""
    what, _, within = problem.partition(" - at `$")
    return f"{place}{within.rstrip('`')}: {what}".removeprefix(".").removeprefix(": ")[:_QUOTED]
