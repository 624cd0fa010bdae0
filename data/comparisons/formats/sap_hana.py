"""SAP's performance regression data set, with the change points that engineers marked.

Sources: SAP/performance-regression-data-set; marks: mtucci/changepoint-performance-regression-study.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons.params import LabelRules
from data.comparisons.tables import (
    RESULT_DTYPES,
    Builder,
    ComparisonTables,
    LabelRow,
    Series,
    series_columns,
    text_array,
)
from data.errors import InputError
from data.tables.cells import not_whole, parse_numbers, read_cells, refuse_wrong_rows
from data.tables.files import content_of
from data.tables.problems import Problems


class ChangePoint(NamedTuple):
    """One annotator's change point: the index of the first version of the new regime."""

    version: int
    annotator: str


@dataclass(frozen=True)
class Span:
    """Versions that some annotators inspected: from `first` up to, but not including, `stop`."""

    first: int
    stop: int
    annotators: tuple[str, ...]


class Boundary(NamedTuple):
    """A boundary just before `version`, and whether annotators `marked` it as a change or agree on no change.

    `inspectors` are all annotators who inspected it; `annotators` are those who agree with `marked`. `agreed`
    is whether these are enough for a label.
    """

    version: int
    marked: bool
    annotators: tuple[str, ...]
    inspectors: tuple[str, ...]
    agreed: bool = True


def find_boundaries(spans: list[Span], marks: list[ChangePoint], rules: LabelRules) -> list[Boundary]:
    """Return the boundaries with agreement, and with ``include_ambiguous`` also disputed ones, ascending.

    Marks at most ``match_window`` versions from each other form a group; groups with most annotators, then
    the narrowest, are formed first; no mark is in two. A group is a change at its median, rounded down:
    agreed with at least ``min_annotators`` annotators, else disputed (not ``agreed``). Every
    ``clean_every``-th version, from ``versions_before`` on, is a clean boundary if ``min_annotators``
    inspected it and no mark is within ``exclusion_window``. An annotator has inspected a boundary if one of
    the `spans` contains the ``versions_before`` versions before it and the ``versions_after`` from it on.
    Changes that nobody inspected are dropped.
    """
    by_version: dict[int, Boundary] = {}
    last = max((span.stop for span in spans), default=0)
    for version in range(rules.versions_before, last, rules.clean_every):
        inspectors = _find_inspectors(spans, version, rules)
        is_near = any(abs(mark.version - version) <= rules.exclusion_window for mark in marks)
        if not is_near and len(inspectors) >= rules.min_annotators:
            by_version[version] = Boundary(version, False, inspectors, inspectors)
    for version, people in _groups_of_marks(sorted(marks), rules):
        if inspectors := _find_inspectors(spans, version, rules):
            agreed = len(people) >= rules.min_annotators
            by_version[version] = Boundary(version, True, people, inspectors, agreed)
    return [boundary for _, boundary in sorted(by_version.items())]


def _groups_of_marks(marks: list[ChangePoint], rules: LabelRules) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield groups of nearby marks (version, annotators), largest first; groups do not overlap."""
    left = marks
    while left:
        groups = (
            [mark for mark in left if 0 <= mark.version - first.version <= rules.match_window]
            for first in left
        )
        # the most annotators, then the narrowest
        group = max(
            groups,
            key=lambda group: (len({mark.annotator for mark in group}), group[0].version - group[-1].version),
        )
        people = {mark.annotator for mark in group}
        if len(people) < (1 if rules.include_ambiguous else rules.min_annotators):
            return
        yield int(median(mark.version for mark in group)), _sorted_names(people)
        left = [mark for mark in left if mark not in group]


def _find_inspectors(spans: list[Span], version: int, rules: LabelRules) -> tuple[str, ...]:
    first, stop = version - rules.versions_before, version + rules.versions_after
    inspecting = [span for span in spans if span.first <= first and stop <= span.stop]
    return _sorted_names({name for span in inspecting for name in span.annotators})


def _sorted_names(people: set[str]) -> tuple[str, ...]:
    return tuple(sorted(people, key=lambda name: (len(name), name)))


BENCHMARK = "sap-hana"
MACHINE = "unknown"
TIME = "%Y-%m-%d %H:%M:%S"
#: Chunks are so many times as long as those of other formats: arrays need less memory per row.
_LONGER = 10
#: Number of series that are read ahead.
_AHEAD = 16
_COLUMNS = ("timestamp", "sut_version", "value")
#: Units where higher is better: rates and amounts of work. In others (times, retries, percent) lower is.
THROUGHPUT = re.compile(
    r"[a-z]ps|saps|commits|dmls|logwrites|statements|.+(/|\bper\b|_per_|[^a-z])\W*(s|sec|second|min|minute)s?\b.*",
    re.IGNORECASE,
)
#: The first split covers this many versions; the second begins here and reaches to the end.
FIRST_SPLIT, SECOND_SPLIT = 800, 750


@dataclass(frozen=True)
class Annotations:
    """The marks by annotator in one split of a series; `versions` None means up to the end of the series."""

    key: str
    first: int
    versions: int | None
    marks: dict[str, list[int]]


@dataclass(frozen=True)
class _Series:
    """One series: version ``i`` has the rows ``starts[i]:starts[i + 1]``."""

    file: Path
    name: str
    category: str
    unit: str
    times: NDArray[np.datetime64]
    versions: NDArray[np.int64]
    samples: NDArray[np.float64]
    starts: NDArray[np.int64]

    @property
    def common_columns(self) -> Series:
        names = (f"{BENCHMARK}/{self.name}", self.category, BENCHMARK, self.name, MACHINE, self.unit)
        return Series(*names, "higher" if THROUGHPUT.fullmatch(self.unit) else "lower", 1)

    def has_worsened(self, first: int, at: int, stop: int) -> bool:
        rows = self.starts[[first, at, stop]]
        before, after = (np.median(self.samples[start:end]) for start, end in pairwise(rows))
        return bool(after > before if self.common_columns.better == "lower" else after < before)


def read_data_set(
    path: Path, problems: Problems, rules: LabelRules, chunk_rows: int | None = None
) -> Iterator[ComparisonTables]:
    """Yield the tables of SAP's data set: ``annotations.json`` and, at any depth, CSV files of series.

    The files are ``<id>__<category>__<unit>.csv``. A series is the operation ``<id>``, measured with one
    thread; the order of a version is its index in the series. The comparisons are the boundaries that
    `find_boundaries` returns for `rules`: the baseline is the ``versions_before`` versions before a boundary,
    the target the ``versions_after`` from it on, and up to ``versions_later`` further ones are its later
    versions. Each inspector has a label: fail if this person marked the boundary and the target's median is
    worse than the baseline's (lower for units of `THROUGHPUT`, else higher), else pass. A consensus without
    annotator is a further label: pass where nobody marked a change, and where at least ``min_annotators``
    marked one, fail or pass by the medians. A chunk has at least ten times `chunk_rows` results (None: all);
    the last may have fewer, or none. InputError if the annotations cannot be read or there is no series, and
    at the first invalid entry of the annotations or series unless ``problems.keep_going``.
    """
    annotations = annotations_of(path / "annotations.json", problems)
    files = sorted(path.rglob("*__*__*.csv"))
    if not files:
        raise InputError("holds no file <id>__<category>__<unit>.csv", file=path)
    builder, series = Builder(), list[_Series]()
    for future in _read_ahead(files):
        with problems.collecting():
            new = future.result()
            splits = annotations.get(_series_number(new.name), [])
            _add_comparisons(new, splits, rules, builder, path / "annotations.json")
            series.append(new)
        if chunk_rows is not None and sum(len(read.samples) for read in series) >= _LONGER * chunk_rows:
            yield _take_tables(series, builder)
            series = []
    yield _take_tables(series, builder)


def _read_ahead(files: list[Path]) -> Iterator[Future[_Series]]:
    """Yield the series in the order of the files; a thread reads the next `_AHEAD` meanwhile."""
    with ThreadPoolExecutor(1) as reader:
        futures = deque(reader.submit(_read_series, file) for file in files[:_AHEAD])
        for file in [*files[_AHEAD:], *[None] * len(futures)]:
            yield futures.popleft()
            if file is not None:
                futures.append(reader.submit(_read_series, file))


def _series_number(name: str) -> str:
    return name.lstrip("0") or "0"


def annotations_of(path: Path, problems: Problems | None = None) -> dict[str, list[Annotations]]:
    """Return the splits of every series, by the number of the series without leading zeros (a text).

    A split has its ``key`` in the file, begins at the version ``first`` (0, or 750 for split 2) and has
    ``versions`` versions (800 for split 1, else None: up to the end); ``marks`` are lists of indices within
    it, by annotator. InputError if the file cannot be read or is not a JSON object, and at the first key that
    is not ``sap_<id>`` or ``sap_<id>_split<1 or 2>`` or does not have such marks, unless
    ``problems.keep_going``, which skips it.
    """
    problems = problems or Problems()
    content = content_of(path)
    if not isinstance(content, dict):
        raise InputError("is not a JSON object", file=path)
    splits: dict[str, list[Annotations]] = {}
    for key, marks in content.items():
        with problems.collecting():
            match = re.fullmatch(r"sap_(\d+)(?:_split([12]))?", key)
            if match is None:
                raise InputError(f'"{key}" is not sap_<id> or sap_<id>_split<1 or 2>', file=path)
            _require_marks(path, key, marks)
            first = SECOND_SPLIT if match[2] == "2" else 0
            versions = FIRST_SPLIT if match[2] == "1" else None
            splits.setdefault(_series_number(match[1]), []).append(Annotations(key, first, versions, marks))
    return splits


def _require_marks(path: Path, key: str, marks: Any) -> None:
    if not isinstance(marks, dict):
        raise InputError("is not an object of annotators and their marks", file=path, place=key)
    for annotator, versions in marks.items():
        if not isinstance(versions, list):
            raise InputError(f"annotator {annotator} has no list of marks", file=path, place=key)
        for version in versions:
            if type(version) is not int or version < 0:
                problem = f"annotator {annotator}: {json.dumps(version)} is not an index of a version"
                raise InputError(problem, file=path, place=key)


def _read_series(file: Path) -> _Series:
    name, category, unit = file.stem.split("__")[0], *file.stem.split("__", 1)[1].rsplit("__", 1)
    if not name.isdigit():
        raise InputError("is not named <id>__<category>__<unit>.csv", file=file)
    times, versions, samples = _read_columns(file)
    starts = np.flatnonzero(np.diff(versions, prepend=versions[0] - 1))
    return _Series(file, name, category, unit, times, versions, samples, np.r_[starts, len(samples)])


def _read_columns(file: Path) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    import pyarrow as pa
    from pyarrow import csv

    types = dict(zip(_COLUMNS, (pa.timestamp("s"), pa.int64(), pa.float64()), strict=True))
    columns = csv.ConvertOptions(
        column_types=types, include_columns=list(_COLUMNS), timestamp_parsers=[TIME], null_values=[]
    )
    all_lines = csv.ParseOptions(ignore_empty_lines=False)
    try:
        table = csv.read_csv(file, csv.ReadOptions(use_threads=False), all_lines, columns)
        times, versions, values = (table[name].to_numpy() for name in _COLUMNS)
        if len(values) and np.isfinite(values).all() and (np.diff(versions) >= 0).all():
            return times, versions, values
    except (OSError, pa.ArrowException, KeyError):
        pass
    raise _first_problem(file)


def _first_problem(file: Path) -> InputError:
    table = read_cells(file, list(_COLUMNS), skip_blank_lines=False)
    versions = parse_numbers(table["sut_version"], file, "a whole number", not_whole)
    parse_numbers(table["value"], file, "a finite number")
    times = pd.to_datetime(table["timestamp"], format=TIME, utc=True, errors="coerce")
    texts = {name: [f'{name}="{cell}"' for cell in table[name]] for name in ("timestamp", "sut_version")}
    expected = "is not a time like 2021-09-01 10:09:12"
    refuse_wrong_rows(times.isna(), lambda row: f"{texts['timestamp'][row]} {expected}", file)
    descends = versions.diff() < 0
    refuse_wrong_rows(descends, lambda row: f"{texts['sut_version'][row]} is below the version before", file)
    return InputError("holds no value" if table.empty else "is not plain CSV", file=file)


def _add_comparisons(
    series: _Series, splits: list[Annotations], rules: LabelRules, builder: Builder, marked: Path
) -> None:
    count = len(series.starts) - 1
    spans, marks = list[Span](), set[ChangePoint]()
    for split in splits:
        stop = count if split.versions is None else min(count, split.first + split.versions)
        spans.append(Span(split.first, stop, tuple(split.marks)))
        for annotator, versions in split.marks.items():
            for version in versions:
                if split.first + version >= count:
                    problem = f"annotator {annotator}: {version} is beyond the {count} versions of the series"
                    raise InputError(problem, file=marked, place=split.key)
                marks.add(ChangePoint(split.first + version, annotator))
    for boundary in find_boundaries(spans, list(marks), rules):
        _add_comparison(series, boundary, rules, builder)


def _add_comparison(series: _Series, boundary: Boundary, rules: LabelRules, builder: Builder) -> None:
    at = boundary.version
    first, stop, count = at - rules.versions_before, at + rules.versions_after, len(series.starts) - 1
    later = min(stop + rules.versions_later, count) - 1
    key = f"{BENCHMARK}/{series.name}/{at}"
    source = f'{series.file}:{series.starts[at] + 2} operation "{series.name}"'
    orders = (first, at - 1, at, stop - 1, later if later >= stop else None)
    builder.comparisons.append((key, BENCHMARK, series.name, MACHINE, *orders, source, None))
    marked = "fail" if boundary.marked and series.has_worsened(first, at, stop) else "pass"
    if boundary.agreed:
        people = ", ".join(boundary.annotators)
        labelled_by = f"consensus of {people}" if boundary.marked else f"no mark by {people}"
        builder.labels.append(LabelRow(key, marked, labelled_by))
    for name in boundary.inspectors:
        status = marked if boundary.marked and name in boundary.annotators else "pass"
        builder.labels.append(LabelRow(key, status, name, name))


def _take_tables(series: list[_Series], builder: Builder) -> ComparisonTables:
    tables = builder.take_tables()
    if not series:
        return tables
    counts = [np.diff(read.starts) for read in series]
    rows = np.repeat(np.arange(len(series)), [len(read.samples) for read in series])
    columns = series_columns([read.common_columns for read in series], rows)
    versions = np.concatenate([read.versions[read.starts[:-1]] for read in series])
    distinct, codes = np.unique(versions, return_inverse=True)
    repeats = np.concatenate(counts)
    columns["version"] = text_array(map(str, distinct.tolist()), np.repeat(codes, repeats))
    columns["order"] = np.repeat(np.concatenate([np.arange(len(count)) for count in counts]), repeats)
    times = np.concatenate([read.times for read in series]).astype("datetime64[us]")
    columns["measured_at"] = pd.Series(times).dt.tz_localize("UTC")
    columns["value"] = np.concatenate([read.samples for read in series])
    columns["stat"] = text_array((), np.full(len(rows), -1))
    results = pd.DataFrame(columns)[list(RESULT_DTYPES)]
    return ComparisonTables(results, tables.comparisons, tables.labels)
