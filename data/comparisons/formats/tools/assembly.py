"""Build tables from a tool's measurements: order the versions and compare consecutive ones."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import isfinite
from pathlib import Path

import msgspec
import numpy as np

from data.comparisons.formats.tools.measurement import Measurement, SourceFiles, parse_time
from data.comparisons.formats.tools.recognition import ToolFormat
from data.comparisons.pair import MODE, list_names
from data.comparisons.params import Measure
from data.comparisons.tables import Builder, ComparisonTables, Series
from data.comparisons.units import MAX_THREADS, UNKNOWN, scale_to
from data.errors import InputError
from data.tables.files import in_natural_order
from data.tables.problems import Problems

#: Benchmark, operation (with its mode, if it has one) and machine.
OperationKey = tuple[str, str, str]
#: Operation, unit, better values, benchmark, machine, threads, version and mode of merged measurements.
ListKey = tuple[str, str, str, str, str, int, str, str]
#: The summary of samples without one: a single object saves memory.
_NO_SUMMARY: dict[str, float] = {}


class _Values(msgspec.Struct, gc=False):
    samples: array[float]
    summary: dict[str, float]

    def add_samples(self, samples: Sequence[float], summary: Mapping[str, float] | None) -> None:
        self.samples.extend(samples)
        if summary:
            self.summary = {**self.summary, **summary}

    def multiply(self, scale: float) -> None:
        self.summary = {stat: value * scale for stat, value in self.summary.items()}
        self.samples = array("d", [value * scale for value in self.samples])


class _Operation(msgspec.Struct):
    """The data of one operation; `values` maps threads and the order of the version to them."""

    name: str  # without the mode
    mode: str
    unit: str
    better: str
    path: Path
    values: dict[tuple[int, int], _Values] = {}

    @property
    def is_zero(self) -> bool:
        return not any(any(v.samples) or any(v.summary.values()) for v in self.values.values())


def _merge_measurements(
    measurements: Iterable[Measurement], source: SourceFiles
) -> tuple[dict[ListKey, _Values], list[str]]:
    """Merge measurements by series and version; return them and the versions, by time if all have one.

    Notes say which operations have summaries only, and if a time of several versions cannot be read.
    """
    lists: dict[ListKey, _Values] = {}
    times: dict[str, str] = {}
    unread: str | float | None = None
    for row in measurements:
        # by position: access by name takes longer
        operation, samples, unit, better, benchmark, machine, threads, version, when, summary, mode = row
        key = (operation, unit, better, benchmark, machine, threads, version, mode)
        if (values := lists.get(key)) is None:
            lists[key] = _Values(array("d", samples), dict(summary) if summary else _NO_SUMMARY)
        else:
            values.add_samples(samples, summary)
        time = parse_time(when)
        if when and not time:
            unread = unread or when
        if time < times.setdefault(version, time):
            times[version] = time
    if not lists:
        raise InputError("holds no measurement", file=source.path)
    summarised = [key[0] for key, values in lists.items() if not values.samples]
    if summarised:
        which = "" if len(summarised) == len(lists) else f" of {list_names([*dict.fromkeys(summarised)])}"
        note = f"{source.path} holds summaries only{which}, without the repetitions behind them"
        source.problems.add_note(note)
    if unread and len(times) > 1:
        problem = f'has the time "{unread}", which is not of ISO 8601'
        source.problems.add_note(f"{source.path} {problem}; its versions are in the order of their rows")
    versions = sorted(times, key=times.__getitem__) if all(times.values()) else list(times)
    return lists, versions


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
        finite = bool(np.isfinite(np.frombuffer(b"".join([v.samples for v in lists.values()]))).all())
        new: dict[OperationKey, _Operation] = {}
        added: list[tuple[_Operation, tuple[int, int], _Values]] = []
        # operations share their keys, to save memory
        shared_keys: dict[tuple[int, int], tuple[int, int]] = {}
        for (name, unit, better, benchmark, machine, threads, version, mode), values in lists.items():
            key = (benchmark or self._tool, f"{name} {mode}" if mode else name, machine or UNKNOWN)
            operation = self.operations.get(key) or new.get(key)
            if operation is None:
                operation = new[key] = _Operation(name, mode, unit or UNKNOWN, better, source.path)
            scale = scale_to(unit, operation.unit)
            problem = _find_problem(name, threads, values, finite=finite)
            if not problem and operation.better != better:
                problem = f'better="{better}" is not "{operation.better}" as in {operation.path}'
            if not problem and scale is None:
                problem = f'unit "{unit}" cannot be converted to "{operation.unit}" of {operation.path}'
            if problem or scale is None:
                raise InputError(problem, file=source.path, place=f'operation "{name}"')
            if scale != 1:
                values.multiply(scale)
            shared = (threads, orders[version])
            added.append((operation, shared_keys.setdefault(shared, shared), values))
        self.operations |= new
        for operation, place, values in added:
            existing = operation.values.setdefault(place, values)
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
        named = self.operations
        if any(operation.mode for operation in named.values()):
            short = {key: (key[0], operation.name, key[2]) for key, operation in named.items()}
            n_modes = Counter(short.values())
            named = {key if n_modes[short[key]] > 1 else short[key]: named[key] for key in short}
        zero = dict.fromkeys(key for key, operation in named.items() if not is_run and operation.is_zero)
        if zero:
            problems.add_note(f"0 throughout, and left out: {list_names([key[1] for key in zero])}")
        used: set[str] = set()
        for key, operation in named.items():
            if key not in zero:
                self._add_results(builder, key, operation)
                self._add_comparisons(builder, key, operation, used)
                # saves memory
                operation.values.clear()
            if builder.is_full:
                yield builder.take_tables()
        tables = builder.take_tables()
        modes = {"/".join(key): operation.mode for key, operation in named.items() if operation.mode}
        if is_run and modes:
            series = tables.results["series_id"].str.rpartition("/")[0]
            tables = replace(tables, results=tables.results.assign(**{MODE: series.map(modes)}))
        yield tables

    def _add_results(self, builder: Builder, key: OperationKey, operation: _Operation) -> None:
        common, add_values = (key[0], *key, operation.unit, operation.better), builder.results.add_values
        for threads in dict.fromkeys([threads for threads, _ in operation.values]):
            series = Series(f"{'/'.join(key)}/{threads}", *common, threads)
            for (number, order), values in operation.values.items():
                if number == threads:
                    add_values(series, order, self.versions[order], values.samples or values.summary)

    def _add_comparisons(
        self, builder: Builder, key: OperationKey, operation: _Operation, used: set[str]
    ) -> None:
        orders = sorted({order for _, order in operation.values})
        names = [part for part in key if part != UNKNOWN]
        for before, after in pairwise(orders):
            identifier = "/".join([self.versions[after], *names])
            identifier = f"{identifier}#{after}" if identifier in used else identifier
            used.add(identifier)
            later = orders[-1] if orders[-1] > after else None
            source = f'{operation.path} operation "{key[1]}"'
            builder.comparisons.append((identifier, *key, before, before, after, after, later, source, None))


def _find_problem(name: str, threads: int, values: _Values, *, finite: bool) -> str:
    """Return the reason why the tables cannot hold a list, or an empty string; `finite`: all samples are."""
    if not name.strip():
        return "holds an operation without a name"
    if not 1 <= threads <= MAX_THREADS:
        return f"threads={threads} is not from 1 to {MAX_THREADS}"
    if not values.samples and not values.summary:
        return "holds no value"
    is_known = finite and not values.summary
    if not is_known and not all(map(isfinite, (*values.samples, *values.summary.values()))):
        return "holds a value that is not finite"
    return ""


def read_tool_tables(
    tool: ToolFormat, paths: Sequence[Path], problems: Problems, measure: Measure, chunk_rows: int | None
) -> Iterator[ComparisonTables]:
    """Yield the tables of a tool's files; `paths` are in the order of versions, the oldest first.

    A source is a file, or a directory that the tool fills as a whole. Its versions are sorted by time if all
    have one, else they keep their order. Every version but the first is compared with the last version before
    it that measured the operation. The files of a directory are read in the natural order of their names (9
    before 10). Values are converted to the first unit of their operation; operations that are 0 in all of
    several versions are dropped, with a note. A chunk ends with the operation that reaches `chunk_rows`
    results (None, or a single version: one chunk). InputError at the first source that is invalid or
    contradicts the units or directions of earlier ones, or at a directory without files of measurements; with
    ``problems.keep_going``, it is skipped as a whole.
    """
    runs = Runs(tool.name)
    for path, files in iterate_sources(tool, paths, problems):
        source = SourceFiles(path, files, problems, measure)
        with problems.collecting():
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
    """Return the files of a directory that have the first suffix of `SUFFIXES` that occurs in it.

    They are in the natural order of their names. The suffixes are .xml, .json, .jsonl, .csv, .txt and .log,
    in this order. Hidden files count; ``labels.csv``, ``package.json``, ``asv.conf.json`` and files in
    subdirectories do not. [] if there are none, or the directory is missing.
    """
    by_suffix = (directory.glob(f"*{suffix}") for suffix in SUFFIXES)
    files = ([path for path in paths if path.name not in NO_MEASUREMENTS] for paths in by_suffix)
    return in_natural_order(next(filter(None, files), []))
