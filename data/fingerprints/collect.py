"""Measuring the fingerprint of this machine: stress-ng's rates, one stressor at a time (seed 003, 5.1)."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np

from data.fingerprints import stress_ng
from data.fingerprints import suite as fingerprint_suite
from data.fingerprints.rates import Rates, Task
from data.fingerprints.suite import THREADS, FingerprintSuite
from data.fingerprints.tables import FingerprintTables
from data.measure import machine
from data.measure.screen import Screen
from data.tables.files import write_json


def plan(suite: FingerprintSuite, stressors: frozenset[str]) -> list[Task]:
    """List what to run of `stressors`, in random order within each repetition."""
    shuffle = random.Random(suite.seed)
    tasks: list[Task] = []
    for repetition in range(1, suite.repetitions + 1):
        block = [
            Task(stressor, THREADS[threads], repetition)
            for stressor in suite.stressors
            if stressor in stressors
            for threads in suite.threads
        ]
        shuffle.shuffle(block)
        tasks += block
    return tasks


def measure(
    suite: FingerprintSuite,
    rates: Rates,
    stressors: frozenset[str],
    progress: Callable[[int, int, str], None],
) -> None:
    """Measure what the journal lacks, keeping each rate at once.

    Parameters
    ----------
    progress : callable
        Called with rates measured, rates in all, and the stressor that runs.
    """
    tasks = plan(suite, stressors)
    measured = {entry.task for entry in rates.entries}
    for number, task in enumerate(tasks):
        progress(number, len(tasks), task.stressor)
        if task not in measured:
            rates.add(stress_ng.run(task, suite.seconds))
    progress(len(tasks), len(tasks), "done")


def tables(suite: FingerprintSuite, rates: Rates, described: dict[str, str]) -> FingerprintTables:
    """Make the tables of what is measured; a stressor that ran without a rate has a missing one.

    Parameters
    ----------
    described : dict
        As `data.measure.machine.settings` describes the machine.
    """
    name = f"{described['hostname']} {described['processor']} x{described['processors']}"
    machines = [
        {
            "machine": name,
            "stressor": entry.stressor,
            "threads": entry.threads,
            "repetition": entry.repetition,
            "bogo_ops_per_second": entry.rate,
        }
        for entry in rates.entries
    ]
    host = {
        "machine": name,
        "cpu": described["processor"],
        "cores": int(described["processors"]),
        "stress_ng": described["stress-ng"],
        "source": f"suite {suite.name}",
        "seconds": suite.seconds,
        "foreign": float(np.median([entry.foreign for entry in rates.entries])) if rates.entries else np.nan,
        **{key: described[key] for key in ("memory", "kernel", "distribution", "nice")},
    }
    return FingerprintTables.of_rows(machines, [], [host])


def collect(path: Path, directory: Path, screen: Screen) -> bool:
    """Measure the suite at `path` into `directory`, resuming what is there; write what is measured.

    Returns
    -------
    bool
        Whether everything was measured; False after Ctrl-C.

    Raises
    ------
    InputError
        If the suite is wrong or stress-ng is missing.
    """
    suite, stressors = fingerprint_suite.load(path), stress_ng.available()
    rates = Rates.open(directory / "journal.jsonl", suite)
    lacking = [stressor for stressor in suite.stressors if stressor not in stressors]
    if lacking:
        screen.say(f"leaving out what this stress-ng lacks: {', '.join(lacking)}")
    finished = True
    try:
        measure(suite, rates, stressors, screen.advance)
    except KeyboardInterrupt:
        finished = False
        screen.say(f"kept {len(rates.entries)} rates; start again to resume")
    for problem in problems(rates):
        screen.say(problem)
    described = machine.settings()
    tables(suite, rates, described).write(directory)
    write_json(
        directory / "settings.json",
        {
            "machine": described,
            "suite": suite.model_dump(mode="json"),
            "lacking": lacking,
            "without_rate": problems(rates),
            "foreign": sorted(entry.foreign for entry in rates.entries),
        },
    )
    return finished


def problems(rates: Rates) -> list[str]:
    """Say for each stressor that has no rate why, once."""
    first = {entry.stressor: entry.problem for entry in reversed(rates.entries) if entry.problem}
    return [f"no rate of {stressor}: it {why}" for stressor, why in sorted(first.items())]
