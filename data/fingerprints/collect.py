"""Collector of fingerprints: the rates of stress-ng, one stressor at a time (quiho paper, section 5.1).

With constraints, stressors and programs run under each constraint, which simulates another machine.
"""

from __future__ import annotations

import random
import re
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from math import inf, nan
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import yaml
from pydantic import Field

from data.errors import InputError, shorten
from data.fingerprints.constraints import Constraint, Wrap, confined
from data.fingerprints.tables import ALL_THREADS, FingerprintTables
from data.measure import machine
from data.measure.child import LINE, TimedOutError, TimeLimits, execute
from data.measure.machine import Disturbance, Pinned
from data.measure.session import (
    Count,
    Screen,
    Session,
    Suite,
    fill_command,
    read_suite,
    require_unique,
    shuffle_blocks,
)
from data.tables.documents import Section

#: Values of ``threads`` in a suite and in the tables.
THREADS = {"one": 1, "all": ALL_THREADS}
STRESSOR, PROGRAM = "stressor", "program"
#: Seconds that a stressor may take to start and to end, in addition to its duration.
PATIENCE = 60.0
RATE = "bogo-ops-per-second-real-time"
_PREFIX = re.compile(r"^stress-ng: \w+:\s+\[\d+\] ")


class TimedProgram(Section):
    """An application: a command that prints its running time in seconds as the first word of its last line.

    In the ``command``, ``{run}`` is replaced by the runner of ``data/suites/programs``, ``{site}`` by the
    runner with installed libraries, and ``{scratch}`` by a directory on the disk.
    """

    name: str
    command: str


class FingerprintSuite(Suite):
    """A measurement of a fingerprint.

    Each of the ``stressors`` runs for ``seconds`` on ``threads`` ("one", "all"), ``repetitions`` times, in
    an order drawn with ``seed`` for each repetition.

    With ``constraints``, each of them simulates a machine; the stressors, on one thread, and the ``programs``
    run on ``processor``.
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
    def pinned_processor(self) -> int | None:
        """The processor of all runs; None without constraints."""
        return self.processor if self.constraints else None


def load_suite(path: Path) -> FingerprintSuite:
    """Return the parameters of a measurement in a YAML file; InputError with file, key and value if invalid.

    InputError, too, if the file cannot be read, a stressor, a value of ``threads`` or the name of a
    constraint or program occurs twice, there are programs without constraints, or ``threads`` is not
    ``["one"]`` although there are constraints.
    """
    suite = read_suite(FingerprintSuite, path)
    require_unique(suite.stressors, "stressor", path)
    require_unique(suite.threads, "threads", path)
    require_unique([constraint.name for constraint in suite.constraints], "constraint", path)
    require_unique([program.name for program in suite.programs], "program", path)
    if suite.programs and not suite.constraints:
        raise InputError("programs need constraints to run under", file=path)
    if suite.constraints and suite.threads != ("one",):
        raise InputError(f"threads={list(suite.threads)}: expected [one] under constraints", file=path)
    return suite


@dataclass(frozen=True)
class PlannedRun:
    """A stressor or a program to run, on one thread (1) or all (0), under a constraint (empty: none)."""

    constraint: str
    kind: str
    name: str
    threads: int
    repetition: int

    @property
    def journal_key(self) -> tuple[str, str, str, int, int]:
        """The identity of the run."""
        return self.constraint, self.kind, self.name, self.threads, self.repetition

    @property
    def description(self) -> str:
        """The description that is shown while it runs."""
        return f"{self.name} ({self.constraint})" if self.constraint else self.name


@dataclass(frozen=True)
class MeasuredRun(PlannedRun):
    """The rate of a stressor or the seconds of a program; None with the reason in ``problem`` if it failed.

    ``at`` is a UTC time, ``foreign`` the share of the processors that others used meanwhile.
    """

    at: str
    value: float | None
    problem: str
    foreign: float


def plan_runs(suite: FingerprintSuite, stressors: frozenset[str]) -> list[PlannedRun]:
    """Return all runs in their order: one repetition after the other, constraints and their runs shuffled.

    A run is a stressor, on one of ``suite.threads``, or a program. The runs under one constraint ("" without
    constraints) follow each other. Stressors that are not in `stressors`, those of the installed stress-ng,
    are left out.
    """
    shuffle = random.Random(suite.seed)
    available = [name for name in suite.stressors if name in stressors]
    units = [(STRESSOR, name, THREADS[threads]) for name in available for threads in suite.threads]
    units += [(PROGRAM, program.name, 1) for program in suite.programs]
    names = [constraint.name for constraint in suite.constraints] or [""]
    numbers = range(1, suite.repetitions + 1)
    order = [(name, number) for number in numbers for name in shuffle_blocks([names], shuffle)]
    blocks = ([PlannedRun(name, *unit, number) for unit in units] for name, number in order)
    return shuffle_blocks(blocks, shuffle)


def measure_runs(session: Session[MeasuredRun], suite: FingerprintSuite, stressors: frozenset[str]) -> None:
    """Do the runs that have no journal entry, and add them to the journal of `session`.

    With constraints, all runs of a repetition under the same constraint are a batch: Ctrl-C before its end
    loses them. A stressor or program that fails or exceeds its time limit has an entry without a value.
    `stressors` are those of the installed stress-ng. InputError if there is nothing to run, a command is
    wrong or cannot be started, or a constraint cannot be applied here.
    """
    planned = plan_runs(suite, stressors)
    if not planned:
        raise InputError(f"no program, and stress-ng has none of the stressors: {', '.join(suite.stressors)}")
    constraints = {constraint.name: constraint for constraint in suite.constraints}
    neighbour_cpu = 0 if suite.processor else 1

    def measure_batch(runs: Sequence[PlannedRun]) -> tuple[list[MeasuredRun], float]:
        measured: list[MeasuredRun] = []
        for name in dict.fromkeys(run.constraint for run in runs):
            alike = [run for run in runs if run.constraint == name]
            with confined(constraints[name], neighbour_cpu) if name else nullcontext[Wrap](list) as wrap:
                measured += [_measure_run(run, suite, wrap, session.limits) for run in alike]
        return measured, max(run.foreign for run in measured)

    batch = len(planned) // (len(constraints) * suite.repetitions) if constraints else 1
    session.measure_missing(planned, measure_batch, batch=batch)


def _measure_run(run: PlannedRun, suite: FingerprintSuite, wrap: Wrap, limits: TimeLimits) -> MeasuredRun:
    """Run a stressor or a program; without a value if it does nothing, fails or hangs."""
    at, watch = datetime.now(UTC).isoformat(), Disturbance(processor=suite.pinned_processor)
    # constraints may apply to the disk of the working directory
    folder = Path.cwd() if suite.constraints else None
    with tempfile.TemporaryDirectory(prefix="perfjudge-", dir=folder) as scratch:
        try:
            if run.kind == STRESSOR:
                value, problem = _measure_rate(run, suite, wrap, Path(scratch))
            else:
                value, problem = _measure_seconds(run, suite, wrap, Path(scratch), limits)
        except TimedOutError as exc:
            value, problem = None, exc.problem
    foreign = round(watch.foreign_share(), 4)
    return MeasuredRun(**asdict(run), at=at, value=value, problem=problem, foreign=foreign)


def _measure_rate(
    run: PlannedRun, suite: FingerprintSuite, wrap: Wrap, scratch: Path
) -> tuple[float | None, str]:
    report, limit = scratch / "report.yaml", suite.timeout or suite.seconds + PATIENCE
    done = execute(wrap(stressor_command(run, suite.seconds, report)), "fingerprint", scratch, limit)
    rate = reported(report)
    if rate is None or done.code:
        return None, why_no_rate(run.name, done.code or 0, done.output)
    return rate, ""


def _measure_seconds(
    run: PlannedRun, suite: FingerprintSuite, wrap: Wrap, scratch: Path, limits: TimeLimits
) -> tuple[float | None, str]:
    program = next(program for program in suite.programs if program.name == run.name)
    place = f'program "{run.name}"'
    command = fill_command(program.command, place, scratch=shlex.quote(str(scratch)))
    done = execute(wrap(command), place, scratch, limits.limit_for(run.name))
    limits.record_duration(run.name, done.seconds)
    if done.code:
        return None, f"ended with exit code {done.code} ({done.last_line})"
    try:
        seconds = float(done.last_line.split()[0])
    except ValueError:
        seconds = nan
    if not 0 < seconds < inf:
        return None, f"printed no seconds ({done.last_line})"
    return seconds, ""


def available() -> frozenset[str]:
    """Return the names of the stressors of the installed stress-ng; InputError if it is missing or fails."""
    done = execute(["stress-ng", "--stressors"], "stress-ng --stressors")
    done.require_success()
    return frozenset(done.output.split())


def stressor_command(run: PlannedRun, seconds: int, report: Path) -> list[str]:
    """Return the words of the command that runs the stressor `run` for `seconds`.

    The command writes the rate to the YAML file `report`.
    """
    return [
        *("stress-ng", f"--{run.name}", str(run.threads), "--timeout", str(seconds)),
        *("--metrics", "--yaml", str(report), "--temp-path", str(report.parent)),
        *("--no-rand-seed", "--oomable"),
    ]


def reported(report: Path) -> float | None:
    """Return the rate (bogo operations per second of real time) of the first stressor in stress-ng's report.

    None if the file is missing or not YAML, or the rate is missing or no number above 0.
    """
    try:
        rate = yaml.safe_load(report.read_text(encoding="utf-8"))["metrics"][0][RATE]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, LookupError, TypeError):
        return None
    return float(rate) if isinstance(rate, int | float) and rate > 0 else None


def why_no_rate(stressor: str, code: int, output: str) -> str:
    """Return why stress-ng, with its exit code and output, has no rate, as the end of a sentence.

    For exit code 0, this is "did nothing"; else it quotes the first line of the output that names `stressor`
    (and does not begin with "dispatching"), else the last line.
    """
    if not code:
        return "did nothing"
    lines = [_PREFIX.sub("", line) for line in output.strip().splitlines()] or ["it printed nothing"]
    messages = (line for line in lines if stressor in line and not line.startswith("dispatching"))
    return f"ended with exit code {code} ({shorten(next(messages, lines[-1]), LINE)})"


def build_tables(
    suite: FingerprintSuite, runs: Sequence[MeasuredRun], described: dict[str, str]
) -> FingerprintTables:
    """Return the tables of the runs: rates of machines, values of programs, and descriptions of the machines.

    A run is a row of ``machines`` (the rate of a stressor, ``bogo_ops_per_second``) or ``applications`` (the
    seconds of a program, ``value``), NaN where it failed. Each constraint counts as a machine, a row of
    ``hosts``, with its kind in the CPU model; without constraints, this machine is the only one. `described`
    is the result of `data.measure.machine.describe_machine`, texts by name.
    """
    processor, source = described["processor"], f"suite {suite.name}"
    here = f"{described['hostname']} {processor} x{described['processors']}"
    hosts = [{"machine": here, "cpu": processor, "cores": int(described["processors"]), "source": source}]
    if suite.constraints:
        source = f"{source}: {processor} under constraints"
        hosts = [
            {"machine": limit.name, "cpu": f"{processor}, {limit.kind}", "cores": 1, "source": source}
            for limit in suite.constraints
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
    return FingerprintTables.from_rows(machines, applications, hosts)


def collect(path: Path, directory: Path, screen: Screen) -> bool:
    """Measure or resume the suite at `path`, and write its tables to `directory`; return whether complete.

    False after Ctrl-C; the tables then have the runs so far. ``settings.json`` has the machine, the suite and
    the failures. InputError if the suite is invalid or has nothing to run here, `directory` holds a
    measurement of another suite or version of stress-ng, stress-ng is missing, a command is wrong or cannot
    be started, or a constraint cannot be applied; stressors that this stress-ng does not have are left out
    with a note on `screen`, and failed runs have no value. InputError, too, if no run has a value.
    """
    suite, stressors = load_suite(path), available()
    lacking = [stressor for stressor in suite.stressors if stressor not in stressors]
    if lacking:
        screen.print_note(f"leaving out what this stress-ng lacks: {', '.join(lacking)}")
    unit, without = ("runs", "without_value") if suite.constraints else ("rates", "without_rate")
    session = Session.begin_or_resume(directory, suite, screen, unit, MeasuredRun)
    with session, Pinned(suite.pinned_processor, None):
        measure_runs(session, suite, stressors)
    runs = session.journal.entries
    failures = failure_lines(runs)
    for problem in failures:
        screen.print_note(f"no {without.removeprefix('without_')} of {problem}")
    return session.write_results(
        path,
        suite,
        build_tables(suite, runs, machine.describe_machine()),
        measured=sum(run.value is not None for run in runs),
        failures=failures,
        lacking=lacking,
        foreign=sorted(run.foreign for run in runs),
        **{without: failures},
    )


def failure_lines(runs: Sequence[MeasuredRun]) -> list[str]:
    """Return a line per name (stressor or program) and constraint with a failed run: its first reason.

    Sorted by name, then constraint.
    """
    first = {(run.name, run.constraint): run.problem for run in reversed(runs) if run.problem}
    return [
        f"{name}{f' under {constraint}' if constraint else ''}: it {problem}"
        for (name, constraint), problem in sorted(first.items())
    ]
