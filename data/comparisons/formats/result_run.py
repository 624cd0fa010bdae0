"""One benchmark run in the result XML of seed 000: raw (figure 4.1) or aggregated (figure 4.2)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from data.comparisons.formats import settings_xml
from data.comparisons.formats.comparison_xml import numbers
from data.comparisons.formats.settings_xml import Settings
from data.comparisons.params import Measure
from data.errors import InputError
from data.tables.problems import Problems
from data.tables.xml_stream import Document, Element, WholeDocument

ROOT = "beaker_run_result"
WRAPPERS = frozenset(("test_result", "test_run"))
#: What a benchmark measured besides its throughput, and the columns that keep it.
TIMES = {"real_seconds": ("real_time", "total_time"), "out_of_cpu_seconds": ("out_of_cpu_time",)}
IS_TIME = re.compile(r"(^|_)(time|seconds|secs?|ms)$")


@dataclass
class RunConfiguration:
    """The measurements of one number of threads: samples, or a summary of them."""

    threads: int
    samples: list[float] = field(default_factory=list)
    times: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in TIMES})
    summary: dict[str, float] = field(default_factory=dict)


@dataclass
class RunOperation:
    """One operation of a run, by threads."""

    name: str
    suite: str
    element: Element
    metric: str = ""
    better: str = ""
    configurations: dict[int, RunConfiguration] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """What messages call it."""
        return f'operation "{self.name}"'


@dataclass(frozen=True)
class ResultRun:
    """One result file: one version.

    Attributes
    ----------
    properties : mapping
        As the file gives them, or one beside it.
    operations : dict of str to RunOperation
    broken : set of str
        Operations that were skipped, because something in them was wrong.
    """

    tree: WholeDocument
    path: Path
    properties: Mapping[str, str]
    operations: dict[str, RunOperation]
    broken: frozenset[str]

    @cached_property
    def settings(self) -> Settings:
        """What the tables take over from the properties."""
        return Settings.of(self.properties)

    @cached_property
    def lines(self) -> Mapping[str, int]:
        """The lines where the operations begin."""
        elements = [one.element for one in self.operations.values()]
        return dict(zip(self.operations, self.tree.lines(elements), strict=True))

    def benchmark(self, operation: RunOperation) -> str:
        """Return what an operation belongs to."""
        return self.settings.benchmark or operation.suite


def read(
    path: Path, problems: Problems, measure: Measure, times: Mapping[str, Sequence[str]] = TIMES
) -> ResultRun:
    """Read one result file.

    Parameters
    ----------
    path : Path
    problems : Problems
        Takes what is wrong with one operation, which is then skipped.
    measure : Measure
        The metric (by default the first attribute or element that is no time), and its better direction.
        Times are better lower.
    times : mapping
        What else of the samples is kept, as `TIMES` has it.

    Raises
    ------
    InputError
        If the file cannot be read or is no result XML, or, unless ``problems.keep_going``, at the first
        thing that is wrong.
    """
    reader = _RunReader(path, problems, measure, times)
    reader.read()
    properties = reader.properties
    if Settings.of(properties) == Settings():
        properties = settings_xml.beside(path) | properties
    return ResultRun(reader.tree, path, properties, reader.operations, frozenset(reader.broken))


class _RunReader:
    def __init__(
        self, path: Path, problems: Problems, measure: Measure, times: Mapping[str, Sequence[str]]
    ) -> None:
        self.path, self.problems, self.measure, self.times = path, problems, measure, times
        self.tree = WholeDocument(Document.of_path(path))
        self.properties: dict[str, str] = {}
        self.operations: dict[str, RunOperation] = {}
        self.broken: set[str] = set()

    def read(self) -> None:
        """Collect settings and operations."""
        root = self.tree.root
        if root.tag != ROOT:
            raise self.tree.error(f"<{root.tag}> is no benchmark run; expected <{ROOT}>")
        self._inside(root)
        if not self.operations and not self.broken:
            raise InputError(f"<{ROOT}> holds no result of an operation", file=self.path)

    def _inside(self, outer: Element) -> None:
        for element in outer:
            tag = str(element.tag)
            try:
                if tag == settings_xml.ROOT:
                    self.properties |= settings_xml.properties_in(self.tree, element)
                elif tag.endswith("_result") and tag not in WRAPPERS:
                    self._operation(tag.removesuffix("_result"), element)
                else:
                    self._inside(element)
            except InputError as error:
                self.problems.add(error)

    def _operation(self, suite: str, element: Element) -> None:
        name = self._at(element).text(element, "benchmark_name")
        operation = RunOperation(name, suite, element)
        if name in self.operations or name in self.broken:
            self._forget(name)
            raise self.tree.error(f"<{element.tag}> stands twice", operation.place)
        try:
            self._configurations(operation, element)
        except InputError:
            self._forget(name)
            raise
        self.operations[name] = operation

    def _forget(self, name: str) -> None:
        self.operations.pop(name, None)
        self.broken.add(name)

    def _at(self, element: Element) -> WholeDocument:
        self.tree.here = element
        return self.tree

    def _configurations(self, operation: RunOperation, element: Element) -> None:
        for one in element.iter("threads"):
            self._configuration(operation, one)
        if not operation.configurations:
            raise self._at(element).error("has no <threads>", operation.place)

    def _configuration(self, operation: RunOperation, element: Element) -> None:
        threads = self._at(element).whole(element, "number", operation.place)
        if threads in operation.configurations:
            raise self.tree.error(f'<threads number="{threads}"> stands twice', operation.place)
        here = operation.configurations[threads] = RunConfiguration(threads)
        self._samples(operation, here, list(element.iter("result")))
        for one in () if here.samples else list(element.iter())[1:]:
            if "median" in one.attrib:
                self._summary(operation, here, one)
        if not here.samples and not here.summary:
            raise self._at(element).error(
                f'<threads number="{threads}"> holds no measurement', operation.place
            )

    def _samples(self, operation: RunOperation, here: RunConfiguration, results: Sequence[Element]) -> None:
        if results and not operation.metric:
            self._decide(operation, self._metric(operation, results[0]))
        place = f'{operation.place} threads="{here.threads}"'
        here.samples += self.tree.each(results, operation.metric, place)
        for column, names in self.times.items():
            here.times[column] += self._times(results, names, place)

    def _times(self, results: Sequence[Element], names: Sequence[str], place: str) -> list[float]:
        """Return the first of some attributes that each result has, NaN where it has none."""
        for name in names:
            having = [element for element in results if name in element.attrib]
            if len(having) == len(results):
                return self.tree.each(results, name, place)
            if having:
                first = (next((one for one in names if one in element.attrib), "") for element in results)
                each = zip(results, first, strict=True)
                return [self.tree.each([one], name, place)[0] if name else math.nan for one, name in each]
        return [math.nan] * len(results)

    def _summary(self, operation: RunOperation, here: RunConfiguration, element: Element) -> None:
        tag = str(element.tag)
        if not operation.metric:
            wanted = not IS_TIME.search(tag) if self.measure.metric is None else tag == self.measure.metric
            if not wanted:
                return
            self._decide(operation, tag)
        if tag == operation.metric:
            place = f'{operation.place} threads="{here.threads}" {tag}'
            here.summary = numbers(self._at(element), element, place)

    def _metric(self, operation: RunOperation, element: Element) -> str:
        """Choose what the samples of an operation are."""
        if self.measure.metric is not None:
            return self.measure.metric
        names = list(map(str, element.attrib))
        chosen = [name for name in names if not IS_TIME.search(name)]
        chosen += [name for name in TIMES["real_seconds"] if name in names]
        if not chosen:
            raise self._at(element).error(f"<result> holds no measurement; found {names}", operation.place)
        return chosen[0]

    def _decide(self, operation: RunOperation, metric: str) -> None:
        operation.metric = metric
        if IS_TIME.search(metric):
            operation.better = "lower"
        else:
            operation.better = self.measure.better or self.problems.assume_higher(self.path)
