"""What to measure: the typed form of a SUITE.yaml for comparisons."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from data.errors import InputError
from data.measure import session as measured
from data.measure.session import Count, typed, unique
from data.tables.documents import Section
from data.tables.files import yaml_content

Settings = dict[str, str | int | float]
#: By metric its unit, and which direction is better.
METRICS = {
    "seconds": ("s", "lower"),
    "real": ("s", "lower"),
    "cpu": ("s", "lower"),
    "rate": ("1/s", "higher"),
    "peak": ("KiB", "lower"),
}


@dataclass(frozen=True)
class Variant:
    """A build of an operation: the unchanged one (``change`` is empty) or a changed one.

    ``settings`` fill the operation's commands in; ``extra`` is the share of injected work.
    """

    operation: SuiteOperation
    change: str
    settings: Settings
    extra: float = 0.0


class SuiteOperation(Section):
    """One thing to measure: a program that does ``{work}`` units of work, over numbers of ``threads``.

    ``command``, and ``build`` if there is one (it makes the file ``{out}``, once), hold names in braces,
    which ``settings`` fill in; settings in capitals are environment variables. A change in ``changes``
    replaces some of them; ``also`` names changes of the suite. ``metric`` says what counts: the ``seconds``
    that the program prints, the ``real`` or ``cpu`` time of the whole process, the ``rate`` of units by the
    printed seconds, or the ``peak`` memory that it prints after the seconds. ``work`` is found by trying,
    unless it is given.
    """

    name: str
    group: str
    command: str
    build: str = ""
    metric: Literal["seconds", "real", "cpu", "rate", "peak"] = "seconds"
    threads: tuple[Count, ...] = (1,)
    work: Count | None = None
    settings: Settings = Field(default_factory=dict)
    changes: dict[str, Settings] = Field(default_factory=dict)
    also: tuple[str, ...] = ()

    @property
    def unchanged(self) -> Variant:
        """The build that all others are compared with."""
        return Variant(self, "", self.settings)


class Suite(measured.Suite):
    """A measurement of comparisons.

    All operations are measured unchanged in ``passes``; from the one numbered ``history`` on changed builds
    are, too: of each operation its own changes, then injected work, drawn from ``injected``, until there
    are ``changes``; ``same`` comparisons of an operation are of the unchanged build. A sample should take
    ``seconds``, twice that where it scatters; a run takes as many as its noise needs within ``samples``.
    References take ``pairs`` of samples: the first number, and on to the second while they are not sure.
    Programs run on ``processor`` at the niceness ``nice``; a run is measured again when others use more
    than ``foreign`` of it, ``attempts`` times at most.
    """

    kind: Literal["comparisons"]
    processor: Annotated[int, Field(ge=0)] | None = None
    nice: Annotated[int, Field(ge=-20, le=19)] | None = None
    foreign: Annotated[float, Field(gt=0, le=1)] = 1.0
    attempts: Count = 1
    passes: Count
    history: Annotated[int, Field(ge=0)]
    same: Count = 3
    changes: Count
    injected: tuple[Annotated[float, Field(gt=-0.9, lt=10)], ...]
    seconds: Annotated[float, Field(gt=0)]
    samples: tuple[Annotated[int, Field(ge=2)], Annotated[int, Field(ge=2)]] = (3, 15)
    pairs: tuple[Annotated[int, Field(ge=8)], Annotated[int, Field(ge=8)]] = (8, 26)
    shared: dict[str, Settings] = Field(default_factory=dict)
    operations: tuple[SuiteOperation, ...]

    @property
    def patience(self) -> tuple[float, float]:
        """What ``foreign`` and ``attempts`` say."""
        return self.foreign, self.attempts

    def changed(self, operation: SuiteOperation) -> tuple[Variant, ...]:
        """Return the changed builds of an operation."""
        own = operation.changes | {name: self.shared[name] for name in operation.also}
        builds = [Variant(operation, name, operation.settings | given) for name, given in own.items()]
        drawn = random.Random(f"{self.seed} {operation.name}")
        lacking = min(max(0, self.changes - len(builds)), len(self.injected))
        builds += [
            Variant(operation, f"work{extra:+.0%}", operation.settings, extra)
            for extra in sorted(drawn.sample(self.injected, lacking))
        ]
        return tuple(builds)


def load(path: Path) -> Suite:
    """Read and validate a suite; InputError names file, key and value."""
    suite = typed(Suite, yaml_content(path), path)
    unique([operation.name for operation in suite.operations], "operation", path)
    for operation in suite.operations:
        for name in operation.also:
            if name not in suite.shared:
                place = f'operation "{operation.name}"'
                raise InputError(
                    f"also={name!r}: expected {' or '.join(suite.shared)}", file=path, place=place
                )
    return suite


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
    """Return all runs in the order of measurement.

    References lie between the first passes, runs of changed builds between the later ones, so that history
    covers the whole time and every changed run follows a recent unchanged one.
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
    after = suite.passes - before
    parts = [references[part::before] for part in range(before)]
    parts += [runs[part::after] for part in range(after)]
    found: list[PlannedBuildRun] = []
    for number, part in enumerate(parts):
        shuffle.shuffle(unchanged)
        for planned in [*((variant, "run", number) for variant in unchanged), *part]:
            found += [PlannedBuildRun(*planned, threads) for threads in planned[0].operation.threads]
    return found
