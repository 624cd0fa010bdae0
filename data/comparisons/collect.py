"""Measuring comparisons: real programs, injected changes, repetitions of all versions in random order."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from data.comparisons import suite as suites
from data.comparisons.repetitions import Repetition, Work
from data.comparisons.suite import Suite, SuiteVersion
from data.comparisons.truth import tables
from data.measure.disturbance import Disturbance
from data.measure.interventions import Competition, Quota
from data.measure.programs import run
from data.measure.screen import Screen
from data.measure.session import Session, shuffled
from data.measure.suite import Operation

#: Units of work are a multiple of this: 1 % of the work is a whole number of units for each of 4 threads.
UNITS = 400
#: Repetitions between two looks at what others use; short enough to lose little, long enough for 10 ms ticks.
BATCH = 10


@dataclass(frozen=True)
class PlannedRepetition:
    """One repetition to measure."""

    operation: Operation
    version: SuiteVersion
    threads: int
    purpose: str
    repetition: int

    @property
    def key(self) -> tuple[str, str, int, str, int]:
        """What its journal entry will be known by."""
        return self.operation.name, self.version.name, self.threads, self.purpose, self.repetition

    @property
    def told(self) -> str:
        """The operation, for people."""
        return self.operation.name


def plan(suite: Suite, available: frozenset[str]) -> list[PlannedRepetition]:
    """List all repetitions: operations in random order, and within one all its versions in random order.

    Parameters
    ----------
    suite : Suite
    available : frozenset of str
        The kinds of change that this machine can inject.
    """
    shuffle = random.Random(suite.seed)
    operations = shuffled([suite.operations], shuffle)
    return shuffled((_block(suite, operation, available) for operation in operations), shuffle)


def _block(suite: Suite, operation: Operation, available: frozenset[str]) -> Iterator[PlannedRepetition]:
    versions = [version for version in suite.versions_of(operation) if version.change in available]
    referenced = [version for version in versions if not version.exact(operation)]
    for threads in suite.threads:
        for version in versions:
            for repetition in range(suite.repetitions):
                yield PlannedRepetition(operation, version, threads, "sample", repetition)
        for version in [versions[0], *referenced] if referenced else []:
            for repetition in range(suite.reference_repetitions):
                yield PlannedRepetition(operation, version, threads, "reference", repetition)


class Laboratory:
    """A machine with its means of injecting changes.

    ``available`` names the kinds of change it can inject; ``missing`` says why it cannot inject the others.
    """

    def __init__(self, suite: Suite) -> None:
        self.missing: dict[str, str] = {}
        self._quota: Quota | None = None
        try:
            self._quota = Quota()
        except OSError as exc:
            self.missing["quota"] = f"no control group for processor time ({exc})"
        shares = {version.size for version in suite.versions if version.change == "competition"}
        self._competition = Competition(sorted(shares))
        self._processors = len(os.sched_getaffinity(0))
        self.available = frozenset({"none", "work", "quota", "competition"} - set(self.missing))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._competition.close()
        if self._quota is not None:
            self._quota.close()

    def measure(self, task: PlannedRepetition, nominal: int) -> Repetition:
        """Run one repetition with its change injected."""
        before: tuple[str, ...] = ()
        with ExitStack() as stack:
            if task.version.change == "quota" and self._quota is not None:
                self._quota.limit((1 - task.version.size) * min(task.threads, self._processors))
                before = tuple(self._quota.command())
            if task.version.change == "competition":
                stack.enter_context(self._competition.running(task.version.size))
            at = datetime.now(UTC).isoformat()
            clocks = run(task.operation, round(nominal * task.version.work), task.threads, before)
        return Repetition(
            *task.key,
            nominal=nominal,
            at=at,
            seconds=clocks.seconds,
            real_seconds=clocks.real_seconds,
            user_seconds=clocks.user_seconds,
            kernel_seconds=clocks.kernel_seconds,
            out_of_cpu_seconds=clocks.out_of_cpu_seconds(task.threads),
        )

    def batch(
        self, tasks: Sequence[PlannedRepetition], works: dict[str, int]
    ) -> tuple[list[Repetition], float]:
        """Measure `tasks`; return their entries and the share of the machine that others used meanwhile."""
        watch = Disturbance(self._competition.seconds)
        entries = [self.measure(task, works[task.operation.name]) for task in tasks]
        return entries, watch.share(self._competition.seconds)


def calibrate(operation: Operation, seconds: float) -> int:
    """Find how many units of work take about `seconds` at one thread, a multiple of `UNITS`."""
    work = UNITS
    took = run(operation, work, 1).seconds
    while took < seconds / 2 and work < 10**9:
        work = round(work * min(20.0, max(2.0, seconds / max(took, 1e-4))))
        took = run(operation, work, 1).seconds
    took = min(took, *(run(operation, work, 1).seconds for _ in range(4)))
    return max(1, round(work * seconds / took / UNITS)) * UNITS


def measure(session: Session[Repetition], suite: Suite, laboratory: Laboratory) -> None:
    """Measure what the journal lacks, keeping every undisturbed batch at once."""
    journal = session.journal
    works = {note.operation: note.work for note in journal.notes}

    def batch(tasks: Sequence[PlannedRepetition]) -> tuple[list[Repetition], float]:
        for operation in {task.operation.name: task.operation for task in tasks}.values():
            if operation.name not in works:
                works[operation.name] = calibrate(operation, suite.seconds)
                journal.note(Work(operation.name, works[operation.name]))
        return laboratory.batch(tasks, works)

    session.measure(plan(suite, laboratory.available), batch, BATCH)


def collect(path: Path, directory: Path, screen: Screen) -> bool:
    """Measure a suite, as `data.collect.collect` says; what is complete becomes tables."""
    suite = suites.load(path)
    session = Session.begin(directory, suite, screen, "repetitions", Repetition, note=Work)
    with Laboratory(suite) as laboratory:
        for change, why in laboratory.missing.items():
            screen.say(f"leaving out versions by {change}: {why}")
        with session:
            measure(session, suite, laboratory)
        available = laboratory.available
    measured = tables(suite, session.journal.entries, available)
    measured.write_reference(directory / "reference.parquet")
    return session.end(suite, measured.tables)
