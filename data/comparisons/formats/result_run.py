"""One benchmark run in the result XML of seed 000: raw (figure 4.1) or aggregated (figure 4.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from data.comparisons.formats import settings_xml
from data.comparisons.formats.comparison_xml import numbers
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
class RunConfiguration:
    """The measurements of one number of threads: samples, or a summary of them."""

    threads: int
    line: int
    samples: list[float] = field(default_factory=list)
    times: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in TIMES})
    summary: dict[str, float] = field(default_factory=dict)


@dataclass
class RunOperation:
    """One operation of a run, by threads."""

    name: str
    suite: str
    line: int
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
    operations : dict of str to RunOperation
    broken : set of str
        Operations that were skipped, because something in them was wrong.
    """

    path: Path
    settings: Settings
    operations: dict[str, RunOperation]
    broken: frozenset[str]

    def benchmark(self, operation: RunOperation) -> str:
        """Return what an operation belongs to."""
        return self.settings.benchmark or operation.suite


def read(path: Path, problems: Problems, measure: Measure) -> ResultRun:
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
    reader = _RunReader(path, problems, measure)
    reader.read()
    settings = Settings.of(reader.settings.properties)
    if settings == Settings():
        settings = settings_xml.beside(path)
    return ResultRun(path, settings, reader.operations, frozenset(reader.broken))


class _RunReader:
    def __init__(self, path: Path, problems: Problems, measure: Measure) -> None:
        self.path, self.problems, self.measure = path, problems, measure
        self.walk = Walk(Document.of_path(path))
        self.settings = Collector(self.walk)
        self.operations: dict[str, RunOperation] = {}
        self.broken: set[str] = set()
        self.open: RunOperation | None = None
        self.here: RunConfiguration | None = None

    def read(self) -> None:
        """Walk through the file, collecting operations, until its end."""
        begun = False
        for opened, element in self.walk:
            tag = str(element.tag)
            if not begun and tag != ROOT:
                raise self.walk.error(f"<{tag}> is no benchmark run; expected <{ROOT}>")
            begun = True
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
            raise InputError(f"<{ROOT}> holds no result of an operation", file=self.path)

    def _begin(self, tag: str, element: Element) -> None:
        if tag.endswith("_result") and tag not in WRAPPERS and tag != ROOT:
            self._operation(tag.removesuffix("_result"), element)
        elif self.open is None:
            return
        elif tag == "threads":
            self._configuration(self.open, element)
        elif self.here is not None and tag == "result":
            self._sample(self.open, self.here, element)
        elif self.here is not None and "median" in element.attrib:
            self._summary(self.open, self.here, tag, element)

    def _end(self, tag: str) -> None:
        if tag == "threads" and self.open is not None and self.here is not None:
            here, self.here = self.here, None
            if not here.samples and not here.summary:
                raise self._error(
                    self.open, here.line, f'<threads number="{here.threads}"> holds no measurement'
                )
        elif tag.endswith("_result") and self.open is not None:
            if not self.open.configurations:
                raise self._error(self.open, self.open.line, "has no <threads>")
            self.open = None

    def _error(self, operation: RunOperation, line: int, problem: str) -> InputError:
        return InputError(problem, file=self.path, line=line, place=operation.place)

    def _skip(self) -> None:
        """Forget the open operation."""
        if self.open is not None:
            self.operations.pop(self.open.name, None)
            self.broken.add(self.open.name)
        self.open = self.here = None

    def _operation(self, suite: str, element: Element) -> None:
        self.open = self.here = None
        operation = RunOperation(self.walk.text(element, "benchmark_name"), suite, self.walk.line)
        if operation.name in self.operations or operation.name in self.broken:
            raise self.walk.error(f"<{element.tag}> stands twice", operation.place)
        self.open = self.operations[operation.name] = operation

    def _configuration(self, operation: RunOperation, element: Element) -> None:
        threads = self.walk.whole(element, "number", operation.place)
        if threads in operation.configurations:
            raise self.walk.error(f'<threads number="{threads}"> stands twice', operation.place)
        self.here = operation.configurations[threads] = RunConfiguration(threads, self.walk.line)

    def _sample(self, operation: RunOperation, here: RunConfiguration, element: Element) -> None:
        if not operation.metric:
            self._decide(operation, self._metric(operation, list(map(str, element.attrib))))
        place = f'{operation.place} threads="{here.threads}"'
        here.samples.append(self.walk.number(element, operation.metric, place))
        for column, names in TIMES.items():
            given = [name for name in names if name in element.attrib]
            value = self.walk.number(element, given[0], place) if given else float("nan")
            here.times[column].append(value)

    def _summary(self, operation: RunOperation, here: RunConfiguration, tag: str, element: Element) -> None:
        if not operation.metric:
            wanted = not IS_TIME.search(tag) if self.measure.metric is None else tag == self.measure.metric
            if not wanted:
                return
            self._decide(operation, tag)
        if tag != operation.metric:
            return
        place = f'{operation.place} threads="{here.threads}" {tag}'
        here.summary = numbers(self.walk, element, place)

    def _metric(self, operation: RunOperation, names: list[str]) -> str:
        """Choose what the samples of an operation are."""
        if self.measure.metric is not None:
            return self.measure.metric
        chosen = [name for name in names if not IS_TIME.search(name)]
        chosen += [name for name in TIMES["real_seconds"] if name in names]
        if not chosen:
            raise self.walk.error(f"<result> holds no measurement; found {names}", operation.place)
        return chosen[0]

    def _decide(self, operation: RunOperation, metric: str) -> None:
        operation.metric = metric
        if IS_TIME.search(metric):
            operation.better = "lower"
        else:
            operation.better = self.measure.better or self.problems.assume_higher(self.path)
