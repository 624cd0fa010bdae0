"""Measuring comparisons: real programs, real and injected changes, references for what really changed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from data.comparisons import suite as suites
from data.comparisons.builds import BuildRun, Slowdown, Trial, Workshop
from data.comparisons.suite import METRICS, PlannedBuildRun, Suite, SuiteOperation, Variant, plan
from data.comparisons.truth import tables
from data.errors import InputError
from data.measure.child import TimedOutError
from data.measure.machine import Disturbance, Pinned
from data.measure.session import Journal, Screen, Session

#: Pairs of a reference between two looks at whether it is sure.
MORE_PAIRS = 4


@dataclass(frozen=True)
class Laboratory:
    """Where builds are measured, and what is known about them."""

    suite: Suite
    workshop: Workshop
    journal: Journal[BuildRun]
    screen: Screen

    def trial(self, operation: SuiteOperation) -> Trial:
        """Return what trying an operation told, and try it if nobody has."""
        notes: list[Trial] = self.journal.notes
        for note in notes:
            if (note.operation, note.change) == (operation.name, ""):
                return note
        return self._noted(self.workshop.trial(operation))

    def lacks(self, variant: Variant) -> bool:
        """Tell whether this machine cannot measure a build."""
        mine = variant.operation.name
        return any(
            note.operation == mine and note.change in {"", variant.change} and note.problem
            for note in self.journal.notes
        )

    def measure(self, tasks: Sequence[PlannedBuildRun]) -> tuple[list[BuildRun], float]:
        """Measure `tasks`; return their entries and the largest share of the processor that others used."""
        entries = [entry for task in tasks for entry in self._measured(task)]
        return entries, max((entry.foreign for entry in entries), default=0.0)

    def _measured(self, task: PlannedBuildRun) -> list[BuildRun]:
        trial = self.trial(task.variant.operation)
        if self.lacks(task.variant):
            return []
        at, watch = datetime.now(UTC).isoformat(), Disturbance(processor=self.suite.processor)
        unchanged: list[float] = []
        try:
            if task.purpose == "reference":
                unchanged, values = self._pairs(task, trial.work)
            else:
                samples = range(task.samples(self.suite, trial.samples))
                values = [self.workshop.sample(task.variant, trial.work, task.threads) for _ in samples]
        except TimedOutError:
            raise
        except InputError as exc:
            self._noted(Trial(task.variant.operation.name, task.variant.change, 0, 0, 0.0, str(exc)))
            return []
        return [BuildRun(*task.key, at, watch.share(), tuple(values), tuple(unchanged))]

    def _pairs(self, task: PlannedBuildRun, work: int) -> tuple[list[float], list[float]]:
        """Take pairs of samples in turn until their ratio is sure."""
        few, many = self.suite.pairs
        better = METRICS[task.variant.operation.metric][1]
        builds = [task.variant.operation.unchanged, task.variant]
        values: tuple[list[float], list[float]] = ([], [])
        shuffle = random.Random(str(task.key))
        while len(values[0]) < few or (len(values[0]) < many and Slowdown.of(*values, better).status is None):
            for _ in range(few if not values[0] else MORE_PAIRS):
                for side in shuffle.sample((0, 1), 2):
                    values[side].append(self.workshop.sample(builds[side], work, task.threads))
        return values

    def _noted(self, trial: Trial) -> Trial:
        self.journal.note(trial)
        if trial.problem:
            what = f"build {trial.change!r} of " if trial.change else ""
            self.screen.say(f'leaving out {what}operation "{trial.operation}": {trial.problem}')
        return trial


def collect(path: Path, directory: Path, screen: Screen) -> bool:
    """Measure a suite, as `data.collect.collect` says; what is complete becomes tables."""
    suite = suites.load(path)
    session = Session.begin(directory, suite, screen, "runs", BuildRun, note=Trial)
    laboratory = Laboratory(suite, Workshop(suite, directory, session.limits), session.journal, screen)
    with Pinned(suite.processor, suite.nice) as pinned, session:
        for what, told in pinned.settings.items():
            screen.say(f"{what}: {told}")
        session.measure(
            [task for task in plan(suite) if not laboratory.lacks(task.variant)], laboratory.measure
        )
    measured = tables(suite, session.journal)
    measured.write_reference(directory / "reference.parquet")
    left_out = sorted({note.problem for note in session.journal.notes} - {""})
    return session.end(suite, measured.tables, pinned=pinned.settings, left_out=left_out)
