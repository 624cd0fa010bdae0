"""The comparison XML of seed 000, figure 6.1, as a report generator writes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from data.columns import Series
from data.errors import InputError
from data.reading import Builder, Problems
from data.tables import ComparisonTables
from data.xml_stream import Document, Element, Walk

UUIDS = ("base_uuid", "report_uuid", "target_uuid")
STATUSES = ("pass", "fail")
#: The attributes of base_result and target_result that must be there, by their names in the tables.
NEEDED = {"min": "min", "q1": "first_q", "median": "median", "q3": "third_q", "max": "max"}
OPTIONAL = {"mean": "mean", "stdev": "stdev"}
ORDERS = {"base_result": 0, "target_result": 1}
UNKNOWN = "unknown"


class ReportNames:
    """What the reports of one run of reading are called: their UUIDs, or the file's name."""

    def __init__(self) -> None:
        self._unnamed: dict[str, int] = {}

    def name(self, stem: str, attributes: Mapping[str, str]) -> str:
        """Return the next report's name; the second report without UUID in `stem` is ``stem#2``."""
        uuid = attributes.get("report_uuid", "")
        if uuid not in {"", "..."}:
            return uuid
        self._unnamed[stem] = count = self._unnamed.get(stem, 0) + 1
        return stem if count == 1 else f"{stem}#{count}"


def identifier(report: str, attributes: Mapping[str, str]) -> str:
    """Return the comparison_id of a ``comparison_result``: report, benchmark and operation."""
    return f"{report}/{attributes.get('benchmark_name')}/{attributes.get('operation_name')}"


def read(
    documents: Iterable[Document], problems: Problems, *, better: str = "higher", piece: int | None = None
) -> Iterator[ComparisonTables]:
    """Read comparison XML, one comparison after the other.

    The five numbers (and mean and stdev) become results at the orders 0 (baseline) and 1 (target). The format
    names no machine; the report stands for it, so that reports never mix.

    Parameters
    ----------
    documents : iterable of Document
    problems : Problems
        Takes what is wrong with one comparison, which is then skipped, or with one file.
    better : {"higher", "lower"}
        Where no attribute ``better`` says otherwise: seed 000 compares throughputs.
    piece : int or None
        Results in a piece; None gives everything in one.

    Yields
    ------
    ComparisonTables
        Whole comparisons, with the further columns ``base_uuid, report_uuid, target_uuid``; one piece
        at least.
    """
    builder = Builder(piece, further_comparisons=UUIDS)
    run = _Run(builder, problems, better)
    for document in documents:
        reader = _Reader(document, run)
        try:
            for _ in reader.comparisons():
                if builder.is_full:
                    yield builder.take()
        except InputError as error:
            problems.add(error)
    yield builder.take()


def tables_of(body: bytes, name: str = "request.xml") -> ComparisonTables:
    """Read the comparison XML of a request.

    Raises
    ------
    InputError
        At the first thing that is wrong.
    """
    return next(read([Document.of_bytes(body, name)], Problems()))


@dataclass
class _Comparison:
    """The comparison that is open: added to the tables at its end, if nothing was wrong."""

    key: str
    benchmark: str
    operation: str
    status: str
    better: str
    line: int
    sides: dict[tuple[int, str], dict[str, float]] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return f'operation "{self.operation}"'


@dataclass(frozen=True)
class _Run:
    """What the documents of one run of reading share."""

    builder: Builder
    problems: Problems
    better: str
    names: ReportNames = field(default_factory=ReportNames)
    seen: set[str] = field(default_factory=set)


class _Reader:
    def __init__(self, document: Document, run: _Run) -> None:
        self.document, self.run = document, run
        self.walk = Walk(document)
        self.report: str | None = None
        self.report_attributes: dict[str, str] = {}
        self.open: _Comparison | None = None
        self.threads: int | None = None

    def comparisons(self) -> Iterator[None]:
        """Yield after each comparison."""
        root, found = None, False
        for opened, element in self.walk:
            root = root or str(element.tag)
            try:
                if opened:
                    self._begin(element)
            except InputError as error:
                self.open = None
                self.run.problems.add(error)
            if element.tag == "comparison_result" and not opened:
                found = True
                self._finish()
                yield
        if not found:
            raise InputError(f"<{root}> holds no <comparison_result>", file=self.document.name)

    def _begin(self, element: Element) -> None:
        if element.tag == "comparison_results":
            self.report_attributes = {str(name): str(value) for name, value in element.attrib.items()}
            self.report = self.run.names.name(self.document.stem, self.report_attributes)
        elif element.tag == "comparison_result":
            self.open = None
            self.open = self._comparison(element)
        elif self.open is not None and element.tag == "result":
            self.threads = self.walk.whole(element, "threads_no", self.open.place)
        elif self.open is not None and element.tag in ORDERS:
            self._side(self.open, element)

    def _comparison(self, element: Element) -> _Comparison:
        if self.report is None:
            self.report = self.run.names.name(self.document.stem, {})
        self.threads = None
        operation = self.walk.text(element, "operation_name")
        place = f'operation "{operation}"'
        benchmark = self.walk.text(element, "benchmark_name", place)
        better = self._choice(element, "better", ("higher", "lower"), place)
        status = self._choice(element, "result_status", STATUSES, place)
        key = identifier(self.report, {"benchmark_name": benchmark, "operation_name": operation})
        if key in self.run.seen:
            raise self.walk.error(f'<comparison_result> stands twice in the report "{self.report}"', place)
        self.run.seen.add(key)
        return _Comparison(key, benchmark, operation, status, better or self.run.better, self.walk.line)

    def _choice(self, element: Element, name: str, known: tuple[str, str], place: str) -> str:
        """Return an attribute that may be empty or missing, and else is one of two."""
        value = element.get(name, "")
        if value and value not in known:
            expected = " or ".join(f'"{word}"' for word in known)
            raise self.walk.error(f'{name}="{value}" is unknown; expected {expected}', place)
        return value

    def _side(self, comparison: _Comparison, element: Element) -> None:
        tag = str(element.tag)
        if self.threads is None:
            raise self.walk.error(f"<{tag}> stands outside of <result>", comparison.place)
        place = f"{comparison.place} {tag}"
        key = (self.threads, tag)
        if key in comparison.sides:
            raise self.walk.error(f'threads_no="{self.threads}" has a second <{tag}>', comparison.place)
        comparison.sides[key] = {
            name: self.walk.number(element, attribute, place) for name, attribute in NEEDED.items()
        } | {
            name: self.walk.number(element, attribute, place)
            for name, attribute in OPTIONAL.items()
            if attribute in element.attrib
        }

    def _finish(self) -> None:
        done, self.open = self.open, None
        if done is None or self.report is None:
            return
        series = f"{self.report}/{done.benchmark}/{done.operation}"
        common = (done.benchmark, done.benchmark, done.operation, self.report, UNKNOWN, done.better)
        for (threads, tag), numbers in done.sides.items():
            order = ORDERS[tag]
            self.run.builder.results.summary(
                Series(f"{series}/{threads}", *common, threads), order, str(order), numbers
            )
        source = f"{self.document.name}:{done.line} {done.place}"
        uuids = (self.report_attributes.get(name) for name in UUIDS)
        self.run.builder.comparisons.add(
            done.key, done.benchmark, done.operation, self.report, 0, 0, 1, 1, source, *uuids
        )
        if done.status:
            self.run.builder.labels.add(done.key, done.status, UNKNOWN)
