"""Read results of runs from any format into arrays, with their properties."""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from data.comparisons import formats
from data.comparisons.formats import result_xml, results_of_run
from data.comparisons.formats.result_xml import ResultRun
from data.comparisons.params import Measure
from data.comparisons.sides import Floats, Ints
from data.comparisons.tables import FIVE_NUMBERS, ComparisonTables
from data.comparisons.timelines.heats import BESIDE
from data.comparisons.units import UNKNOWN
from data.errors import InputError
from data.parallel import uncollected
from data.tables.files import content_of
from data.tables.problems import Problems

#: Names of properties, in lower case.
MACHINE, VERSION, BENCHMARK, OPERATION = "hostname", "kernel", "benchmarkname", "operation"
#: Properties with the time of measurement; the first one present is used.
MOMENTS = ("starttime", "start_time", "measured_at", "date", "timestamp")
_KEYS = ["benchmark", "operation", "unit", "better", "threads"]


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
    """Read a result file of figure 4.1 or 4.2; raises as `data.comparisons.formats.result_xml.read_run`."""
    run = result_xml.read_run(path, problems, measure, times={})
    named = _named(run.properties, path)
    suites = {one.suite for one in run.operations.values()}
    if len(suites) == 1:
        named.setdefault(BENCHMARK, *suites)
    return TimelineRun(source, named, _moment(named, source, problems), *_measured(run))


def of_json(path: Path, source: str, problems: Problems, measure: Measure) -> Iterator[TimelineRun]:
    """Read a JSON file of one run, by machine; raises as `data.comparisons.formats.results_of_run`."""
    named = _named(result_xml.beside(path), path)
    results = results_of_run(path, problems, measure)
    results["version"] = named[VERSION]
    for run in of_results(results, source):
        machine = named[MACHINE] if named[MACHINE] != UNKNOWN else run.machine
        told = {**named, **run.properties, MACHINE: machine}
        yield replace(run, properties=told, measured_at=_moment(named, source, problems), orders=None)


def of_tables(path: Path, source: str, problems: Problems) -> Iterator[TimelineRun]:
    """Yield the runs in a directory of tables, by machine, version and benchmark."""
    spec = ComparisonTables.SPECS["results"]
    results = spec.sound(spec.read(path / "results.parquet"), "results", problems)
    yield from of_results(results, source)


def of_results(results: pd.DataFrame, source: str) -> Iterator[TimelineRun]:
    """Split a table of results into runs, by machine, version and benchmark."""
    results = results.assign(
        version=results["version"].fillna(results["order"].astype(str)),
        machine=results["machine"].fillna(UNKNOWN),
        benchmark=results["benchmark"].fillna(UNKNOWN),
        unit=results["unit"].fillna(UNKNOWN),
    )
    runs, named = pd.factorize(pd.MultiIndex.from_frame(results[["machine", "version", "benchmark"]]))
    series, keys = pd.factorize(pd.MultiIndex.from_frame(results[_KEYS]))
    place = np.lexsort((series, runs))
    runs, series = runs[place], series[place]
    known = [RunSeries(*key) for key in keys.tolist()]
    edges = np.flatnonzero(np.diff(runs, prepend=-1, append=len(named)))
    sorted_results = results.iloc[place]
    columns = {name: sorted_results[name].to_numpy() for name in ("order", "value")}
    stats = sorted_results["stat"].to_numpy(object, na_value=None)
    times = sorted_results["measured_at"]
    for start, stop in pairwise(edges.tolist()):
        machine, version, benchmark = named[runs[start]]
        part = slice(start, stop)
        properties = {MACHINE: str(machine), VERSION: str(version), BENCHMARK: str(benchmark)}
        first = times.iloc[part].min()
        at = None if pd.isna(first) else first.to_pydatetime()
        own, begins = np.unique(series[part], return_index=True)
        told = tuple(known[one] for one in own.tolist())
        arrays = _samples_and_summaries(columns["value"][part], stats[part], begins)
        yield TimelineRun(source, properties, at, told, *arrays, columns["order"][part][begins])


def _samples_and_summaries(
    values: Floats, stats: Sequence[str | None], begins: Ints
) -> tuple[Ints, Floats, Floats]:
    raw = np.array([stat is None for stat in stats], bool)
    owner = np.zeros(len(values), np.int64)
    owner[begins[1:]] = 1
    owner = np.cumsum(owner)
    lengths = np.bincount(owner[raw], minlength=len(begins))
    five = np.full((len(begins), len(FIVE_NUMBERS)), np.nan)
    for column, name in enumerate(FIVE_NUMBERS):
        given = np.array([stat == name for stat in stats], bool) & (lengths[owner] == 0)
        five[owner[given], column] = values[given]
    return lengths, values[raw], five


def _named(properties: Mapping[str, str], path: Path) -> dict[str, str]:
    named = {name.lower(): value for name, value in properties.items() if value}
    named.setdefault(MACHINE, UNKNOWN)
    named.setdefault(VERSION, path.stem)
    return named


def _moment(properties: Mapping[str, str], source: str, problems: Problems) -> datetime | None:
    given = next((properties[name] for name in MOMENTS if name in properties), None)
    if given is None:
        return None
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        problems.note(f'{source}: the time "{given[:60]}" is not of ISO 8601, and not looked at')
        return None
    try:
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except OverflowError:
        return None


def _measured(run: ResultRun) -> tuple[tuple[RunSeries, ...], Ints, Floats, Floats]:
    series: list[RunSeries] = []
    lengths, values, five = array("q"), array("d"), array("d")
    for one in run.operations.values():
        for threads, found in one.configurations.items():
            series.append(RunSeries(run.benchmark(one), one.name, one.metric, one.better, threads))
            lengths.append(len(found.samples))
            values.extend(found.samples)
            summary = {} if found.samples else found.summary
            five.extend(summary.get(name, np.nan) for name in FIVE_NUMBERS)
    shaped = np.array(five, np.float64).reshape(-1, len(FIVE_NUMBERS))
    return tuple(series), np.array(lengths, np.int64), np.array(values, np.float64), shaped


#: Number of files per task of a reading process.
_TOGETHER = 4
#: Minimum number of files for which reading processes are started.
_FEW = 8


Kind = Literal["xml", "json", "tables"]
_KINDS: Mapping[str, Kind] = {".xml": "xml", ".json": "json"}


class ResultPlace(NamedTuple):
    """A file or a directory of tables that may hold results."""

    kind: Kind
    path: Path
    source: str


def _places_below(root: Path) -> tuple[list[ResultPlace], int]:
    """Return the places in a folder, sorted by name, and the number of ignored symbolic links."""
    if not root.is_dir():
        raise InputError("is no directory of results" if root.exists() else "no such directory", file=root)
    places, n_links = list[ResultPlace](), 0
    for where, below, files in os.walk(root):
        here = Path(where)
        below.sort()
        links = {name for name in (*below, *files) if (here / name).is_symlink()}
        n_links += len(links)
        if "results.parquet" in {*files} - links:
            places.append(ResultPlace("tables", here, here.relative_to(root).as_posix()))
        for path in (here / name for name in sorted({*files} - links)):
            kind = _KINDS.get(path.suffix.lower())
            is_result = not path.name.endswith(BESIDE) and not result_xml.is_settings(path)
            if kind is not None and is_result and path.is_file():
                places.append(ResultPlace(kind, path, path.relative_to(root).as_posix()))
    return places, n_links


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
    """Read all results in a folder and its subfolders.

    Parameters
    ----------
    measure : Measure
        The metric and its direction, for files that do not define them.
    jobs : int
        Number of reading processes.
    advance : callable, optional
        Called with the number of places read and the number of all places.

    Raises
    ------
    InputError
        At the first error, unless `keep_going`; and if there is no result at all.
    """
    places, n_links = _places_below(root)
    read_one = partial(_read_place, measure=measure, keep_going=keep_going)
    found: list[ReadRuns] = []
    passed: list[str] = []
    for count, (place, one) in enumerate(zip(places, _read_all(read_one, places, jobs), strict=True), 1):
        if one is None:
            passed.append(place.source)
        elif one.skipped and not keep_going:
            raise one.skipped[0]
        else:
            found.append(one)
        if advance is not None:
            advance(count, len(places))
    runs = tuple(run for one in found for run in one.runs)
    skipped = tuple(error for one in found for error in one.skipped)
    if not runs and not skipped:
        raise InputError("holds no result of a run (result XML, JSON or results.parquet)", file=root)
    notes = [f"{n_links} symbolic links are passed over"] if n_links else []
    if passed:
        notes.append(f"{len(passed)} files hold no run, and are passed over, such as {passed[0]}")
    return ReadRuns(runs, skipped, (*notes, *_once(note for one in found for note in one.notes)))


def _read_all(
    read_one: Callable[[ResultPlace], ReadRuns | None], places: Sequence[ResultPlace], jobs: int
) -> Iterable[ReadRuns | None]:
    if jobs == 1 or len(places) < _FEW:
        return map(read_one, places)
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=jobs, batch_size=_TOGETHER, return_as="generator", max_nbytes=None)
    found: Iterable[ReadRuns | None] = parallel(delayed(read_one)(place) for place in places)
    return found


def _read_place(place: ResultPlace, *, measure: Measure, keep_going: bool) -> ReadRuns | None:
    """Read one place; None if it holds no run."""
    problems, (kind, path, source) = Problems(keep_going), place
    try:
        with uncollected():
            if kind == "tables":
                runs = tuple(of_tables(path, source, problems))
            elif kind == "xml":
                if formats.sniff(path) != "result-xml":
                    return None
                runs = (of_xml(path, source, problems, measure),)
            else:
                content = content_of(path)
                if not isinstance(content, dict) or "results" not in content:
                    return None
                runs = tuple(of_json(path, source, problems, measure))
    except InputError as error:
        return ReadRuns((), (*problems.skipped, error.within(path)), ())
    notes = (note.replace(str(path), source) for note in problems.notes)
    return ReadRuns(runs, tuple(problems.skipped), tuple(notes))


def _once(notes: Iterable[str]) -> Iterator[str]:
    """Yield each distinct note once, with its first source and the number of other sources."""
    told = [note.partition(" ") for note in notes]
    counts = Counter(what for _, _, what in told)
    first = {what: source for source, _, what in reversed(told)}
    for what, count in counts.items():
        others = f" (and {count - 1} more)" if count > 1 else ""
        yield f"{first[what]}{others} {what}"
