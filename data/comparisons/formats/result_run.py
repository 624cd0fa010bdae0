"""One benchmark run in the result XML of seed 000: raw (figure 4.1) or aggregated (figure 4.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from data.comparisons.formats import settings_xml
from data.comparisons.formats.comparison_xml import NEEDED, OPTIONAL
from data.comparisons.formats.settings_xml import Collector, Settings
from data.comparisons.params import Measure
from data.errors import InputError
from data.tables.problems import Problems
from data.tables.xml_stream import Document, Element, Walk

ROOT = "beaker_run_result"
WRAPPERS = frozenset(("test_result", "test_run"))
#: What a benchmark measured besides its throughput, and the columns that keep it.
TIMES = {"real_seconds": ("real_time", "total_time"), "out_of_cpu_seconds": ("out_of_cpu_time",)}
IS_TIME = re.compile(r"(^|_)(time|seconds|secs?|ms)$")


@dataclass
class Configuration:
    """The measurements of one number of threads: samples, or a summary of them."""

    line: int
    samples: list[float] = field(default_factory=list)
    times: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in TIMES})
    summary: dict[str, float] = field(default_factory=dict)


@dataclass
class Operation:
    """One operation of a run, by threads."""

    suite: str
    line: int
    metric: str = ""
    better: str = ""
    configurations: dict[int, Configuration] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """One result file: one version.

    Attributes
    ----------
    operations : dict of str to Operation
    broken : set of str
        Operations that were skipped, because something in them was wrong.
    """

    path: Path
    settings: Settings
    operations: dict[str, Operation]
    broken: frozenset[str]


def read(path: Path, problems: Problems, measure: Measure) -> Run:
    """Read one result file.

    Parameters
    ----------
    path : Path
    problems : Problems
        Takes what is wrong with one operation, which is then skipped.
    measure : Measure
        The metric (by default the first attribute or element that is no time), and its better direction.
        Times are better lower.

    Raises
    ------
    InputError
        If the file cannot be read or is no result XML, or, unless ``problems.keep_going``, at the first
        thing that is wrong.
    """
    reader = _Reader(path, problems, measure)
    reader.read()
    settings = Settings.of(reader.settings.properties)
    if settings == Settings():
        settings = settings_xml.beside(path)
    return Run(path, settings, reader.operations, frozenset(reader.broken))


class _Reader:
    def __init__(self, path: Path, problems: Problems, measure: Measure) -> None:
        self.path, self.problems, self.measure = path, problems, measure
        self.walk = Walk(Document.of_path(path))
        self.settings = Collector(self.walk)
        self.operations: dict[str, Operation] = {}
        self.broken: set[str] = set()
        self.name: str | None = None
        self.threads: int | None = None

    def read(self) -> None:
        """Walk through the file, collecting operations, until its end."""
        root = ""
        for opened, element in self.walk:
            tag = str(element.tag)
            if not root:
                root = tag
                self._expect_root(root)
            if self.settings.take(opened, tag, element.get("value")):
                continue
            try:
                if opened:
                    self._begin(tag, element)
                else:
                    self._end(tag)
            except InputError as error:
                self._skip()
                self.problems.add(error)
        if not self.operations and not self.broken:
            raise InputError(f"<{root}> holds no result of an operation", file=self.path)

    def _expect_root(self, root: str) -> None:
        if root != ROOT:
            raise self.walk.error(f"<{root}> is no benchmark run; expected <{ROOT}>")

    def _begin(self, tag: str, element: Element) -> None:
        if tag.endswith("_result") and tag not in WRAPPERS and tag != ROOT:
            self._operation(tag.removesuffix("_result"), element)
        elif self.name is None:
            return
        elif tag == "threads":
            self._configuration(self.operations[self.name], element)
        elif self.threads is not None and tag == "result":
            self._sample(self.operations[self.name], self.threads, element)
        elif self.threads is not None and "median" in element.attrib:
            self._summary(self.operations[self.name], self.threads, tag, element)

    def _end(self, tag: str) -> None:
        if tag == "threads" and self.name is not None and self.threads is not None:
            here = self.operations[self.name].configurations[self.threads]
            threads, self.threads = self.threads, None
            if not here.samples and not here.summary:
                problem = f'<threads number="{threads}"> holds no measurement'
                raise InputError(problem, file=self.path, line=here.line, place=self._place)
        elif tag.endswith("_result") and self.name is not None:
            operation = self.operations[self.name]
            if not operation.configurations:
                raise InputError("has no <threads>", file=self.path, line=operation.line, place=self._place)
            self.name = None

    @property
    def _place(self) -> str:
        return f'operation "{self.name}"'

    def _skip(self) -> None:
        """Forget the open operation."""
        if self.name is not None:
            self.operations.pop(self.name, None)
            self.broken.add(self.name)
        self.name = self.threads = None

    def _operation(self, suite: str, element: Element) -> None:
        self.name = self.threads = None
        name = self.walk.text(element, "benchmark_name")
        if name in self.operations or name in self.broken:
            raise self.walk.error(f"<{element.tag}> stands twice", f'operation "{name}"')
        self.name = name
        self.operations[name] = Operation(suite, self.walk.line)

    def _configuration(self, operation: Operation, element: Element) -> None:
        threads = self.walk.whole(element, "number", self._place)
        if threads in operation.configurations:
            raise self.walk.error(f'<threads number="{threads}"> stands twice', self._place)
        operation.configurations[threads] = Configuration(self.walk.line)
        self.threads = threads

    def _sample(self, operation: Operation, threads: int, element: Element) -> None:
        if not operation.metric:
            self._decide(operation, self._metric(list(map(str, element.attrib))))
        here = operation.configurations[threads]
        place = f'{self._place} threads="{threads}"'
        here.samples.append(self.walk.number(element, operation.metric, place))
        for column, names in TIMES.items():
            given = [name for name in names if name in element.attrib]
            value = self.walk.number(element, given[0], place) if given else float("nan")
            here.times[column].append(value)

    def _summary(self, operation: Operation, threads: int, tag: str, element: Element) -> None:
        if not operation.metric:
            if self.measure.metric is None and IS_TIME.search(tag):
                return
            if self.measure.metric not in {None, tag}:
                return
            self._decide(operation, tag)
        if tag != operation.metric:
            return
        place = f'{self._place} threads="{threads}" {tag}'
        names = NEEDED | {stat: name for stat, name in OPTIONAL.items() if name in element.attrib}
        operation.configurations[threads].summary = {
            stat: self.walk.number(element, name, place) for stat, name in names.items()
        }

    def _metric(self, names: list[str]) -> str:
        """Choose what the samples of an operation are."""
        if self.measure.metric is not None:
            return self.measure.metric
        chosen = [name for name in names if not IS_TIME.search(name)]
        chosen += [name for name in TIMES["real_seconds"] if name in names]
        if not chosen:
            raise self.walk.error(f"<result> holds no measurement; found {names}", self._place)
        return chosen[0]

    def _decide(self, operation: Operation, metric: str) -> None:
        operation.metric = metric
        if IS_TIME.search(metric):
            operation.better = "lower"
        else:
            operation.better = self.measure.better or self.problems.assume_higher(self.path)
