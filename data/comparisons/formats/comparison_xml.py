"""Comparison XML (seed 000, figure 6.1) as a report generator writes it, with optional additions.

Optional attributes of ``comparison_result``: ``comparison_id``, ``unit``, ``better`` and ``siblings_worse``,
the share of the benchmark's other operations that got worse at the target's version. Optional attribute of
``comparison_results``: ``machine``. Samples are optional elements ``<samples order="3" values="1.5 1.6"/>``
in ``base_result``, ``target_result``, ``history`` (versions before the baseline) and ``later`` (versions
after the target); ``order`` sorts versions. Labels are elements ``<label status="pass" annotator="anna"
labelled_at="2026-..."/>`` of a ``comparison_result``; if it has one, its ``result_status`` is a verdict and
not read as a label. Elements ``verdict`` are output of perfjudge and are ignored.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import quoteattr

from data.comparisons.formats.comparison_json import Taken
from data.comparisons.tables import (
    FIVE_NUMBERS,
    LABEL_STATUSES,
    STATS,
    Builder,
    ComparisonTables,
    LabelRow,
    Series,
)
from data.comparisons.units import UNKNOWN
from data.errors import InputError, RepeatedError
from data.tables.documents import EXAMPLE_MOMENT, moment
from data.tables.problems import Problems
from data.tables.xml_stream import Attributes, Document, Element, Walk

UUIDS = ("base_uuid", "report_uuid", "target_uuid")
#: Values of ``result_status``: the two labels, then the other verdicts.
STATUSES = ("pass", "fail", "unsure", "invalid")
COMPARISON, VERDICT = "comparison_result", "verdict"
LABEL, LABELLED = "label", STATUSES[:2]
#: Attributes of base_result and target_result by `STATS`; the last two are optional.
ATTRIBUTES = dict(zip(STATS, ("min", "first_q", "median", "third_q", "max", "mean", "stdev"), strict=True))
BASE, TARGET, EARLIER, LATER = "base_result", "target_result", "history", "later"
#: Elements that hold the versions of a configuration; those of them without five numbers.
VERSIONS, WITHOUT_NUMBERS = (EARLIER, BASE, TARGET, LATER), {EARLIER, LATER}
#: Elements of a comparison; their data are in attributes, so text in them is an error.
_PARTS = {COMPARISON, LABEL, "result", *VERSIONS, "samples"}
_ORDER = re.compile(r"-?[0-9]{1,18}")


class _ReportNames:
    """Names of the reports read so far: their UUIDs, or names derived from the file's."""

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
    """Return the id of a ``comparison_result``: its ``comparison_id``, or report, benchmark and operation."""
    named = f"{report}/{attributes.get('benchmark_name')}/{attributes.get('operation_name')}"
    return attributes.get("comparison_id") or named


def numbers(walk: Attributes, element: Element, place: str) -> dict[str, float]:
    """Return the summary statistics of an element, by `STATS` names.

    InputError as of `Attributes.number`; all but `mean` and `stdev` are required.
    """
    return {
        name: walk.number(element, attribute, place)
        for name, attribute in ATTRIBUTES.items()
        if name in FIVE_NUMBERS or attribute in element.attrib
    }


def read(
    documents: Iterable[Document],
    problems: Problems,
    *,
    better: str | None = None,
    piece: int | None = None,
) -> Iterator[ComparisonTables]:
    """Read comparison XML one comparison at a time; `problems` receives those that are skipped.

    Results are samples, or, where a version has none, its five numbers with mean and stdev. Orders are
    assigned by position: earlier versions from 0 on, then the baseline's, the target's and later ones. Where
    no machine is named, the report's name is used. The second comparison of an operation is on
    ``<machine> #2``. `better` ("higher" or "lower") is used where an element has no attribute ``better``;
    without it, higher is assumed and noted.

    Yields
    ------
    ComparisonTables
        Whole comparisons with the additional columns `UUIDS`; at least one chunk.
    """
    builder = Builder(piece, further_comparisons=UUIDS)
    run = _ReadingRun(builder, problems, better)
    for document in documents:
        reader = _Reader(document, run)
        try:
            for _ in reader.comparisons():
                if builder.is_full:
                    yield builder.take()
        except InputError as error:
            problems.add(error)
    yield builder.take()


def tables_of(body: bytes, name: str = "request.xml", problems: Problems | None = None) -> ComparisonTables:
    """Return the tables of a request in comparison XML; `problems` is as for `read`."""
    return next(read([Document.of_bytes(body, name)], problems or Problems()))


@dataclass
class _Side:
    """The content of one element of `VERSIONS`: summary statistics, and samples with their orders."""

    numbers: dict[str, float]
    samples: list[tuple[int, array[float]]] = field(default_factory=list)


@dataclass
class _Comparison:
    """The comparison being read, which is added to the tables at its end tag unless it had an error."""

    key: str
    benchmark: str
    operation: str
    unit: str
    better: str
    status: str
    siblings_worse: float | None
    line: int
    sides: dict[tuple[int, str], _Side] = field(default_factory=dict)
    labels: list[LabelRow] = field(default_factory=list)

    @property
    def place(self) -> str:
        return f'operation "{self.operation}"'

    def orders(self, tag: str, following: int) -> dict[int | None, int]:
        """Map the orders of a side's versions to consecutive ones from `following`; None is a summary."""
        sides = (side for (_, own), side in self.sides.items() if own == tag)
        given: list[int | None] = [*sorted({order for side in sides for order, _ in side.samples})]
        versions = given or ([] if tag in WITHOUT_NUMBERS else [None])
        return {order: place for place, order in enumerate(versions, following)}


@dataclass(frozen=True)
class _ReadingRun:
    builder: Builder
    problems: Problems
    better: str | None
    names: _ReportNames = field(default_factory=_ReportNames)
    taken: Taken = field(default_factory=Taken)


class _Reader:
    def __init__(self, document: Document, run: _ReadingRun) -> None:
        self.document, self.run = document, run
        self.walk = Walk(document)
        self.report: str | None = None
        self.report_attributes: dict[str, str] = {}
        self.open: _Comparison | None = None
        self.threads: int | None = None
        self.side: _Side | None = None

    def comparisons(self) -> Iterator[None]:
        root, found = None, False
        for opened, element in self.walk:
            root = root or str(element.tag)
            try:
                if opened:
                    self._begin(element)
                elif self.open is not None:
                    self._require_no_text(self.open, element)
            except InputError as error:
                self.open = self.side = None
                self.run.problems.add(error)
            if element.tag in VERSIONS and not opened:
                self.side = None
            if element.tag == COMPARISON and not opened:
                found = True
                self._finish()
                yield
        if not found:
            raise InputError(f"<{root}> holds no <comparison_result>", file=self.document.name)

    def _begin(self, element: Element) -> None:
        if element.tag == "comparison_results":
            self.report_attributes = {str(name): str(value) for name, value in element.attrib.items()}
            self.report = self.run.names.name(self.document.stem, self.report_attributes)
        elif element.tag == COMPARISON:
            self.open = self.side = None
            self.open = self._comparison(element)
        elif self.open is not None and element.tag == LABEL:
            self.open.labels.append(self._label(self.open, element))
        elif self.open is not None and element.tag == "result":
            self.threads = self.walk.whole(element, "threads_no", self.open.place)
        elif self.open is not None and element.tag in VERSIONS:
            self.side = self._side(self.open, element)
        elif self.open is not None and self.side is not None and element.tag == "samples":
            self.side.samples.append(self._samples(self.open, element))

    def _require_no_text(self, comparison: _Comparison, element: Element) -> None:
        text = (element.text or "").strip()
        if text and element.tag in _PARTS:
            raise self.walk.error(f'<{element.tag}> holds text: "{text[:60]}"', comparison.place)

    def _comparison(self, element: Element) -> _Comparison:
        if self.report is None:
            self.report = self.run.names.name(self.document.stem, {})
        self.threads = None
        operation = self.walk.text(element, "operation_name")
        place = f'operation "{operation}"'
        benchmark = self.walk.text(element, "benchmark_name", place)
        better = self._choice(element, "better", ("higher", "lower"), place)
        status = self._choice(element, "result_status", STATUSES, place)
        key = identifier(self.report, {str(name): str(value) for name, value in element.attrib.items()})
        if key in self.run.taken.identifiers:
            twice = (
                f'comparison_id="{key}" stands twice'
                if "comparison_id" in element.attrib
                else (f'<comparison_result> stands twice in the report "{self.report}"')
            )
            raise self.walk.error(twice, place, RepeatedError)
        self.run.taken.identifiers.add(key)
        otherwise = "the attribute better, or --better, says otherwise"
        better = better or self.run.better or self.run.problems.assume_higher(self.document.name, otherwise)
        unit = element.get("unit") or UNKNOWN
        worse = self._share(element, "siblings_worse", place)
        return _Comparison(key, benchmark, operation, unit, better, status, worse, self.walk.line)

    def _share(self, element: Element, name: str, place: str) -> float | None:
        if name not in element.attrib:
            return None
        value = self.walk.number(element, name, place)
        if not 0 <= value <= 1:
            raise self.walk.error(f'{name}="{value:g}" is not between 0 and 1', place)
        return value

    def _label(self, comparison: _Comparison, element: Element) -> LabelRow:
        status = self.walk.text(element, "status", comparison.place)
        if status not in LABEL_STATUSES:
            expected = ", ".join(LABEL_STATUSES)
            raise self.walk.error(f'status="{status[:60]}" is none of {expected}', comparison.place)
        annotator, said = element.get("annotator", "").strip() or None, element.get("labelled_at", "")
        at = moment(said)
        if said and at is None:
            wrong = f'labelled_at="{said[:60]}" is no time like {EXAMPLE_MOMENT}'
            raise self.walk.error(wrong, comparison.place)
        who = element.get("labelled_by", "").strip() or annotator or UNKNOWN
        return LabelRow(comparison.key, status, who, annotator, at)

    def _choice(self, element: Element, name: str, known: tuple[str, ...], place: str) -> str:
        """Return an attribute's value, empty if it is missing; InputError if the value is not in `known`."""
        value = element.get(name, "")
        if value and value not in known:
            expected = " or ".join(f'"{word}"' for word in known)
            raise self.walk.error(f'{name}="{value}" is unknown; expected {expected}', place)
        return value

    def _side(self, comparison: _Comparison, element: Element) -> _Side:
        tag = str(element.tag)
        if self.threads is None:
            raise self.walk.error(f"<{tag}> stands outside of <result>", comparison.place)
        key = (self.threads, tag)
        if key in comparison.sides:
            twice = f'threads_no="{self.threads}" has a second <{tag}>'
            raise self.walk.error(twice, comparison.place, RepeatedError)
        given = {} if tag in WITHOUT_NUMBERS else numbers(self.walk, element, f"{comparison.place} {tag}")
        comparison.sides[key] = side = _Side(given)
        return side

    def _samples(self, comparison: _Comparison, element: Element) -> tuple[int, array[float]]:
        order = self.walk.text(element, "order", comparison.place)
        if not _ORDER.fullmatch(order):
            raise self.walk.error(f'order="{order}" is not a whole number', comparison.place)
        return int(order), self.walk.numbers(element, "values", comparison.place)

    def _finish(self) -> None:
        done, self.open = self.open, None
        if done is None or self.report is None:
            return
        machine = self.report_attributes.get("machine") or self.report
        machine = self.run.taken.machine(done.benchmark, done.operation, machine)
        orders: dict[str, dict[int | None, int]] = {}
        for tag in VERSIONS:
            orders[tag] = done.orders(tag, sum(map(len, orders.values())))
        common = (done.benchmark, done.benchmark, done.operation, machine, done.unit, done.better)
        for (threads, tag), side in done.sides.items():
            self._results(Series(f"{done.key}/{threads}", *common, threads), side, orders[tag])
        source = f"{self.document.name}:{done.line} {done.place}"
        bounds = (end(orders[tag].values()) for tag in (BASE, TARGET) for end in (min, max))
        later = max(orders[LATER].values(), default=None)
        worse = done.siblings_worse
        uuids = (self.report_attributes.get(name) for name in UUIDS)
        self.run.builder.comparisons.append(
            (done.key, done.benchmark, done.operation, machine, *bounds, later, source, worse, *uuids)
        )
        if done.status in LABELLED and not done.labels:
            done.labels.append(LabelRow(done.key, done.status, UNKNOWN))
        self.run.builder.labels += done.labels

    def _results(self, series: Series, side: _Side, orders: dict[int | None, int]) -> None:
        results = self.run.builder.results
        for version, values in side.samples:
            order = orders[version]
            results.samples(series, order, None, values)
        if not side.samples and side.numbers:
            first = min(orders.values())
            results.summary(series, first, None, side.numbers)


#: A start tag up to the end of its attributes, which may hold ``>``.
_TAG = re.compile(rb"<[^\s/>]+(?:\s+[^\s=/>]+\s*=\s*(?:\"[^\"]*\"|'[^']*'))*")
_CLOSE = re.compile(rb"\s*(/?)>")
_STATUS = re.compile(rb"(\sresult_status\s*=\s*)(\"[^\"]*\"|'[^']*')")


def with_status(
    source: Path | bytes,
    verdicts: Mapping[str, str],
    name: str = "request.xml",
    otherwise: str | None = None,
    written: Mapping[str, bytes] | None = None,
) -> bytes:
    """Return comparison XML with ``result_status`` and elements ``verdict`` filled in, otherwise unchanged.

    Parameters
    ----------
    verdicts : mapping of comparison_id to str
        A repeated comparison becomes ``invalid``.
    otherwise : str, optional
        The verdict of comparisons that `verdicts` does not hold; by default their status is unchanged.
    written : mapping of comparison_id to bytes, optional
        Elements ``verdict`` that replace those of the document; by default the document's are unchanged.

    Raises
    ------
    InputError
        If the document is not well-formed, or not in an encoding that extends ASCII.
    """
    document = Document.of_bytes(source, name) if isinstance(source, bytes) else Document.of_path(source)
    with document.open() as file:
        content = file.read()
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError("is UTF-16; verdicts can be filled into UTF-8 only", file=document.name)
    parts, begin = list[bytes](), 0
    for start, stop, text in sorted(_edits(document, content, verdicts, otherwise, written)):
        # skip edits within a span that is already replaced
        if start >= begin:
            parts += [content[begin:start], text]
            begin = stop
    return b"".join([*parts, content[begin:]])


def _edits(
    document: Document,
    content: bytes,
    verdicts: Mapping[str, str],
    otherwise: str | None,
    written: Mapping[str, bytes] | None,
) -> Iterator[tuple[int, int, bytes]]:
    """Yield the byte spans of a document to replace: start, stop (exclusive) and the replacement."""
    names, report, seen = _ReportNames(), "", set[str]()
    tags, offsets = list[str](), list[int]()
    walk = Walk(document)
    for opened, element in walk:
        if not opened:
            if written is not None and tags[-2:] == [COMPARISON, VERDICT]:
                _, stop, is_empty = _start_tag(content, offsets[-1])
                yield offsets[-1], stop if is_empty else content.index(b">", walk.offset) + 1, b""
            tags.pop()
            offsets.pop()
            continue
        tags.append(element.tag)
        offsets.append(walk.offset)
        if element.tag == "comparison_results":
            report = names.name(document.stem, element.attrib)
        elif element.tag == COMPARISON:
            report = report or names.name(document.stem, {})
            key = identifier(report, element.attrib)
            verdict = "invalid" if key in seen else verdicts.get(key, otherwise)
            attributes, stop, is_empty = _start_tag(content, walk.offset)
            if verdict is not None:
                yield walk.offset, attributes, _filled(content[walk.offset : attributes], verdict)
            if verdict is not None and key not in seen and key in (written or {}):
                end = b"</%b>" % COMPARISON.encode() if is_empty else b""
                yield attributes, stop, b">" + (written or {})[key] + end
            seen.add(key)


def _start_tag(content: bytes, offset: int) -> tuple[int, int, bool]:
    """Return where a start tag's attributes end, where the tag ends, and whether its element is empty."""
    attributes = _TAG.match(content, offset).end()  # type: ignore[union-attr]  # `offset` is at a start tag
    close = _CLOSE.match(content, attributes)
    return attributes, close.end(), close[1] == b"/"  # type: ignore[union-attr, index]  # a start tag always closes


def _filled(tag: bytes, verdict: str) -> bytes:
    value = quoteattr(verdict).encode()
    filled, count = _STATUS.subn(lambda match: match[1] + value, tag, count=1)
    return filled if count else tag + b" result_status=" + value
