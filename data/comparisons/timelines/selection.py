"""Select the runs of a timeline, and gather their measurements of all versions in arrays."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints, Samples, five_numbers
from data.comparisons.timelines.rules import ROLES, Role, RuleSet
from data.comparisons.timelines.runs import OPERATION, RunSeries, TimelineRun
from data.comparisons.units import scale_to
from data.errors import InputError
from data.tables.files import natural_key
from data.tables.problems import Problems, shorten_names


def order_versions(runs: Sequence[TimelineRun]) -> tuple[list[str], str]:
    """Return the versions of one machine, the oldest first, and the sorting criterion in words.

    The criterion is the first of these that applies: times of measurement (a version's earliest) if all runs
    have one; numbers in the source (``orders`` of a run) if each version has a single number, the same in all
    its series; names. A criterion is passed over if its order contradicts the source's numbers within any
    series, even where these differ between series; if all are passed over, the first that applies is taken.
    Ties, and names, are sorted naturally.
    """
    by_version: dict[str, list[TimelineRun]] = {}
    for run in runs:
        by_version.setdefault(run.version, []).append(run)
    numbers = {
        name: {int(order) for run in group if run.orders is not None for order in run.orders}
        for name, group in by_version.items()
    }
    keys: dict[str, Callable[[str], Any]] = {}
    if all(run.measured_at is not None for run in runs):
        keys["the time of measuring"] = lambda name: min(map(attrgetter("measured_at"), by_version[name]))
    if all(len(orders) == 1 for orders in numbers.values()):
        keys["the numbers that the source gives them"] = lambda name: min(numbers[name])
    keys["their names"] = natural_key
    names = sorted(by_version, key=natural_key)
    candidates = [(sorted(names, key=key), criterion) for criterion, key in keys.items()]
    return next((order for order in candidates if _is_consistent(order[0], by_version)), candidates[0])


def _is_consistent(versions: Sequence[str], by_version: Mapping[str, Sequence[TimelineRun]]) -> bool:
    last: dict[tuple[str, str, int], int] = {}
    for name in versions:
        for run in by_version[name]:
            orders = () if run.orders is None else run.orders.tolist()
            for series, order in zip(run.series if orders else (), orders, strict=True):
                key = series.benchmark, series.operation, series.threads
                if last.get(key, order) > order:
                    return False
                last[key] = order
    return True


#: Time of runs without one.
_LONG_AGO = datetime.fromtimestamp(0, UTC)
#: Number of values that a message quotes.
_SHOWN = 3


@dataclass(frozen=True)
class ChosenRuns:
    """The runs of one timeline on one machine: `versions`, the oldest first, and the runs of each.

    `baseline` is the index of the baseline's version. `operations` are the names of the selected operations.
    """

    rules: RuleSet
    machine: str
    versions: tuple[str, ...]
    runs: Mapping[str, tuple[TimelineRun, ...]]
    baseline: int
    operations: set[str]
    notes: tuple[str, ...]


def choose_runs(runs: Sequence[TimelineRun], rules: RuleSet) -> list[ChosenRuns]:
    """Return the selected runs of every machine that has a baseline and targets, sorted by machine.

    The baseline is the newest version (by `order_versions`) that matches its rules. Targets are all versions
    that match theirs, older ones and the baseline's own, too. If there are rules of the start, the first
    target is the oldest that matches these, too; a machine without such a target is left out. Rules on
    the property ``Operation`` do not select versions: whatever their role, the operations that match all of
    them are selected, and runs without a selected operation are dropped. InputError if no operation matches,
    or no machine is left; if possible, it names a rule without a match.
    """
    operations = _selected_operations(runs, rules)
    of_runs = RuleSet(rules.title, tuple(rule for rule in rules.rules if rule.name.lower() != OPERATION))
    if of_runs != rules:
        runs = [run for run in runs if any(series.operation in operations for series in run.series)]
    properties = [run.properties for run in runs]
    accepted = {role: of_runs.accepts_runs(role, properties) for role in ROLES}
    for role in ROLES:
        if role in rules.roles and not any(accepted[role]):
            raise _no_match(of_runs, role, properties)
    machines: dict[str, list[tuple[TimelineRun, set[Role]]]] = {}
    for place, run in enumerate(runs):
        roles = {role for role in ROLES if accepted[role][place]}
        machines.setdefault(run.machine, []).append((run, roles))
    timelines = [
        timeline
        for machine in sorted(machines, key=natural_key)
        for timeline in _timelines_of(machine, machines[machine], rules, operations)
    ]
    if not timelines:
        of_targets = "a target that is a start" if "start" in rules.roles else "a target"
        problem = f"no machine has results of a baseline and of {of_targets}"
        raise InputError(problem, place=f'rules "{rules.title}"')
    return timelines


def _selected_operations(runs: Sequence[TimelineRun], rules: RuleSet) -> set[str]:
    names = all_names = {series.operation for run in runs for series in run.series}
    wanted = [rule for rule in rules.rules if rule.name.lower() == OPERATION]
    for rule in wanted:
        names = rule.matching_values(names)
        if not names:
            patterns = " and ".join(f'"{rule.pattern}"' for rule in wanted)
            problem = f"no operation matches {patterns}; found {_first_values(all_names)}"
            place = f'rules "{rules.title}" <Operation>'
            raise InputError(problem, file=rule.file, line=rule.line, place=place)
    return names


def _first_values(values: Iterable[str]) -> str:
    return shorten_names([value[:60] for value in sorted(values, key=natural_key)], _SHOWN) or "none"


def _timelines_of(
    machine: str, runs: Sequence[tuple[TimelineRun, set[Role]]], rules: RuleSet, operations: set[str]
) -> Iterator[ChosenRuns]:
    versions, criterion = order_versions([run for run, _ in runs])
    rank = {name: place for place, name in enumerate(versions)}
    ranks_by_role = {role: {rank[run.version] for run, roles in runs if role in roles} for role in ROLES}
    baseline = max(ranks_by_role["baseline"], default=None)
    starting = ranks_by_role["start"] & ranks_by_role["target"]
    if baseline is None or not starting:
        return
    first = min(starting) if "start" in rules.roles else 0
    shown = sorted({baseline, *(place for place in ranks_by_role["target"] if place >= first)})
    names = tuple(versions[place] for place in shown)
    selected: dict[str, list[TimelineRun]] = {name: [] for name in names}
    for run, roles in runs:
        is_target = "target" in roles and rank[run.version] >= first
        if is_target or ("baseline" in roles and rank[run.version] == baseline):
            selected[run.version].append(run)
    by_version = {
        name: tuple(sorted(group, key=lambda run: (run.measured_at or _LONG_AGO, natural_key(run.source))))
        for name, group in selected.items()
    }
    note = f"versions are in the order of {criterion}"
    yield ChosenRuns(rules, machine, names, by_version, shown.index(baseline), operations, (note,))


def _no_match(rules: RuleSet, role: Role, properties: Sequence[Mapping[str, str]]) -> InputError:
    for rule in rules.rules_of_role(role):
        name = rule.name.lower()
        values = {of_run[name] for of_run in properties if name in of_run}
        if not rule.matching_values(values):
            problem = f'no result matches "{rule.pattern}"; found {_first_values(values)}'
            place = f'rules "{rules.title}" {role} <{rule.name}>'
            return InputError(problem, file=rule.file, line=rule.line, place=place)
    first, place = rules.rules_of_role(role)[0], f'rules "{rules.title}" {role}'
    return InputError("no result matches all of them", file=first.file, line=first.line, place=place)


def place_and_time(runs: Sequence[TimelineRun]) -> tuple[str, str | None]:
    """Return the common folder of the sources of a version's runs, and the time of the newest run.

    With a single source, or without a common folder, the path of the first source is returned instead of the
    folder. The time is text, ``2026-11-22 09:30`` in UTC; runs without a time do not count, and it is None if
    no run has one. `runs` must not be empty.
    """
    moments = [run.measured_at for run in runs if run.measured_at is not None]
    sources = list(dict.fromkeys(run.source for run in runs))
    folder = posixpath.commonpath(map(posixpath.dirname, sources))
    place = sources[0] if len(sources) == 1 or not folder else folder
    return place, f"{max(moments):%Y-%m-%d %H:%M}" if moments else None


#: Minimum samples per version for comparing single versions; with fewer, windows of versions are compared.
FEW_SAMPLES = 3
#: Minimum number of versions in a window.
MIN_WINDOW_VERSIONS = 12


@dataclass(frozen=True)
class MeasuredOperation:
    """One operation; its configurations have consecutive rows from `first` on, by ascending threads."""

    benchmark: str
    operation: str
    unit: str
    better: str
    threads: tuple[int, ...]
    first: int

    @property
    def sign(self) -> float:
        """1 where higher is better, -1 where lower is better."""
        return -1.0 if self.better == "lower" else 1.0

    @property
    def row_slice(self) -> slice:
        """The rows of the operation's configurations in `MeasuredVersions`."""
        return slice(self.first, self.first + len(self.threads))


@dataclass(frozen=True)
class MeasuredVersions:
    """All operations over all versions of a timeline.

    Version ``v`` of configuration ``i`` has the samples ``values[edges[i, v]:edges[i, v + 1]]``. `five` has
    shape (n_configurations, n_versions, 5): min, quartiles, max; NaN where nothing was measured.
    """

    operations: tuple[MeasuredOperation, ...]
    values: Floats
    edges: Ints
    five: Floats
    notes: tuple[str, ...] = ()

    @cached_property
    def sample_counts(self) -> Ints:
        """Number of samples, shape (n_configurations, n_versions)."""
        return np.diff(self.edges, axis=1)

    @cached_property
    def is_measured(self) -> NDArray[np.bool_]:
        """Whether a version has a finite median, shape (n_configurations, n_versions)."""
        return np.isfinite(self.five[..., 2])

    @cached_property
    def compares_single_versions(self) -> NDArray[np.bool_]:
        """Whether single versions are compared, instead of windows of versions, shape (n_configurations,).

        True if the median version has at least `FEW_SAMPLES` samples, or if all data are summaries of fewer
        than `MIN_WINDOW_VERSIONS` versions. It is equal for all configurations of an operation.
        """
        few = np.where(self.is_measured, self.sample_counts, -1)
        usual = np.array([np.median(row[row >= 0]) if (row >= 0).any() else 0 for row in few])
        has_few_versions = self.is_measured.sum(axis=1) < MIN_WINDOW_VERSIONS
        alone = (usual >= FEW_SAMPLES) | ((self.sample_counts.sum(axis=1) == 0) & has_few_versions)
        for operation in self.operations:
            alone[operation.row_slice] = alone[operation.row_slice].all()
        return np.asarray(alone)


def _series_scales(
    runs: Iterable[TimelineRun], chosen: ChosenRuns, problems: Problems
) -> tuple[dict[RunSeries, float | None], list[RunSeries], dict[str, None]]:
    """Return the unit conversion factor of each selected series, the first series per operation, and notes.

    The factor converts to the first unit of the operation; it is None for series that cannot be converted or
    have the opposite direction, which are added to `problems`.
    """
    scales: dict[RunSeries, float | None] = {}
    firsts: dict[tuple[str, str], tuple[RunSeries, str]] = {}
    notes: dict[str, None] = {}
    for run in runs:
        for series in run.series:
            if series in scales or series.operation not in chosen.operations:
                continue
            first, source = firsts.setdefault(series[:2], (series, run.source))
            place, same_direction = f'operation "{series.operation}"', series.better == first.better
            scales[series] = scale = scale_to(series.unit, first.unit) if same_direction else None
            if scale is None:
                problem = f'better="{series.better}" is not "{first.better}" as in {source}'
                if same_direction:
                    problem = f'unit "{series.unit}" cannot be converted to "{first.unit}" of {source}'
                problems.add(InputError(problem, file=run.source, place=place))
            elif scale != 1:
                notes[f"{run.source}: {place} in {series.unit}, converted to {first.unit}"] = None
    return scales, [first for first, _ in firsts.values()], notes


def gather_measurements(chosen: ChosenRuns, problems: Problems) -> MeasuredVersions:
    """Return the runs of a timeline as arrays; a configuration's newest measurement of a version counts.

    The runs are in the order of `choose_runs`: those without a time are the oldest, equal times are sorted by
    source, naturally. Values are converted to the first unit of their operation. Operations are in the order
    of their first run, their configurations by threads. InputError if no operation is left, or if an
    operation was measured in opposite directions or incompatible units; with ``problems.keep_going``, such a
    measurement is skipped instead.
    """
    runs = [(column, run) for column, name in enumerate(chosen.versions) for run in chosen.runs[name]]
    scales, firsts, notes = _series_scales((run for _, run in runs), chosen, problems)
    if not firsts:
        raise InputError("no operation is left", place=f'rules "{chosen.rules.title}"')
    operations: list[MeasuredOperation] = []
    rows: dict[tuple[str, str, int], int] = {}
    threads_of = defaultdict[tuple[str, str], set[int]](set)
    for series, scale in scales.items():
        if scale is not None:
            threads_of[series[:2]].add(series.threads)
    for first in firsts:
        threads = tuple(sorted(threads_of[first[:2]]))
        operations.append(MeasuredOperation(*first[:4], threads, len(rows)))
        rows |= {(*first[:2], number): row for row, number in enumerate(threads, len(rows))}
    latest: dict[tuple[int, int], tuple[Floats, Floats]] = {}
    count = 0
    for column, run in runs:
        edges = np.append(0, np.cumsum(run.lengths))
        for place, series in enumerate(run.series):
            scale = scales.get(series)
            if scale is not None:
                samples = run.values[edges[place] : edges[place + 1]]
                cell = rows[series.benchmark, series.operation, series.threads], column
                latest[cell] = samples * scale, run.five[place] * scale
                count += 1
    height, width = len(rows), len(chosen.versions)
    counts = np.zeros((height, width), np.int64)
    five = np.full((height, width, 5), np.nan)
    for cell, (samples, summary) in latest.items():
        counts[cell], five[cell] = len(samples), summary
    values = np.concatenate([latest[cell][0] for cell in sorted(latest)])
    edges = np.concatenate([[0], counts.cumsum()])
    sampled = five_numbers(Samples(values, np.zeros(len(values), np.int64), edges[:-1], edges[1:]))
    five = np.where(counts[..., None] > 0, sampled.reshape(five.shape), five)
    if count > len(latest):
        repeated = f"{count - len(latest)} configurations were measured again of the same version"
        notes[f"{repeated}: the newest counts"] = None
    cells = np.arange(height)[:, None] * width + np.arange(width + 1)
    return MeasuredVersions(tuple(operations), values, edges[cells], five, tuple(notes))
