"""One result, whatever its format: its properties, and what was measured, in arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from data.comparisons.formats import result_xml, results_of_run
from data.comparisons.formats.result_xml import ResultRun
from data.comparisons.params import Measure
from data.comparisons.sides import Floats, Ints
from data.comparisons.tables import FIVE_NUMBERS, ComparisonTables
from data.comparisons.units import UNKNOWN
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
    """What was measured of one version on one machine at a time.

    Attributes
    ----------
    source : str
        The path below the folder that was read.
    properties : mapping
        By their names in lower case. Machine and version are always there.
    measured_at : datetime or None
        UTC.
    series : tuple of RunSeries
    lengths : ndarray of shape (n_series,)
        How many samples each has; 0 where there is a summary.
    values : ndarray of shape (n_samples,)
        A series after the other.
    five : ndarray of shape (n_series, 5)
        Of summaries; NaN elsewhere.
    orders : ndarray of shape (n_series,) or None
        The order of the version in each series, where the source numbers versions.
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
    """Read the results among the tables in a directory, by machine, version and benchmark.

    Raises
    ------
    InputError
        If the table cannot be read, or a row is wrong, unless ``problems.keep_going``.
    """
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
