"""Rules choose among results: the versions of every machine, and which one is the baseline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from data.comparisons.timelines.ordering import natural, ordered
from data.comparisons.timelines.rules import ROLES, Role, RuleSet, TimelineRule
from data.comparisons.timelines.runs import OPERATION, TimelineRun
from data.errors import InputError

#: Values that a message repeats.
_SHOWN = 3


@dataclass(frozen=True)
class ChosenRuns:
    """What one timeline shows of one machine.

    Attributes
    ----------
    versions : tuple of str
        The oldest first.
    runs : mapping of str to tuple of TimelineRun
        By version: the oldest first.
    baseline : int
        Index of the baseline.
    operations : tuple of TimelineRule
        What the names of operations have to match.
    notes : tuple of str
    """

    rules: RuleSet
    machine: str
    versions: tuple[str, ...]
    runs: Mapping[str, tuple[TimelineRun, ...]]
    baseline: int
    operations: tuple[TimelineRule, ...]
    notes: tuple[str, ...]


def chosen(runs: Sequence[TimelineRun], rules: RuleSet) -> list[ChosenRuns]:
    """Choose the runs of every machine that has a baseline and targets, by the names of machines.

    Parameters
    ----------
    runs : sequence of TimelineRun
    rules : RuleSet
        The baseline is the newest version that matches; targets are shown from the first one on that matches
        the rules of the start. Rules on the property ``Operation`` choose among the operations of the runs.

    Raises
    ------
    InputError
        If no machine has both, naming the first rule that nothing matches.
    """
    operations = tuple(rule for rule in rules.rules if rule.name.lower() == OPERATION)
    runs = list(_with_operations(runs, operations, rules.title))
    of_runs = RuleSet(rules.title, tuple(rule for rule in rules.rules if rule.name.lower() != OPERATION))
    properties = [run.properties for run in runs]
    accepted = {role: of_runs.accepting(role, properties) for role in ROLES}
    for role in rules.roles:
        if not any(accepted[role]):
            raise _nothing(of_runs, role, properties)
    machines: dict[str, list[int]] = {}
    for place, run in enumerate(runs):
        machines.setdefault(run.machine, []).append(place)
    found = [
        one
        for machine in sorted(machines, key=natural)
        for one in _of_machine(
            machine,
            [runs[place] for place in machines[machine]],
            rules,
            {role: [told[place] for place in machines[machine]] for role, told in accepted.items()},
        )
    ]
    if not found:
        raise InputError(
            "no machine has results of both", place=f'rules "{rules.title}" baseline and targets'
        )
    return found


def _with_operations(
    runs: Sequence[TimelineRun], wanted: Sequence[TimelineRule], title: str
) -> Iterator[TimelineRun]:
    """Yield the runs that measured an operation that is wanted; InputError if there is none."""
    names = known = {series.operation for run in runs for series in run.series}
    for rule in wanted:
        names = rule.matching(names)
    if not names:
        patterns = " and ".join(f'"{rule.pattern}"' for rule in wanted)
        problem = f"no operation matches {patterns}; found {_shown(known)}"
        raise InputError(problem, place=f'rules "{title}" <Operation>')
    for run in runs:
        if not wanted or any(series.operation in names for series in run.series):
            yield run


def _shown(values: Iterable[str]) -> str:
    found = sorted(values, key=natural)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return (", ".join(value[:60] for value in found[:_SHOWN]) or "none") + more


def _of_machine(
    machine: str, runs: Sequence[TimelineRun], rules: RuleSet, accepted: Mapping[Role, Sequence[bool]]
) -> Iterator[ChosenRuns]:
    versions, how = ordered(runs)
    rank = {name: place for place, name in enumerate(versions)}
    places = {
        role: {rank[run.version] for run, yes in zip(runs, told, strict=True) if yes}
        for role, told in accepted.items()
    }
    baseline = max(places["baseline"], default=None)
    starting = places["start"] & places["target"]
    if baseline is None or not starting:
        return
    first = min(starting) if "start" in rules.roles else 0
    shown = sorted({baseline, *(place for place in places["target"] if place >= first)})
    names = tuple(versions[place] for place in shown)
    kept: dict[str, list[TimelineRun]] = {name: [] for name in names}
    for run, is_baseline, is_target in zip(runs, accepted["baseline"], accepted["target"], strict=True):
        wanted = is_target and rank[run.version] >= first
        if wanted or (is_baseline and rank[run.version] == baseline):
            kept[run.version].append(run)
    by_version = {name: tuple(sorted(found, key=_age)) for name, found in kept.items()}
    operations = tuple(rule for rule in rules.rules if rule.name.lower() == OPERATION)
    note = f"versions are in the order of {how}"
    yield ChosenRuns(rules, machine, names, by_version, shown.index(baseline), operations, (note,))


def _age(run: TimelineRun) -> tuple[float, tuple[tuple[int, object], ...]]:
    moment = 0.0 if run.measured_at is None else run.measured_at.timestamp()
    return moment, natural(run.source)


def _nothing(rules: RuleSet, role: Role, properties: Sequence[Mapping[str, str]]) -> InputError:
    """Say which rule of a role it is that nothing matches."""
    for rule in rules.of(role):
        values = {one[rule.name.lower()] for one in properties if rule.name.lower() in one}
        if not rule.matching(values):
            problem = f'no result matches "{rule.pattern}"; found {_shown(values)}'
            return InputError(problem, place=f'rules "{rules.title}" {role} <{rule.name}>')
    return InputError("no result matches all of them", place=f'rules "{rules.title}" {role}')


def place_and_time(runs: Sequence[TimelineRun]) -> tuple[str, str | None]:
    """Return where the runs of a version lie, and when the newest was measured."""
    moments = [run.measured_at for run in runs if run.measured_at is not None]
    sources = list(dict.fromkeys(run.source for run in runs))
    return _common(sources), f"{max(moments):%Y-%m-%d %H:%M}" if moments else None


def _common(sources: Sequence[str]) -> str:
    """Return the only source, else the folder that all are in, else the first of them."""
    if len(sources) == 1:
        return sources[0]
    parts = [source.split("/")[:-1] for source in sources]
    shared = []
    for level in zip(*parts, strict=False):
        if len(set(level)) > 1:
            break
        shared.append(level[0])
    return "/".join(shared) or sources[0]
