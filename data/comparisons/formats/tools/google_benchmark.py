"""Read the JSON that Google Benchmark writes with ``--benchmark_out``."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import msgspec

from data.comparisons.formats.tools.measurement import Measurement, SourceFiles, each, json_of

_THREADS = re.compile(r"/threads:(\d+)")
#: Statistics in `STATS`, by Google Benchmark's names of aggregates.
_AGGREGATES = {"mean": "mean", "median": "median", "stddev": "stdev", "min": "min", "max": "max"}


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


class _GoogleFile(msgspec.Struct):
    benchmarks: list[msgspec.Raw]


def read(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the time of every repetition, or aggregates of benchmarks without repetitions.

    Rates that the program computes from the time are ignored. The operation's name contains the arguments.
    """
    for path in source.files:
        content, raw = json_of(path, _GoogleFile), set[tuple[str, int]]()
        aggregates: dict[tuple[str, int, str], dict[str, float]] = defaultdict(dict)
        for place, one in each(content.benchmarks, _GoogleEntry, path, "benchmarks"):
            if one.error_occurred or one.skipped or one.real_time is None:
                source.left_out(f"{place} ({one.name})", "it was not measured")
                continue
            kind = _aggregate(one)
            name, threads = _named(one, kind)
            if kind is None:
                raw.add((name, threads))
                yield Measurement(name, (one.real_time,), one.time_unit, "lower", threads=threads)
            elif one.aggregate_unit == "time" and kind in _AGGREGATES:
                aggregates[name, threads, one.time_unit][_AGGREGATES[kind]] = one.real_time
        for (name, threads, unit), summary in aggregates.items():
            if (name, threads) not in raw:
                source.summed_up()
                yield Measurement(name, (), unit, "lower", threads=threads, summary=summary)


def _aggregate(one: _GoogleEntry) -> str | None:
    """Return the kind of an aggregate, None for a repetition; before version 1.5 only the name shows it."""
    if one.run_type:
        return one.aggregate_name if one.run_type == "aggregate" else None
    end = one.name.rpartition("_")[2]
    return end if end in {*_AGGREGATES, "BigO", "RMS", "cv"} else None


def _named(one: _GoogleEntry, kind: str | None) -> tuple[str, int]:
    """Return the name without aggregate and threads, and the number of threads."""
    name = one.run_name or one.name.removesuffix(f"_{kind}")
    found = _THREADS.search(name)
    return _THREADS.sub("", name), one.threads or (int(found[1]) if found else 1)
