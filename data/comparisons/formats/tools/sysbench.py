"""sysbench: what it prints, of one run or of several one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from data.comparisons.formats.tools.measurement import Measurement, SourceFiles, lines_of, named, number

BEGIN = re.compile(r"^sysbench \d+\.\d+")
_THREADS = re.compile(r"^Number of threads:\s*(\d+)")
#: What the test is run with.
_PARAMETERS = re.compile(r"^\s*(Prime numbers limit|block size|operation|scope|Block size):\s*(\S+)")
_N = r"([\d.]+)"
#: What a run says at its end: the name of the operation, its unit, and which values are better.
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
#: What it reports of an interval (``--report-interval``): samples in place of the total of the same name.
_INTERVALS = (
    (re.compile(rf"\beps: {_N}"), "events"),
    (re.compile(rf"\btps: {_N}"), "transactions"),
    (re.compile(rf"\bqps: {_N}"), "queries"),
    (re.compile(rf"\] {_N} MiB/sec"), "transferred"),
)


@dataclass
class SysbenchRun:
    """A run so far."""

    threads: int = 1
    parameters: dict[str, str] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, list[float]] = field(default_factory=dict)

    def measurements(self) -> Iterator[Measurement]:
        """Yield what was measured: a value per run, or one per interval."""
        for name, (unit, better) in _KINDS.items():
            values = self.intervals.get(name) or ([self.totals[name]] if name in self.totals else [])
            if values:
                operation = named(name, self.parameters)
                yield Measurement(operation, values, unit, better, threads=max(self.threads, 1))


def read(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the rates and the mean latency of every run; a file may hold several runs, which repeat it."""
    for path in source.files:
        run = SysbenchRun()
        for line, text in lines_of(path):
            if BEGIN.match(text):
                yield from run.measurements()
                run = SysbenchRun()
            _look(run, text, path, line)
        yield from run.measurements()


def _look(run: SysbenchRun, text: str, path: Path, line: int) -> None:
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
