"""What is measured when: passes over unchanged builds, between them references, then changed builds."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from data.comparisons.suite import Suite, Variant

#: How often each of ten changed builds is run.
RUNS = (1, 1, 2, 2, 2, 3, 3, 3, 5, 5)
#: A run takes this many times the usual number of samples.
SHARES = (0.5, 0.75, 1.0, 1.0, 1.5)


@dataclass(frozen=True)
class PlannedBuildRun:
    """One run of a build, or one reference, at a number of threads."""

    variant: Variant
    purpose: str
    number: int
    threads: int

    @property
    def key(self) -> tuple[str, str, str, int, int]:
        """What its journal entry will be known by."""
        return self.variant.operation.name, self.variant.change, self.purpose, self.number, self.threads

    @property
    def told(self) -> str:
        """The build, for people."""
        return f"{self.variant.operation.name} {self.variant.change or 'unchanged'} ({self.purpose})"

    def samples(self, suite: Suite, usual: int) -> int:
        """Return how many samples it takes."""
        few, many = suite.samples
        drawn = random.Random(f"{suite.seed} {self.key[:-1]}")
        return min(many, max(few, round(usual * drawn.choice(SHARES))))


def plan(suite: Suite) -> list[PlannedBuildRun]:
    """List everything in the order of measurement.

    References lie between the first passes, runs of changed builds between the later ones, so that history
    covers the whole time, and every changed run follows a recent unchanged one.
    """
    shuffle = random.Random(suite.seed)
    unchanged = [operation.unchanged for operation in suite.operations]
    changed = [variant for operation in suite.operations for variant in suite.changed(operation)]
    references = [(variant, "reference", 0) for variant in changed]
    runs = [
        (variant, "run", number)
        for variant in changed
        for number in range(shuffle.choice(RUNS))
    ]  # fmt: skip
    shuffle.shuffle(references)
    shuffle.shuffle(runs)
    before = min(suite.history, suite.passes)
    parts = [*_dealt(references, before), *_dealt(runs, suite.passes - before)]
    found: list[PlannedBuildRun] = []
    for number, part in enumerate(parts):
        shuffle.shuffle(unchanged)
        for planned in [*((variant, "run", number) for variant in unchanged), *part]:
            found += _at_all_threads(*planned)
    return found


def _dealt(what: Sequence[tuple[Variant, str, int]], parts: int) -> list[list[tuple[Variant, str, int]]]:
    return [list(what[part::parts]) for part in range(parts)]


def _at_all_threads(variant: Variant, purpose: str, number: int) -> Iterator[PlannedBuildRun]:
    for threads in variant.operation.threads:
        yield PlannedBuildRun(variant, purpose, number, threads)
