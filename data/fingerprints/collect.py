"""Measuring the fingerprint of this machine: stress-ng's rates, one stressor at a time (seed 003, 5.1)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from data.fingerprints import constraints as constrained
from data.fingerprints import stress_ng
from data.fingerprints import suite as fingerprint_suite
from data.fingerprints.stress_ng import PlannedStressor, Rate
from data.fingerprints.suite import THREADS, FingerprintSuite
from data.fingerprints.tables import FingerprintTables
from data.measure import machine
from data.measure.session import Screen, Session, shuffled


def plan(suite: FingerprintSuite, stressors: frozenset[str]) -> list[PlannedStressor]:
    """List what to run of `stressors`, in random order within each repetition."""
    here = [stressor for stressor in suite.stressors if stressor in stressors]
    blocks = (
        [
            PlannedStressor(stressor, THREADS[threads], repetition)
            for stressor in here
            for threads in suite.threads
        ]
        for repetition in range(1, suite.repetitions + 1)
    )
    return shuffled(blocks, random.Random(suite.seed))


def measure(session: Session[Rate], suite: FingerprintSuite, stressors: frozenset[str]) -> None:
    """Measure what the journal lacks, keeping each rate at once."""

    def made(tasks: Sequence[PlannedStressor]) -> tuple[list[Rate], float]:
        rates = [stress_ng.run(task, suite) for task in tasks]
        return rates, rates[-1].foreign

    session.measure(plan(suite, stressors), made)


def tables(suite: FingerprintSuite, rates: Sequence[Rate], described: dict[str, str]) -> FingerprintTables:
    """Make the tables of what is measured; a stressor that ran without a rate has a missing one.

    Parameters
    ----------
    described : dict
        As `data.measure.machine.settings` describes the machine.
    """
    name = f"{described['hostname']} {described['processor']} x{described['processors']}"
    machines = [
        {**asdict(PlannedStressor(*entry.key)), "machine": name, "bogo_ops_per_second": entry.rate}
        for entry in rates
    ]
    host = {
        "machine": name,
        "cpu": described["processor"],
        "cores": int(described["processors"]),
        "stress_ng": described["stress-ng"],
        "source": f"suite {suite.name}",
        "seconds": suite.seconds,
        "foreign": float(np.median([entry.foreign for entry in rates])) if rates else np.nan,
        **{key: described[key] for key in ("memory", "kernel", "distribution", "nice")},
    }
    return FingerprintTables.of_rows(machines, [], [host])


def collect(path: Path, directory: Path, screen: Screen) -> bool:
    """Measure a suite, as `data.collect.collect` says.

    Raises
    ------
    InputError
        If the suite is wrong or stress-ng is missing.
    """
    suite, stressors = fingerprint_suite.load(path), stress_ng.available()
    lacking = [stressor for stressor in suite.stressors if stressor not in stressors]
    if lacking:
        screen.say(f"leaving out what this stress-ng lacks: {', '.join(lacking)}")
    if suite.constraints:
        return constrained.collect(suite, stressors, directory, screen)
    session = Session.begin(directory, suite, screen, "rates", Rate)
    with session:
        measure(session, suite, stressors)
    rates = session.journal.entries
    without_rate = problems(rates)
    for problem in without_rate:
        screen.say(problem)
    return session.end(
        suite,
        tables(suite, rates, machine.settings()),
        lacking=lacking,
        without_rate=without_rate,
        foreign=sorted(entry.foreign for entry in rates),
    )


def problems(rates: Sequence[Rate]) -> list[str]:
    """Say for each stressor that has no rate why, once."""
    first = {entry.stressor: entry.problem for entry in reversed(rates) if entry.problem}
    return [f"no rate of {stressor}: it {why}" for stressor, why in sorted(first.items())]
