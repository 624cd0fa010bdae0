"""What a reader gives: measurements of one series, raw or summed up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from data.comparisons.params import Measure
from data.comparisons.units import UNKNOWN
from data.errors import InputError
from data.tables.problems import Problems

#: What makes a rate: amounts per time, of which more is better.
_PER_TIME = ("/s", "/sec", "/ms", "/us", "/ns", "/min")


class Measurement(NamedTuple):
    """Values of one series at one version; several of the same series and version are put together.

    Attributes
    ----------
    operation : str
        With the parameters that the tool varies.
    values : sequence of float
        Raw repetitions; empty where there is a summary only.
    unit : str
    better : {"lower", "higher"}
    benchmark : str
        Empty: the tool's name.
    version : str
        Where a source holds several; empty: the name of the source.
    when : str
        Sorts the versions of a source, if all of them have it; otherwise they stay as they come.
    summary : mapping of str to float
        By the names in ``STATS``.
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
    """What is to be read: the files of one source, in order.

    Attributes
    ----------
    path : Path
        The source as the user named it.
    files : sequence of Path
        The same, or the files in it.
    problems : Problems
        Takes notes, and what is wrong with one measurement.
    measure : Measure
        Which values are better, where the format does not say.
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
    """Return the name of an operation with the parameters that it was run with.

    Examples
    --------
    >>> named("sort", {"size": 10, "kind": "heap"})
    'sort[size=10,kind=heap]'
    """
    told = ",".join(f"{name}={value}" for name, value in parameters.items())
    return f"{operation}[{told}]" if told else operation


def of_unit(unit: str) -> str:
    """Return which values are better by the unit: more of a rate, less of everything else."""
    return "higher" if unit.endswith(_PER_TIME) else "lower"


def known(summary: Mapping[str, float | None]) -> dict[str, float]:
    """Return what a summary really holds."""
    return {name: value for name, value in summary.items() if value is not None}


def moment(text: str | float | None) -> str:
    """Return a time as text that sorts; empty if it is none.

    Parameters
    ----------
    text : str or number
        ISO 8601, with any separators between year, month and day, or seconds (or milliseconds) since 1970.
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
    """Return a number in a line of text.

    Raises
    ------
    InputError
        Naming the line, what it is and what stands there.
    """
    try:
        return float(text)
    except ValueError as exc:
        raise InputError(f'{what} "{text[:60]}" is not a number', file=file, line=line) from exc
