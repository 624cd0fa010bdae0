"""One result, whatever its format: its properties, and what was measured, in arrays."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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

#: Properties, in lower case.
MACHINE, VERSION, BENCHMARK, OPERATION = "hostname", "kernel", "benchmarkname", "operation"
#: Properties that say when a result was measured, the first that is there.
MOMENTS = ("starttime", "start_time", "measured_at", "date", "timestamp")
_KEYS = ["benchmark", "operation", "unit", "better", "threads"]


class RunSeries(NamedTuple):
    """One operation at one number of threads."""

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
        The path below the folder that was read.
    properties : mapping
        By names in lower case; machine and version are always present.
    lengths : shape (n_series,)
        Number of samples; 0 where there is a summary.
    five : shape (n_series, 5)
        Summaries; NaN elsewhere.
    orders : shape (n_series,) or None
        Orders of the version in each series, where the source numbers versions.
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
        """On which it was measured."""
        return self.properties[MACHINE]

    @property
    def version(self) -> str:
        """Of what was measured."""
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
    """Yield the results of a directory of tables, by machine, version and benchmark."""
    spec = ComparisonTables.SPECS["results"]
    results = spec.sound(spec.read(path / "results.parquet"), "results", problems)
    yield from of_results(results, source)


def of_results(results: pd.DataFrame, source: str) -> Iterator[TimelineRun]:
    """Take a table of results apart by machine, version and benchmark."""
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
    """Return lengths, samples and five numbers of series that begin at these rows."""
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
    series, lengths, values, summaries = (
        list[RunSeries](),
        list[int](),
        list[float](),
        dict[int, list[float]](),
    )
    for one in run.operations.values():
        common = run.benchmark(one), one.name, one.metric, one.better
        for threads, found in one.configurations.items():
            if not found.samples:
                summaries[len(series)] = [found.summary.get(name, np.nan) for name in FIVE_NUMBERS]
            series.append(RunSeries(*common, threads))
            lengths.append(len(found.samples))
            values += found.samples
    five = np.full((len(series), len(FIVE_NUMBERS)), np.nan)
    if summaries:
        five[list(summaries)] = list(summaries.values())
    return tuple(series), np.array(lengths, np.int64), np.array(values, np.float64), five


#: Files that a process reads at once.
_TOGETHER = 4
#: Fewer files are read by this process.
_FEW = 8


class ResultPlace(NamedTuple):
    """Where a result may be."""

    kind: Literal["xml", "json", "tables"]
    path: Path
    source: str


@dataclass
class Folder:
    """Places below a folder that may hold results; symbolic links are counted and not followed."""

    places: list[ResultPlace] = field(default_factory=list)
    links: int = 0

    @classmethod
    def of(cls, root: Path) -> Folder:
        """Look through a folder and all below it, in the order of names; InputError if it is no folder."""
        if not root.is_dir():
            raise InputError(
                "is no directory of results" if root.exists() else "no such directory", file=root
            )
        found = cls()
        for where, below, files in os.walk(root):
            here = Path(where)
            below.sort()
            links = [name for name in (*below, *files) if (here / name).is_symlink()]
            found.links += len(links)
            found._take(root, here, sorted(set(files) - set(links)))
        return found

    def _take(self, root: Path, here: Path, files: Sequence[str]) -> None:
        if "results.parquet" in files:
            self.places.append(ResultPlace("tables", here, _below(root, here)))
        for name in files:
            path = here / name
            kind = _kind(path)
            if kind is not None and path.is_file():
                self.places.append(ResultPlace(kind, path, _below(root, path)))


def _below(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()


def _kind(path: Path) -> Literal["xml", "json"] | None:
    if path.name.endswith(BESIDE) or result_xml.is_settings(path):
        return None
    return {".xml": "xml", ".json": "json"}.get(path.suffix.lower())  # type: ignore[return-value] # mypy takes str


class FoundRuns(NamedTuple):
    """What reading one place gave."""

    runs: tuple[TimelineRun, ...]
    skipped: tuple[InputError, ...] = ()
    notes: tuple[str, ...] = ()
    passed: str | None = None


@dataclass(frozen=True)
class ReadRuns:
    """All results, in the order of their places, and what was skipped or assumed to read them."""

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
    """Read every result below a folder.

    Parameters
    ----------
    measure : Measure
        The metric and its better direction, where files do not say.
    jobs : int
        Number of reading processes.
    advance : callable, optional
        Called with the numbers of places read and of all places.

    Raises
    ------
    InputError
        At the first error, unless `keep_going`; and if there is no result at all.
    """
    folder = Folder.of(root)
    read_one = partial(_read_place, measure=measure, keep_going=keep_going)
    found: list[FoundRuns] = []
    for some in _spread(read_one, folder.places, jobs):
        for one in some:
            if one.skipped and not keep_going:
                raise one.skipped[0]
            found.append(one)
        if advance is not None:
            advance(len(found), len(folder.places))
    runs_found = tuple(run for one in found for run in one.runs)
    skipped = tuple(error for one in found for error in one.skipped)
    if not runs_found and not skipped:
        raise InputError("holds no result of a run (result XML, JSON or results.parquet)", file=root)
    return ReadRuns(runs_found, skipped, tuple(_notes(folder, found)))


def _spread(
    read_one: Callable[[ResultPlace], FoundRuns], places: Sequence[ResultPlace], jobs: int
) -> Iterator[list[FoundRuns]]:
    """Read places, in this process or in several, in their order."""
    parts = [places[start : start + _TOGETHER] for start in range(0, len(places), _TOGETHER)]
    if jobs == 1 or len(places) < _FEW:
        yield from ([read_one(place) for place in part] for part in parts)
        return
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=jobs, return_as="generator", max_nbytes=None)
    yield from parallel(delayed(_read_some)(read_one, part) for part in parts)


def _read_some(
    read_one: Callable[[ResultPlace], FoundRuns], places: Sequence[ResultPlace]
) -> list[FoundRuns]:
    return [read_one(place) for place in places]


def _read_place(place: ResultPlace, *, measure: Measure, keep_going: bool) -> FoundRuns:
    problems = Problems(keep_going)
    try:
        with uncollected():
            found = _read(place, problems, measure)
    except InputError as error:
        return FoundRuns((), (*problems.skipped, error.within(place.path)))
    if found is None:
        return FoundRuns((), passed=place.source)
    notes = (note.replace(str(place.path), place.source) for note in problems.notes)
    return FoundRuns(found, tuple(problems.skipped), tuple(notes))


def _read(place: ResultPlace, problems: Problems, measure: Measure) -> tuple[TimelineRun, ...] | None:
    """Read one place; None if it holds something else than a run."""
    if place.kind == "tables":
        return tuple(of_tables(place.path, place.source, problems))
    if place.kind == "xml":
        if formats.sniff(place.path) != "result-xml":
            return None
        return (of_xml(place.path, place.source, problems, measure),)
    content = content_of(place.path)
    if not isinstance(content, dict) or "results" not in content:
        return None
    return tuple(of_json(place.path, place.source, problems, measure))


def _notes(folder: Folder, found: Sequence[FoundRuns]) -> Iterator[str]:
    """Yield what was assumed, the same of many files once."""
    if folder.links:
        yield f"{folder.links} symbolic links are passed over"
    passed = [one.passed for one in found if one.passed is not None]
    if passed:
        yield f"{len(passed)} files hold no run, and are passed over, such as {passed[0]}"
    told = [note.partition(" ") for one in found for note in one.notes]
    counts = Counter(what for _, _, what in told)
    first = {what: source for source, _, what in reversed(told)}
    for what, count in counts.items():
        others = f" (and {count - 1} more)" if count > 1 else ""
        yield f"{first[what]}{others} {what}"
