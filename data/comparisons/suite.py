"""Typed contents of a SUITE.yaml for comparisons, and the plan of its measurements."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from data.errors import InputError
from data.measure import session as measured
from data.measure.session import Count, fill_command, read_suite, require_unique
from data.tables.documents import Section

Settings = dict[str, str | int | float]
#: Unit and better direction by metric.
METRICS = {
    **dict.fromkeys(("seconds", "real", "cpu"), ("s", "lower")),
    "rate": ("1/s", "higher"),
    "peak": ("KiB", "lower"),
}


@dataclass(frozen=True)
class Variant:
    """A build of an operation: the unchanged one (``change`` is empty) or a changed one.

    ``settings`` are the values for the operation's commands; ``extra`` is the share of injected work.
    """

    operation: SuiteOperation
    change: str
    settings: Settings
    extra: float = 0.0


class SuiteOperation(Section):
    """An operation to measure: a program that does ``{work}`` units of work, with numbers of ``threads``.

    ``command`` and the optional ``build``, which creates the file ``{out}`` once, contain names in braces,
    which are replaced by ``settings``; settings in capitals are environment variables. Each of ``changes``
    replaces some settings; ``also`` names changes of the whole suite. ``metric`` is the measured value: the
    ``seconds`` that the program prints, the ``real`` or ``cpu`` time of the whole process, the ``rate``
    (units of work per printed second), or the ``peak`` memory that the program prints after the seconds. By
    default, ``work`` is chosen by a trial.
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
    def unchanged_build(self) -> Variant:
        """The unchanged build, which all others are compared with."""
        return Variant(self, "", self.settings)


class Suite(measured.Suite):
    """Parameters of a measurement of comparisons.

    All operations are measured unchanged in ``passes``; after the first ``history`` passes also changed
    builds: for each operation its defined changes, then injected work drawn from ``injected``, until there
    are ``changes`` of them. ``same`` comparisons per operation are of the unchanged build. A sample should
    take ``seconds``, twice that if it is noisy; the number of samples of a run depends on its noise, within
    ``samples``. Both builds are sampled in turn for the reference slowdown: the first number of ``pairs``,
    and up to the second while the label is not clear. Programs run on ``processor`` with the niceness
    ``nice``.
    """

    kind: Literal["comparisons"]
    processor: Annotated[int, Field(ge=0)] | None = None
    nice: Annotated[int, Field(ge=-20, le=19)] | None = None
    passes: Count
    history: Annotated[int, Field(ge=1)]
    same: Count = 3
    changes: Count
    injected: tuple[Annotated[float, Field(gt=-0.9, lt=10)], ...]
    seconds: Annotated[float, Field(gt=0)]
    samples: tuple[Annotated[int, Field(ge=2)], Annotated[int, Field(ge=2)]] = (3, 15)
    pairs: tuple[Annotated[int, Field(ge=8)], Annotated[int, Field(ge=8)]] = (8, 26)
    shared: dict[str, Settings] = Field(default_factory=dict)
    operations: tuple[SuiteOperation, ...]

    @model_validator(mode="after")
    def _leave_passes_for_changes(self) -> Self:
        if self.passes <= self.history:
            problem = f"passes={self.passes} must be above history={self.history}: only later passes"
            raise ValueError(f"{problem} measure changed builds")
        return self

    def changed_builds(self, operation: SuiteOperation) -> tuple[Variant, ...]:
        """Return the changed builds of an operation: its changes, then injected work drawn with the seed."""
        changes = operation.changes | {name: self.shared[name] for name in operation.also}
        usual = operation.settings
        builds = [Variant(operation, name, usual | settings) for name, settings in changes.items()]
        generator = random.Random(f"{self.seed} {operation.name}")
        n_injected = min(max(0, self.changes - len(builds)), len(self.injected))
        injected = sorted(generator.sample(self.injected, n_injected))
        builds += [Variant(operation, f"work{extra:+.0%}", usual, extra) for extra in injected]
        return tuple(builds)


def load_suite(path: Path) -> Suite:
    """Return the suite of comparisons in a YAML file, validated.

    InputError, with file, key and value, if the file cannot be read, a value is invalid, two operations share
    a name, an operation's ``also`` names a change that is not in ``shared``, or a command has a name in
    braces that is no setting.
    """
    suite = read_suite(Suite, path)
    require_unique([operation.name for operation in suite.operations], "operation", path)
    for operation in suite.operations:
        for name in operation.also:
            if name not in suite.shared:
                problem = f"also={name!r}: expected {' or '.join(suite.shared)}"
                raise InputError(problem, file=path, place=f'operation "{operation.name}"')
        for build in (operation.unchanged_build, *suite.changed_builds(operation)):
            _require_known_names(build, path)
    return suite


def _require_known_names(build: Variant, path: Path) -> None:
    some = Path()
    values = {"memory": some, "disk": some, **build.settings, "work": 1, "threads": 1, "out": some}
    try:
        for template in (build.operation.build, build.operation.command):
            fill_command(template, f'operation "{build.operation.name}"', **values)
    except InputError as exc:
        raise exc.with_file(path) from exc


#: Numbers of runs of a changed build; one is drawn for each.
RUNS = (1, 1, 2, 2, 2, 3, 3, 3, 5, 5)
#: Numbers of samples of a run as multiples of the trial's; one is drawn for each.
SHARES = (0.5, 0.75, 1.0, 1.0, 1.5)


@dataclass(frozen=True)
class PlannedBuildRun:
    """A run of a build, or a reference measurement of it, with a number of threads."""

    variant: Variant
    purpose: str
    number: int
    threads: int

    @property
    def journal_key(self) -> tuple[str, str, str, int, int]:
        """The key of its journal entry: operation, change, purpose, number and threads."""
        return self.variant.operation.name, self.variant.change, self.purpose, self.number, self.threads

    @property
    def description(self) -> str:
        """A text such as "sort work+5% (run)"; unchanged builds are named "unchanged"."""
        return f"{self.variant.operation.name} {self.variant.change or 'unchanged'} ({self.purpose})"

    def draw_sample_count(self, suite: Suite, usual: int) -> int:
        """Return the number of samples: `usual` times a drawn factor, within ``suite.samples``."""
        fewest, largest = suite.samples
        share = random.Random(f"{suite.seed} {self.journal_key[:-1]}").choice(SHARES)
        return min(largest, max(fewest, round(usual * share)))


def plan_runs(suite: Suite) -> list[PlannedBuildRun]:
    """Return all runs in the order of measurement; what is random in it depends on the suite's seed alone.

    Each of ``passes`` begins with a run of every unchanged build, in random order. Reference measurements of
    the slowdown, one per changed build, are spread at random over the first ``history`` passes. Runs of
    changed builds, one, two, three or five of each (drawn), are spread at random over the later passes. Every
    run, and every reference measurement, is planned once per number of threads of its operation. ``purpose``
    is "run" or "reference"; ``number``, from 0, is the pass of an unchanged build, else counts the runs of a
    changed one.
    """
    shuffle = random.Random(suite.seed)
    unchanged = [operation.unchanged_build for operation in suite.operations]
    changed = [variant for operation in suite.operations for variant in suite.changed_builds(operation)]
    references = [(variant, "reference", 0) for variant in changed]
    runs = [(variant, "run", number) for variant in changed for number in range(shuffle.choice(RUNS))]
    shuffle.shuffle(references)
    shuffle.shuffle(runs)
    before = min(suite.history, suite.passes)
    after = suite.passes - before
    parts = [references[part::before] for part in range(before)]
    parts += [runs[part::after] for part in range(after)]
    planned_runs: list[PlannedBuildRun] = []
    for number, part in enumerate(parts):
        shuffle.shuffle(unchanged)
        for planned in [*((variant, "run", number) for variant in unchanged), *part]:
            planned_runs += [PlannedBuildRun(*planned, threads) for threads in planned[0].operation.threads]
    return planned_runs
