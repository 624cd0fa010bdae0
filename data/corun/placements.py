"""Really running placements of tasks, to see what a predicted one is worth."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from data.corun import run as corun_suite
from data.corun.collect import counting, processors
from data.corun.run import CorunSuite, TaskRun, beside, together
from data.corun.tables import AND
from data.errors import InputError
from data.measure import machine
from data.measure.child import TimedOutError, TimeLimits, end_in_good_order
from data.measure.session import Screen, quietest, shuffled
from data.tables.files import replacing, write_json
from data.tables.specs import typed

DTYPES = {
    "placement": "str",
    "repetition": "int64",
    "group": "int64",
    "task": "str",
    "corunners": "str",
    "machine": "str",
    "corun_seconds": "float64",
    "foreign": "float64",
}
FILE = "placements.parquet"
#: A placement's name, and the tasks on each machine.
Placement = tuple[str, Sequence[Sequence[str]]]


@dataclass(frozen=True)
class PlannedGroup:
    """One group of one placement, run side by side."""

    placement: str
    repetition: int
    group: int
    tasks: tuple[str, ...]


def plan(placements: Sequence[Placement], repetitions: int, seed: int) -> list[PlannedGroup]:
    """List what to run: all groups of all placements in random order, once through for each repetition.

    So no placement is measured at a time of its own, when the machine may have been slower.
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
    return shuffled(blocks, shuffle)


def measure(
    planned: Sequence[PlannedGroup],
    suite: CorunSuite,
    run: Callable[[Sequence[str]], tuple[list[TaskRun], float]],
    screen: Screen,
) -> pd.DataFrame:
    """Run every group; when others use the machine, again, as the suite says."""
    rows: list[tuple[object, ...]] = []
    for number, one in enumerate(planned):
        waited = partial(screen.advance, number, len(planned))
        waited(f"{one.placement}: {AND.join(one.tasks)}")
        try:
            runs, foreign = quietest(partial(run, one.tasks), *suite.patience, waited)
        except TimedOutError as exc:
            screen.say(f"invalid: {one.placement}: {AND.join(one.tasks)}: {exc}")
            continue
        group = (one.placement, one.repetition, one.group)
        rows += [
            (*group, run.task, AND.join(others), machine.name(), round(run.seconds, 5), foreign)
            for run, others in zip(runs, beside(one.tasks), strict=True)
        ]
    screen.advance(len(planned), len(planned), "done")
    order = ["placement", "repetition", "group"]
    found = typed(pd.DataFrame(rows, columns=list(DTYPES)), DTYPES)
    return found.sort_values(order, kind="stable", ignore_index=True)


def collect(
    path: Path, placements: Sequence[Placement], directory: Path, repetitions: int, screen: Screen
) -> None:
    """Run `placements` of the tasks of a suite; write ``placements.parquet`` and ``settings.json``."""
    suite = corun_suite.load(path)
    by_name = {task.name: task for task in suite.tasks}
    every = [group for _, groups in placements for group in groups]
    for task in (task for group in every for task in group):
        if task not in by_name:
            raise InputError("is not in the suite", file=path, place=f'task "{task}"')
    most = max(map(len, every), default=0)
    if not most:
        raise InputError("there is no placement to run")
    cpus = processors(most, path)
    means, limits = counting(suite, path), TimeLimits(suite.timeout)

    def run(tasks: Sequence[str]) -> tuple[list[TaskRun], float]:
        return together([by_name[name] for name in tasks], cpus[: len(tasks)], means, limits)

    measured = measure(plan(placements, repetitions, suite.seed), suite, run, screen)
    with replacing(directory / FILE) as target:
        measured.to_parquet(target, index=False)
    write_json(
        directory / "settings.json",
        {"machine": machine.settings(), "suite": suite.name, "seed": suite.seed, "repetitions": repetitions},
    )


def main(suite: Path, placements: Sequence[Placement], directory: Path, repetitions: int) -> int:
    """Measure and return the exit code: 0 when complete, 130 after Ctrl-C or a request to end."""
    end_in_good_order()
    try:
        with Screen() as screen:
            collect(suite, placements, directory, repetitions, screen)
    except KeyboardInterrupt:
        return 130
    return 0
