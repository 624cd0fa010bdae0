"""Select the runs of a timeline, and gather their measurements of all versions in arrays."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints, Samples, five_numbers
from data.comparisons.timelines.rules import ROLES, Role, RuleSet
from data.comparisons.timelines.runs import OPERATION, RunSeries, TimelineRun
from data.comparisons.units import factor, is_told
from data.errors import InputError
from data.tables.problems import Problems

_PARTS = re.compile(r"[0-9]+|[^0-9]+")
#: Parts of names of pre-releases, which sort before the release.
_BEFORE = re.compile(r"[-._~+]*(rc|alpha|beta|pre|dev)[-._]*", re.IGNORECASE)
#: Number of first characters of a name that are compared.
_LONGEST = 1_000
_EARLIER, _END, _LETTERS, _NUMBER = range(4)


def natural(version: str) -> tuple[tuple[int, Any], ...]:
    """Return a key that sorts versions naturally: 4.9 < 4.10-rc1 < 4.10 < 4.10-2."""
    parts = [
        (_NUMBER, int(text))
        if text[0] in "0123456789"
        else (_EARLIER if _BEFORE.fullmatch(text) else _LETTERS, text)
        for text in _PARTS.findall(version[:_LONGEST])
    ]
    return (*parts, (_END, ""))


def ordered(runs: Sequence[TimelineRun]) -> tuple[list[str], str]:
    """Return the versions of one machine, the oldest first, and the sorting criterion in words.

    The criterion is the first of these that is known for all versions and does not contradict the order in
    the sources: times of measurement, order in the source, names. If all contradict it, the first known one
    is used.
    """
    by_version: dict[str, list[TimelineRun]] = {}
    for run in runs:
        by_version.setdefault(run.version, []).append(run)
    numbers = {
        name: {int(order) for run in found if run.orders is not None for order in run.orders}
        for name, found in by_version.items()
    }
    keys: dict[str, Callable[[str], Any]] = {}
    if all(run.measured_at is not None for run in runs):
        keys["the time of measuring"] = lambda name: min(map(attrgetter("measured_at"), by_version[name]))
    if all(len(found) == 1 for found in numbers.values()):
        keys["the numbers that the source gives them"] = lambda name: min(numbers[name])
    keys["their names"] = natural
    orders = [(sorted(sorted(by_version, key=natural), key=key), how) for how, key in keys.items()]
    return next((one for one in orders if _agrees(one[0], by_version)), orders[0])


def _agrees(versions: Sequence[str], by_version: Mapping[str, Sequence[TimelineRun]]) -> bool:
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


def chosen(runs: Sequence[TimelineRun], rules: RuleSet) -> list[ChosenRuns]:
    """Return the selected runs of every machine that has a baseline and targets, sorted by machine.

    The baseline is the newest version that matches its rules. Targets begin with the first one that also
    matches the rules of the start. Rules on the property ``Operation`` select operations. InputError if no
    machine has a baseline and targets; if possible, it names a rule without a match.
    """
    operations = _operations_of(runs, rules)
    of_runs = RuleSet(rules.title, tuple(rule for rule in rules.rules if rule.name.lower() != OPERATION))
    if of_runs != rules:
        runs = [run for run in runs if any(series.operation in operations for series in run.series)]
    properties = [run.properties for run in runs]
    accepted = {role: of_runs.accepting(role, properties) for role in ROLES}
    for role in ROLES:
        if role in rules.roles and not any(accepted[role]):
            raise _nothing(of_runs, role, properties)
    machines: dict[str, list[_Accepted]] = {}
    for place, run in enumerate(runs):
        roles = {role for role in ROLES if accepted[role][place]}
        machines.setdefault(run.machine, []).append(_Accepted(run, roles))
    found = [
        one
        for machine in sorted(machines, key=natural)
        for one in _of_machine(machine, machines[machine], rules, operations)
    ]
    if not found:
        raise InputError(
            "no machine has results of both", place=f'rules "{rules.title}" baseline and targets'
        )
    return found


class _Accepted(NamedTuple):
    run: TimelineRun
    roles: set[Role]


def _operations_of(runs: Sequence[TimelineRun], rules: RuleSet) -> set[str]:
    """Return the names of the operations that the rules select; InputError if they select none."""
    names = known = {series.operation for run in runs for series in run.series}
    wanted = [rule for rule in rules.rules if rule.name.lower() == OPERATION]
    for rule in wanted:
        names = rule.matching(names)
    if not names:
        patterns = " and ".join(f'"{rule.pattern}"' for rule in wanted)
        problem = f"no operation matches {patterns}; found {_shown(known)}"
        raise InputError(problem, place=f'rules "{rules.title}" <Operation>')
    return names


def _shown(values: Iterable[str]) -> str:
    found = sorted(values, key=natural)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return (", ".join(value[:60] for value in found[:_SHOWN]) or "none") + more


def _of_machine(
    machine: str, runs: Sequence[_Accepted], rules: RuleSet, operations: set[str]
) -> Iterator[ChosenRuns]:
    versions, how = ordered([run for run, _ in runs])
    rank = {name: place for place, name in enumerate(versions)}
    places = {role: {rank[run.version] for run, roles in runs if role in roles} for role in ROLES}
    baseline = max(places["baseline"], default=None)
    starting = places["start"] & places["target"]
    if baseline is None or not starting:
        return
    first = min(starting) if "start" in rules.roles else 0
    shown = sorted({baseline, *(place for place in places["target"] if place >= first)})
    names = tuple(versions[place] for place in shown)
    kept: dict[str, list[TimelineRun]] = {name: [] for name in names}
    for run, roles in runs:
        wanted = "target" in roles and rank[run.version] >= first
        if wanted or ("baseline" in roles and rank[run.version] == baseline):
            kept[run.version].append(run)
    by_version = {name: tuple(sorted(found, key=_age)) for name, found in kept.items()}
    note = f"versions are in the order of {how}"
    yield ChosenRuns(rules, machine, names, by_version, shown.index(baseline), operations, (note,))


def _age(run: TimelineRun) -> tuple[float, tuple[tuple[int, object], ...]]:
    moment = 0.0 if run.measured_at is None else run.measured_at.timestamp()
    return moment, natural(run.source)


def _nothing(rules: RuleSet, role: Role, properties: Sequence[Mapping[str, str]]) -> InputError:
    for rule in rules.of(role):
        values = {one[rule.name.lower()] for one in properties if rule.name.lower() in one}
        if not rule.matching(values):
            problem = f'no result matches "{rule.pattern}"; found {_shown(values)}'
            return InputError(problem, place=f'rules "{rules.title}" {role} <{rule.name}>')
    return InputError("no result matches all of them", place=f'rules "{rules.title}" {role}')


def place_and_time(runs: Sequence[TimelineRun]) -> tuple[str, str | None]:
    """Return the common folder of a version's runs, and the time of the newest as text (None if unknown)."""
    moments = [run.measured_at for run in runs if run.measured_at is not None]
    sources = list(dict.fromkeys(run.source for run in runs))
    folder = posixpath.commonpath(map(posixpath.dirname, sources))
    place = sources[0] if len(sources) == 1 or not folder else folder
    return place, f"{max(moments):%Y-%m-%d %H:%M}" if moments else None


#: Minimum samples per version for comparing single versions; with fewer, windows of versions are compared.
FEW = 3
#: Minimum number of versions in a window.
FEWEST_VERSIONS = 12


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
    def rows(self) -> slice:
        """The rows of the operation's configurations."""
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
    def counts(self) -> Ints:
        """Number of samples, shape (n_configurations, n_versions)."""
        return np.diff(self.edges, axis=1)

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """Whether there is a measurement, shape (n_configurations, n_versions)."""
        return np.isfinite(self.five[..., 2])

    @cached_property
    def alone(self) -> NDArray[np.bool_]:
        """Whether single versions are compared, instead of windows of versions, shape (n_configurations,).

        True if the median version has at least `FEW` samples, or if there are only summaries of fewer than
        `FEWEST_VERSIONS` versions. It is equal for all configurations of an operation.
        """
        few = np.where(self.known, self.counts, -1)
        usual = np.array([np.median(row[row >= 0]) if (row >= 0).any() else 0 for row in few])
        summaries = (self.counts.sum(axis=1) == 0) & (self.known.sum(axis=1) < FEWEST_VERSIONS)
        found = (usual >= FEW) | summaries
        for one in self.operations:
            found[one.rows] = found[one.rows].all()
        return np.asarray(found)


class _Cells:
    def __init__(self, chosen: ChosenRuns, problems: Problems) -> None:
        self.chosen, self.problems = chosen, problems
        self.firsts: dict[tuple[str, str], tuple[str, str, str]] = {}
        self.rows: dict[tuple[str, str, int], int] = {}
        self.kept: dict[RunSeries, tuple[int, float]] = {}
        self.notes: dict[str, None] = {}

    def of(self, run: TimelineRun) -> Iterator[tuple[int, int, float]]:
        """Yield the index in the run, the row and the scale of every selected series."""
        for place, series in enumerate(run.series):
            if series not in self.kept:
                self.kept[series] = self._row(run, series)
            row, scale = self.kept[series]
            if row >= 0:
                yield place, row, scale

    def _row(self, run: TimelineRun, series: RunSeries) -> tuple[int, float]:
        if series.operation not in self.chosen.operations:
            return -1, 1.0
        operation = series.benchmark, series.operation
        unit, better, source = self.firsts.setdefault(operation, (series.unit, series.better, run.source))
        place = f'operation "{series.operation}"'
        if series.better != better:
            problem = f'better="{series.better}" is not "{better}" as in {source}'
            self.problems.add(InputError(problem, file=run.source, place=place))
            return -1, 1.0
        told = is_told(unit) and is_told(series.unit)
        scale = factor(series.unit, unit) if told else Fraction(1)
        if scale is None:
            problem = f'unit "{series.unit}" cannot be converted to "{unit}" of {source}'
            self.problems.add(InputError(problem, file=run.source, place=place))
            return -1, 1.0
        if scale != 1:
            self.notes[f"{run.source}: {place} in {series.unit}, converted to {unit}"] = None
        return self.rows.setdefault((*operation, series.threads), len(self.rows)), float(scale)


def measured(chosen: ChosenRuns, problems: Problems) -> MeasuredVersions:
    """Return the runs of a timeline as arrays; if a version was measured repeatedly, the newest counts.

    InputError if an operation was measured in opposite directions or incompatible units, unless
    ``problems.keep_going``; and if no operation is left.
    """
    cells = _Cells(chosen, problems)
    latest: dict[tuple[int, int], tuple[Floats, Floats]] = {}
    count = 0
    for column, version in enumerate(chosen.versions):
        for run in chosen.runs[version]:
            stops = np.cumsum(run.lengths)
            starts = stops - run.lengths
            for place, row, scale in cells.of(run):
                samples = run.values[starts[place] : stops[place]]
                latest[row, column] = samples * scale, run.five[place] * scale
                count += 1
    if not cells.rows:
        raise InputError("no operation is left", place=f'rules "{chosen.rules.title}"')
    order, operations = _operations(cells)
    placed = sorted((order[row], column, *found) for (row, column), found in latest.items())
    width = len(chosen.versions)
    counts = np.zeros((len(order), width), np.int64)
    five = np.full((len(order), width, 5), np.nan)
    for row, column, samples, summary in placed:
        counts[row, column], five[row, column] = len(samples), summary
    values = np.concatenate([samples for _, _, samples, _ in placed])
    edges = np.concatenate([[0], counts.cumsum()])
    sampled = five_numbers(Samples(values, np.zeros(len(values), np.int64), edges[:-1], edges[1:]))
    five = np.where(counts[..., None] > 0, sampled.reshape(five.shape), five)
    notes = [*cells.notes]
    if count > len(latest):
        again = f"{count - len(latest)} configurations were measured again of the same version"
        notes.append(f"{again}: the newest counts")
    rows = np.arange(len(order))[:, None] * width + np.arange(width + 1)
    return MeasuredVersions(operations, values, edges[rows], five, tuple(notes))


def _operations(cells: _Cells) -> tuple[Ints, tuple[MeasuredOperation, ...]]:
    """Return the final position of every row (by operation, then threads), and the operations."""
    names = {name: place for place, name in enumerate(cells.firsts)}
    keys = sorted(cells.rows, key=lambda key: (names[key[:2]], key[2]))
    order = np.empty(len(keys), np.int64)
    order[[cells.rows[key] for key in keys]] = np.arange(len(keys))
    threads: dict[tuple[str, str], list[int]] = {}
    for key in keys:
        threads.setdefault(key[:2], []).append(key[2])
    found, first = list[MeasuredOperation](), 0
    for name, own in threads.items():
        unit, better, _ = cells.firsts[name]
        found.append(MeasuredOperation(*name, unit, better, tuple(own), first))
        first += len(own)
    return order, tuple(found)
