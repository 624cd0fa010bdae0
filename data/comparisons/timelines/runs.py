"""Read results of runs from any format into arrays, with their properties."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from data.comparisons.formats import result_xml, results_of_run
from data.comparisons.formats.result_xml import BENCHMARK, MACHINE, VERSION
from data.comparisons.params import Measure
from data.comparisons.sides import Floats, Ints
from data.comparisons.tables import FIVE_NUMBERS, ComparisonTables
from data.comparisons.timelines.heats import BESIDE
from data.comparisons.units import UNKNOWN
from data.errors import InputError
from data.parallel import garbage_collection_off
from data.tables.files import content_of
from data.tables.problems import Problems
from data.tables.xml_stream import Document, root_of

#: The property that selects operations, in lower case.
OPERATION = "operation"
#: Properties with the time of measurement; the first one present is used.
MOMENTS = ("starttime", "start_time", "measured_at", "date", "timestamp")


class RunSeries(NamedTuple):
    """One operation with one number of threads."""

    benchmark: str
    operation: str
    unit: str
    better: str
    threads: int


@dataclass(frozen=True)
class TimelineRun:
    """Measurements of one version on one machine at one time.

    Attributes
    ----------
    source : str
        The path relative to the folder that was read.
    properties : mapping
        By names in lower case; machine and version are always present.
    lengths : shape (n_series,)
        Number of samples; 0 for series with a summary.
    values : shape (n_samples,)
        The samples of all series, one after another.
    five : shape (n_series, 5)
        Summaries; NaN for series with samples.
    orders : shape (n_series,) or None
        Orders of the version in each series, if the source numbers versions.
    """

    source: str
    properties: Mapping[str, str]
    measured_at: datetime | None
    series: tuple[RunSeries, ...]
    lengths: Ints
    values: Floats
    five: Floats
    orders: Ints | None = None

    @property
    def machine(self) -> str:
        """The machine that was measured."""
        return self.properties[MACHINE]

    @property
    def version(self) -> str:
        """The version that was measured."""
        return self.properties[VERSION]


def of_xml(path: Path, source: str, problems: Problems, measure: Measure) -> TimelineRun:
    """Return the run in a result file (the scheduler thesis, figures 4.1 and 4.2).

    `source` names the run; `measure` has the user's choice of metric and direction. InputError if the file
    cannot be read or is no result, and at the first invalid operation, unless ``problems.keep_going``: then
    it is skipped, and added to `problems`; the run may be left without series. A missing machine is
    "unknown", a missing version the file's stem, a missing time None; a time without zone is in UTC, one that
    is not ISO 8601 is ignored, with a note in ``problems.notes``.
    """
    run = result_xml.ResultRun(path, problems, measure, times={})
    properties = _with_names(run.properties, path)
    suites = {operation.suite for operation in run.operations.values()}
    if len(suites) == 1:
        properties.setdefault(BENCHMARK, *suites)
    series: list[RunSeries] = []
    lengths, values, five = array("q"), array("d"), array("d")
    for operation in run.operations.values():
        names = (run.benchmark_name(operation), operation.name, operation.metric, operation.better)
        for threads, measured in operation.configurations.items():
            series.append(RunSeries(*names, threads))
            samples, summary = ([], measured) if isinstance(measured, dict) else (measured, {})
            lengths.append(len(samples))
            values.extend(samples)
            five.extend(summary.get(name, np.nan) for name in FIVE_NUMBERS)
    at = _time_measured(properties, source, problems)
    counts, fives = np.array(lengths, np.int64), np.array(five, np.float64).reshape(-1, len(FIVE_NUMBERS))
    return TimelineRun(source, properties, at, tuple(series), counts, np.array(values, np.float64), fives)


def of_json(path: Path, source: str, problems: Problems, measure: Measure) -> Iterator[TimelineRun]:
    """Yield the runs in a JSON file of benchmark results, one per machine and benchmark.

    Machine, version and time are those of ``<stem>.settings.xml``, else ``settings.xml``, in the directory.
    If that does not state them, the machine is the file's, the version the file's stem, and the time None.
    `source` names the runs; `measure` is the metric and direction if the file does not define them.
    InputError if the file cannot be read, has no results, or holds comparisons or several versions; and at
    the first invalid part, unless ``problems.keep_going``.
    """
    properties = _with_names(result_xml.properties_beside(path), path)
    results = results_of_run(path, problems, measure)
    results["version"] = properties[VERSION]
    at = _time_measured(properties, source, problems)
    for run in of_results(results, source):
        machine = properties[MACHINE] if properties[MACHINE] != UNKNOWN else run.machine
        all_properties = {**properties, **run.properties, MACHINE: machine}
        yield replace(run, properties=all_properties, measured_at=at, orders=None)


def of_results(results: pd.DataFrame, source: str) -> Iterator[TimelineRun]:
    """Yield a run per machine, version and benchmark of a table with columns ``RESULT_DTYPES``.

    Runs, which are named by `source`, are in the order of first rows. A missing version is replaced by the
    column ``order``, a missing machine, benchmark or unit by "unknown". The time is the earliest of the run,
    None without any. Of summaries, only the five numbers (`FIVE_NUMBERS`) are used, and only for series
    without samples.
    """
    results = results.assign(version=results["version"].fillna(results["order"].astype(str)))
    results = results.fillna(dict.fromkeys(("machine", "benchmark", "unit"), UNKNOWN))
    runs, run_names = pd.factorize(pd.MultiIndex.from_frame(results[["machine", "version", "benchmark"]]))
    series, keys = pd.factorize(pd.MultiIndex.from_frame(results[[*RunSeries._fields]]))
    place = np.lexsort((series, runs))
    runs, series = runs[place], series[place]
    all_series = [RunSeries(*key) for key in keys.tolist()]
    edges = np.flatnonzero(np.diff(runs, prepend=-1, append=len(run_names)))
    sorted_results = results.iloc[place]
    orders, values = (sorted_results[name].to_numpy() for name in ("order", "value"))
    times = sorted_results["measured_at"]
    # index of the statistic in `FIVE_NUMBERS`; -1 for samples, -2 for other statistics
    codes: dict[str | None, int] = {None: -1, **{name: column for column, name in enumerate(FIVE_NUMBERS)}}
    stats = sorted_results["stat"].to_numpy(object, na_value=None)
    columns = np.array([codes.get(stat, -2) for stat in stats], np.int64)
    for start, stop in pairwise(edges.tolist()):
        machine, version, benchmark = run_names[runs[start]]
        part = slice(start, stop)
        properties = {MACHINE: str(machine), VERSION: str(version), BENCHMARK: str(benchmark)}
        first = times.iloc[part].min()
        distinct, begins, owner = np.unique(series[part], return_index=True, return_inverse=True)
        column, value = columns[part], values[part]
        raw = column == -1
        lengths = np.bincount(owner[raw], minlength=len(begins))
        summary = (column >= 0) & (lengths[owner] == 0)
        five = np.full((len(begins), len(FIVE_NUMBERS)), np.nan)
        five[owner[summary], column[summary]] = value[summary]
        at = None if pd.isna(first) else first.to_pydatetime()
        of_run = tuple(all_series[code] for code in distinct.tolist())
        yield TimelineRun(source, properties, at, of_run, lengths, value[raw], five, orders[part][begins])


def _with_names(properties: Mapping[str, str], path: Path) -> dict[str, str]:
    return {MACHINE: UNKNOWN, VERSION: path.stem, **properties}


def _time_measured(properties: Mapping[str, str], source: str, problems: Problems) -> datetime | None:
    text = next((properties[name] for name in MOMENTS if name in properties), None)
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        problems.add_note(f'{source}: the time "{text[:60]}" is not of ISO 8601, and is ignored')
        return None
    try:
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except OverflowError:
        return None


#: Number of files per task of a reading process.
_TOGETHER = 4
#: Minimum number of files for which reading processes are started.
_FEW = 8


Kind = Literal["xml", "json", "tables"]
_KINDS: Mapping[str, Kind] = {".xml": "xml", ".json": "json"}


class ResultPlace(NamedTuple):
    """A file or a directory of tables that may hold results; `source` is its path below the folder."""

    kind: Kind
    path: Path
    source: str


def _places_below(root: Path) -> tuple[list[ResultPlace], int]:
    """Return the places in a folder, sorted by name, and the number of ignored symbolic links."""
    if not root.is_dir():
        raise InputError("is not a directory" if root.exists() else "no such directory", file=root)
    result_places, n_links = list[ResultPlace](), 0
    for directory, subdirectories, files in os.walk(root):
        here = Path(directory)
        subdirectories.sort()
        links = {name for name in (*subdirectories, *files) if (here / name).is_symlink()}
        n_links += len(links)
        if "results.parquet" in {*files} - links:
            result_places.append(ResultPlace("tables", here, here.relative_to(root).as_posix()))
        for path in (here / name for name in sorted({*files} - links)):
            kind = _KINDS.get(path.suffix.lower())
            is_result = not path.name.endswith(BESIDE) and not result_xml.is_settings(path)
            if kind is not None and is_result and path.is_file():
                result_places.append(ResultPlace(kind, path, path.relative_to(root).as_posix()))
    return result_places, n_links


@dataclass(frozen=True)
class ReadRuns:
    """Runs in the order of their places, errors of the skipped ones, and notes on assumptions."""

    runs: tuple[TimelineRun, ...]
    skipped: tuple[InputError, ...]
    notes: tuple[str, ...]


def read_folder(
    root: Path,
    measure: Measure,
    *,
    keep_going: bool = False,
    jobs: int = 1,
    advance: Callable[[int, int], None] | None = None,
) -> ReadRuns:
    """Return the ``runs`` of all results in a folder and its subfolders, hidden ones too, sorted by name.

    Results are result XML, JSON objects with ``results``, and directories with ``results.parquet``; a
    folder's own precede those of subfolders. Symbolic links, other JSON and other XML are passed over with a
    note (in ``notes``), files of settings and loads without one. `measure` is the metric and its direction,
    for files that do not define them; `jobs` the number of reading processes. `advance` is called after each
    file or directory of tables, with the number of those read and that of all. InputError if `root` is not a
    directory or holds no result, valid or invalid; and at the first invalid result or malformed JSON or XML,
    unless `keep_going`, which adds these errors to ``skipped``.
    """
    result_places, n_links = _places_below(root)
    read_one = partial(_read_place, measure=measure, keep_going=keep_going)
    failed = list[InputError]()
    # processes finish what they have begun: joblib reports tasks that are cut off in many lines
    pending = (place for place in result_places if not failed)
    if jobs == 1 or len(result_places) < _FEW:
        parts: Iterable[ReadRuns | None] = map(read_one, pending)
    else:
        from joblib import Parallel, delayed

        parallel = Parallel(n_jobs=jobs, batch_size=_TOGETHER, return_as="generator", max_nbytes=None)
        parts = parallel(delayed(read_one)(place) for place in pending)
    runs, skipped = list[TimelineRun](), list[InputError]()
    all_notes, ignored = list[str](), list[str]()
    for count, (part, place) in enumerate(zip(parts, result_places, strict=False), 1):
        if part is None:
            ignored.append(place.source)
        elif part.skipped and not keep_going:
            failed += part.skipped
        else:
            runs += part.runs
            skipped += part.skipped
            all_notes += part.notes
        if advance is not None:
            advance(count, len(result_places))
    if failed:
        raise failed[0]
    if not runs and not skipped:
        raise InputError("holds no result of a run (result XML, JSON or results.parquet)", file=root)
    notes = [f"{n_links} symbolic links are passed over"] if n_links else []
    if ignored:
        notes.append(f"{len(ignored)} files hold no run, and are passed over, such as {ignored[0]}")
    return ReadRuns(tuple(runs), tuple(skipped), (*notes, *_distinct_notes(all_notes)))


def _read_place(place: ResultPlace, *, measure: Measure, keep_going: bool) -> ReadRuns | None:
    problems, (kind, path, source) = Problems(keep_going), place
    try:
        with garbage_collection_off():
            if kind == "tables":
                spec = ComparisonTables.SPECS["results"]
                results = spec.drop_invalid_rows(spec.read(path / "results.parquet"), "results", problems)
                runs = tuple(of_results(results, source))
            elif kind == "xml":
                if root_of(Document.from_path(path)) != result_xml.RUN_TAG:
                    return None
                runs = (of_xml(path, source, problems, measure),)
            else:
                content = content_of(path)
                if not isinstance(content, dict) or "results" not in content:
                    return None
                runs = tuple(of_json(path, source, problems, measure))
    except InputError as error:
        return ReadRuns((), (*problems.skipped, error.with_file(path)), ())
    notes = (note.replace(str(path), source) for note in problems.notes)
    return ReadRuns(runs, tuple(problems.skipped), tuple(notes))


def _distinct_notes(notes: Iterable[str]) -> Iterator[str]:
    sources: dict[str, list[str]] = {}
    for note in notes:
        source, _, text = note.partition(" ")
        sources.setdefault(text, []).append(source)
    for text, (first, *others) in sources.items():
        count = f" (and {len(others)} more)" if others else ""
        yield f"{first}{count} {text}"
