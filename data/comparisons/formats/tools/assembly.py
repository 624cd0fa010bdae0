"""Build tables from a tool's measurements: order the versions and compare consecutive ones."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any

from data.comparisons.formats.tools.measurement import Measurement, SourceFiles
from data.comparisons.formats.tools.recognition import ToolFormat
from data.comparisons.pair import MODE, list_names
from data.comparisons.params import Measure
from data.comparisons.tables import Builder, ComparisonTables, Series
from data.comparisons.units import MAX_THREADS, UNKNOWN, scale_to
from data.errors import InputError
from data.parallel import garbage_collection_off
from data.tables.problems import Problems

#: Benchmark, operation (with its mode, if it has one) and machine.
OperationKey = tuple[str, str, str]


@dataclass(slots=True)
class _Values:
    samples: array[float]
    summary: dict[str, float]

    def add_samples(self, samples: Sequence[float], summary: Mapping[str, float] | None) -> None:
        self.samples.extend(samples)
        if summary:
            self.summary = {**self.summary, **summary}

    def multiply(self, scale: float) -> None:
        if scale != 1:
            self.summary = {stat: value * scale for stat, value in self.summary.items()}
            self.samples = array("d", [value * scale for value in self.samples])


@dataclass
class _Operation:
    """The data of one operation; `values` maps threads, then the order of the version, to them."""

    name: str  # without the mode
    mode: str
    unit: str
    better: str
    path: Path
    values: dict[int, dict[int, _Values]] = field(default_factory=dict)

    @property
    def is_zero(self) -> bool:
        measured = [values for by_version in self.values.values() for values in by_version.values()]
        return not any(any(values.samples) or any(values.summary.values()) for values in measured)


def _merge_measurements(
    measurements: Iterable[Measurement], source: SourceFiles
) -> tuple[list[tuple[Measurement, _Values]], list[str]]:
    """Merge measurements by series and version; return them and the versions, by time if all have one.

    Of each series and version, the first measurement is returned without values, and with it all values.
    A note says if there are summaries.
    """
    lists: dict[tuple[Any, ...], tuple[Measurement, _Values]] = {}
    times: dict[str, str] = {}
    for measurement in measurements:
        if measurement.summary is not None:
            source.problems.add_note(
                f"{source.path} holds summaries only, without the repetitions behind them"
            )
        operation, added, *names, _, summary, mode = measurement
        key = (operation, mode, *names)
        if key in lists:
            lists[key][1].add_samples(added, summary)
        else:
            empty = measurement._replace(values=(), summary=None)
            lists[key] = empty, _Values(array("d", added), dict(summary or {}))
        if measurement.when < times.setdefault(measurement.version, measurement.when):
            times[measurement.version] = measurement.when
    if not lists:
        raise InputError("holds no measurement", file=source.path)
    versions = sorted(times, key=times.__getitem__) if all(times.values()) else list(times)
    return [*lists.values()], versions


class Runs:
    """Collects versions of the sources of one tool; samples take eight bytes each."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self.versions: list[str] = []
        self.operations: dict[OperationKey, _Operation] = {}

    def add_source(self, source: SourceFiles, measurements: Iterable[Measurement]) -> None:
        """Add the versions of one source, after those of earlier sources; units are converted to the first.

        InputError, without adding anything, if the source has no measurement, a value is not finite, or
        direction or unit of an operation contradict each other or earlier sources.
        """
        lists, versions = _merge_measurements(measurements, source)
        orders = {name: order for order, name in enumerate(versions, len(self.versions))}
        new: dict[OperationKey, _Operation] = {}
        added: list[tuple[_Operation, Measurement, _Values]] = []
        for name, values in lists:
            full_name = f"{name.operation} {name.mode}" if name.mode else name.operation
            key = (name.benchmark or self._tool, full_name, name.machine or UNKNOWN)
            operation = self.operations.get(key) or new.setdefault(
                key,
                _Operation(name.operation, name.mode, name.unit or UNKNOWN, name.better, source.path),
            )
            problem, scale = _find_problem(name, values), scale_to(name.unit, operation.unit)
            if not problem and operation.better != name.better:
                problem = f'better="{name.better}" is not "{operation.better}" as in {operation.path}'
            if not problem and scale is None:
                problem = f'unit "{name.unit}" cannot be converted to "{operation.unit}" of {operation.path}'
            if problem or scale is None:
                raise InputError(problem, file=source.path, place=f'operation "{name.operation}"')
            values.multiply(scale)
            added.append((operation, name, values))
        self.operations |= new
        for operation, name, values in added:
            by_version = operation.values.setdefault(name.threads, {})
            existing = by_version.setdefault(orders[name.version], values)
            if existing is not values:
                existing.add_samples(values.samples, values.summary)
        path = source.path
        # the name of a directory, such as v1.2, has no suffix
        self.versions += [version or (path.name if path.is_dir() else path.stem) for version in orders]

    def build_tables(self, problems: Problems, chunk_rows: int | None) -> Iterator[ComparisonTables]:
        """Yield the collected versions as tables; all data of an operation are in the same chunk.

        The mode of an operation is part of its name if there are several. Operations with only zeros are left
        out, with a note in `problems`. A single version is one chunk, which keeps them, and has the modes in
        the column `MODE` of its results: they matter for the runs that it is compared with.
        """
        is_run = len(self.versions) == 1
        builder = Builder(None if is_run else chunk_rows)
        short = {key: (key[0], operation.name, key[2]) for key, operation in self.operations.items()}
        n_modes = Counter(short.values())
        named = {key if n_modes[short[key]] > 1 else short[key]: self.operations[key] for key in short}
        zero = [key[1] for key, operation in named.items() if operation.is_zero and not is_run]
        if zero:
            problems.add_note(f"0 throughout, and left out: {list_names(zero)}")
        used: set[str] = set()
        for key, operation in named.items():
            if is_run or not operation.is_zero:
                self._add_results(builder, key, operation)
                self._add_comparisons(builder, key, operation, used)
            if builder.is_full:
                yield builder.take_tables()
        tables = builder.take_tables()
        modes = {"/".join(key): operation.mode for key, operation in named.items() if operation.mode}
        if is_run and modes:
            series = tables.results["series_id"].str.rpartition("/")[0]
            tables = replace(tables, results=tables.results.assign(**{MODE: series.map(modes)}))
        yield tables

    def _add_results(self, builder: Builder, key: OperationKey, operation: _Operation) -> None:
        common = (key[0], *key, operation.unit, operation.better)
        for threads, by_version in operation.values.items():
            series = Series(f"{'/'.join(key)}/{threads}", *common, threads)
            for order, values in by_version.items():
                builder.results.add_values(
                    series, order, self.versions[order], values.samples or values.summary
                )

    def _add_comparisons(
        self, builder: Builder, key: OperationKey, operation: _Operation, used: set[str]
    ) -> None:
        orders = sorted({order for by_version in operation.values.values() for order in by_version})
        names = [part for part in key if part != UNKNOWN]
        for before, after in pairwise(orders):
            identifier = "/".join([self.versions[after], *names])
            identifier = f"{identifier}#{after}" if identifier in used else identifier
            used.add(identifier)
            later = orders[-1] if orders[-1] > after else None
            source = f'{operation.path} operation "{key[1]}"'
            builder.comparisons.append((identifier, *key, before, before, after, after, later, source, None))


def _find_problem(name: Measurement, values: _Values) -> str:
    """Return the reason why the tables cannot hold a list, or an empty string."""
    if not name.operation.strip():
        return "holds an operation without a name"
    if not 1 <= name.threads <= MAX_THREADS:
        return f"threads={name.threads} is not from 1 to {MAX_THREADS}"
    if not values.samples and not values.summary:
        return "holds no value"
    # one number is not finite if the sum is not; the sum of finite ones may overflow
    is_finite = isfinite(sum(values.samples)) or all(map(isfinite, values.samples))
    if not is_finite or not all(map(isfinite, values.summary.values())):
        return "holds a value that is not finite"
    return ""


def read_tool_tables(
    tool: ToolFormat, paths: Sequence[Path], problems: Problems, measure: Measure, chunk_rows: int | None
) -> Iterator[ComparisonTables]:
    """Yield the tables of a tool's files; `paths` are in the order of versions, the oldest first.

    A source is a file, or a directory that the tool fills as a whole. Its versions are sorted by time if all
    have one, else they keep their order. Every version but the first is compared with the last version before
    it that measured the operation. The files of a directory are read in the order of their names, character
    by character (10 before 9). Values are converted to the first unit of their operation; operations that are
    0 in all of several versions are dropped, with a note. A chunk ends with the operation that reaches
    `chunk_rows` results (None, or a single version: one chunk). InputError at the first source that is
    invalid or contradicts the units or directions of earlier ones, or at a directory without files of
    measurements; with ``problems.keep_going``, it is skipped as a whole.
    """
    runs = Runs(tool.name)
    for path, files in iterate_sources(tool, paths, problems):
        source = SourceFiles(path, files, problems, measure)
        with problems.collecting(), garbage_collection_off():
            runs.add_source(source, tool.read(source))
    yield from runs.build_tables(problems, chunk_rows)


#: Suffixes of files that tools write, in the order of the search.
SUFFIXES = (".xml", ".json", ".jsonl", ".csv", ".txt", ".log")
#: Files without measurements that may be in a directory of measurements.
NO_MEASUREMENTS = frozenset(("labels.csv", "package.json", "asv.conf.json"))


def iterate_sources(
    tool: ToolFormat, paths: Sequence[Path], problems: Problems
) -> Iterator[tuple[Path, list[Path]]]:
    """Yield each source with its sorted files: a single file, or a directory that is read as a whole.

    The files of a directory are those that match ``tool.folder``, else its `measurement_files`. They are one
    source if they match, or if `tool` has `versions`; else each file is a source. InputError if a directory
    has no such file, unless ``problems.keep_going``.
    """
    for path in paths:
        if not path.is_dir():
            yield path, [path]
        elif tool.folder and (files := sorted(path.glob(tool.folder))):
            yield path, files
        elif not (files := measurement_files(path)):
            names = ", ".join(filter(None, (tool.folder, *SUFFIXES)))
            problems.add(InputError(f"holds no file of measurements ({names})", file=path))
        elif tool.versions:
            yield path, files
        else:
            yield from ((file, [file]) for file in files)


def measurement_files(directory: Path) -> list[Path]:
    """Return the sorted files of a directory that have the first suffix of `SUFFIXES` that occurs in it.

    The suffixes are .xml, .json, .jsonl, .csv, .txt and .log, in this order. Hidden files count;
    ``labels.csv``, ``package.json``, ``asv.conf.json`` and files in subdirectories do not. [] if there are
    none, or the directory is missing.
    """
    by_suffix = (sorted(directory.glob(f"*{suffix}")) for suffix in SUFFIXES)
    files = ([path for path in paths if path.name not in NO_MEASUREMENTS] for paths in by_suffix)
    return next(filter(None, files), [])
