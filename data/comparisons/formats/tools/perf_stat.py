"""perf stat: its lines with ``-x``, with ``-j``, and either of them with ``-I``, ``-r`` or ``--append``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from data.comparisons.formats.tools.measurement import Measurement, SourceFiles, decoded, lines_of, number

_COUNT = r"[\d.]+(?:[eE][-+]?\d+)?|<not (?:counted|supported)>"
#: An interval or a processor, the count, the unit and the event, between any separators.
LINE = re.compile(
    rf"^\s*(?:(?P<time>\d+\.\d{{6,}})(?P<s>[,;|\t]))?"
    rf"(?:(?P<where>(?:[SDCNL]\d+(?:-[SDCNL]\d+)*|CPU\d+)(?:[,;|\t]\d+)?)[,;|\t])?"
    rf"(?P<count>{_COUNT})(?P<x>[,;|\t])(?P<unit>[^,;|\t]*)(?P=x)(?P<event>[^,;|\t]+)(?P=x)"
    rf"(?:(?P<spread>[\d.]+)%(?P=x))?\d+(?P=x)"
)
_UNITS = {"msec": "ms", "": "count"}
_NOT_COUNTED = "<"


class PerfLine(msgspec.Struct, rename={"count": "counter-value"}):
    """A line of ``-j``."""

    count: str | float
    event: str
    unit: str = ""
    variance: float | None = None
    cpu: str | None = None
    core: str | None = None
    socket: str | None = None


@dataclass(frozen=True)
class PerfCount:
    """What a line says, in either form: a count as text, and its spread in percent where it is a mean."""

    event: str
    count: str
    unit: str
    spread: float | None
    where: str | None

    def measurement(self, path: Path, line: int, better: str) -> Measurement:
        """Return the same as a measurement; InputError if the count is no number."""
        value = number(self.count, path, line, self.event)
        name = f"{self.event} {self.where}" if self.where else self.event
        unit = _UNITS.get(self.unit, self.unit)
        if self.spread is None:
            return Measurement(name, (value,), unit, better)
        summary = {"mean": value, "stdev": value * self.spread / 100}
        return Measurement(name, (), unit, better, summary=summary)


def read(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the counts of every event: one per run or interval, or, of ``-r``, a mean and its spread.

    perf says of no event which values are better: a count is what the same work costs, so that less is.
    """
    for path in source.files:
        for line, text in lines_of(path):
            one = _json(path, line, text) if text.lstrip().startswith("{") else _separated(text)
            if one is None or one.count.startswith(_NOT_COUNTED):
                continue
            if one.spread is not None:
                source.summed_up()
            yield one.measurement(path, line, source.measure.better or "lower")


def _json(path: Path, line: int, text: str) -> PerfCount:
    one = decoded(text.strip().encode(), PerfLine, path, f"line {line}")
    return PerfCount(one.event, str(one.count), one.unit, one.variance, one.cpu or one.core or one.socket)


def _separated(text: str) -> PerfCount | None:
    """Return what a line counts; None for metrics that are computed, and what the program printed."""
    found = LINE.match(text)
    if found is None:
        return None
    spread = float(found["spread"]) if found["spread"] else None
    return PerfCount(found["event"], found["count"], found["unit"], spread, found["where"])
