"""Comparison XML (the scheduler thesis, figure 6.1) as a report generator writes it, with optional additions.

Optional attributes of ``comparison_result``: ``comparison_id``, ``unit``, ``better`` and ``siblings_worse``,
the share of the benchmark's other operations that got worse at the target's version. Optional attribute of
``comparison_results``: ``machine``. Samples are optional elements ``<samples order="3" values="1.5 1.6"/>``
in ``base_result``, ``target_result``, ``history`` (versions before the baseline) and ``later`` (versions
after the target); ``order`` sorts versions. Labels are elements ``<label status="pass" annotator="anna"
labelled_at="2026-..."/>`` of a ``comparison_result``; if it has one, its ``result_status`` is a verdict and
not read as a label. Elements ``verdict`` are output of perfjudge and are ignored, and so are unknown elements
and attributes, unless their names resemble that of a part which is missing.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from xml.sax.saxutils import quoteattr

from data.comparisons.formats.comparison_json import UsedNames
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
from data.tables.documents import EXAMPLE_MOMENT, parse_moment
from data.tables.problems import Problems, nearest_name
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
#: Optional attributes of a comparison, which the thesis does not have.
_ADDITIONS = ("comparison_id", "unit", "better", "siblings_worse")
#: Attributes that are read, by element of a comparison; text in these elements is an error.
PARTS: Mapping[str, frozenset[str]] = {
    COMPARISON: frozenset(("benchmark_name", "operation_name", "result_status", *_ADDITIONS)),
    LABEL: frozenset(("status", "annotator", "labelled_by", "labelled_at")),
    "result": frozenset(("threads_no",)),
    BASE: frozenset(ATTRIBUTES.values()),
    TARGET: frozenset(ATTRIBUTES.values()),
    EARLIER: frozenset(),
    LATER: frozenset(),
    "samples": frozenset(("order", "values")),
}
#: Elements that are read, by the element of a comparison that they are in.
CHILDREN: Mapping[str, frozenset[str]] = {
    COMPARISON: frozenset((LABEL, "result")),
    "result": frozenset(VERSIONS),
    **dict.fromkeys(VERSIONS, frozenset(("samples",))),
}
#: Minimum similarity of a misspelt name and the right one; other names are foreign content.
_ALIKE = 0.75
_ORDER = re.compile(r"-?[0-9]{1,18}")


@lru_cache(4096)
def _intended_name(name: str, known: frozenset[str]) -> str | None:
    return None if name.startswith("{") else nearest_name(name, known, _ALIKE)


def _unknown_element(tag: str, intended: str) -> str:
    return f'<{tag}> is unknown; did you mean "{intended}"?'


def misspelt_elements(parent: Element, name: str) -> Iterator[tuple[Element, str]]:
    """Yield the elements in `parent` that misspell `name`, each with the text of an error."""
    for element in parent.iter():
        tag = str(element.tag)
        if tag != name and _intended_name(tag, frozenset((name,))):
            yield element, _unknown_element(tag, name)


class _ReportNames:
    def __init__(self) -> None:
        self._unnamed: dict[str, int] = {}

    def next_name(self, stem: str, attributes: Mapping[str, str]) -> str:
        """Return the next report's name; the second report without UUID in `stem` is ``stem#2``."""
        uuid = attributes.get("report_uuid", "")
        if uuid not in {"", "..."}:
            return uuid
        self._unnamed[stem] = count = self._unnamed.get(stem, 0) + 1
        return stem if count == 1 else f"{stem}#{count}"


def _comparison_id(report: str, attributes: Mapping[str, str]) -> str:
    default = f"{report}/{attributes.get('benchmark_name')}/{attributes.get('operation_name')}"
    return attributes.get("comparison_id") or default


def summary_statistics(walk: Attributes, element: Element, place: str) -> dict[str, float]:
    """Return statistics in the attributes of `element`, by name: min, q1, median, q3, max, mean, stdev.

    The attributes of the quartiles are ``first_q`` and ``third_q``. Without `mean` or `stdev`, the result
    does not have it. InputError, which names `place`, if another one is missing, or one is not a finite
    number.
    """
    return {
        name: walk.number_attribute(element, attribute, place)
        for name, attribute in ATTRIBUTES.items()
        if name in FIVE_NUMBERS or attribute in element.attrib
    }


def read_documents(
    documents: Iterable[Document],
    problems: Problems,
    *,
    better: str | None = None,
    chunk_rows: int | None = None,
) -> Iterator[ComparisonTables]:
    """Yield the comparisons of comparison XML in chunks; `problems` receives the errors of skipped ones.

    Results are samples, or else the statistics of a side. Orders are renumbered from 0: earlier versions,
    then the baseline's, the target's and later ones, each sorted by ``order``. Where no machine is named, the
    report's name (its ``report_uuid``, else the document's) is used; further comparisons of an operation on a
    machine get the machine names ``... #2`` and so on. `better` ("higher" or "lower") is used where an
    element has none; by default, higher is assumed and noted. Comparisons have the additional columns
    ``base_uuid, report_uuid, target_uuid``. A chunk ends with the comparison that reaches `chunk_rows`
    results (None: one chunk); the last one, maybe empty, is always yielded.

    InputError at the first error, also for a document that is malformed or has no comparison, unless
    ``problems.keep_going``. It is an error if an id occurs twice; without ``comparison_id``, the id consists
    of report, benchmark and operation, so a report may have an operation only once.
    """
    reader = _Reader(Builder(chunk_rows, extra_comparison_columns=UUIDS), problems, better)
    for document in documents:
        with problems.collecting():
            for _ in reader.read_comparisons(document):
                if reader.builder.is_full:
                    yield reader.builder.take_tables()
    yield reader.builder.take_tables()


def tables_of(body: bytes, name: str = "request.xml", problems: Problems | None = None) -> ComparisonTables:
    """Return the tables of a request in comparison XML; `name` is its file in messages.

    InputError at the first error, such as malformed XML or no comparison, unless ``problems.keep_going``:
    then the tables have the comparisons without errors, maybe none.
    """
    return next(read_documents([Document.from_bytes(body, name)], problems or Problems()))


@dataclass
class _Side:
    numbers: dict[str, float]
    samples: list[tuple[int, array[float]]] = field(default_factory=list)


@dataclass(frozen=True)
class _Misspelt:
    """An unknown element whose name resembles `intended`, the number of open elements, and its line."""

    tag: str
    intended: str
    line: int
    depth: int


@dataclass
class _Comparison:
    """The comparison being read, which is added to the tables at its end tag unless it had an error.

    `sides` are by number of threads and element.
    """

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


class _Reader:
    """Reads documents one after another; `names` and `used_names` are those of all documents so far."""

    def __init__(self, builder: Builder, problems: Problems, better: str | None) -> None:
        self.builder, self.problems, self.better = builder, problems, better
        self.names, self.used_names = _ReportNames(), UsedNames()

    def _open_document(self, document: Document) -> None:
        self.document, self.walk = document, Walk(document)
        self.report, self.report_attributes = "", dict[str, str]()
        self.open: _Comparison | None = None
        self.place: str | None = None
        self.threads: int | None = None
        self.side: _Side | None = None
        # names of the open elements, from the comparison on
        self.open_tags: list[str] = []
        self.misspelt: list[_Misspelt] = []

    def read_comparisons(self, document: Document) -> Iterator[None]:
        """Read a document; yield after each comparison, so that the caller may take what was read."""
        self._open_document(document)
        root, has_comparison = None, False
        for opened, element in self.walk:
            root = root or str(element.tag)
            try:
                if opened:
                    self._begin_element(element)
                elif self.open:
                    self._end_element(self.open, element)
            except InputError as error:
                self.open = self.side = None
                self.problems.add(error)
            if element.tag in VERSIONS and not opened:
                self.side = None
            if element.tag == COMPARISON and not opened:
                has_comparison = True
                if self.open is not None:
                    self._add_comparison(self.open)
                self.open = None
                yield
        if not has_comparison:
            raise InputError(f"<{root}> holds no <comparison_result>", file=document.name)

    def _error_at(self, element: Element, problem: str, kind: type[InputError] = InputError) -> InputError:
        return self.walk.error_at(element, problem, self.place, kind)

    def _begin_element(self, element: Element) -> None:
        if element.tag == "comparison_results":
            self.report_attributes = element.attrib
            self.report = self.names.next_name(self.document.stem, element.attrib)
        elif element.tag == COMPARISON:
            self.open = self.side = self.threads = self.place = None
            self.open_tags, self.misspelt = [COMPARISON], []
            self._check_names(element)
            self.open = self._begin_comparison(element)
            return
        if self.open is None:
            operation = element.get("operation_name")
            if operation is not None and _intended_name(element.tag, frozenset((COMPARISON,))):
                problem = _unknown_element(element.tag, COMPARISON)
                raise self.walk.error_at(element, problem, f'operation "{operation}"')
            return
        self._check_names(element)
        self.open_tags.append(element.tag)
        if element.tag == LABEL:
            self.open.labels.append(self._read_label(self.open, element))
        elif element.tag == "result":
            self.threads = self.walk.whole_attribute(element, "threads_no", self.place)
        elif element.tag in VERSIONS:
            self.side = self._begin_side(self.open, element)
        elif self.side is not None and element.tag == "samples":
            order = self.walk.text_attribute(element, "order", self.place)
            if not _ORDER.fullmatch(order):
                raise self._error_at(element, f'order="{order}" is not a whole number')
            values = self.walk.numbers_attribute(element, "values", self.place)
            self.side.samples.append((int(order), values))

    def _end_element(self, comparison: _Comparison, element: Element) -> None:
        self.open_tags.pop()
        if element.tag in PARTS and (text := (element.text or "").strip()):
            raise self._error_at(element, f'<{element.tag}> holds text: "{text[:60]}"')
        while self.misspelt and self.misspelt[-1].depth > len(self.open_tags):
            misspelt = self.misspelt.pop()
            if not self._has_child(comparison, misspelt.intended):
                raise self._misspelt_error(misspelt)

    def _misspelt_error(self, misspelt: _Misspelt) -> InputError:
        problem = _unknown_element(misspelt.tag, misspelt.intended)
        return InputError(problem, file=self.document.name, line=misspelt.line, place=self.place)

    def _has_child(self, comparison: _Comparison, tag: str) -> bool:
        """Return whether the element that ends, which may contain elements `tag`, has one."""
        if tag == LABEL:
            return bool(comparison.labels)
        if tag == "samples":
            return self.side is not None and bool(self.side.samples)
        return self.threads is not None and (tag == "result" or (self.threads, tag) in comparison.sides)

    def _check_names(self, element: Element) -> None:
        """Raise an InputError for a misspelt attribute; note a misspelt element, which may be foreign."""
        known = PARTS.get(element.tag)
        if known is None:
            intended = _intended_name(element.tag, CHILDREN.get(self.open_tags[-1], frozenset()))
            if intended is not None:
                depth = len(self.open_tags)
                self.misspelt.append(_Misspelt(element.tag, intended, self.walk.line, depth))
        elif not element.attrib.keys() <= known:
            for name in element.attrib:
                intended = None if name in known else _intended_name(name, known)
                if intended is not None and intended not in element.attrib:
                    problem = f'<{element.tag}> has the unknown attribute {name}; did you mean "{intended}"?'
                    raise self._error_at(element, problem)

    def _begin_comparison(self, element: Element) -> _Comparison:
        self.report = self.report or self.names.next_name(self.document.stem, {})
        operation = self.walk.text_attribute(element, "operation_name")
        self.place = f'operation "{operation}"'
        benchmark = self.walk.text_attribute(element, "benchmark_name", self.place)
        better = self._read_choice(element, "better", ("higher", "lower"))
        status = self._read_choice(element, "result_status", STATUSES)
        key = _comparison_id(self.report, element.attrib)
        if key in self.used_names.identifiers:
            repeated = f'<comparison_result> appears twice in the report "{self.report}"'
            if "comparison_id" in element.attrib:
                repeated = f'comparison_id="{key}" appears twice'
            raise self._error_at(element, repeated, RepeatedError)
        self.used_names.identifiers.add(key)
        hint = "the attribute better, or --better, says otherwise"
        better = better or self.better or self.problems.assume_higher(self.document.name, hint)
        unit, worse = element.get("unit") or UNKNOWN, None
        if "siblings_worse" in element.attrib:
            worse = self.walk.number_attribute(element, "siblings_worse", self.place)
            if not 0 <= worse <= 1:
                raise self._error_at(element, f'siblings_worse="{worse:g}" is not between 0 and 1')
        return _Comparison(key, benchmark, operation, unit, better, status, worse, self.walk.line)

    def _read_label(self, comparison: _Comparison, element: Element) -> LabelRow:
        status = self.walk.text_attribute(element, "status", self.place)
        if status not in LABEL_STATUSES:
            raise self._error_at(element, f'status="{status[:60]}" is not one of {", ".join(LABEL_STATUSES)}')
        annotator, time = element.get("annotator", "").strip() or None, element.get("labelled_at", "")
        labelled_at = parse_moment(time)
        if time and labelled_at is None:
            raise self._error_at(element, f'labelled_at="{time[:60]}" is not a time like {EXAMPLE_MOMENT}')
        labelled_by = element.get("labelled_by", "").strip() or annotator or UNKNOWN
        return LabelRow(comparison.key, status, labelled_by, annotator, labelled_at)

    def _read_choice(self, element: Element, name: str, allowed: tuple[str, ...]) -> str:
        value = element.get(name, "")
        if value and value not in allowed:
            expected = " or ".join(f'"{word}"' for word in allowed)
            raise self._error_at(element, f'{name}="{value}" is unknown; expected {expected}')
        return value

    def _begin_side(self, comparison: _Comparison, element: Element) -> _Side:
        tag = str(element.tag)
        for misspelt in self.misspelt:
            is_open = self.open_tags[misspelt.depth : misspelt.depth + 1] == [misspelt.tag]
            if is_open and misspelt.intended == "result":
                raise self._misspelt_error(misspelt)
        if self.threads is None:
            raise self._error_at(element, f"<{tag}> is not inside a <result>")
        key = (self.threads, tag)
        if key in comparison.sides:
            repeated = f'threads_no="{self.threads}" has a second <{tag}>'
            raise self._error_at(element, repeated, RepeatedError)
        place = f"{self.place} {tag}"
        summary = {} if tag in WITHOUT_NUMBERS else summary_statistics(self.walk, element, place)
        comparison.sides[key] = side = _Side(summary)
        return side

    def _add_comparison(self, comparison: _Comparison) -> None:
        key, benchmark, operation = comparison.key, comparison.benchmark, comparison.operation
        machine = self.report_attributes.get("machine") or self.report
        machine = self.used_names.reserve_machine(benchmark, operation, machine)
        # consecutive orders of the versions, by their orders in the document; None is a summary
        orders: dict[str, dict[int | None, int]] = {}
        next_order = 0
        for tag in VERSIONS:
            sides = [side for (_, side_tag), side in comparison.sides.items() if side_tag == tag]
            versions: list[int | None] = [*sorted({order for side in sides for order, _ in side.samples})]
            if not versions and tag not in WITHOUT_NUMBERS:
                versions = [None]
            orders[tag] = {version: order for order, version in enumerate(versions, next_order)}
            next_order += len(versions)
        common = (benchmark, benchmark, operation, machine, comparison.unit, comparison.better)
        for (threads, tag), side in comparison.sides.items():
            series = Series(f"{key}/{threads}", *common, threads)
            for version, values in side.samples:
                self.builder.results.add_values(series, orders[tag][version], None, values)
            if not side.samples and side.numbers:
                self.builder.results.add_values(series, min(orders[tag].values()), None, side.numbers)
        bounds = (end(orders[tag].values()) for tag in (BASE, TARGET) for end in (min, max))
        later = max(orders[LATER].values(), default=None)
        source = f"{self.document.name}:{comparison.line} {self.place}"
        uuids = (self.report_attributes.get(name) for name in UUIDS)
        names = (key, benchmark, operation, machine)
        self.builder.comparisons.append((*names, *bounds, later, source, comparison.siblings_worse, *uuids))
        if comparison.status in LABELLED and not comparison.labels:
            comparison.labels.append(LabelRow(key, comparison.status, UNKNOWN))
        self.builder.labels += comparison.labels


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

    `verdicts` maps comparison ids to verdicts; the second and later comparisons with the same id become
    ``invalid``, whether or not `verdicts` holds it. `otherwise` is the verdict of other comparisons that
    `verdicts` does not hold; by default their status is unchanged. `written` maps comparison ids to elements
    ``verdict``; if given, all elements ``verdict`` of comparisons are removed, and each given one becomes the
    first child of the first comparison with its id if that gets a verdict. `name` is the name of bytes in
    messages. InputError if the document is malformed or UTF-16; OSError if the file `source` cannot be read.
    """
    document = Document.from_bytes(source, name) if isinstance(source, bytes) else Document.from_path(source)
    with document.open() as file:
        content = file.read()
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError("is UTF-16; verdicts can be filled into UTF-8 only", file=document.name)
    parts, begin = list[bytes](), 0
    for start, stop, text in sorted(_status_edits(document, content, verdicts, otherwise, written)):
        # skip edits within a span that is already replaced
        if start >= begin:
            parts += [content[begin:start], text]
            begin = stop
    return b"".join([*parts, content[begin:]])


def _status_edits(
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
            report = names.next_name(document.stem, element.attrib)
        elif element.tag == COMPARISON:
            report = report or names.next_name(document.stem, {})
            key = _comparison_id(report, element.attrib)
            verdict = "invalid" if key in seen else verdicts.get(key, otherwise)
            attributes, stop, is_empty = _start_tag(content, walk.offset)
            if verdict is not None:
                yield walk.offset, attributes, _fill_status(content[walk.offset : attributes], verdict)
            if verdict is not None and key not in seen and key in (written or {}):
                end = b"</%b>" % COMPARISON.encode() if is_empty else b""
                yield attributes, stop, b">" + (written or {})[key] + end
            seen.add(key)


def _start_tag(content: bytes, offset: int) -> tuple[int, int, bool]:
    """Return where a start tag's attributes end, where the tag ends, and whether its element is empty."""
    attributes = _TAG.match(content, offset).end()  # type: ignore[union-attr]  # `offset` is at a start tag
    close = _CLOSE.match(content, attributes)
    return attributes, close.end(), close[1] == b"/"  # type: ignore[union-attr, index]  # a start tag always closes


def _fill_status(tag: bytes, verdict: str) -> bytes:
    value = quoteattr(verdict).encode()
    filled, count = _STATUS.subn(lambda match: match[1] + value, tag, count=1)
    return filled if count else tag + b" result_status=" + value
