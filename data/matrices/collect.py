"""Measuring matrices: versions of programs with and without defects, and invalid runs (seed 001)."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import cycle
from pathlib import Path

import pandas as pd

from data.matrices import run as matrix_rates
from data.matrices import suite as matrix_suite
from data.matrices import validity
from data.matrices.programs import Work
from data.matrices.run import HEAVY, Bench, Order, Outcome, calibrate
from data.matrices.suite import (
    CLOSED,
    EQUAL_TIME,
    EXTRA_WORK,
    KILLED,
    POLLING,
    QUOTA,
    WRONG_COUNT,
    MatrixSuite,
    TestCase,
)
from data.matrices.tables import SIDES, SUMMARY, MatrixTables
from data.matrices.workloads import DEFECTS, STANDING
from data.measure import machine, perf_stat
from data.measure.session import Screen, Session, shuffled

Pair = tuple[str, int]


@dataclass(frozen=True)
class PlannedRun:
    """One run to measure.

    ``pair`` counts the versions of a test case; ``cause`` with its ``size`` is the defect of the version,
    empty if it has none; ``invalid`` is how the run is made invalid, empty for a valid one; ``session``
    counts from 0.
    """

    case: str
    pair: int
    side: str
    number: int
    cause: str = ""
    size: float = 0.0
    invalid: str = ""
    session: int = 0

    @property
    def pair_id(self) -> str:
        """The name of the pair of matrices."""
        return f"{self.case} {self.pair}"

    @property
    def run_id(self) -> str:
        """The name of the run."""
        return f"{self.pair_id} {self.side} {self.number}"

    #: What tells one run from another, and what people read.
    key, told = run_id, pair_id


def plan(suite: MatrixSuite, causes: Sequence[str], kinds: Sequence[str]) -> list[PlannedRun]:
    """List all runs: one session after the other, each in random order.

    With one session, runs of a pair come together, also in random order.
    """
    shuffle = random.Random(suite.seed)
    pairs = [(name, number) for name in suite.test_cases for number in range(1, suite.versions + 1)]
    defects, begun = _defects(suite, causes, shuffle), _begun(suite, pairs, shuffle)
    runs = {
        (pair, side): [
            PlannedRun(*pair, side, number, *(defects.get(pair, ()) if side == SIDES[1] else ()))
            for number in range(1, suite.runs + 1)
        ]
        for pair in pairs
        for side in SIDES
    }
    _add_invalid(runs, suite, kinds, shuffle)
    blocks: dict[tuple[int, Pair | None], list[PlannedRun]] = {}
    for (pair, side), matrix in runs.items():
        session = _session(suite, begun[pair], side)
        together = pair if len(suite.sessions) == 1 else None
        blocks.setdefault((session, together), []).extend(replace(run, session=session) for run in matrix)
    order = shuffle.sample(list(blocks), len(blocks))
    return shuffled((blocks[place] for place in sorted(order, key=lambda place: place[0])), shuffle)


def _begun(suite: MatrixSuite, pairs: Sequence[Pair], shuffle: random.Random) -> dict[Pair, int]:
    """Return the session of each baseline: as many pairs in each, spread over the test cases."""
    sessions = cycle(shuffle.sample(range(len(suite.sessions)), len(suite.sessions)))
    return {pair: next(sessions) for pair in shuffle.sample(pairs, len(pairs))}


def _session(suite: MatrixSuite, baseline: int, side: str) -> int:
    apart = len(suite.sessions) // 2 if side == SIDES[1] else 0
    return (baseline + apart) % len(suite.sessions)


def _defects(
    suite: MatrixSuite, causes: Sequence[str], shuffle: random.Random
) -> dict[Pair, tuple[str, float]]:
    """Choose which pairs get which defect of which size: spread over groups, then over test cases."""
    cases = [case for case in suite.test_cases.values() if any(fits(cause, case) for cause in causes)]
    count = round(suite.abnormal * suite.versions * len(suite.test_cases))
    numbers = {case.name: shuffle.sample(range(1, suite.versions + 1), suite.versions) for case in cases}
    waiting: dict[str, list[tuple[TestCase, int]]] = {}
    for turn in range(suite.versions):
        for case in shuffle.sample(cases, len(cases)):
            waiting.setdefault(case.group, []).append((case, numbers[case.name][turn]))
    groups = cycle(shuffle.sample(list(waiting), len(waiting)))
    cause = cycle(shuffle.sample(causes, len(causes)))
    size = cycle(shuffle.sample(suite.sizes, len(suite.sizes)))
    chosen: dict[Pair, tuple[str, float]] = {}
    while len(chosen) < count and any(waiting.values()):
        if here := waiting[next(groups)]:
            case, number = here.pop(0)
            found = next(name for name in cause if fits(name, case))
            chosen[case.name, number] = (found, next(size))
    return chosen


def fits(cause: str, case: TestCase) -> bool:
    """Tell whether a cause makes a difference: a program that waits most of the time has a quota anyway."""
    return cause != QUOTA or case.pace == CLOSED


def _add_invalid(
    runs: dict[tuple[Pair, str], list[PlannedRun]],
    suite: MatrixSuite,
    kinds: Sequence[str],
    shuffle: random.Random,
) -> None:
    """Add the share of invalid runs: a side gets a second one only when all have one."""
    count = round(len(runs) * suite.runs * suite.invalid / (1 - suite.invalid)) if kinds else 0
    kind = cycle(shuffle.sample(kinds, len(kinds)))
    for added in range(0, count, len(runs)):
        for place in shuffle.sample(list(runs), min(count - added, len(runs))):
            runs[place].append(replace(runs[place][0], number=len(runs[place]) + 1, invalid=next(kind)))


def order(suite: MatrixSuite, planned: PlannedRun, costs: Mapping[str, float]) -> Order:
    """Return how to make the run that is planned, from what a unit of each workload and defect costs."""
    case = suite.test_cases[planned.case]
    draw = random.Random(f"{suite.seed} {planned.run_id}")
    seconds = suite.seconds * case.length
    work = spoiled(base(case, seconds, costs), planned, seconds * case.load, costs)
    if planned.invalid == WRONG_COUNT:
        wrong = max(1, round(case.transactions * draw.choice((0.5, 0.7, 0.9, 1.1, 1.3))))
        work = work._replace(transactions=wrong)
    latest = 0.7 if planned.invalid == KILLED else 0.5
    return Order(
        work,
        quota=1 / (1 + planned.size) if planned.cause == QUOTA else 1.0,
        invalid=planned.invalid,
        moment=seconds * draw.uniform(0.2, latest),
        heavy=draw.choice(HEAVY),
        environment=suite.sessions[planned.session],
    )


def base(case: TestCase, seconds: float, costs: Mapping[str, float]) -> Work:
    """Return the work of a test case without any defect, in a run of some `seconds`."""
    each = seconds / case.transactions
    units = {name: each * case.load * share / costs[name] for name, share in case.workloads.items()}
    period = 0.0 if case.pace == CLOSED else each
    return Work(units, case.transactions, period, case.pace == POLLING)


def spoiled(work: Work, planned: PlannedRun, seconds: float, costs: Mapping[str, float]) -> Work:
    """Return the work with the defect that is planned, where it lies inside the program."""
    cause, size = planned.cause.removesuffix(EQUAL_TIME), planned.size
    grown = size if cause == EXTRA_WORK else -size if cause != planned.cause else 0.0
    work = work._replace(units={name: units * (1 + grown) for name, units in work.units.items()})
    if cause in STANDING:
        return work._replace(defect=cause, standing=size)
    if cause in costs:
        # one unit in a run at least, or the version would have none of it
        amount = max(1.0, size * seconds / costs[cause]) / work.transactions
        return work._replace(defect=cause, amount=amount)
    return work


#: Seconds that each cost is calibrated from.
CALIBRATION = 0.1
#: Trial runs for each cost, of so many transactions, and the most that a trial may correct.
TRIALS, TRANSACTIONS, LARGEST = 2, 50, 4.0
#: The workload that defects are tried beside.
HOST = "recursion"
#: A metric varies if at least this share of the runs does not have its commonest value.
VARIES = 0.005


@dataclass(frozen=True)
class MeasuredRun:
    """What was measured: ``at`` a UTC time, raw metrics, and the share of the machine that others used.

    A metric that was not measured is None.
    """

    planned: PlannedRun
    at: str
    elapsed: float
    transactions: int
    foreign: float
    metrics: dict[str, float | None]

    @property
    def key(self) -> str:
        """The key of what was planned."""
        return self.planned.key


@dataclass(frozen=True)
class Cost:
    """What a unit of a workload or defect costs in seconds."""

    name: str
    seconds: float


def corrected(
    suite: MatrixSuite, name: str, costs: Mapping[str, float], seconds: Callable[[Order], float]
) -> float:
    """Correct what a unit costs by trial runs, as counting makes some programs slower than others."""
    cost, share = costs[name], suite.seconds / TRANSACTIONS
    for _ in range(TRIALS):
        if name in DEFECTS:
            work = Work({HOST: share / costs[HOST]}, TRANSACTIONS, defect=name, amount=share / cost)
            taken = seconds(Order(work)) / suite.seconds - 1
        else:
            taken = seconds(Order(Work({name: share / cost}, TRANSACTIONS))) / suite.seconds
        cost *= min(LARGEST, max(1 / LARGEST, taken))
    return cost


def measure(
    session: Session[MeasuredRun],
    suite: MatrixSuite,
    everything: Sequence[PlannedRun],
    *,
    run: Callable[[Order], Outcome],
    cost: Callable[[str, Mapping[str, float]], float],
) -> None:
    """Measure what the journal lacks, keeping each run at once."""
    costs = calibrated(session, suite, everything, cost)

    def made(now: Sequence[PlannedRun]) -> tuple[list[MeasuredRun], float]:
        at, case = datetime.now(UTC).isoformat(), now[0].case
        outcome = run(replace(order(suite, now[0], costs), limit=session.limits.seconds(case)))
        session.limits.learn(case, outcome.elapsed)
        return [_measured(now[0], at, outcome)], outcome.foreign

    session.measure(everything, made)


def calibrated(
    session: Session[MeasuredRun],
    suite: MatrixSuite,
    everything: Sequence[PlannedRun],
    cost: Callable[[str, Mapping[str, float]], float],
) -> dict[str, float]:
    """Return what units cost, after finding it for those that wait to be measured."""
    costs: dict[str, float] = {note.name: note.seconds for note in session.journal.notes}
    waiting = session.waiting(everything)
    done = len(everything) - len(waiting)
    for name in _needed(suite, waiting):
        if name not in costs:
            session.screen.advance(done, len(everything), f"calibrating {name}")
            costs[name] = cost(name, costs)
            session.journal.note(Cost(name, costs[name]))
    return costs


def _needed(suite: MatrixSuite, planned: Sequence[PlannedRun]) -> list[str]:
    """Return the workloads, `HOST` first if there are defects beside it, and the defects of some runs."""
    cases = dict.fromkeys(run.case for run in planned)
    workloads = [name for case in cases for name in suite.test_cases[case].workloads]
    causes = [run.cause.removesuffix(EQUAL_TIME) for run in planned]
    defects = [cause for cause in causes if cause in DEFECTS]
    return list(dict.fromkeys([*([HOST] if defects else []), *workloads, *defects]))


def _measured(planned: PlannedRun, at: str, outcome: Outcome) -> MeasuredRun:
    """Return what is kept of an outcome: metrics in six digits."""
    metrics = {
        name: None if math.isnan(value) else float(f"{value:.6g}") for name, value in outcome.metrics.items()
    }
    return MeasuredRun(planned, at, outcome.elapsed, outcome.transactions, outcome.foreign, metrics)


def tables(suite: MatrixSuite, entries: Sequence[MeasuredRun], name: str) -> MatrixTables:
    """Make the tables of what is measured; metrics that are the same in all runs are left out."""
    groups = {name: case.group for name, case in suite.test_cases.items()}
    entries = sorted(entries, key=lambda entry: entry.planned.run_id)
    planned = [entry.planned for entry in entries]
    values = _values(entries)
    metrics = [
        {
            "metric": metric,
            "unit": validity.UNITS.get(metric) or matrix_rates.unit(metric),
            "signed": matrix_rates.signed(metric) or metric == validity.CPU_OTHERS,
        }
        for metric in values.columns
    ]
    about = pd.DataFrame([_about(run, groups[run.case], name) for run in planned])
    causes = [_cause(run) for run in planned if run.cause or run.invalid]
    return MatrixTables.of_rows(pd.concat([about, values], axis="columns"), causes, metrics)


def _values(entries: Sequence[MeasuredRun]) -> pd.DataFrame:
    """Return raw and summary metrics, those that vary."""
    # what a run did not count at all, such as an interrupt that never came before, is none
    none = dict.fromkeys((name for entry in entries for name in entry.metrics), 0.0)
    raw = pd.DataFrame([{**none, **entry.metrics} for entry in entries], dtype="float64")
    measured = {
        validity.ELAPSED: [float(f"{entry.elapsed:.6g}") for entry in entries],
        validity.TRANSACTIONS: [float(entry.transactions) for entry in entries],
    }
    rolled = validity.rolled_up(raw.assign(**measured))
    return rolled[[name for name in rolled if name.startswith(SUMMARY) or varies(rolled[name])]]


def _about(run: PlannedRun, group: str, machine: str) -> dict[str, object]:
    return {
        "run_id": run.run_id,
        "workload": run.case,
        "group": group,
        "version": f"v{run.pair if run.side == SIDES[1] else 0}",
        "machine": machine,
        "side": run.side,
        "pair_id": run.pair_id,
        "valid": not run.invalid,
        "abnormal": None if run.invalid else bool(run.cause),
    }


def _cause(run: PlannedRun) -> dict[str, object]:
    size = run.size or None
    return {"run_id": run.run_id, "cause": run.cause, "cause_size": size, "invalid_kind": run.invalid}


def varies(values: pd.Series) -> bool:
    """Tell whether a metric really varies."""
    return bool(1 - values.value_counts(normalize=True, dropna=False).max() >= VARIES)


@contextmanager
def running_on(cpus: Sequence[int]) -> Iterator[None]:
    """Let this process run on these processors only while the block runs."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def collect(path: Path, directory: Path, screen: Screen) -> bool:
    """Measure a suite, as `data.collect.collect` says.

    Beside it stands in the settings: ``foreign``, the share of the programs' processor that others used in
    each run, and ``others_busy``, the median of what they used of the whole machine (%).
    """
    suite = matrix_suite.load(path)
    *others, cpu = sorted(os.sched_getaffinity(0))
    lacking = list(perf_stat.uncountable(suite.events))
    if lacking:
        screen.say(f"perf cannot count {', '.join(lacking)}")
    counted = [event for event in suite.events if event not in lacking]
    with Bench(cpu, suite.interval, counted) as bench:
        for what, problem in bench.missing.items():
            screen.say(f"leaving out {what}: {problem}")
        causes, kinds = (
            [what for what in asked if what not in bench.missing]
            for asked in (suite.causes, suite.invalid_kinds)
        )
        able = {"causes": causes, "kinds of invalid runs": kinds, "events": counted}
        session = Session.begin(directory, suite, screen, "runs", MeasuredRun, note=Cost, able=able)
        cost = partial(_cost, suite, bench)
        # we look from another processor than the one that programs run on
        with running_on(others or [cpu]), session:
            measure(session, suite, plan(suite, causes, kinds), run=bench.run, cost=cost)
    entries = session.journal.entries
    made = tables(suite, entries, machine.name())
    busy = made.runs[validity.CPU_OTHERS].dropna()
    others_busy = round(float(busy.median()), 1) if len(busy) else None
    foreign = sorted(entry.foreign for entry in entries)
    return session.end(suite, made, lacking=lacking, foreign=foreign, others_busy=others_busy)


def _cost(suite: MatrixSuite, bench: Bench, name: str, costs: Mapping[str, float]) -> float:
    first = calibrate(name, CALIBRATION, bench.cpu)
    return corrected(suite, name, {**costs, name: first}, lambda trial: bench.run(trial).elapsed)
