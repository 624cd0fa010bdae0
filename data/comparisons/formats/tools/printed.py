"""Read the text output of ``perf stat``, sysbench and Go benchmarks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from data.comparisons.formats.tools.measurement import (
    Measurement,
    SourceFiles,
    decoded,
    lines_of,
    named,
    number,
    of_unit,
)

_COUNT = r"[\d.]+(?:[eE][-+]?\d+)?|<not (?:counted|supported)>"
#: A line of counts: optional interval or processor, then count, unit and event, with any delimiter.
LINE = re.compile(
    rf"^\s*(?:(?P<time>\d+\.\d{{6,}})(?P<s>[,;|\t]))?"
    rf"(?:(?P<where>(?:[SDCNL]\d+(?:-[SDCNL]\d+)*|CPU\d+)(?:[,;|\t]\d+)?)[,;|\t])?"
    rf"(?P<count>{_COUNT})(?P<x>[,;|\t])(?P<unit>[^,;|\t]*)(?P=x)(?P<event>[^,;|\t]+)(?P=x)"
    rf"(?:(?P<spread>[\d.]+)%(?P=x))?\d+(?P=x)"
)
_UNITS = {"msec": "ms", "": "count"}
_NOT_COUNTED = "<"


class _PerfLine(msgspec.Struct, rename={"count": "counter-value"}):
    count: str | float
    event: str
    unit: str = ""
    variance: float | None = None
    cpu: str | None = None
    core: str | None = None
    socket: str | None = None


@dataclass(frozen=True)
class _PerfCount:
    """A count of either output format; `spread` in percent if the count is a mean of several runs."""

    event: str
    count: str
    unit: str
    spread: float | None
    where: str | None

    def measurement(self, path: Path, line: int, better: str) -> Measurement:
        value = number(self.count, path, line, self.event)
        name = f"{self.event} {self.where}" if self.where else self.event
        unit = _UNITS.get(self.unit, self.unit)
        if self.spread is None:
            return Measurement(name, (value,), unit, better)
        summary = {"mean": value, "stdev": value * self.spread / 100}
        return Measurement(name, (), unit, better, summary=summary)


def read_perf_stat(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the counts of every event: one per run or interval, or, with ``-r``, a mean and its spread.

    perf does not define which values are better; unless the user does, fewer events are better, as they are
    the cost of the same work.
    """
    for path in source.files:
        for line, text in lines_of(path):
            one = _json(path, line, text) if text.lstrip().startswith("{") else _separated(text)
            if one is None or one.count.startswith(_NOT_COUNTED):
                continue
            if one.spread is not None:
                source.summed_up()
            yield one.measurement(path, line, source.measure.better or "lower")


def _json(path: Path, line: int, text: str) -> _PerfCount:
    one = decoded(text.strip().encode(), _PerfLine, path, f"line {line}")
    return _PerfCount(one.event, str(one.count), one.unit, one.variance, one.cpu or one.core or one.socket)


def _separated(text: str) -> _PerfCount | None:
    """Return the count in a line; None for computed metrics and for output of the measured program."""
    found = LINE.match(text)
    if found is None:
        return None
    spread = float(found["spread"]) if found["spread"] else None
    return _PerfCount(found["event"], found["count"], found["unit"], spread, found["where"])


BEGIN = re.compile(r"^sysbench \d+\.\d+")
_THREADS = re.compile(r"^Number of threads:\s*(\d+)")
#: Parameters of a test.
_PARAMETERS = re.compile(r"^\s*(Prime numbers limit|block size|operation|scope|Block size):\s*(\S+)")
_N = r"([\d.]+)"
#: Totals of a run: pattern, operation, unit, and which values are better.
_TOTALS = (
    (re.compile(rf"^\s*events per second:\s*{_N}"), "events", "events/s", "higher"),
    (re.compile(rf"^\s*events/s \(eps\):\s*{_N}"), "events", "events/s", "higher"),
    (re.compile(rf"^Total operations: .*\({_N} per second\)"), "operations", "op/s", "higher"),
    (re.compile(rf"MiB transferred \({_N} MiB/sec\)"), "transferred", "MiB/s", "higher"),
    (re.compile(rf"^\s*transactions:\s.*\({_N} per sec"), "transactions", "transactions/s", "higher"),
    (re.compile(rf"^\s*queries:\s.*\({_N} per sec"), "queries", "queries/s", "higher"),
    (re.compile(rf"^\s*reads/s:\s*{_N}"), "reads", "reads/s", "higher"),
    (re.compile(rf"^\s*writes/s:\s*{_N}"), "writes", "writes/s", "higher"),
    (re.compile(rf"^\s*fsyncs/s:\s*{_N}"), "fsyncs", "fsyncs/s", "higher"),
    (re.compile(rf"^\s*read, MiB/s:\s*{_N}"), "read", "MiB/s", "higher"),
    (re.compile(rf"^\s*written, MiB/s:\s*{_N}"), "written", "MiB/s", "higher"),
    (re.compile(rf"^\s*avg:\s*{_N}"), "latency", "ms", "lower"),
)
_KINDS = {name: (unit, better) for _, name, unit, better in _TOTALS}
#: Values per interval (``--report-interval``), which replace the total of the same operation.
_INTERVALS = (
    (re.compile(rf"\beps: {_N}"), "events"),
    (re.compile(rf"\btps: {_N}"), "transactions"),
    (re.compile(rf"\bqps: {_N}"), "queries"),
    (re.compile(rf"\] {_N} MiB/sec"), "transferred"),
)


@dataclass
class _SysbenchRun:
    threads: int = 1
    parameters: dict[str, str] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, list[float]] = field(default_factory=dict)

    def measurements(self) -> Iterator[Measurement]:
        """Yield a measurement per operation: one value per interval, else one for the run."""
        for name, (unit, better) in _KINDS.items():
            values = self.intervals.get(name) or ([self.totals[name]] if name in self.totals else [])
            if values:
                operation = named(name, self.parameters)
                yield Measurement(operation, values, unit, better, threads=max(self.threads, 1))


def read_sysbench(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the rates and the mean latency of every run; several runs in a file are repetitions."""
    for path in source.files:
        run = _SysbenchRun()
        for line, text in lines_of(path):
            if BEGIN.match(text):
                yield from run.measurements()
                run = _SysbenchRun()
            _look(run, text, path, line)
        yield from run.measurements()


def _look(run: _SysbenchRun, text: str, path: Path, line: int) -> None:
    if found := _THREADS.match(text):
        run.threads = int(found[1])
    elif found := _PARAMETERS.match(text):
        run.parameters[found[1].lower().replace(" ", "_")] = found[2]
    elif text.startswith("["):
        for pattern, name in _INTERVALS:
            if found := pattern.search(text):
                run.intervals.setdefault(name, []).append(number(found[1], path, line, name))
    else:
        for pattern, name, _, _ in _TOTALS:
            if found := pattern.search(text):
                run.totals.setdefault(name, number(found[1], path, line, name))


RESULT = re.compile(r"^(Benchmark\S*)\s+(\d+)\s+(\S+ \S+.*)$")
_PROCESSORS = re.compile(r"-(\d+)$")
#: A line such as ``Unit ns/op better=lower``, which packages may print.
_DIRECTION = re.compile(r"^Unit (\S+) .*\bbetter=(lower|higher)")
_TIME = "ns/op"


def read_go_bench(source: SourceFiles) -> Iterator[Measurement]:
    """Yield one value per line and unit; the number after the last ``-`` of a name is GOMAXPROCS."""
    for path in source.files:
        package, directions = "", dict[str, str]()
        for line, text in lines_of(path):
            if text.startswith("pkg:"):
                package = text.removeprefix("pkg:").strip()
            elif told := _DIRECTION.match(text):
                directions[told[1]] = told[2]
            elif found := RESULT.match(text):
                name, threads = _named(found[1])
                for value, unit in _values(found[3], path, line):
                    better = source.better(directions.get(unit) or _usual(unit))
                    operation = name if unit == _TIME else f"{name} {unit}"
                    yield Measurement(operation, (value,), unit, better, package, threads=threads)


def _named(text: str) -> tuple[str, int]:
    name = text.removeprefix("Benchmark")
    processors = _PROCESSORS.search(name)
    return _PROCESSORS.sub("", name) or text, int(processors[1]) if processors else 1


def _values(text: str, path: Path, line: int) -> list[tuple[float, str]]:
    fields = text.split()
    each = zip(fields[::2], fields[1::2], strict=False)
    return [(number(value, path, line, unit), unit) for value, unit in each]


def _usual(unit: str) -> str | None:
    return of_unit(unit) if unit.endswith(("/op", "/s")) else None
