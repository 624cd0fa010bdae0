"""Read results of asv: a directory of them or single files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Self

import msgspec

from data.comparisons.formats.tools.measurement import (
    Measurement,
    SourceFiles,
    decoded,
    json_of,
    known,
    moment,
    named,
)
from data.comparisons.units import UNKNOWN
from data.errors import InputError

#: File in the directory of results with units and names of parameters.
BENCHMARKS = "benchmarks.json"
_UNITS = {"seconds": "s", "bytes": "B"}
#: Columns of quartiles, by statistic.
_QUARTILES = {"q1": "stats_q_25", "q3": "stats_q_75"}


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


Numbers = list[float | None] | None
_Samples = list[list[float] | None] | None


def read(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the samples of every combination of parameters, by commit.

    Results that were recorded without ``--record-samples`` are summaries: a median and two quartiles.
    """
    found = [path for path in source.files if path.name not in {BENCHMARKS, "machine.json"}]
    if not found:
        raise InputError("holds no results of a commit", file=source.path)
    told_by = cache(_benchmarks)
    for path in found:
        content = json_of(path, _AsvFile)
        told = told_by(path.parent.parent / BENCHMARKS)
        for name, raw in content.results.items():
            for one in _of_benchmark(_AsvRow.of(content, raw, path, name), told.get(name), name):
                if one.summary:
                    source.summed_up()
                yield one._replace(
                    benchmark=content.env_name,
                    machine=content.params.machine,
                    version=content.commit_hash[:10],
                    when=moment(content.date),
                )


@dataclass(frozen=True)
class _AsvRow:
    """The columns of a benchmark, with one value for every combination of parameters."""

    result: list[float | None]
    params: list[list[str]]
    samples: list[list[float] | None]
    quartiles: dict[str, Numbers]

    @classmethod
    def of(cls, content: _AsvFile, raw: msgspec.Raw, path: Path, name: str) -> Self:
        """Decode the columns of a benchmark; missing ones are empty."""
        row = decoded(raw, list[msgspec.Raw], path, f"results.{name}")
        columns = dict(zip(content.result_columns, row, strict=False))

        def column(key: str, kind: Any) -> Any:
            return decoded(columns[key], kind, path, f"results.{name}.{key}") if key in columns else None

        return cls(
            column("result", Numbers) or [],
            column("params", list[list[str]]) or [],
            column("samples", _Samples) or [],
            {stat: column(key, Numbers) for stat, key in _QUARTILES.items()},
        )


def _benchmarks(path: Path) -> dict[str, _AsvBenchmark]:
    if not path.is_file():
        return {}
    entries = json_of(path, dict[str, msgspec.Raw])
    return {
        name: decoded(raw, _AsvBenchmark, path, name) for name, raw in entries.items() if name != "version"
    }


def _of_benchmark(row: _AsvRow, told: _AsvBenchmark | None, name: str) -> Iterator[Measurement]:
    names = told.param_names if told is not None else []
    unit = _UNITS.get(told.unit, told.unit) if told is not None else _unit(name)
    for at, combination in enumerate(product(*row.params)):
        median = _at(row.result, at)
        values = row.samples[at] if at < len(row.samples) else None
        if median is None and not values:
            continue  # failed, or skipped
        around = {stat: _at(numbers, at) for stat, numbers in row.quartiles.items()}
        summary = None if values or None in around.values() else known({"median": median} | around)
        single = () if summary or median is None else (median,)
        operation = named(name, _named(names, combination))
        yield Measurement(operation, values or single, unit, "lower", summary=summary)


def _at(numbers: Sequence[float | None] | None, at: int) -> float | None:
    return numbers[at] if numbers and at < len(numbers) else None


def _named(names: Sequence[str], combination: Sequence[str]) -> dict[str, str]:
    """Return parameters by name, or by position (from 1) where ``benchmarks.json`` has no name."""
    return {
        names[place] if place < len(names) else str(place + 1): value
        for place, value in enumerate(combination)
    }


def _unit(name: str) -> str:
    """Return the unit that asv's naming convention for benchmarks implies."""
    kind = name.rpartition(".")[2].partition("_")[0]
    return {"time": "s", "timeraw": "s", "mem": "B", "peakmem": "B"}.get(kind, UNKNOWN)
