"""The result XML of seed 000, figures 4.1 and 4.2: one file is one version, compared with the one before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from data.comparisons.formats import result_run, settings_xml
from data.comparisons.formats.result_run import TIMES, ResultRun, RunOperation
from data.comparisons.params import Measure
from data.comparisons.reading import Builder, Series
from data.comparisons.tables import ComparisonTables
from data.comparisons.units import UNKNOWN
from data.errors import InputError
from data.tables.problems import Problems


def read(
    paths: list[Path], problems: Problems, measure: Measure | None = None, *, piece: int | None = None
) -> Iterator[ComparisonTables]:
    """Read result files; file 0 has the order 0, file 1 the order 1, and so on.

    Parameters
    ----------
    paths : list of Path
        From the oldest version to the newest. Files that hold only settings are passed over.
    problems : Problems
        Takes what is wrong with one operation or with one file, which is then skipped.
    measure : Measure, optional
        What is compared, where a file does not say.
    piece : int or None
        Results in a piece; None gives everything in one.

    Yields
    ------
    ComparisonTables
        With the further columns ``real_seconds`` and ``out_of_cpu_seconds`` (missing for summaries). Every
        version but the first is compared with the one before it, an operation at a time: a single file gives
        results without a comparison.

    Raises
    ------
    InputError
        Unless ``problems.keep_going``, at the first thing that is wrong.
    """
    results = [path for path in paths if not settings_xml.is_settings(path)]
    if not results:
        raise InputError("holds settings only; expected results", file=paths[0])
    builder = Builder(piece, further_results=tuple(TIMES))
    versions = _Versions(builder, problems, len(results) - 1)
    for path in results:
        try:
            run = result_run.read(path, problems, measure or Measure())
            versions.add(run)
        except InputError as error:
            problems.add(error)
        if builder.is_full:
            yield builder.take()
    yield builder.take()


class _Versions:
    """The runs so far, of which only the last is kept; there is none after the order `newest`."""

    def __init__(self, builder: Builder, problems: Problems, newest: int) -> None:
        self.builder, self.problems, self.newest = builder, problems, newest
        self.last: ResultRun | None = None
        self.order = -1
        self.identifiers: set[str] = set()

    def add(self, run: ResultRun) -> None:
        """Add the results of a run, and its comparisons with the run before."""
        if self.last is not None:
            _same_machine(self.last, run)
        self.order += 1
        for operation in run.operations.values():
            self._results(run, operation)
        if self.last is not None:
            self._compare(self.last, run)
        self.last = run

    def _results(self, run: ResultRun, operation: RunOperation) -> None:
        benchmark, name = run.benchmark(operation), operation.name
        machine = run.settings.machine or UNKNOWN
        version = run.settings.version or run.path.stem
        common = (benchmark, benchmark, name, machine, operation.metric, operation.better)
        results = self.builder.results
        for threads, one in operation.configurations.items():
            series = Series(f"{benchmark}/{name}/{threads}", *common, threads)
            if one.samples:
                results.samples(series, self.order, version, one.samples, *one.times.values())
            else:
                results.summary(series, self.order, version, one.summary)

    def _compare(self, baseline: ResultRun, target: ResultRun) -> None:
        scope = target.path.stem
        if any(f"{scope}/{name}" in self.identifiers for name in target.operations):
            scope = f"{scope}#{self.order}"
        for name in dict.fromkeys([*baseline.operations, *target.operations]):
            if name in baseline.broken | target.broken:
                continue
            try:
                self._comparison(target, f"{scope}/{name}", _in_both(baseline, target, name))
            except InputError as error:
                self.problems.add(error)

    def _comparison(self, target: ResultRun, key: str, operation: RunOperation) -> None:
        self.identifiers.add(key)
        benchmark, machine = target.benchmark(operation), target.settings.machine or UNKNOWN
        later = self.newest if self.newest > self.order else None
        orders = (self.order - 1, self.order - 1, self.order, self.order, later)
        source = f"{target.path}:{target.lines[operation.name]} {operation.place}"
        self.builder.comparisons.append((key, benchmark, operation.name, machine, *orders, source, None))


def _same_machine(baseline: ResultRun, target: ResultRun) -> None:
    names = baseline.settings.machine, target.settings.machine
    if names[0] != names[1]:
        here, there = (f'on "{name}"' if name else "on a machine it does not name" for name in names)
        raise InputError(f"was measured {there}, but {baseline.path} {here}", file=target.path)


def _in_both(baseline: ResultRun, target: ResultRun, name: str) -> RunOperation:
    """Return the target's operation; InputError if the baseline's is not the like of it."""
    place = f'operation "{name}"'
    for run, other in ((baseline, target), (target, baseline)):
        if name not in run.operations:
            line = other.lines[name]
            raise InputError(f"is not in {run.path}", file=other.path, line=line, place=place)
    before, after = baseline.operations[name], target.operations[name]
    benchmarks = baseline.benchmark(before), target.benchmark(after)
    for what, old, new in (("benchmark", *benchmarks), ("metric", before.metric, after.metric)):
        if old != new:
            problem = f'{what} "{new}" is not that of {baseline.path}, "{old}"'
            raise InputError(problem, file=target.path, line=target.lines[name], place=place)
    return after
