"""Build tables from a tool's measurements: order the versions and compare consecutive ones."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from data.comparisons.formats.tools.measurement import Measurement, SourceFiles
from data.comparisons.formats.tools.recognition import ToolFormat
from data.comparisons.pair import listed
from data.comparisons.params import Measure
from data.comparisons.tables import Builder, ComparisonTables, Series
from data.comparisons.units import MAX_THREADS, UNKNOWN, factor, is_told
from data.errors import InputError
from data.parallel import uncollected
from data.tables.problems import Problems

#: Positions in a measurement of the fields of `_ListName` after the operation.
_NAMES = slice(2, 8)
#: Benchmark, operation and machine.
OperationKey = tuple[str, str, str]


@dataclass(slots=True)
class _KeptList:
    """The data of one series at one version: samples, or else a summary."""

    values: array[float]
    summary: Mapping[str, float]

    def add(self, values: Sequence[float], summary: Mapping[str, float] | None) -> None:
        self.values.extend(values)
        if summary:
            self.summary = {**self.summary, **summary}

    def times(self, scale: float) -> _KeptList:
        if scale == 1:
            return self
        summary = {stat: value * scale for stat, value in self.summary.items()}
        return _KeptList(array("d", [value * scale for value in self.values]), summary)


@dataclass
class _KeptOperation:
    """The data of one operation; `lists` maps threads, then the order of the version, to them."""

    unit: str
    better: str
    path: Path
    lists: dict[int, dict[int, _KeptList]] = field(default_factory=dict)

    @property
    def orders(self) -> list[int]:
        return sorted({order for by_version in self.lists.values() for order in by_version})

    @property
    def is_zero(self) -> bool:
        lists = [one for by_version in self.lists.values() for one in by_version.values()]
        return not any(any(one.values) or any(one.summary.values()) for one in lists)


class _ListName(NamedTuple):
    """The fields of a measurement that identify its series and version within a source."""

    operation: str
    unit: str
    better: str
    benchmark: str
    machine: str
    threads: int
    version: str


def _gathered(
    measurements: Iterable[Measurement], path: Path
) -> tuple[dict[_ListName, _KeptList], list[str]]:
    """Merge measurements by series and version; return them and the versions, by time if all have one."""
    lists: dict[tuple[Any, ...], _KeptList] = {}
    moments: dict[str, str] = {}
    for one in measurements:
        fields: tuple[Any, ...] = one
        key = (one.operation, *fields[_NAMES])
        kept = lists.get(key)
        if kept is None:
            lists[key] = _KeptList(array("d", one.values), one.summary or {})
        else:
            kept.add(one.values, one.summary)
        if one.when < moments.setdefault(one.version, one.when):
            moments[one.version] = one.when
    if not lists:
        raise InputError("holds no measurement", file=path)
    versions = sorted(moments, key=moments.__getitem__) if all(moments.values()) else list(moments)
    return {_ListName(*key): one for key, one in lists.items()}, versions


class Runs:
    """Collects versions of the sources of one tool; samples take eight bytes each."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self.versions: list[str] = []
        self.operations: dict[OperationKey, _KeptOperation] = {}

    def add(self, source: SourceFiles, measurements: Iterable[Measurement]) -> None:
        """Add the versions of one source; after an InputError, nothing of it was added."""
        lists, versions = _gathered(measurements, source.path)
        orders = {name: order for order, name in enumerate(versions, len(self.versions))}
        for name, one in lists.items():
            self._require_alike(name, one, source.path)
        for name, one in lists.items():
            self._put(name, one, orders[name.version], source.path)
        self.versions += [version or source.path.stem for version in orders]

    def tables(self, problems: Problems, piece: int | None) -> Iterator[ComparisonTables]:
        """Yield the collected versions as tables; all data of an operation are in the same chunk."""
        builder = Builder(piece)
        zero = [key[1] for key, one in self.operations.items() if one.is_zero]
        if zero:
            problems.note(f"0 throughout, and left out: {listed(zero)}")
        taken: set[str] = set()
        for key, operation in self.operations.items():
            if not operation.is_zero:
                self._results(builder, key, operation)
                self._comparisons(builder, key, operation, taken)
            if builder.is_full:
                yield builder.take()
        yield builder.take()

    def _key(self, one: _ListName) -> OperationKey:
        return (one.benchmark or self._tool, one.operation, one.machine or UNKNOWN)

    def _require_alike(self, name: _ListName, one: _KeptList, path: Path) -> None:
        place = f'operation "{name.operation}"'
        if wrong := _wrong(name, one):
            raise InputError(wrong, file=path, place=place)
        known = self.operations.get(self._key(name))
        if known is None:
            return
        if known.better != name.better:
            told = f'better="{name.better}" is not "{known.better}" as in {known.path}'
            raise InputError(told, file=path, place=place)
        if _scale(name.unit, known.unit) is None:
            told = f'unit "{name.unit}" cannot be converted to "{known.unit}" of {known.path}'
            raise InputError(told, file=path, place=place)

    def _put(self, name: _ListName, one: _KeptList, order: int, path: Path) -> None:
        new = _KeptOperation(name.unit or UNKNOWN, name.better, path)
        operation = self.operations.setdefault(self._key(name), new)
        scale = _scale(name.unit, operation.unit)
        if scale is None:
            told = f'unit "{name.unit}" cannot be converted to "{operation.unit}"'
            raise InputError(told, file=path, place=f'operation "{name.operation}"')
        by_version, one = operation.lists.setdefault(name.threads, {}), one.times(scale)
        kept = by_version.setdefault(order, one)
        if kept is not one:
            kept.add(one.values, one.summary)

    def _results(self, builder: Builder, key: OperationKey, operation: _KeptOperation) -> None:
        benchmark, name, machine = key
        common = (benchmark, benchmark, name, machine, operation.unit, operation.better)
        for threads, by_version in operation.lists.items():
            series = Series(f"{'/'.join(key)}/{threads}", *common, threads)
            for order, one in by_version.items():
                if one.values:
                    builder.results.samples(series, order, self.versions[order], one.values)
                else:
                    builder.results.summary(series, order, self.versions[order], one.summary)

    def _comparisons(
        self, builder: Builder, key: OperationKey, operation: _KeptOperation, taken: set[str]
    ) -> None:
        orders = operation.orders
        named = [part for part in key if part != UNKNOWN]
        for before, after in pairwise(orders):
            identifier = "/".join([self.versions[after], *named])
            identifier = f"{identifier}#{after}" if identifier in taken else identifier
            taken.add(identifier)
            later = orders[-1] if orders[-1] > after else None
            source = f'{operation.path} operation "{key[1]}"'
            builder.comparisons.append((identifier, *key, before, before, after, after, later, source, None))


def _wrong(name: _ListName, one: _KeptList) -> str:
    """Return the reason why the tables cannot hold a list, or an empty string."""
    if not name.operation.strip():
        return "holds an operation without a name"
    if not 1 <= name.threads <= MAX_THREADS:
        return f"threads={name.threads} is not from 1 to {MAX_THREADS}"
    if not one.values and not one.summary:
        return "holds no value"
    if not np.isfinite(one.values).all() or not all(map(isfinite, one.summary.values())):
        return "holds a value that is not finite"
    return ""


def _scale(unit: str, wanted: str) -> float | None:
    if unit == wanted or not (is_told(unit) and is_told(wanted)):
        return 1.0
    found = factor(unit, wanted)
    return None if found is None else float(found)


def tables(
    tool: ToolFormat, paths: Sequence[Path], problems: Problems, measure: Measure, piece: int | None
) -> Iterator[ComparisonTables]:
    """Read the files of a tool, the older version first; `problems` receives sources that are skipped.

    Every version but the first is compared with the last version before it that measured the operation.
    """
    runs = Runs(tool.name)
    for path, files in sources(tool, paths):
        source = SourceFiles(path, files, problems, measure)
        try:
            with uncollected():
                runs.add(source, tool.read(source))
        except InputError as error:
            problems.add(error)
    yield from runs.tables(problems, piece)


#: Suffixes of files that tools write, in the order of the search.
SUFFIXES = (".xml", ".json", ".jsonl", ".csv", ".txt", ".log")
#: Files in directories of measurements that hold none.
NO_MEASUREMENTS = frozenset(("labels.csv", "package.json", "asv.conf.json"))


def sources(tool: ToolFormat, paths: Sequence[Path]) -> Iterator[tuple[Path, list[Path]]]:
    """Yield each source with its files: a single file, or a directory that is read as a whole.

    InputError if a directory has no file that the tool may have written.
    """
    for path in paths:
        if not path.is_dir():
            yield path, [path]
        elif tool.folder:
            inside = sorted(path.glob(tool.folder))
            if not inside:
                raise InputError(f"holds no {tool.folder}", file=path)
            yield path, inside
        elif not (files := inside_of(path)):
            raise InputError(f"holds no file of measurements ({', '.join(SUFFIXES)})", file=path)
        elif tool.versions:
            yield path, files
        else:
            yield from ((file, [file]) for file in files)


def inside_of(directory: Path) -> list[Path]:
    """Return the files of a directory that have the first suffix of `SUFFIXES` present, sorted."""
    for suffix in SUFFIXES:
        inside = sorted(one for one in directory.glob(f"*{suffix}") if one.name not in NO_MEASUREMENTS)
        if inside:
            return inside
    return []
