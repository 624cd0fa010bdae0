"""Read the JSON that JMH writes with ``-rf json``."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import msgspec

from data.comparisons.formats.tools.measurement import Measurement, SourceFiles, each, json_of, known, named

#: The only mode where higher is better; the others measure time per operation.
_THROUGHPUT = "thrpt"
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


def read(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the scores of all iterations; the class is the benchmark, the method the operation."""
    for path in source.files:
        for _, one in each(json_of(path, list[msgspec.Raw]), _JmhEntry, path, ""):
            benchmark, _, method = one.benchmark.rpartition(".")
            values = array("d")
            for fork in one.primaryMetric.rawData:
                values.extend(fork)
            if not values:
                source.summed_up()
            yield Measurement(
                named(method, one.params),
                values,
                one.primaryMetric.scoreUnit,
                "higher" if one.mode == _THROUGHPUT else "lower",
                benchmark,
                threads=max(one.threads, 1),
                summary=None if values else _summary(one.primaryMetric),
            )


def _summary(metric: _JmhMetric) -> dict[str, float]:
    percentiles = {stat: metric.scorePercentiles.get(key) for key, stat in _PERCENTILES.items()}
    numbers = percentiles | {"mean": metric.score}
    return known({stat: value for stat, value in numbers.items() if not isinstance(value, str)})
