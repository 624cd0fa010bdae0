"""Collector of co-runs: solo runs, and combinations of tasks at the same time (co-run paper)."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain, combinations_with_replacement
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from data.corun import run as corun_suite
from data.corun.run import CorunSuite, Counters, TaskRun, other_tasks, run_together
from data.corun.tables import AND, CORUNNER, CorunTables
from data.errors import InputError
from data.measure import machine, perf_stat
from data.measure.child import TimedOutError, TimeLimits
from data.measure.groups import why_no_groups
from data.measure.session import Screen, Session, repeat_while_disturbed, shuffle_blocks
from data.tables.files import write_json, write_tables
from data.tables.specs import text_dtypes, with_dtypes


@dataclass(frozen=True)
class PlannedCorun:
    """One measurement: the tasks, one per processor, and the number of the repetition from 1."""

    tasks: tuple[str, ...]
    repetition: int

    @property
    def journal_key(self) -> tuple[tuple[str, ...], int]:
        """The key of the journal entry."""
        return self.tasks, self.repetition

    @property
    def description(self) -> str:
        """The tasks, for display."""
        return AND.join(self.tasks)


@dataclass(frozen=True)
class MeasuredCorun:
    """A measured co-run or solo run.

    ``at`` is a UTC time, ``foreign`` the share of the machine that others used meanwhile.
    """

    planned: PlannedCorun
    at: str
    foreign: float
    runs: tuple[TaskRun, ...]

    @property
    def journal_key(self) -> tuple[tuple[str, ...], int]:
        """The key of the planned measurement."""
        return self.planned.journal_key


def plan_coruns(suite: CorunSuite) -> list[PlannedCorun]:
    """Return all measurements in their order: ``suite.solo`` blocks, each with one solo run of every task.

    Every combination of ``suite.together`` tasks, also of a task with itself, is in one block;
    ``suite.repeat`` of them are measured a second time, half the number of blocks away (after the last block
    comes the first). The combinations of a block, the order within it and the order of tasks are drawn with
    the suite's seed.
    """
    shuffle = random.Random(suite.seed)
    names = [task.name for task in suite.tasks]
    blocks = [[PlannedCorun((name,), number) for name in names] for number in range(1, suite.solo + 1)]
    combinations = list(combinations_with_replacement(names, suite.together))
    shuffle.shuffle(combinations)
    repeated = set(shuffle.sample(range(len(combinations)), min(suite.repeat, len(combinations))))
    for number, combination in enumerate(combinations):
        for repetition in (1, 2) if number in repeated else (1,):
            block = number + (repetition - 1) * (suite.solo // 2)
            tasks = tuple(shuffle.sample(combination, len(combination)))
            blocks[block % suite.solo].append(PlannedCorun(tasks, repetition))
    return shuffle_blocks(blocks, shuffle)


def build_tables(entries: Sequence[MeasuredCorun], host: dict[str, Any]) -> CorunTables:
    """Return the tables of measured runs; `host` is the row of ``hosts``, with its name in ``machine``.

    A solo run is a row of ``tasks`` (``solo_seconds``), each task of a co-run a row of ``pairs``
    (``corun_seconds``), each interval a row of ``samples``, all with a column per event; rows are sorted by
    the tasks of their measurement. Repetitions are numbered from 1 by task and co-runners, so that equal
    tasks of one co-run have different numbers.
    """
    runs: dict[str, list[dict[str, Any]]] = {"solo": [], "corun": []}
    samples: list[dict[str, Any]] = []
    measured: Counter[tuple[str, ...]] = Counter()
    for entry in sorted(entries, key=lambda entry: (sorted(entry.planned.tasks), entry.planned.repetition)):
        for run, others in zip(entry.runs, other_tasks(entry.planned.tasks), strict=True):
            measured[run.task, *others] += 1
            repetition = measured[run.task, *others]
            common = {"task": run.task, "machine": host["machine"], "repetition": repetition}
            phase, total = "corun" if others else "solo", dict(zip(run.events, run.counts, strict=True))
            corunners = {f"{CORUNNER}{place}": name for place, name in enumerate(others, 1)}
            runs[phase].append({**common, **corunners, f"{phase}_seconds": round(run.seconds, 5), **total})
            fields = {**common, "corunners": AND.join(others), "phase": phase}
            columns = ["t_seconds", *run.events]
            samples += [{**fields, **dict(zip(columns, counts, strict=True))} for counts in run.samples]
    return CorunTables.from_rows(runs["solo"], runs["corun"], samples, [host])


def collect(path: Path, directory: Path, screen: Screen) -> bool:
    """Measure or resume the suite at `path`, and write its tables to `directory`; return whether complete.

    False after Ctrl-C; the tables then have the runs so far. The result may be True without the runs that
    exceeded their time limit. InputError if the suite is invalid, `directory` holds a measurement of another
    suite, machine or kernel, a program is missing or fails, perf is missing or counts none of the events,
    there are too few processors, or all runs exceeded their limit. Notes and progress appear on `screen`.
    """
    suite = corun_suite.load_suite(path)
    cpus = available_processors(suite.together, path)
    means = available_counters(suite, path)
    session = Session.begin_or_resume(directory, suite, screen, "measurements", MeasuredCorun)
    lacking = ", ".join(means.lacking)
    for note in filter(None, (lacking and f"perf cannot count {lacking}", means.ungrouped)):
        screen.print_note(note)
    by_name = {task.name: task for task in suite.tasks}

    def measure_batch(batch: Sequence[PlannedCorun]) -> tuple[list[MeasuredCorun], float]:
        (planned,), at = batch, datetime.now(UTC).isoformat()
        # solo runs take turns on the processors
        first = planned.repetition if len(planned.tasks) == 1 else 0
        assigned_cpus = [cpus[(first + number) % len(cpus)] for number in range(len(planned.tasks))]
        tasks = [by_name[name] for name in planned.tasks]
        runs, foreign = run_together(tasks, assigned_cpus, means, session.limits)
        return [MeasuredCorun(planned, at, foreign, tuple(runs))], foreign

    with session:
        session.measure_missing(plan_coruns(suite), measure_batch)
    described, topology, name = machine.describe_machine(), machine.read_topology(), machine.machine_name()
    entries = session.journal.entries
    notes = (
        f"suite {suite.name}",
        f"perf counts {len(means.events)} of {len(suite.events)} events",
        lacking and f"it does not count {lacking}",
        "further events are counts of the kernel (/proc, control groups)",
        means.ungrouped,
        topology.description,
    )
    host = {
        "machine": name,
        "device": name,
        "engine": f"Linux {described['kernel']}",
        "note": "; ".join(filter(None, notes)),
        "processors": float(described["processors"]),
        "threads_per_core": float(topology.threads_per_core),
        "shared_cache_mib": topology.shared_cache_mib,
    }
    foreign = sorted(entry.foreign for entry in entries)
    settings: dict[str, Any] = {"topology": asdict(topology), "lacking": means.lacking, "foreign": foreign}
    return session.write_results(path, suite, build_tables(entries, host), measured=len(entries), **settings)


def available_processors(number: int, path: Path) -> list[int]:
    """Return the numbers of all processors that this process may run on, ascending.

    InputError, which names the suite's file `path`, if there are fewer than `number`.
    """
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < number:
        raise InputError(f"together={number}, and there are {len(cpus)} processors to run on", file=path)
    return cpus


def available_counters(suite: CorunSuite, path: Path) -> Counters:
    """Return the counters of a suite that work here; InputError if perf is missing or counts no event.

    In the result, ``lacking`` are the events that perf cannot count, ``ungrouped`` is the reason why control
    groups are unusable, or empty. `path` is the suite's file, for messages.
    """
    problems = perf_stat.uncountable_events(suite.events)
    events = [event for event in suite.events if event not in problems]
    if not events:
        event, problem = next(iter(problems.items()))
        raise InputError(f"perf counts none of them here ({event} {problem})", file=path, place="events")
    return Counters(events, suite.interval, list(problems), why_no_groups())


PLACEMENT_DTYPES = {
    "placement": "str",
    **dict.fromkeys(("repetition", "group"), "int64"),
    **text_dtypes("task", "corunners", "machine"),
    **dict.fromkeys(("corun_seconds", "foreign"), "float64"),
}
PLACEMENTS_FILE = "placements.parquet"
#: The name of a placement, and the tasks of each group that shares a machine.
Placement = tuple[str, Sequence[Sequence[str]]]


class PlannedGroup(NamedTuple):
    """One group of one placement: tasks that run at the same time; the numbers are from 1."""

    placement: str
    repetition: int
    group: int
    tasks: tuple[str, ...]


def plan_placements(placements: Sequence[Placement], repetitions: int, seed: int) -> list[PlannedGroup]:
    """Return all groups of all placements in random order, one repetition after the other.

    A placement is a name and its groups of tasks; the tasks of a group are shuffled, too. `seed` determines
    the result.
    """
    shuffle = random.Random(seed)
    blocks = [
        [
            PlannedGroup(name, repetition, number, tuple(shuffle.sample(list(group), len(group))))
            for name, groups in placements
            for number, group in enumerate(groups, 1)
        ]
        for repetition in range(1, repetitions + 1)
    ]
    return shuffle_blocks(blocks, shuffle)


def collect_placements(
    path: Path, placements: Sequence[Placement], directory: Path, repetitions: int, screen: Screen
) -> None:
    """Run `placements` of tasks of a suite; at the end, write ``placements.parquet`` and ``settings.json``.

    A placement is a name and its groups of tasks that run together; each runs `repetitions` times. The table
    has a row per task and run, with the columns of `PLACEMENT_DTYPES`; ``foreign`` is the share of the
    machine that others used. Disturbed runs are repeated as by `repeat_while_disturbed`. Groups with a task
    that exceeds its time limit are left out, with a note on `screen`. Ctrl-C raises KeyboardInterrupt, and
    nothing is written. InputError if there is no placement, the suite is invalid or does not contain a task,
    a program is missing or fails, perf is missing or counts no event, or the machine has too few processors.
    """
    suite = corun_suite.load_suite(path)
    by_name = {task.name: task for task in suite.tasks}
    groups = [group for _, placed_groups in placements for group in placed_groups]
    for task in chain.from_iterable(groups):
        if task not in by_name:
            raise InputError("is not in the suite", file=path, place=f'task "{task}"')
    largest_group = max(map(len, groups), default=0)
    if not largest_group:
        raise InputError("no placement to run")
    cpus, means = available_processors(largest_group, path), available_counters(suite, path)
    planned, limits = plan_placements(placements, repetitions, suite.seed), TimeLimits(suite.timeout)
    rows: list[tuple[object, ...]] = []
    for number, group in enumerate(planned):
        description = f"{group.placement}: {AND.join(group.tasks)}"
        progress = partial(screen.show_progress, number, len(planned))
        progress(description)
        tasks = [by_name[name] for name in group.tasks]
        run = partial(run_together, tasks, cpus[: len(tasks)], means, limits)
        try:
            runs, foreign = repeat_while_disturbed(run, suite.foreign, suite.attempts, progress)
        except TimedOutError as exc:
            screen.print_note(f"invalid: {description}: {exc}")
            continue
        rows += [
            (*group[:3], run.task, AND.join(others), machine.machine_name(), round(run.seconds, 5), foreign)
            for run, others in zip(runs, other_tasks(group.tasks), strict=True)
        ]
    screen.show_progress(len(planned), len(planned), "done")
    table = with_dtypes(pd.DataFrame(rows, columns=list(PLACEMENT_DTYPES)), PLACEMENT_DTYPES)
    measured = table.sort_values(["placement", "repetition", "group"], kind="stable", ignore_index=True)
    write_tables(directory, {Path(PLACEMENTS_FILE).stem: measured})
    settings = {"suite": suite.name, "seed": suite.seed, "repetitions": repetitions}
    write_json(directory / "settings.json", {"machine": machine.describe_machine(), **settings})
