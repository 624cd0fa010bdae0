"""Read the JSON of pytest-benchmark, pyperf, Google Benchmark, hyperfine and JMH."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterator

import msgspec

from data.comparisons.formats.tools.measurement import (
    Measurement,
    SourceFiles,
    Summary,
    decode_each,
    name_with_parameters,
    read_json,
    without_gaps,
)
from data.comparisons.units import UNKNOWN

_UNITS = {"second": "s", "byte": "B", "integer": ""}


class _BenchmarksFile(msgspec.Struct):
    benchmarks: list[msgspec.Raw]


class _PytestStats(Summary):
    """Statistics of a test in seconds; `data` has every round, unless the file was saved without them."""

    data: list[float] | None = None


class _PytestEntry(msgspec.Struct):
    fullname: str
    stats: _PytestStats


#: The full name of a test: file and classes, ``::``, the test, and parameters, which may contain ``::``, too.
_TEST = re.compile(r"(.*?)::((?:(?!::)[^\[])+(?:\[.*)?)", re.DOTALL)


def read_pytest_benchmark(source: SourceFiles) -> Iterator[Measurement]:
    """Yield a measurement per test: its rounds in seconds, or its summary if it has no rounds.

    A summary has those of min, q1, median, q3, max, mean and stdev that the file has, and gives a note. The
    benchmark is the part of the test's full name before the last ``::`` outside of the parameters (empty
    without it), the operation the part after it, with its parameters. Lower is better. InputError if a file
    cannot be read or is not JSON of pytest-benchmark.
    """
    for path in source.files:
        entries = read_json(path, _BenchmarksFile).benchmarks
        for _, entry in decode_each(entries, _PytestEntry, path, "benchmarks"):
            match = _TEST.fullmatch(entry.fullname)
            file, test = match.groups() if match else ("", entry.fullname)
            rounds = entry.stats.data or ()
            if not rounds:
                source.note_summaries()
            summary = None if rounds else entry.stats.present_numbers
            yield Measurement(test, rounds, "s", "lower", file, summary=summary)


class _PyperfMetadata(msgspec.Struct, frozen=True):
    """Name and unit of a benchmark; fields that all benchmarks share are in the file's metadata."""

    name: str = ""
    unit: str = ""


class _PyperfProcess(msgspec.Struct):
    values: list[float] = []


class _PyperfBenchmark(msgspec.Struct):
    runs: list[_PyperfProcess]
    metadata: _PyperfMetadata = _PyperfMetadata()


class _PyperfFile(_BenchmarksFile):
    metadata: _PyperfMetadata = _PyperfMetadata()


def read_pyperf(source: SourceFiles) -> Iterator[Measurement]:
    """Yield a measurement per benchmark: its values without warm-ups and calibration; lower is better.

    The operation is the name of the benchmark, else that of all benchmarks in the file's metadata, else the
    file's stem; the field ``benchmark`` stays empty, which stands for the tool's name. The unit is s unless
    the file names another. Benchmarks without values are skipped, with a note. InputError if a file cannot be
    read or is not JSON of pyperf.
    """
    for path in source.files:
        content = read_json(path, _PyperfFile)
        for place, benchmark in decode_each(content.benchmarks, _PyperfBenchmark, path, "benchmarks"):
            values = array("d")
            for run in benchmark.runs:
                values.extend(run.values)
            name = benchmark.metadata.name or content.metadata.name or path.stem
            if not values:
                source.note_omission(f"{place} ({name})", "it has no values")
                continue
            unit = benchmark.metadata.unit or content.metadata.unit or "second"
            yield Measurement(name, values, _UNITS.get(unit, unit), "lower")


_THREADS = re.compile(r"/threads:(\d+)")
#: Statistics in `STATS`, by Google Benchmark's names of aggregates.
_AGGREGATES = {"mean": "mean", "median": "median", "stddev": "stdev", "min": "min", "max": "max"}
#: Google Benchmark's names of aggregates that estimate the complexity, which have no times.
_COMPLEXITY = ("BigO", "RMS")


class _GoogleEntry(msgspec.Struct):
    name: str
    run_name: str = ""
    run_type: str = ""
    aggregate_name: str = ""
    aggregate_unit: str = "time"
    real_time: float | None = None
    time_unit: str = "ns"
    threads: int = 0
    error_occurred: bool = False
    skipped: bool = False

    @property
    def aggregate_kind(self) -> str | None:
        """The kind of an aggregate, None for a repetition; before version 1.5 only the name shows it."""
        if self.run_type:
            return self.aggregate_name if self.run_type == "aggregate" else None
        suffix = self.name.rpartition("_")[2]
        return suffix if suffix in {*_AGGREGATES, *_COMPLEXITY, "cv"} else None


def read_google_benchmark(source: SourceFiles) -> Iterator[Measurement]:
    """Yield a measurement per repetition, its real time; then summaries of benchmarks without repetitions.

    Summaries are of the aggregates mean, median, stdev, min and max that are present, and give a note. Other
    aggregates, also those of the complexity (BigO, RMS), CPU times and counters are ignored. Entries that are
    marked as skipped or failed, or have no real time, are left out, with a note unless they are of the
    complexity. The unit is the file's (default: ns), lower is better; operations contain the arguments except
    ``/threads:``. InputError if a file cannot be read or is not JSON of Google Benchmark.
    """
    for path in source.files:
        entries, raw = read_json(path, _BenchmarksFile).benchmarks, set[tuple[str, int]]()
        aggregates: dict[tuple[str, int, str], dict[str, float]] = defaultdict(dict)
        for place, entry in decode_each(entries, _GoogleEntry, path, "benchmarks"):
            kind = entry.aggregate_kind
            if entry.error_occurred or entry.skipped or entry.real_time is None:
                if kind not in _COMPLEXITY:
                    source.note_omission(f"{place} ({entry.name})", "it was not measured")
                continue
            run_name = entry.run_name or entry.name.removesuffix(f"_{kind}")
            match = _THREADS.search(run_name)
            name = _THREADS.sub("", run_name)
            threads = entry.threads or (int(match[1]) if match else 1)
            if kind is None:
                raw.add((name, threads))
                yield Measurement(name, (entry.real_time,), entry.time_unit, "lower", threads=threads)
            elif entry.aggregate_unit == "time" and kind in _AGGREGATES:
                aggregates[name, threads, entry.time_unit][_AGGREGATES[kind]] = entry.real_time
        for (name, threads, unit), summary in aggregates.items():
            if (name, threads) not in raw:
                source.note_summaries()
                yield Measurement(name, (), unit, "lower", threads=threads, summary=summary)


class _HyperfineQuantity(msgspec.Struct):
    value: float
    unit: str = UNKNOWN


class _HyperfineSummary(Summary):
    unit: str = UNKNOWN


class _HyperfineCommand(Summary):
    """A command; version 1 has ``times``, version 2 ``measurements`` and ``summary``."""

    command: str = ""
    name: str | None = None
    parameter: str | None = None
    parameters: dict[str, str] = msgspec.field(default_factory=dict)
    times: list[float] | None = None
    measurements: list[dict[str, _HyperfineQuantity | int | None]] | None = None
    summary: dict[str, _HyperfineSummary] = msgspec.field(default_factory=dict)


class _HyperfineFile(msgspec.Struct):
    results: list[msgspec.Raw]
    primary_metric: str = "time_wall_clock"


def read_hyperfine(source: SourceFiles) -> Iterator[Measurement]:
    """Yield a measurement per command: its times, or in version 2 the primary metric, or else a summary.

    Versions are those of the JSON format. Times of version 1 are in s; version 2 names the unit. A summary
    has those of min, q1, median, q3, max, mean and stdev that are present; the source gets a note. Without
    these, the measurement is empty. Lower is better. The operation is the command's name, else the command,
    with parameters in brackets. InputError if a file cannot be read, or its JSON is invalid or not that of
    hyperfine.
    """
    for path in source.files:
        content = read_json(path, _HyperfineFile)
        for _, command in decode_each(content.results, _HyperfineCommand, path, "results"):
            measurement = _hyperfine_measurement(command, content.primary_metric)
            if measurement.summary:
                source.note_summaries()
            yield measurement


def _hyperfine_measurement(command: _HyperfineCommand, metric: str) -> Measurement:
    parameters = command.parameters | ({"parameter": command.parameter} if command.parameter else {})
    name = name_with_parameters(command.name or command.command, parameters)
    if command.measurements:
        quantities = [
            quantity
            for run in command.measurements
            if isinstance(quantity := run.get(metric), _HyperfineQuantity)
        ]
        unit = quantities[0].unit if quantities else ""
        return Measurement(name, [quantity.value for quantity in quantities], _UNITS.get(unit, unit), "lower")
    summary = command.summary.get(metric)
    if summary is not None:
        return Measurement(
            name, (), _UNITS.get(summary.unit, summary.unit), "lower", summary=summary.present_numbers
        )
    return Measurement(
        name, command.times or (), "s", "lower", summary=None if command.times else command.present_numbers
    )


_PERCENTILES = {"0.0": "min", "50.0": "median", "100.0": "max"}


class _JmhMetric(msgspec.Struct):
    """The score of every iteration of every fork; sampled times have percentiles only."""

    scoreUnit: str  # noqa: N815 - as JMH writes it
    score: float | str | None = None
    rawData: list[list[float]] = []  # noqa: N815
    scorePercentiles: dict[str, float | str | None] = {}  # noqa: N815


class _JmhEntry(msgspec.Struct):
    benchmark: str
    mode: str
    primaryMetric: _JmhMetric  # noqa: N815
    threads: int = 1
    params: dict[str, str] = {}


def read_jmh(source: SourceFiles) -> Iterator[Measurement]:
    """Yield a measurement per benchmark: the scores of all iterations of all forks, in the unit of the score.

    Benchmarks without scores (sampled times) have a summary instead, with a note: those of min, median, max
    and mean that are numbers. The class is the benchmark, the method with its parameters the operation.
    Higher is better in mode ``thrpt`` only. InputError if a file cannot be read or is not JSON of JMH.
    """
    for path in source.files:
        for _, entry in decode_each(read_json(path, list[msgspec.Raw]), _JmhEntry, path, ""):
            benchmark, _, method = entry.benchmark.rpartition(".")
            metric, values, summary = entry.primaryMetric, array("d"), None
            for fork in metric.rawData:
                values.extend(fork)
            if not values:
                source.note_summaries()
                scores = {stat: metric.scorePercentiles.get(key) for key, stat in _PERCENTILES.items()}
                scores["mean"] = metric.score
                summary = without_gaps(
                    {stat: score for stat, score in scores.items() if not isinstance(score, str)}
                )
            yield Measurement(
                name_with_parameters(method, entry.params),
                values,
                metric.scoreUnit,
                # all other modes measure time per operation
                "higher" if entry.mode == "thrpt" else "lower",
                benchmark,
                threads=max(entry.threads, 1),
                summary=summary,
            )
