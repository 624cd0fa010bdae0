"""pytest-benchmark: the JSON of ``--benchmark-json`` or ``--benchmark-save``."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import msgspec

from data.comparisons.formats.tools.measurement import Measurement, SourceFiles, Summary, each, json_of


class _PytestStats(Summary):
    """Seconds of a round; ``data`` has each of them, unless the file was saved without.

    A summary counts only where there are no rounds, and may lack any of its numbers.
    """

    data: list[float] | None = None


class _PytestEntry(msgspec.Struct):
    fullname: str
    stats: _PytestStats


class _PytestFile(msgspec.Struct):
    benchmarks: list[msgspec.Raw]


def read_pytest_benchmark(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the rounds of every test; its parameters stand in its name."""
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
    """What a benchmark is called and measured in; what all have in common stands outside."""

    name: str = ""
    unit: str = ""


class _PyperfProcess(msgspec.Struct):
    """A worker process; the first one of each benchmark only calibrates."""

    values: list[float] = []


class _PyperfBenchmark(msgspec.Struct):
    """A benchmark with the values of all its processes."""

    runs: list[_PyperfProcess]
    metadata: _PyperfMetadata = _PyperfMetadata()


class _PyperfFile(msgspec.Struct):
    benchmarks: list[msgspec.Raw]
    metadata: _PyperfMetadata = _PyperfMetadata()


def read_pyperf(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the values of every benchmark, warm-ups and calibration left out."""
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
