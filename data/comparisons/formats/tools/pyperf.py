"""pyperf: the JSON of ``-o`` and ``--append``."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import msgspec

from data.comparisons.formats.tools.measurement import Measurement, SourceFiles, each, json_of

_UNITS = {"second": "s", "byte": "B", "integer": ""}


class PyperfMetadata(msgspec.Struct, frozen=True):
    """What a benchmark is called and measured in; what all have in common stands outside."""

    name: str = ""
    unit: str = ""


class PyperfProcess(msgspec.Struct):
    """A worker process; the first one of each benchmark only calibrates."""

    values: list[float] = []


class PyperfBenchmark(msgspec.Struct):
    """A benchmark with the values of all its processes."""

    runs: list[PyperfProcess]
    metadata: PyperfMetadata = PyperfMetadata()


class PyperfFile(msgspec.Struct):
    """A suite."""

    benchmarks: list[msgspec.Raw]
    metadata: PyperfMetadata = PyperfMetadata()


def read(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the values of every benchmark, warm-ups and calibration left out."""
    for path in source.files:
        content = json_of(path, PyperfFile)
        for place, one in each(content.benchmarks, PyperfBenchmark, path, "benchmarks"):
            values = array("d")
            for run in one.runs:
                values.extend(run.values)
            name = one.metadata.name or content.metadata.name or path.stem
            if not values:
                source.left_out(f"{place} ({name})", "it has no values")
                continue
            unit = one.metadata.unit or content.metadata.unit or "second"
            yield Measurement(name, values, _UNITS.get(unit, unit), "lower")
