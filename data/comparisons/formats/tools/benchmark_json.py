"""Read the JSON of pytest-benchmark, Google Benchmark, pyperf, asv, hyperfine and JMH."""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, count, product
from pathlib import Path
from typing import Any

import msgspec

from data.comparisons.formats.tools.measurement import (
    Measurement,
    SourceFiles,
    Summary,
    decode_each,
    decode_json,
    name_with_parameters,
    read_json,
)
from data.comparisons.formats.tools.recognition import Keys, tool_format
from data.comparisons.units import UNKNOWN, conversion_factor
from data.errors import InputError
from data.tables.problems import shorten_names

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


@tool_format("pytest-benchmark", Keys("machine_info", "benchmarks.stats", "benchmarks.fullname"))
def read_pytest_benchmark(source: SourceFiles) -> Iterator[Measurement]:
    """Yield a measurement per test: its rounds in seconds, or its summary if it has no rounds.

    A summary has those of min, q1, median, q3, max, mean and stdev that the file has. The benchmark is the
    part of the test's full name before the last ``::`` outside of the parameters (empty without it), the
    operation the part after it, with its parameters. Lower is better. InputError for an unreadable or invalid
    file.
    """
    for path in source.files:
        entries = read_json(path, _BenchmarksFile).benchmarks
        for _, entry in decode_each(entries, _PytestEntry, path, "benchmarks"):
            match = _TEST.fullmatch(entry.fullname)
            file, test = match.groups() if match else ("", entry.fullname)
            rounds = entry.stats.data or ()
            summary = None if rounds else entry.stats.present_numbers
            yield Measurement(test, rounds, "s", "lower", file, summary=summary)


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

    def aggregate_kind(self, n_entries: Mapping[str, int]) -> str | None:
        """Return the kind of an aggregate, None for a repetition; before version 1.5 only names show it.

        `n_entries`: the number of entries of each name. Each benchmark with aggregates has a mean and a
        standard deviation.
        """
        if self.run_type:
            return self.aggregate_name if self.run_type == "aggregate" else None
        name, _, suffix = self.name.rpartition("_")
        has_aggregates = {f"{name}_mean", f"{name}_stddev"} <= n_entries.keys()
        is_aggregate = suffix in {*_AGGREGATES, "cv"} and has_aggregates and n_entries[self.name] == 1
        return suffix if is_aggregate or suffix in _COMPLEXITY else None


@tool_format(
    "google-benchmark",
    Keys("context", "benchmarks.real_time"),
    Keys("context.library_build_type", "benchmarks"),
)
def read_google_benchmark(source: SourceFiles) -> Iterator[Measurement]:
    """Yield a measurement per repetition, its real time; then summaries of benchmarks without repetitions.

    Summaries are of the aggregates mean, median, stdev, min and max that are present. Other aggregates, also
    those of the complexity (BigO, RMS), CPU times and counters are ignored. Entries that are marked as
    skipped or failed, or have no real time, are left out, with a note unless they are of the complexity. The
    unit is the file's (default: ns), lower is better; operations contain the arguments except ``/threads:``.
    InputError for an unreadable or invalid file.
    """
    for path in source.files:
        entries, raw = read_json(path, _BenchmarksFile).benchmarks, set[tuple[str, int]]()
        aggregates: dict[tuple[str, int, str], dict[str, float]] = defaultdict(dict)
        decoded = [*decode_each(entries, _GoogleEntry, path, "benchmarks")]
        n_entries = Counter(entry.name for _, entry in decoded)
        for place, entry in decoded:
            kind = entry.aggregate_kind(n_entries)
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
                yield Measurement(name, (), unit, "lower", threads=threads, summary=summary)


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


@tool_format("pyperf", Keys("benchmarks.runs", "version"))
def read_pyperf(source: SourceFiles) -> Iterator[Measurement]:
    """Yield a measurement per benchmark: its values without warm-ups and calibration; lower is better.

    The operation is the name of the benchmark, else that of all benchmarks in the file's metadata, else the
    file's stem; the field ``benchmark`` stays empty, which stands for the tool's name. The unit is s unless
    the file names another. Benchmarks without values are skipped, with a note. InputError for an unreadable
    or invalid file.
    """
    for path in source.files:
        content = read_json(path, _PyperfFile)
        for place, benchmark in decode_each(content.benchmarks, _PyperfBenchmark, path, "benchmarks"):
            values = array("d", chain.from_iterable(run.values for run in benchmark.runs))
            name = benchmark.metadata.name or content.metadata.name or path.stem
            if not values:
                source.note_omission(f"{place} ({name})", "it has no values")
                continue
            unit = benchmark.metadata.unit or content.metadata.unit or "second"
            yield Measurement(name, values, _UNITS.get(unit, unit), "lower")


#: asv's file in the directory of results with units and names of parameters.
BENCHMARKS = "benchmarks.json"
#: Its file in the directory of a machine, next to the files of results.
ASV_MACHINE = "machine.json"
_ASV_UNITS = {"seconds": "s", "bytes": "B"}
#: Units by the first word of a benchmark's name, which asv's naming convention implies.
_ASV_UNITS_OF_NAMES = {"time": "s", "timeraw": "s", "mem": "B", "peakmem": "B"}
#: Types of the columns of a benchmark that are used; the last two are quartiles.
_ASV_COLUMNS: dict[str, Any] = {
    "params": list[list[str]],
    "samples": list[list[float] | None] | None,
    **dict.fromkeys(("result", "stats_q_25", "stats_q_75"), list[float | None] | None),
}


class _AsvMachine(msgspec.Struct, frozen=True):
    machine: str = UNKNOWN


class _AsvFile(msgspec.Struct):
    """The results of one commit in one environment: a list of columns for every benchmark."""

    commit_hash: str
    result_columns: list[str]
    results: dict[str, msgspec.Raw]
    env_name: str = ""
    date: float | None = None
    params: _AsvMachine = _AsvMachine()


class _AsvBenchmark(msgspec.Struct):
    param_names: list[str] = []
    unit: str = "seconds"


@tool_format("asv", Keys("commit_hash", "result_columns", "results"), folder="*/*-*.json", versions=True)
def read_asv(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the samples of every combination of parameters, by commit (10 digits); lower is better.

    Results that were recorded without ``--record-samples`` are summaries (median, q1, q3), or the median as
    the only value if quartiles are missing. Failed and skipped results are dropped. The benchmark is the
    environment's name. If ``benchmarks.json``, one directory above, does not list a name in the results, its
    prefix, such as ``time_``, gives the unit, and parameters are named by position, from 1. InputError if
    there are no files of results, or one cannot be read or is invalid.
    """
    results = [path for path in source.files if path.name not in {BENCHMARKS, ASV_MACHINE}]
    if not results:
        raise InputError("holds no results of a commit", file=source.path)
    benchmarks_in = cache(_read_asv_benchmarks)
    for path in results:
        content = read_json(path, _AsvFile)
        benchmarks = benchmarks_in(path.parent.parent / BENCHMARKS)
        machine, when = content.params.machine, content.date
        names = (content.env_name, machine, 1, content.commit_hash[:10], when)
        for name, raw in content.results.items():
            row = decode_json(raw, list[msgspec.Raw], path, f"results.{name}")
            columns = {
                key: decode_json(column, _ASV_COLUMNS[key], path, f"results.{name}.{key}") or []
                for key, column in zip(content.result_columns, row, strict=False)
                if key in _ASV_COLUMNS
            }
            benchmark = benchmarks.get(name)
            if benchmark is None:
                prefix = name.rpartition(".")[2].partition("_")[0]
                parameter_names, unit = [], _ASV_UNITS_OF_NAMES.get(prefix, UNKNOWN)
            else:
                parameter_names = benchmark.param_names
                unit = _ASV_UNITS.get(benchmark.unit, benchmark.unit)
            for index, combination in enumerate(product(*columns.get("params", []))):
                numbers = {key: column[index] for key, column in columns.items() if index < len(column)}
                values, summary = _asv_values(numbers)
                if not values and summary is None:
                    continue  # failed, or skipped
                # parameters without a name are named by their position, from 1 on
                all_names = chain(parameter_names, map(str, count(len(parameter_names) + 1)))
                operation = name_with_parameters(name, dict(zip(all_names, combination, strict=False)))
                yield Measurement(operation, values, unit, "lower", *names, summary=summary)


def _asv_values(numbers: Mapping[str, Any]) -> tuple[Sequence[float], Mapping[str, float] | None]:
    """Return the samples, or else median and quartiles as a summary, or the median as the only value."""
    samples, median, q1, q3 = (numbers.get(key) for key in ("samples", "result", "stats_q_25", "stats_q_75"))
    if samples or median is None:
        return samples or (), None
    if q1 is None or q3 is None:
        return (median,), None
    return (), {"median": median, "q1": q1, "q3": q3}


def _read_asv_benchmarks(path: Path) -> dict[str, _AsvBenchmark]:
    entries = read_json(path, dict[str, msgspec.Raw]) if path.is_file() else {}
    entries.pop("version", None)
    return {name: decode_json(raw, _AsvBenchmark, path, name) for name, raw in entries.items()}


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
    exit_codes: list[int | None] = msgspec.field(default_factory=list)
    measurements: list[dict[str, Any]] | None = None
    summary: dict[str, _HyperfineSummary] = msgspec.field(default_factory=dict)


class _HyperfineFile(msgspec.Struct):
    results: list[msgspec.Raw]
    primary_metric: str = "time_wall_clock"


@tool_format(
    "hyperfine",
    *(Keys("results.command", f"results.{key}") for key in ("mean", "times", "measurements")),
)
def read_hyperfine(source: SourceFiles) -> Iterator[Measurement]:
    """Yield a measurement per command: its times, or in version 2 the primary metric, or else a summary.

    Versions are those of the JSON format. Times of version 1 are in s; version 2 names units, and values are
    converted to the first of the command. A summary has those of min, q1, median, q3, max, mean and stdev
    that are present. Without these, the measurement has no values. Lower is better. The operation is the
    command's name, else the command, with parameters in brackets. Notes say how many runs failed, which are
    included, and which operations have several entries, whose runs are pooled. InputError for an unreadable
    or invalid file, and for units that cannot be converted.
    """
    for path in source.files:
        content, names = read_json(path, _HyperfineFile), set[str]()
        metric = content.primary_metric
        for place, command in decode_each(content.results, _HyperfineCommand, path, "results"):
            parameters = command.parameters | ({"parameter": command.parameter} if command.parameter else {})
            name = name_with_parameters(command.name or command.command, parameters)
            if name in names:
                source.problems.add_note(f'{path}: "{name}" has several entries; their runs are pooled')
            names.add(name)
            values, unit, summary = command.times or [], "s", command.present_numbers
            exit_codes = command.exit_codes
            if command.measurements:
                exit_codes = [run.get("exit_code", 0) for run in command.measurements]
                runs = [run.get(metric) for run in command.measurements]
                values, unit = _hyperfine_values(runs, path, f"{place}.measurements[...].{metric}")
                summary = {}
            elif metric in command.summary:
                stated = command.summary[metric]
                values, unit, summary = [], stated.unit, stated.present_numbers
            unit = _UNITS.get(unit, unit)
            # None: a signal ended the run
            if failed := sum(code != 0 for code in exit_codes):
                share = f"{failed} of {len(exit_codes)} runs"
                source.problems.add_note(f'{path}: {share} of "{name}" failed, and are included')
            yield Measurement(name, values, unit, "lower", summary=None if values else summary or None)


def _hyperfine_values(runs: list[Any], path: Path, place: str) -> tuple[list[float], str]:
    """Return the values of runs without None, and their unit, that of the first; a number alone is in s."""
    objects = [{"value": run, "unit": "s"} if isinstance(run, float | int) else run for run in runs]
    try:
        quantities = msgspec.convert([run for run in objects if run is not None], list[_HyperfineQuantity])
    except msgspec.ValidationError as exc:
        raise InputError(f"{place}: {exc}", file=path) from exc
    values, wanted = list[float](), quantities[0].unit if quantities else ""
    for quantity in quantities:
        factor = conversion_factor(quantity.unit, wanted)
        if factor is None:
            raise InputError(f'{place}: unit "{quantity.unit}" cannot be converted to "{wanted}"', file=path)
        values.append(quantity.value * float(factor))
    return values, wanted


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
    secondaryMetrics: dict[str, msgspec.Raw] | None = None  # noqa: N815
    threads: int = 1
    params: dict[str, str] = {}


@tool_format("jmh", Keys("benchmark", "mode", "primaryMetric"))
def read_jmh(source: SourceFiles) -> Iterator[Measurement]:
    """Yield a measurement per benchmark: the scores of all iterations of all forks, in the unit of the score.

    Benchmarks without scores (sampled times) have a summary instead: those of min, median, max and mean that
    are numbers. The class is the benchmark, the method with its parameters the operation. Higher is better in
    mode ``thrpt`` only. Secondary metrics, those of profilers, are left out, with a note. InputError for an
    unreadable or invalid file.
    """
    for path in source.files:
        secondary = dict[str, None]()
        for _, entry in decode_each(read_json(path, list[msgspec.Raw]), _JmhEntry, path, ""):
            benchmark, _, method = entry.benchmark.rpartition(".")
            secondary |= dict.fromkeys(entry.secondaryMetrics or ())
            metric = entry.primaryMetric
            values = array("d", chain.from_iterable(metric.rawData))
            minimum, median, maximum = map(metric.scorePercentiles.get, ("0.0", "50.0", "100.0"))
            scores = {"min": minimum, "median": median, "max": maximum, "mean": metric.score}
            numbers = {stat: score for stat, score in scores.items() if isinstance(score, float)}
            yield Measurement(
                name_with_parameters(method, entry.params),
                values,
                metric.scoreUnit,
                # all other modes measure time per operation
                "higher" if entry.mode == "thrpt" else "lower",
                benchmark,
                threads=max(entry.threads, 1),
                summary=None if values else numbers,
                mode=entry.mode,
            )
        if secondary:
            names = shorten_names([*secondary])
            source.note_omission(f"secondaryMetrics ({names})", "only primary ones are read")
