"""Measuring how much slower together: solo runs, and all combinations of tasks side by side (seed 002)."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

from data.corun import suite as corun_suite
from data.corun.measured import MeasuredCorun, PlannedCorun
from data.corun.run import Means, Run, together
from data.corun.suite import CorunSuite
from data.corun.tables import AND, CORUNNER, CorunTables
from data.errors import InputError
from data.measure import machine, perf_stat
from data.measure.child import Child
from data.measure.groups import Group, remove_abandoned_groups
from data.measure.journal import Journal
from data.measure.screen import Screen
from data.measure.session import Session
from data.tables.files import write_json


def plan(suite: CorunSuite) -> list[PlannedCorun]:
    """List what to run: in as many blocks as there are solo runs, each with one solo run of every task.

    The combinations are shared among the blocks at random, in random order and on random processors; what is
    measured again comes half a measurement away from the first time.
    """
    shuffle = random.Random(suite.seed)
    names = [task.name for task in suite.tasks]
    blocks = [
        [PlannedCorun((name,), repetition) for name in names] for repetition in range(1, suite.solo + 1)
    ]
    combinations = list(combinations_with_replacement(names, suite.together))
    shuffle.shuffle(combinations)
    again = set(shuffle.sample(range(len(combinations)), min(suite.repeat, len(combinations))))
    for number, combination in enumerate(combinations):
        for repetition in (1, 2) if number in again else (1,):
            block = number + (repetition - 1) * (suite.solo // 2)
            tasks = tuple(shuffle.sample(combination, len(combination)))
            blocks[block % suite.solo].append(PlannedCorun(tasks, repetition))
    for block_of in blocks:
        shuffle.shuffle(block_of)
    return [planned for block_of in blocks for planned in block_of]


def measure(
    session: Session[MeasuredCorun],
    suite: CorunSuite,
    run: Callable[[PlannedCorun], tuple[list[Run], float]],
) -> None:
    """Measure what the journal lacks, keeping each measurement at once.

    Parameters
    ----------
    session : Session
    suite : CorunSuite
    run : callable
        Measures one plan; returns its runs and the share of the machine that others used.
    """

    def made(now: Sequence[PlannedCorun]) -> tuple[list[MeasuredCorun], float]:
        at = datetime.now(UTC).isoformat()
        runs, foreign = run(now[0])
        return [MeasuredCorun(now[0], at, foreign, tuple(runs))], foreign

    session.measure(plan(suite), made)


def tables(entries: Sequence[MeasuredCorun], host: dict[str, Any]) -> CorunTables:
    """Make the tables of what is measured.

    Parameters
    ----------
    entries : sequence of Measured
    host : dict
        The row of the machine.
    """
    tasks: list[dict[str, Any]] = []
    pairs: list[dict[str, Any]] = []
    samples: list[dict[str, Any]] = []
    measured: Counter[tuple[str, ...]] = Counter()
    for entry in sorted(entries, key=lambda entry: (sorted(entry.planned.tasks), entry.planned.repetition)):
        for number, run in enumerate(entry.runs):
            beside = sorted(entry.planned.tasks[:number] + entry.planned.tasks[number + 1 :])
            measured[run.task, *beside] += 1
            common = {
                "task": run.task,
                "machine": host["machine"],
                "repetition": measured[run.task, *beside],
            }
            seconds, counts = round(run.seconds, 5), dict(zip(run.events, run.counts, strict=True))
            if beside:
                corunners = {f"{CORUNNER}{place}": name for place, name in enumerate(beside, 1)}
                pairs.append({**common, **corunners, "corun_seconds": seconds, **counts})
            else:
                tasks.append({**common, "solo_seconds": seconds, **counts})
            about = {**common, "corunners": AND.join(beside), "phase": "corun" if beside else "solo"}
            samples += [
                {**about, "t_seconds": end, **dict(zip(run.events, within, strict=True))}
                for end, *within in run.samples
            ]
    return CorunTables.of_rows(tasks, pairs, samples, [host])


def collect(path: Path, directory: Path, screen: Screen) -> bool:
    """Measure the suite at `path` into `directory`, resuming what is there; write what is measured.

    Returns
    -------
    bool
        Whether everything was measured; False after Ctrl-C.

    Raises
    ------
    InputError
        If the suite is wrong, a program is missing or fails, or there are too few processors.
    """
    suite = corun_suite.load(path)
    cpus = processors(suite.together, path)
    here = counting(suite, path)
    described = machine.settings()
    begun = suite.model_dump(mode="json") | {"machine": described["processor"], "kernel": described["kernel"]}
    journal = Journal.open(directory / "journal.jsonl", begun, MeasuredCorun)
    if here.lacking:
        screen.say(f"perf cannot count {', '.join(here.lacking)}")
    if here.groups:
        screen.say(here.groups)
    by_name = {task.name: task for task in suite.tasks}

    def run(planned: PlannedCorun) -> tuple[list[Run], float]:
        # solo runs take turns on the processors
        first = planned.repetition if len(planned.tasks) == 1 else 0
        places = [cpus[(first + number) % len(cpus)] for number in range(len(planned.tasks))]
        return together([by_name[name] for name in planned.tasks], places, here.means)

    session = Session(journal, screen, "measurements", suite.foreign, suite.attempts)
    with session:
        measure(session, suite, run)
    host = _host(suite, described, here)
    tables(journal.entries, host).write(directory)
    write_json(
        directory / "settings.json",
        {
            "machine": described,
            "topology": asdict(machine.topology()),
            "suite": suite.model_dump(mode="json"),
            "lacking": here.lacking,
            "foreign": sorted(entry.foreign for entry in journal.entries),
        },
    )
    return session.finished


@dataclass(frozen=True)
class Here:
    """What there is to count with on this machine.

    Attributes
    ----------
    means : Means
    why : dict of str to str
        By event, why perf cannot count it; empty where it can.
    groups : str
        Why programs cannot be put into control groups; empty if they can.
    """

    means: Means
    why: dict[str, str]
    groups: str

    @property
    def lacking(self) -> list[str]:
        """The events that perf cannot count."""
        return [event for event, problem in self.why.items() if problem]


def processors(number: int, path: Path) -> list[int]:
    """Return the processors to run on.

    Raises
    ------
    InputError
        If there are fewer than `number`, which the file at `path` asks for.
    """
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < number:
        raise InputError(f"together={number}, and there are {len(cpus)} processors to run on", file=path)
    return cpus


def counting(suite: CorunSuite, path: Path) -> Here:
    """Try what can be counted here.

    Raises
    ------
    InputError
        If perf is missing or counts none of the suite's events.
    """
    why = perf_stat.countable(suite.events)
    lacking = [event for event, problem in why.items() if problem]
    if len(lacking) == len(suite.events):
        raise InputError(
            f"perf counts none of them here ({lacking[0]} {why[lacking[0]]})", file=path, place="events"
        )
    remove_abandoned_groups()
    groups = _groups()
    events = [event for event in suite.events if not why[event]]
    return Here(Means(events, suite.interval, not groups), why, groups)


def _groups() -> str:
    """Say why programs cannot be put into control groups; empty if they can."""
    try:
        group = Group("trial")
        program = Child(["sleep", "9"], "control groups")
        try:
            group.add(program.pid)
        finally:
            program.end()
            group.close()
    except OSError as exc:
        return f"no control groups to count in ({exc})"
    return ""


def _host(suite: CorunSuite, described: dict[str, str], here: Here) -> dict[str, Any]:
    lacking = here.lacking
    topology = machine.topology()
    notes = [
        f"suite {suite.name}",
        f"perf counts {len(here.why) - len(lacking)} of {len(here.why)} events here",
        *([f"not {', '.join(lacking)}"] if lacking else []),
        "the others are counts of the kernel (/proc, control groups)",
        *([here.groups] if here.groups else []),
        topology.told,
    ]
    return {
        "machine": machine.name(),
        "device": machine.name(),
        "engine": f"Linux {described['kernel']}",
        "note": "; ".join(notes),
        "processors": float(described["processors"]),
        "threads_per_core": float(topology.threads_per_core),
        "shared_cache_mib": topology.shared_cache_mib,
    }
