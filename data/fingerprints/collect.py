"""Measure fingerprints: stress-ng's rates, one stressor at a time (seed 003, section 5.1).

With constraints, stressors and programs run under each of them, as if on another machine.
"""

from __future__ import annotations

import random
import re
import shlex
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import yaml
from pydantic import Field

from data.errors import InputError
from data.fingerprints.constraints import Constraint, Wrap, confined
from data.fingerprints.tables import ALL_THREADS, FingerprintTables
from data.measure import machine
from data.measure.child import Finished, TimedOutError, TimeLimits, execute, shortened
from data.measure.machine import Disturbance, Pinned
from data.measure.session import Count, Screen, Session, Suite, shuffled, typed, unique
from data.tables.documents import Section
from data.tables.files import yaml_content

#: Values of ``threads`` in a suite and in the tables.
THREADS = {"one": 1, "all": ALL_THREADS}
STRESSOR, PROGRAM = "stressor", "program"
PROGRAMS = Path(__file__).parents[1] / "suites/programs"
#: Seconds that a stressor may take to start and to end beyond its time, before it is killed.
PATIENCE = 60.0
RATE = "bogo-ops-per-second-real-time"
_PREFIX = re.compile(r"^stress-ng: \w+:\s+\[\d+\] ")


class TimedProgram(Section):
    """An application: a command that prints the seconds its work took as the first word of its last line.

    In the ``command``, ``{run}`` runs a program of ``data/suites/programs``, ``{site}`` does so with
    libraries, and ``{scratch}`` is a directory on the disk.
    """

    name: str
    command: str


class FingerprintSuite(Suite):
    """A measurement of a fingerprint.

    Each of the ``stressors`` runs for ``seconds``, on ``threads`` ("one", "all"), ``repetitions`` times. The
    ``seed`` makes the order, another one in each repetition.

    With ``constraints``, each of them makes another machine of this one, on whose ``processor`` the stressors
    run on one thread, and the ``programs``.
    """

    SAME: ClassVar[Mapping[str, str]] = {"stress-ng": "stress-ng"}

    kind: Literal["fingerprint"]
    seconds: Annotated[int, Field(ge=1)]
    repetitions: Count
    threads: Annotated[tuple[Literal["one", "all"], ...], Field(min_length=1)]
    stressors: Annotated[tuple[str, ...], Field(min_length=1)]
    processor: Annotated[int, Field(ge=0)] | None = None
    constraints: tuple[Constraint, ...] = ()
    programs: tuple[TimedProgram, ...] = ()

    @property
    def pinned(self) -> int | None:
        """The processor that everything runs on; None without constraints."""
        return self.processor if self.constraints else None


def load(path: Path) -> FingerprintSuite:
    """Read and validate a suite; InputError naming file, key and value."""
    suite = typed(FingerprintSuite, yaml_content(path), path)
    unique(suite.stressors, "stressor", path)
    unique(suite.threads, "threads", path)
    unique([constraint.name for constraint in suite.constraints], "constraint", path)
    unique([program.name for program in suite.programs], "program", path)
    if suite.programs and not suite.constraints:
        raise InputError("programs need constraints to run under", file=path)
    if suite.constraints and suite.threads != ("one",):
        raise InputError(f"threads={list(suite.threads)}: expected [one] under constraints", file=path)
    return suite


@dataclass(frozen=True)
class PlannedRun:
    """A stressor or a program to run: under a constraint, empty for none; on one thread (1) or all (0)."""

    constraint: str
    kind: str
    name: str
    threads: int
    repetition: int

    @property
    def key(self) -> tuple[str, str, str, int, int]:
        """The identity of the run."""
        return self.constraint, self.kind, self.name, self.threads, self.repetition

    @property
    def told(self) -> str:
        """The description that is shown while it runs."""
        return f"{self.name} ({self.constraint})" if self.constraint else self.name


@dataclass(frozen=True)
class MeasuredRun(PlannedRun):
    """The rate of a stressor or the seconds of a program; ``problem`` is the reason where there is none.

    ``at`` is a UTC time, ``foreign`` the share of the processors that others used meanwhile.
    """

    at: str
    value: float | None
    problem: str
    foreign: float


def plan(suite: FingerprintSuite, stressors: frozenset[str]) -> list[PlannedRun]:
    """List the runs: constraint by constraint in random order, and so within each; then all over again."""
    shuffle = random.Random(suite.seed)
    here = [name for name in suite.stressors if name in stressors]
    every = [(STRESSOR, name, THREADS[threads]) for name in here for threads in suite.threads]
    every += [(PROGRAM, program.name, 1) for program in suite.programs]
    names = [constraint.name for constraint in suite.constraints] or [""]
    order = [
        (name, repetition)
        for repetition in range(1, suite.repetitions + 1)
        for name in shuffled([names], shuffle)
    ]
    return shuffled(
        ([PlannedRun(name, *unit, repetition) for unit in every] for name, repetition in order), shuffle
    )


def measure(session: Session[MeasuredRun], suite: FingerprintSuite, stressors: frozenset[str]) -> None:
    """Measure the runs that the journal lacks: each kept at once, or all under a constraint together."""
    planned, constraints = plan(suite, stressors), {one.name: one for one in suite.constraints}
    neighbour_cpu = 0 if suite.processor else 1

    def made(runs: Sequence[PlannedRun]) -> tuple[list[MeasuredRun], float]:
        measured: list[MeasuredRun] = []
        for name in dict.fromkeys(run.constraint for run in runs):
            with ExitStack() as stack:
                wrap: Wrap = stack.enter_context(confined(constraints[name], neighbour_cpu)) if name else list
                measured += [_run(one, suite, wrap, session.limits) for one in runs if one.constraint == name]
        return measured, max(run.foreign for run in measured)

    batch = len(planned) // (len(constraints) * suite.repetitions) if constraints else 1
    session.measure(planned, made, batch=batch)


def _run(run: PlannedRun, suite: FingerprintSuite, wrap: Wrap, limits: TimeLimits) -> MeasuredRun:
    """Run a stressor or a program; one that does nothing, fails or hangs has no value."""
    at, watch = datetime.now(UTC).isoformat(), Disturbance(processor=suite.pinned)
    # under constraints of the disk, the temporary files lie on it
    folder = Path.cwd() if suite.constraints else None
    with tempfile.TemporaryDirectory(prefix="perfjudge-", dir=folder) as scratch:
        try:
            value, problem = (_rate if run.kind == STRESSOR else _seconds)(
                run, suite, wrap, Path(scratch), limits
            )
        except TimedOutError as exc:
            value, problem = None, exc.problem
    return MeasuredRun(**asdict(run), at=at, value=value, problem=problem, foreign=round(watch.share(), 4))


def _rate(
    run: PlannedRun, suite: FingerprintSuite, wrap: Wrap, scratch: Path, _: TimeLimits
) -> tuple[float | None, str]:
    report, limit = scratch / "report.yaml", suite.timeout or suite.seconds + PATIENCE
    done = execute(wrap(command(run, suite.seconds, report)), "fingerprint", scratch, limit)
    rate = reported(report)
    problem = why_no_rate(run.name, done) if rate is None or done.code else ""
    return (None if problem else rate), problem


def _seconds(
    run: PlannedRun, suite: FingerprintSuite, wrap: Wrap, scratch: Path, limits: TimeLimits
) -> tuple[float | None, str]:
    program = next(program for program in suite.programs if program.name == run.name)
    limit = limits.seconds(run.name)
    done = execute(wrap(words(program, scratch)), f'program "{run.name}"', scratch, limit)
    limits.learn(run.name, done.seconds[0])
    if done.code:
        return None, f"ended with exit code {done.code} ({done.last_line})"
    try:
        return float(done.last_line.split()[0]), ""
    except ValueError:
        return None, f"printed no seconds ({done.last_line})"


def available() -> frozenset[str]:
    """Return the stressors of the installed stress-ng; InputError if it is missing."""
    done = execute(["stress-ng", "--stressors"], "stressors")
    done.require("stress-ng --stressors")
    return frozenset(done.output.split())


def command(run: PlannedRun, seconds: int, report: Path) -> list[str]:
    """Return the command of a stressor; stress-ng itself takes 0 threads for all."""
    return [
        *("stress-ng", f"--{run.name}", str(run.threads), "--timeout", str(seconds)),
        *("--metrics", "--yaml", str(report), "--temp-path", str(report.parent)),
        *("--no-rand-seed", "--oomable"),
    ]


def reported(report: Path) -> float | None:
    """Return the rate in the YAML that stress-ng wrote; None where there is none or it is 0."""
    try:
        content = yaml.safe_load(report.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        return None
    metrics = content.get("metrics") if isinstance(content, dict) else None
    rate = metrics[0].get(RATE) if metrics else None
    return float(rate) if isinstance(rate, int | float) and rate > 0 else None


def why_no_rate(stressor: str, done: Finished) -> str:
    """Return why a stressor has no rate, in stress-ng's words where it has some."""
    if not done.code:
        return "did nothing"
    lines = [_PREFIX.sub("", line) for line in done.output.strip().splitlines()]
    about = (line for line in lines if stressor in line and not line.startswith("dispatching"))
    reason = shortened(next(about, _PREFIX.sub("", done.last_line)))
    return f"ended with exit code {done.code} ({reason})"


def words(program: TimedProgram, scratch: Path) -> list[str]:
    """Return the command of a program; InputError if it has an unknown placeholder."""
    runner = f"{sys.executable} -S {PROGRAMS / 'runner.py'}"
    site = f"env PYTHONPATH={sysconfig.get_path('purelib')} {runner}"
    try:
        return shlex.split(program.command.format(run=runner, site=site, scratch=scratch))
    except (KeyError, IndexError, ValueError) as exc:
        problem = f"command={program.command!r}: expected no placeholders but {{run}}, {{site}}, {{scratch}}"
        raise InputError(problem, place=f'program "{program.name}"') from exc


def tables(
    suite: FingerprintSuite, runs: Sequence[MeasuredRun], described: dict[str, str]
) -> FingerprintTables:
    """Make the tables; a stressor or program without a value has a missing one.

    Each constraint stands for a machine, and its kind for a CPU model.
    """
    processor, source = described["processor"], f"suite {suite.name}"
    here = f"{described['hostname']} {processor} x{described['processors']}"
    hosts: list[dict[str, Any]] = [
        {"machine": here, "cpu": processor, "cores": int(described["processors"]), "source": source}
    ]
    if suite.constraints:
        source = f"{source}: {processor} under constraints"
        hosts = [
            {"machine": one.name, "cpu": f"{processor}, {one.kind}", "cores": 1, "source": source}
            for one in suite.constraints
        ]
    for host in hosts:
        foreign = [run.foreign for run in runs if (run.constraint or here) == host["machine"]]
        host |= {
            "stress_ng": described["stress-ng"],
            "seconds": suite.seconds,
            "foreign": float(np.median(foreign)) if foreign else np.nan,
            **{key: described[key] for key in ("memory", "kernel", "distribution", "nice")},
        }
    machines, applications = list[dict[str, Any]](), list[dict[str, Any]]()
    for run in runs:
        common = {"machine": run.constraint or here, "repetition": run.repetition}
        if run.kind == STRESSOR:
            rate = {"stressor": run.name, "threads": run.threads, "bogo_ops_per_second": run.value}
            machines.append(common | rate)
        else:
            time = {"application": run.name, "metric": "seconds", "better": "lower", "value": run.value}
            applications.append(common | time)
    return FingerprintTables.of_rows(machines, applications, hosts)


def collect(path: Path, directory: Path, screen: Screen) -> bool:
    """Measure a suite, as `data.collect.collect` says."""
    suite, stressors = load(path), available()
    lacking = [stressor for stressor in suite.stressors if stressor not in stressors]
    if lacking:
        screen.say(f"leaving out what this stress-ng lacks: {', '.join(lacking)}")
    unit, without = ("runs", "without_value") if suite.constraints else ("rates", "without_rate")
    session = Session.begin(directory, suite, screen, unit, MeasuredRun)
    with session, Pinned(suite.pinned, None):
        measure(session, suite, stressors)
    runs = session.journal.entries
    found = problems(runs)
    for problem in found:
        screen.say(f"no {without.removeprefix('without_')} of {problem}")
    return session.end(
        suite,
        tables(suite, runs, machine.settings()),
        lacking=lacking,
        foreign=sorted(run.foreign for run in runs),
        **{without: found},
    )


def problems(runs: Sequence[MeasuredRun]) -> list[str]:
    """Return for each stressor or program without a value why, once per constraint."""
    first = {(run.name, run.constraint): run.problem for run in reversed(runs) if run.problem}
    return [
        f"{name}{f' under {constraint}' if constraint else ''}: it {problem}"
        for (name, constraint), problem in sorted(first.items())
    ]
