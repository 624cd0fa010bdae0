"""Result XML (scheduler thesis, figures 4.1, 4.2): a file is one version, compared with the one before."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from data.comparisons.formats.comparison_xml import misspelt_elements, summary_statistics
from data.comparisons.params import Measure
from data.comparisons.tables import Builder, ComparisonTables, Series
from data.comparisons.units import UNKNOWN
from data.errors import InputError
from data.tables.problems import Problems
from data.tables.xml_stream import Document, Element, WholeDocument

SETTINGS_TAG = "settings"
#: Names of the properties that the tables use, in lower case.
MACHINE, VERSION, BENCHMARK = "hostname", "kernel", "benchmarkname"


def _properties_in(tree: WholeDocument, settings: Element) -> dict[str, str]:
    """Return the attributes ``value`` by tag in lower case, of a repeated property the last, if not empty."""
    texts = {
        str(element.tag).lower(): tree.text_attribute(element, "value", SETTINGS_TAG).strip()
        for element in list(settings.iter())[1:]
    }
    return {name: text for name, text in texts.items() if text}


def properties_beside(path: Path) -> dict[str, str]:
    """Return the properties in ``<stem>.settings.xml``, else ``settings.xml``, next to `path`, else {}.

    The result maps names in lower case to values; empty values are left out. InputError if that file is not
    well-formed or a property has no ``value``.
    """
    for candidate in (path.with_name(f"{path.stem}.settings.xml"), path.with_name("settings.xml")):
        if candidate.is_file() and candidate != path:
            tree = WholeDocument(Document.from_path(candidate))
            parts = (_properties_in(tree, settings).items() for settings in tree.root.iter(SETTINGS_TAG))
            return dict(chain.from_iterable(parts))
    return {}


def is_settings(path: Path) -> bool:
    """Return whether a file is named ``settings.xml`` or ``<stem>.settings.xml``."""
    return path.name == "settings.xml" or path.name.endswith(".settings.xml")


RUN_TAG = "beaker_run_result"
WRAPPERS = frozenset(("test_result", "test_run"))
#: Columns of times that are kept in addition to the samples, and their possible attributes.
TIMES = {"real_seconds": ("real_time", "total_time"), "out_of_cpu_seconds": ("out_of_cpu_time",)}
IS_TIME = re.compile(r"(^|_)(time|seconds|secs?|ms)$")


@dataclass
class RunOperation:
    """The results of an operation by number of threads: its samples or their summary, and the `TIMES`."""

    name: str
    suite: str
    element: Element
    metric: str = ""
    better: str = ""
    configurations: dict[int, list[float] | dict[str, float]] = field(default_factory=dict)
    times: dict[int, list[list[float]]] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """The position of the operation in messages."""
        return f'operation "{self.name}"'


class ResultRun:
    """One result file, which is one version; `problems` receives the operations that are skipped.

    Without ``measure.metric``, the metric is the first attribute or element that is not a time, else the real
    time. For times, lower is better. `times` maps columns that are read in addition to the samples to their
    possible attributes, as `TIMES` does. InputError if the file is not a result, and at the first invalid
    operation unless ``problems.keep_going``.

    Attributes
    ----------
    properties : dict
        Those of the file, or of a settings file in its directory.
    broken : set
        The names of operations that were skipped because of an error.
    """

    def __init__(
        self, path: Path, problems: Problems, measure: Measure, times: Mapping[str, Sequence[str]] = TIMES
    ) -> None:
        self.path, self._problems, self._measure, self._times = path, problems, measure, times
        self._tree = WholeDocument(Document.from_path(path))
        self.properties: dict[str, str] = {}
        self.operations: dict[str, RunOperation] = {}
        self.broken: set[str] = set()
        root = self._tree.root
        if root.tag != RUN_TAG:
            raise self._tree.error_at(root, f"<{root.tag}> is not a benchmark run; expected <{RUN_TAG}>")
        self._read_children(root)
        if not self.operations and not self.broken:
            raise InputError(f"<{RUN_TAG}> holds no result of an operation", file=path)
        if self.properties.keys().isdisjoint((MACHINE, VERSION, BENCHMARK)):
            self.properties = properties_beside(path) | self.properties

    @property
    def machine(self) -> str | None:
        """The machine that was measured; None if it is unknown."""
        return self.properties.get(MACHINE)

    def line_of(self, name: str) -> int:
        """Return the number of the line where an operation begins."""
        return self._tree.line_of(self.operations[name].element)

    def benchmark_name(self, operation: RunOperation) -> str:
        """Return the benchmark of an operation: that of the settings, else the suite of its element."""
        return self.properties.get(BENCHMARK, operation.suite)

    def _read_children(self, parent: Element) -> None:
        for element in parent:
            tag = str(element.tag)
            with self._problems.collecting():
                if tag == SETTINGS_TAG:
                    self.properties |= _properties_in(self._tree, element)
                elif tag.endswith("_result") and tag not in WRAPPERS:
                    self._read_operation(tag.removesuffix("_result"), element)
                else:
                    self._read_children(element)

    def _read_operation(self, suite: str, element: Element) -> None:
        name = self._tree.text_attribute(element, "benchmark_name")
        operation = RunOperation(name, suite, element)
        try:
            if name in self.operations or name in self.broken:
                raise self._tree.error_at(element, f"<{element.tag}> appears twice", operation.place)
            for configuration in element.iter("threads"):
                self._read_configuration(operation, configuration)
            if not operation.configurations:
                raise self._missing_error(element, "has no <threads>", "threads", operation)
        except InputError:
            self.operations.pop(name, None)
            self.broken.add(name)
            raise
        self.operations[name] = operation

    def _read_configuration(self, operation: RunOperation, element: Element) -> None:
        threads = self._tree.whole_attribute(element, "number", operation.place)
        if threads in operation.configurations:
            raise self._tree.error_at(element, f'<threads number="{threads}"> appears twice', operation.place)
        place, results = f'{operation.place} threads="{threads}"', list(element.iter("result"))
        if results:
            operation.configurations[threads] = self._read_samples(operation, results, place)
            for misspelt, problem in misspelt_elements(element, "result"):
                if operation.metric in misspelt.attrib:
                    raise self._tree.error_at(misspelt, problem, place)
            times = [self._read_times(results, names, place) for names in self._times.values()]
            operation.times[threads] = times
        elif summary := self._read_summary(operation, element, place):
            operation.configurations[threads] = summary
        else:
            problem = f'<threads number="{threads}"> holds no measurement'
            raise self._missing_error(element, problem, "result", operation)

    def _missing_error(self, parent: Element, problem: str, name: str, operation: RunOperation) -> InputError:
        """Return the error of an element without children `name`, with the first that misspells it."""
        misspelt = (f"; {text}" for _, text in misspelt_elements(parent, name))
        return self._tree.error_at(parent, f"{problem}{next(misspelt, '')}", operation.place)

    def _read_samples(self, operation: RunOperation, results: list[Element], place: str) -> list[float]:
        if not operation.metric:
            attributes = list(map(str, results[0].attrib))
            candidates = [name for name in attributes if not IS_TIME.search(name)]
            candidates += [name for name in TIMES["real_seconds"] if name in attributes]
            if self._measure.metric is None and not candidates:
                problem = f"<result> holds no measurement; found {attributes}"
                raise self._tree.error_at(results[0], problem, operation.place)
            metric = candidates[0] if self._measure.metric is None else self._measure.metric
            self._set_metric(operation, metric)
        return self._tree.number_attributes(results, operation.metric, place)

    def _read_times(self, results: list[Element], names: Sequence[str], place: str) -> list[float]:
        """Return, for each result, the first of the attributes `names` that it has; NaN without any."""
        present = [next((name for name in names if name in result.attrib), "") for result in results]
        if present[0] and len({*present}) == 1:
            return self._tree.number_attributes(results, present[0], place)
        return [
            self._tree.number_attribute(result, name, place) if name else math.nan
            for result, name in zip(results, present, strict=True)
        ]

    def _read_summary(self, operation: RunOperation, configuration: Element, place: str) -> dict[str, float]:
        wanted, summary = self._measure.metric, dict[str, float]()
        for element in list(configuration.iter())[1:]:
            tag = str(element.tag)
            if "median" not in element.attrib:
                continue
            if not operation.metric and (not IS_TIME.search(tag) if wanted is None else tag == wanted):
                self._set_metric(operation, tag)
            if tag == operation.metric:
                summary = summary_statistics(self._tree, element, f"{place} {tag}")
        return summary

    def _set_metric(self, operation: RunOperation, metric: str) -> None:
        operation.metric = metric
        if IS_TIME.search(metric):
            operation.better = "lower"
        else:
            operation.better = self._measure.better or self._problems.assume_higher(self.path)


def read_results(
    paths: list[Path], problems: Problems, measure: Measure | None = None, *, chunk_rows: int | None = None
) -> Iterator[ComparisonTables]:
    """Yield the tables of result files in chunks; `paths` begin with the oldest version.

    Settings files are skipped. Results have the additional columns ``real_seconds`` and
    ``out_of_cpu_seconds`` (NaN where not given). The order of a version is its index among the files that are
    not skipped; its name is the property ``kernel``, else the file's stem. Every version but the first is
    compared with the one before. A chunk ends with the file that reaches `chunk_rows` results (None: one
    chunk); its first version is compared with one whose results are in the chunk before.

    InputError if all files are settings; and, unless ``problems.keep_going``, at the first error: an invalid
    file, another machine than before, or an operation that is missing in one of two consecutive versions, or
    has another metric or benchmark in the second.
    """
    results = [path for path in paths if not is_settings(path)]
    if not results:
        raise InputError("holds settings only; expected results", file=paths[0])
    builder = Builder(chunk_rows, extra_result_columns=tuple(TIMES))
    versions = _Versions(builder, problems, len(results) - 1)
    for path in results:
        with problems.collecting():
            versions.add_run(ResultRun(path, problems, measure or Measure()))
        if builder.is_full:
            yield builder.take_tables()
    yield builder.take_tables()


class _Versions:
    """Compare each run with the one before it, which is the only one kept; `newest` is the last order."""

    def __init__(self, builder: Builder, problems: Problems, newest: int) -> None:
        self.builder, self.problems, self.newest = builder, problems, newest
        self.last: ResultRun | None = None
        self.order = -1
        self.identifiers: set[str] = set()

    def add_run(self, run: ResultRun) -> None:
        if self.last is not None and self.last.machine != run.machine:
            machines = self.last.machine, run.machine
            before, now = (f'on "{name}"' if name else "on a machine it does not name" for name in machines)
            raise InputError(f"was measured {now}, but {self.last.path} {before}", file=run.path)
        self.order += 1
        for operation in run.operations.values():
            self._add_results(run, operation)
        if self.last is not None:
            self._add_comparisons(self.last, run)
        self.last = run

    def _add_results(self, run: ResultRun, operation: RunOperation) -> None:
        benchmark, name = run.benchmark_name(operation), operation.name
        machine, version = run.machine or UNKNOWN, run.properties.get(VERSION, run.path.stem)
        common = (benchmark, benchmark, name, machine, operation.metric, operation.better)
        results = self.builder.results
        for threads, values in operation.configurations.items():
            series = Series(f"{benchmark}/{name}/{threads}", *common, threads)
            results.add_values(series, self.order, version, values, *operation.times.get(threads, ()))

    def _add_comparisons(self, baseline: ResultRun, target: ResultRun) -> None:
        scope = target.path.stem
        if any(f"{scope}/{name}" in self.identifiers for name in target.operations):
            scope = f"{scope}#{self.order}"
        later = self.newest if self.newest > self.order else None
        orders = (self.order - 1, self.order - 1, self.order, self.order, later)
        for name in dict.fromkeys([*baseline.operations, *target.operations]):
            if name in baseline.broken | target.broken:
                continue
            with self.problems.collecting():
                benchmark = _common_benchmark(baseline, target, name)
                key = f"{scope}/{name}"
                self.identifiers.add(key)
                source = f'{target.path}:{target.line_of(name)} operation "{name}"'
                names = key, benchmark, name, target.machine or UNKNOWN
                self.builder.comparisons.append((*names, *orders, source, None))


def _common_benchmark(baseline: ResultRun, target: ResultRun, name: str) -> str:
    """Return an operation's benchmark; InputError if the runs have not both measured it by one metric."""
    place = f'operation "{name}"'
    for run, other in ((baseline, target), (target, baseline)):
        if name not in run.operations:
            line = other.line_of(name)
            raise InputError(f"is not in {run.path}", file=other.path, line=line, place=place)
    before, after = baseline.operations[name], target.operations[name]
    benchmarks = baseline.benchmark_name(before), target.benchmark_name(after)
    for field_name, old, new in (("benchmark", *benchmarks), ("metric", before.metric, after.metric)):
        if old != new:
            problem = f'{field_name} "{new}" is not that of {baseline.path}, "{old}"'
            raise InputError(problem, file=target.path, line=target.line_of(name), place=place)
    return benchmarks[1]
