"""Read results of criterion.rs: ``target/criterion``, a ``raw.csv``, or messages of cargo-criterion."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from data.comparisons.formats.tools.measurement import Measurement, SourceFiles, read_json, read_json_lines
from data.comparisons.formats.tools.recognition import Columns, Keys, tool_format
from data.errors import InputError
from data.tables.cells import parse_numbers, read_cells

_KEY = ["group", "function", "value", "unit"]


class _CriterionMessage(msgspec.Struct):
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
    directory_name: str = ""  # below ``target/criterion``

    @property
    def names(self) -> list[str]:
        """The names of the folders below ``target/criterion``."""
        return (self.directory_name or self.full_id).split("/")


@tool_format(
    "criterion",
    Columns(("sample_measured_value",), ("iteration_count",)),
    Keys("reason", "id", "measured_values", lines=True),
    Keys("reason", "group_name", "benchmarks", lines=True),
    # the newest run of every benchmark in the directory; the run before is in ``base``
    folder="**/new/*",
)
def read_criterion(source: SourceFiles) -> Iterator[Measurement]:
    """Yield a measurement per benchmark: the measured value of each sample divided by its iterations.

    The operation is the benchmark's id, such as ``group/function/value``. A CSV file is a ``raw.csv``; any
    other single file has the messages of cargo-criterion, in lines of JSON, of which other lines are skipped.
    Of a directory, the CSV files are read, and each ``sample.json`` (with ``benchmark.json`` next to it) in a
    folder without a CSV file; its other files are ignored. The version is the directory of the run, relative
    to the source. Lower is better; the unit is the one in the file,
    or ns for ``sample.json``. InputError, while iterating, if a file is invalid, or the number of iterations
    of a sample is missing or not above 0.
    """
    csv = {path.parent for path in source.files if path.suffix == ".csv"}
    for path in source.files:
        if path.suffix == ".csv":
            yield from _read_csv(path, source.path)
        elif not source.path.is_dir():
            yield from _read_messages(path)
        elif path.name == "sample.json" and path.parent not in csv:
            sample = read_json(path, _CriterionSample)
            benchmark = read_json(path.with_name("benchmark.json"), _CriterionBenchmark)
            name, run = benchmark.full_id, _run_below(source.path, path, benchmark.names)
            values = _per_iteration(sample.times, sample.iters, path, name)
            yield Measurement(name, values, "ns", "lower", version=run)


def is_one_run(directory: Path) -> bool:
    """Return whether the results below a directory are one run, as in ``target/criterion`` or a part of it.

    In a directory of several runs, the folder of a benchmark is deeper than criterion names it. False
    without results; InputError if the first file with the name of a benchmark cannot be read.
    """
    for path in directory.glob("**/new/*"):
        if path.name == "benchmark.json":
            parts = read_json(path, _CriterionBenchmark).names
        elif path.suffix == ".csv":
            names = read_cells(path, _KEY, nrows=1)[_KEY[:3]]
            parts = [name for name in names.to_numpy().flat if name]
        else:
            continue
        return not _run_below(directory, path, parts)
    return False


def _run_below(directory: Path, path: Path, names: list[str]) -> str:
    """Return the run of a file, a path below `directory`; "" if that is the run, or a part of one."""
    parts = path.relative_to(directory).parts
    return "/".join(parts[: max(0, len(parts) - len([*names, "new", path.name]))])


def _read_csv(path: Path, directory: Path) -> Iterator[Measurement]:
    table = read_cells(path, [*_KEY, "sample_measured_value", "iteration_count"])
    totals, counts = (
        parse_numbers(table[name], path, "a number above 0", wrong=lambda values: ~(values > 0))
        for name in ("sample_measured_value", "iteration_count")
    )
    groups = (totals / counts).groupby([table[name] for name in _KEY], sort=False)
    for (*names, unit), values in groups:
        parts = [*filter(None, names)]
        run = _run_below(directory, path, parts)
        yield Measurement("/".join(parts), values.tolist(), unit, "lower", version=run)


def _read_messages(path: Path) -> Iterator[Measurement]:
    for _, _, message in read_json_lines(path, _CriterionMessage):
        # lines without an object are other output of cargo
        if message and message.reason == "benchmark-complete":
            values = _per_iteration(message.measured_values, message.iteration_count, path, message.id)
            yield Measurement(message.id, values, message.unit, "lower")


def _per_iteration(values: list[float], counts: list[float], path: Path, name: str) -> list[float]:
    if len(values) != len(counts) or not all(count > 0 for count in counts):
        raise InputError("has samples without their iterations", file=path, place=f'benchmark "{name}"')
    return (np.array(values) / np.array(counts)).tolist()
