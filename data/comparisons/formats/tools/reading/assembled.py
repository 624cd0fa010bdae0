"""Measurements of a tool become tables: versions in order, consecutive ones compared."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from data.comparisons.formats.tools.reading.measurement import Measurement, SourceFiles
from data.comparisons.formats.tools.reading.tool import ToolFormat
from data.comparisons.missing import listed
from data.comparisons.params import Measure
from data.comparisons.reading import Builder, Series
from data.comparisons.request import MAX_THREADS
from data.comparisons.tables import ComparisonTables
from data.comparisons.units import UNKNOWN, factor, is_told
from data.errors import InputError
from data.tables.problems import Problems

#: Benchmark, operation and machine.
OperationKey = tuple[str, str, str]


@dataclass
class KeptList:
    """What one series has at one version: repetitions, or else a summary."""

    values: array[float] = field(default_factory=lambda: array("d"))
    summary: dict[str, float] = field(default_factory=dict)


@dataclass
class KeptOperation:
    """What was measured of one operation, by threads and by version."""

    unit: str
    better: str
    path: Path
    lists: dict[int, dict[int, KeptList]] = field(default_factory=dict)

    @property
    def orders(self) -> list[int]:
        """The versions that measured it."""
        return sorted({order for by_version in self.lists.values() for order in by_version})

    @property
    def is_zero(self) -> bool:
        """Whether nothing was ever counted."""
        lists = [one for by_version in self.lists.values() for one in by_version.values()]
        return not any(any(one.values) or any(one.summary.values()) for one in lists)


class Runs:
    """The versions so far, as numbers: a value takes eight bytes."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self.versions: list[str] = []
        self.operations: dict[OperationKey, KeptOperation] = {}

    def add(self, source: SourceFiles, measurements: Iterable[Measurement]) -> None:
        """Add the versions of one source, all of it or nothing."""
        kept = [_compact(one, source.path) for one in measurements]
        if not kept:
            raise InputError("holds no measurement", file=source.path)
        orders = _orders(kept, source.path.stem, len(self.versions))
        for one in kept:
            self._require_alike(one, source.path)
        for one in kept:
            self._put(one, orders[one.version or source.path.stem], source.path)
        self.versions += orders

    def tables(self, problems: Problems, piece: int | None) -> Iterator[ComparisonTables]:
        """Yield all as tables, whole operations in a piece."""
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

    def _key(self, one: Measurement) -> OperationKey:
        return (one.benchmark or self._tool, one.operation, one.machine)

    def _require_alike(self, one: Measurement, path: Path) -> None:
        known = self.operations.get(self._key(one))
        if known is None:
            return
        place = f'operation "{one.operation}"'
        if known.better != one.better:
            told = f'better="{one.better}" is not "{known.better}" as in {known.path}'
            raise InputError(told, file=path, place=place)
        if _scale(one.unit, known.unit) is None:
            told = f'unit "{one.unit}" cannot be converted to "{known.unit}" of {known.path}'
            raise InputError(told, file=path, place=place)

    def _put(self, one: Measurement, order: int, path: Path) -> None:
        operation = self.operations.setdefault(self._key(one), KeptOperation(one.unit, one.better, path))
        kept = operation.lists.setdefault(one.threads, {}).setdefault(order, KeptList())
        scale = _scale(one.unit, operation.unit) or 1.0
        kept.values.extend(one.values if scale == 1 else (value * scale for value in one.values))
        kept.summary |= {name: value * scale for name, value in (one.summary or {}).items()}

    def _results(self, builder: Builder, key: OperationKey, operation: KeptOperation) -> None:
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
        self, builder: Builder, key: OperationKey, operation: KeptOperation, taken: set[str]
    ) -> None:
        orders = operation.orders
        named = [part for part in key if part != UNKNOWN]
        for before, after in pairwise(orders):
            identifier = "/".join([self.versions[after], *named])
            identifier = f"{identifier}#{after}" if identifier in taken else identifier
            taken.add(identifier)
            later = orders[-1] if orders[-1] > after else None
            source = f'{operation.path} operation "{key[1]}"'
            builder.comparisons.append((identifier, *key, before, before, after, after, later, source))


def _compact(one: Measurement, path: Path) -> Measurement:
    """Return a measurement with its values as an array; refuse what no table may hold."""
    place = f'operation "{one.operation}"'
    if not one.operation.strip():
        raise InputError("holds an operation without a name", file=path)
    if not 1 <= one.threads <= MAX_THREADS:
        raise InputError(f"threads={one.threads} is not from 1 to {MAX_THREADS}", file=path, place=place)
    values = one.values if isinstance(one.values, array) else array("d", one.values)
    numbers = array("d", one.summary.values()) if one.summary else values
    if not len(values) and not one.summary:
        raise InputError("holds no value", file=path, place=place)
    if not (np.isfinite(values).all() and np.isfinite(numbers).all()):
        raise InputError("holds a value that is not finite", file=path, place=place)
    return one._replace(values=values, unit=one.unit or UNKNOWN, machine=one.machine or UNKNOWN)


def _orders(kept: Sequence[Measurement], stem: str, first: int) -> dict[str, int]:
    """Return the order of each version of a source: by time if all have one, else as they come."""
    moments: dict[str, str] = {}
    for one in kept:
        earlier = moments.setdefault(one.version or stem, one.when)
        moments[one.version or stem] = min(earlier, one.when)
    names = sorted(moments, key=moments.__getitem__) if all(moments.values()) else list(moments)
    return {name: first + place for place, name in enumerate(names)}


def _scale(unit: str, wanted: str) -> float | None:
    """Return what makes values of one unit values of another; None if nothing does."""
    if unit == wanted or not (is_told(unit) and is_told(wanted)):
        return 1.0
    found = factor(unit, wanted)
    return None if found is None else float(found)


def tables(
    tool: ToolFormat, paths: Sequence[Path], problems: Problems, measure: Measure, piece: int | None
) -> Iterator[ComparisonTables]:
    """Read the files of a tool, the older version first.

    Parameters
    ----------
    tool : ToolFormat
    paths : sequence of Path
        Files, or directories of them.
    problems : Problems
        Takes what is wrong with one source, which is then skipped.
    measure : Measure
        Which values are better, where the tool does not say.
    piece : int or None
        Results in a piece; None gives everything in one.

    Yields
    ------
    ComparisonTables
        Every version but the first is compared with the last one before it that measured the operation.

    Raises
    ------
    InputError
        Unless ``problems.keep_going``, at the first thing that is wrong.
    """
    runs = Runs(tool.name)
    for path, files in sources(tool, paths):
        source = SourceFiles(path, files, problems, measure)
        try:
            runs.add(source, tool.read(source))
        except InputError as error:
            problems.add(error)
    yield from runs.tables(problems, piece)


#: What the names of files end with that tools write, in the order in which they are looked for.
SUFFIXES = (".xml", ".json", ".jsonl", ".csv", ".txt", ".log")
#: Files beside measurements that hold none.
NO_MEASUREMENTS = frozenset(("labels.csv", "package.json", "asv.conf.json"))


def sources(tool: ToolFormat, paths: Sequence[Path]) -> Iterator[tuple[Path, list[Path]]]:
    """Yield what is read as one: a file, or a directory with its files."""
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
    """Return the files of a directory that a tool may have written, all with one suffix."""
    for suffix in SUFFIXES:
        inside = sorted(one for one in directory.glob(f"*{suffix}") if one.name not in NO_MEASUREMENTS)
        if inside:
            return inside
    return []
