"""pytest-benchmark: the JSON of ``--benchmark-json`` or ``--benchmark-save``."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from data.comparisons.formats.tools.measurement import Measurement, SourceFiles, each, json_of, known


class PytestStats(msgspec.Struct):
    """Seconds of a round; ``data`` has each of them, unless the file was saved without.

    A summary counts only where there are no rounds, and may lack any of its numbers.
    """

    min: float | None = None
    max: float | None = None
    mean: float | None = None
    median: float | None = None
    q1: float | None = None
    q3: float | None = None
    stddev: float | None = None
    data: list[float] | None = None


class PytestEntry(msgspec.Struct):
    """A test that was measured."""

    fullname: str
    stats: PytestStats


class PytestFile(msgspec.Struct):
    """A run."""

    benchmarks: list[msgspec.Raw]


def read(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the rounds of every test; its parameters stand in its name."""
    for path in source.files:
        content = json_of(path, PytestFile)
        for _, one in each(content.benchmarks, PytestEntry, path, "benchmarks"):
            file, _, test = one.fullname.rpartition("::")
            if not one.stats.data:
                source.summed_up()
            yield Measurement(test, one.stats.data or (), "s", "lower", file, summary=_summary(one.stats))


def _summary(stats: PytestStats) -> dict[str, float] | None:
    if stats.data:
        return None
    five = {name: getattr(stats, name) for name in ("min", "q1", "median", "q3", "max", "mean")}
    return known(five | {"stdev": stats.stddev})
