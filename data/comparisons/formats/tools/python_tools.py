"""Read the JSON of pytest-benchmark (``--benchmark-json`` or ``--benchmark-save``) and of pyperf."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import msgspec

from data.comparisons.formats.tools.measurement import Measurement, SourceFiles, Summary, each, json_of


class _PytestStats(Summary):
    """Statistics of a test in seconds; `data` has every round, unless the file was saved without them."""

    data: list[float] | None = None


class _PytestEntry(msgspec.Struct):
    fullname: str
    stats: _PytestStats


class _PytestFile(msgspec.Struct):
    benchmarks: list[msgspec.Raw]


def read_pytest_benchmark(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the rounds of every test, or its summary if the file has no rounds; names contain parameters."""
    for path in source.files:
        content = json_of(path, _PytestFile)
        for _, one in each(content.benchmarks, _PytestEntry, path, "benchmarks"):
            file, _, test = one.fullname.rpartition("::")
            summary = None if one.stats.data else one.stats.known
            if not one.stats.data:
                source.summed_up()
            yield Measurement(test, one.stats.data or (), "s", "lower", file, summary=summary)


_UNITS = {"second": "s", "byte": "B", "integer": ""}


class _PyperfMetadata(msgspec.Struct, frozen=True):
    """Name and unit of a benchmark; those that all benchmarks share are in the file's metadata."""

    name: str = ""
    unit: str = ""


class _PyperfProcess(msgspec.Struct):
    """A worker process; the first process of each benchmark only calibrates and has no values."""

    values: list[float] = []


class _PyperfBenchmark(msgspec.Struct):
    runs: list[_PyperfProcess]
    metadata: _PyperfMetadata = _PyperfMetadata()


class _PyperfFile(msgspec.Struct):
    benchmarks: list[msgspec.Raw]
    metadata: _PyperfMetadata = _PyperfMetadata()


def read_pyperf(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the values of every benchmark, without warm-ups and calibration."""
    for path in source.files:
        content = json_of(path, _PyperfFile)
        for place, one in each(content.benchmarks, _PyperfBenchmark, path, "benchmarks"):
            values = array("d")
            for run in one.runs:
                values.extend(run.values)
            name = one.metadata.name or content.metadata.name or path.stem
            if not values:
                source.left_out(f"{place} ({name})", "it has no values")
                continue
            unit = one.metadata.unit or content.metadata.unit or "second"
            yield Measurement(name, values, _UNITS.get(unit, unit), "lower")
