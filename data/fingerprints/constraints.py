"""Measuring stressors and programs under each constraint, as if on a machine of its own."""

from __future__ import annotations

import os
import random
import shlex
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from data.errors import InputError
from data.fingerprints import stress_ng
from data.fingerprints.stress_ng import PlannedStressor
from data.fingerprints.suite import Constraint, FingerprintSuite, TimedProgram
from data.fingerprints.tables import FingerprintTables
from data.measure import machine
from data.measure.child import Child, TimedOutError, TimeLimits, execute
from data.measure.groups import remove_abandoned, remove_group
from data.measure.interventions import CGROUPS, Quota
from data.measure.machine import Disturbance, Pinned
from data.measure.session import Screen, Session, shuffled

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
BLOCKS = Path("/sys/dev/block")
MEGABYTE = 1_000_000
#: A neighbour lives until it is ended; this is for the case that we are killed.
LIFETIME = 600
Wrap = Callable[[list[str]], list[str]]


@contextmanager
def confined(constraint: Constraint, beside: int) -> Iterator[Wrap]:
    """Constrain commands while the block runs.

    Parameters
    ----------
    constraint : Constraint
    beside : int
        The processor that a neighbour runs on.

    Yields
    ------
    callable
        Turns a command into one that runs under the constraint.

    Raises
    ------
    InputError
        If this machine does not let us, with what it lacks.
    """
    with ExitStack() as stack:
        try:
            groups = list(_groups(constraint, stack))
            if constraint.huge_pages:
                stack.callback(HUGE_PAGES.write_text, _chosen(HUGE_PAGES.read_text()))
                HUGE_PAGES.write_text(constraint.huge_pages)
        except OSError as exc:
            raise InputError(
                f"cannot be put on here ({exc})", place=f'constraint "{constraint.name}"'
            ) from exc
        if constraint.neighbour:
            stack.callback(_neighbour(constraint.neighbour, beside).end)
        yield lambda command: [*_entering(groups), *_traced(constraint.traced), *command]


def _groups(constraint: Constraint, stack: ExitStack) -> Iterator[Path]:
    if constraint.processors:
        quota = Quota()
        stack.callback(quota.close)
        quota.limit(constraint.processors)
        yield quota.path
    if constraint.writes:
        yield _slow_disk(constraint.writes, stack)


def _slow_disk(megabytes: float, stack: ExitStack) -> Path:
    """Make a control group that writes so many MB a second to the disk of this directory."""
    legacy = CGROUPS / "blkio"
    root = legacy if legacy.is_dir() else CGROUPS
    remove_abandoned(root)
    path, device, limit = (
        root / f"perfjudge-{os.getpid()}-disk",
        _disk(Path.cwd()),
        round(megabytes * MEGABYTE),
    )
    path.mkdir()
    stack.callback(remove_group, path)
    if legacy.is_dir():
        (path / "blkio.throttle.write_bps_device").write_text(f"{device} {limit}")
    else:
        (path / "io.max").write_text(f"{device} wbps={limit}")
    return path


def _disk(directory: Path) -> str:
    """Return the number of the whole disk that holds a directory; limits do not hold for partitions."""
    held = directory.stat().st_dev
    entry = (BLOCKS / f"{os.major(held)}:{os.minor(held)}").resolve(strict=True)
    whole = entry.parent if (entry / "partition").exists() else entry
    return (whole / "dev").read_text().strip()


def _chosen(text: str) -> str:
    """Return what is chosen in a line such as ``always [madvise] never``."""
    return text.partition("[")[2].partition("]")[0]


def _neighbour(stressor: str, processor: int) -> Child:
    command = ["stress-ng", f"--{stressor}", "1", "--timeout", str(LIFETIME), "--quiet"]
    neighbour = Child(command, f"neighbour {stressor}", cpu=processor)
    if neighbour.wait(0.2):
        raise neighbour.failed()
    return neighbour


def _entering(groups: list[Path]) -> list[str]:
    """Return the beginning of a command that joins control groups before it becomes another."""
    if not groups:
        return []
    joins = "; ".join(f"echo $$ > {shlex.quote(str(group / 'cgroup.procs'))}" for group in groups)
    return ["sh", "-c", f'{joins}; exec "$@"', "sh"]


def _traced(times: int) -> list[str]:
    events = ",".join(["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"] * times)
    return ["perf", "stat", "--output", os.devnull, "--event", events, "--"] if times else []


PROGRAMS = Path(__file__).parents[2] / "suites/programs"
STRESSOR, PROGRAM = "stressor", "program"


@dataclass(frozen=True)
class PlannedConstrained:
    """A stressor or a program to run under a constraint."""

    constraint: str
    kind: str
    name: str
    repetition: int

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What tells one from another."""
        return self.constraint, self.kind, self.name, self.repetition

    @property
    def told(self) -> str:
        """What runs where, for people."""
        return f"{self.name} ({self.constraint})"


@dataclass(frozen=True)
class ConstrainedRun(PlannedConstrained):
    """The rate of a stressor or the seconds of a program; ``problem`` says why there is none.

    ``at`` is a UTC time, ``foreign`` the share of the processor that others used meanwhile.
    """

    at: str
    value: float | None
    problem: str
    foreign: float


def plan(suite: FingerprintSuite, stressors: frozenset[str]) -> list[PlannedConstrained]:
    """List what to run: constraint by constraint in random order, and so within each; then all over again."""
    shuffle = random.Random(suite.seed)
    here = [(STRESSOR, stressor) for stressor in suite.stressors if stressor in stressors]
    every = [*here, *((PROGRAM, program.name) for program in suite.programs)]
    order = [
        (constraint.name, repetition)
        for repetition in range(1, suite.repetitions + 1)
        for constraint in shuffled([suite.constraints], shuffle)
    ]
    blocks = [[PlannedConstrained(name, *what, repetition) for what in every] for name, repetition in order]
    return shuffled(blocks, shuffle)


def collect(suite: FingerprintSuite, stressors: frozenset[str], directory: Path, screen: Screen) -> bool:
    """Measure a suite with constraints, as `data.collect.collect` says.

    Raises
    ------
    InputError
        If this machine does not let us put a constraint on, or a program is missing.
    """
    session = Session.begin(directory, suite, screen, "runs", ConstrainedRun)
    with session, Pinned(suite.processor, None):
        measure(session, suite, stressors)
    runs = session.journal.entries
    without = sorted({f"{one.name} under {one.constraint}: it {one.problem}" for one in runs if one.problem})
    for problem in without:
        screen.say(f"no value of {problem}")
    foreign = sorted(entry.foreign for entry in runs)
    return session.end(suite, tables(suite, runs, machine.settings()), without_value=without, foreign=foreign)


def measure(session: Session[ConstrainedRun], suite: FingerprintSuite, stressors: frozenset[str]) -> None:
    """Measure what the journal lacks, a constraint at a time."""
    tasks, at = plan(suite, stressors), {one.name: one for one in suite.constraints}
    programs = {program.name: program for program in suite.programs}
    processor = suite.processor or 0
    beside = 0 if processor else 1

    def made(planned: Sequence[PlannedConstrained]) -> tuple[list[ConstrainedRun], float]:
        found: list[ConstrainedRun] = []
        for name in dict.fromkeys(task.constraint for task in planned):
            with confined(at[name], beside) as wrap:
                here = [task for task in planned if task.constraint == name]
                found += [run(task, programs.get(task.name), suite, wrap, session.limits) for task in here]
        return found, max(entry.foreign for entry in found)

    session.measure(tasks, made, batch=len(tasks) // (len(at) * suite.repetitions))


def run(
    task: PlannedConstrained,
    program: TimedProgram | None,
    suite: FingerprintSuite,
    wrap: Wrap,
    limits: TimeLimits,
) -> ConstrainedRun:
    """Run a stressor or a program; what fails or hangs has no value."""
    at, watch = datetime.now(UTC).isoformat(), Disturbance(processor=suite.processor)
    with tempfile.TemporaryDirectory(prefix="perfjudge-", dir=Path.cwd()) as scratch:
        if task.kind == STRESSOR or program is None:
            stressor = PlannedStressor(task.name, 1, task.repetition)
            value, problem = stress_ng.measured(stressor, suite, Path(scratch), wrap)
        else:
            value, problem = _seconds(program, wrap, Path(scratch), limits)
    foreign = round(watch.share(), 4)
    return ConstrainedRun(**asdict(task), at=at, value=value, problem=problem, foreign=foreign)


def _seconds(
    program: TimedProgram, wrap: Wrap, scratch: Path, limits: TimeLimits
) -> tuple[float | None, str]:
    command, limit = wrap(words(program, scratch)), limits.seconds(program.name)
    try:
        done = execute(command, f'program "{program.name}"', scratch, limit)
    except TimedOutError as exc:
        return None, exc.problem
    limits.learn(program.name, done.seconds[0])
    if done.code:
        return None, f"ended with exit code {done.code} ({done.last_line})"
    try:
        return float(done.last_line.split()[0]), ""
    except ValueError:
        return None, f"printed no seconds ({done.last_line})"


def words(program: TimedProgram, scratch: Path) -> list[str]:
    """Return the command of a program; InputError if it has a placeholder that there is not."""
    runner = f"{sys.executable} -S {PROGRAMS / 'runner.py'}"
    site = f"env PYTHONPATH={sysconfig.get_path('purelib')} {runner}"
    try:
        return shlex.split(program.command.format(run=runner, site=site, scratch=scratch))
    except (KeyError, IndexError, ValueError) as exc:
        problem = f"command={program.command!r}: expected no placeholders but {{run}}, {{site}}, {{scratch}}"
        raise InputError(problem, place=f'program "{program.name}"') from exc


def tables(
    suite: FingerprintSuite, runs: Sequence[ConstrainedRun], described: dict[str, str]
) -> FingerprintTables:
    """Make the tables of what is measured: each constraint stands for a machine, its kind for a CPU model.

    Parameters
    ----------
    described : dict
        As `data.measure.machine.settings` describes the machine.
    """
    machines = [
        {"machine": one.constraint, "stressor": one.name, "threads": 1, "repetition": one.repetition,
         "bogo_ops_per_second": one.value}
        for one in runs
        if one.kind == STRESSOR
    ]  # fmt: skip
    applications = [
        {"machine": one.constraint, "application": one.name, "metric": "seconds", "better": "lower",
         "repetition": one.repetition, "value": one.value}
        for one in runs
        if one.kind == PROGRAM
    ]  # fmt: skip
    hosts = [_host(one, suite, runs, described) for one in suite.constraints]
    return FingerprintTables.of_rows(machines, applications, hosts)


def _host(
    constraint: Constraint, suite: FingerprintSuite, runs: Sequence[ConstrainedRun], described: dict[str, str]
) -> dict[str, object]:
    foreign = [one.foreign for one in runs if one.constraint == constraint.name]
    return {
        "machine": constraint.name,
        "cpu": f"{described['processor']}, {constraint.kind}",
        "cores": 1,
        "stress_ng": described["stress-ng"],
        "source": f"suite {suite.name}: {described['processor']} under constraints",
        "seconds": suite.seconds,
        "foreign": float(np.median(foreign)) if foreign else np.nan,
        **{key: described[key] for key in ("memory", "kernel", "distribution", "nice")},
    }
