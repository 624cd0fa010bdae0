"""Read results of criterion.rs: ``target/criterion``, a ``raw.csv``, or messages of cargo-criterion."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from data.comparisons.formats.tools.measurement import (
    Measurement,
    SourceFiles,
    bytes_of,
    decoded,
    json_of,
    standard,
    table_of,
)
from data.errors import InputError
from data.tables.cells import numbers

#: The newest run of every benchmark in the directory; the run before is in ``base``.
NEW = "**/new/*"
_KEY = ["group", "function", "value", "unit"]
_COMPLETE = "benchmark-complete"


class _CriterionMessage(msgspec.Struct):
    """A message of cargo-criterion; only those with the reason `_COMPLETE` are used."""

    reason: str
    id: str = ""
    unit: str = ""
    iteration_count: list[float] = []
    measured_values: list[float] = []


class _CriterionSample(msgspec.Struct):
    """``sample.json``: the total nanoseconds (`times`) of `iters` iterations, per sample."""

    iters: list[float]
    times: list[float]


class _CriterionBenchmark(msgspec.Struct):
    full_id: str


def read(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the samples of every benchmark: measured value divided by the number of iterations."""
    csv = {path.parent for path in source.files if path.suffix == ".csv"}
    for path in source.files:
        if path.suffix == ".csv":
            yield from _raw_csv(path)
        elif not source.path.is_dir():
            yield from _messages(path)
        elif path.name == "sample.json" and path.parent not in csv:
            yield _sample(path)


def _raw_csv(path: Path) -> Iterator[Measurement]:
    table = table_of(path, [*_KEY, "sample_measured_value", "iteration_count"])
    measured, counts = (
        numbers(table[name], path, "a number above 0", wrong=lambda found: ~(found > 0))
        for name in ("sample_measured_value", "iteration_count")
    )
    for (group, function, value, unit), one in (measured / counts).groupby(
        [table[name] for name in _KEY], sort=False
    ):
        name = "/".join(part for part in (group, function, value) if part)
        yield Measurement(name, one.tolist(), unit, "lower")


def _messages(path: Path) -> Iterator[Measurement]:
    for line, text in enumerate(standard(bytes_of(path)).splitlines(), 1):
        if not text.strip().startswith(b"{"):
            continue  # other output of cargo
        one = decoded(text, _CriterionMessage, path, f"line {line}")
        if one.reason == _COMPLETE:
            values = _per_iteration(one.measured_values, one.iteration_count, path, one.id)
            yield Measurement(one.id, values, one.unit, "lower")


def _sample(path: Path) -> Measurement:
    sample = json_of(path, _CriterionSample)
    name = json_of(path.with_name("benchmark.json"), _CriterionBenchmark).full_id
    return Measurement(name, _per_iteration(sample.times, sample.iters, path, name), "ns", "lower")


def _per_iteration(values: list[float], counts: list[float], path: Path, name: str) -> list[float]:
    if len(values) != len(counts) or not all(count > 0 for count in counts):
        raise InputError("has samples without their iterations", file=path, place=f'benchmark "{name}"')
    return (np.array(values) / np.array(counts)).tolist()
