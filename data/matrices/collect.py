"""Measuring matrices: versions of programs with and without defects, and invalid runs (seed 001)."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import cycle
from pathlib import Path

import pandas as pd

from data.matrices import rates as matrix_rates
from data.matrices import suite as matrix_suite
from data.matrices import summaries
from data.matrices.defects import DEFECTS
from data.matrices.run import HEAVY, Bench, Order, Outcome, calibrate
from data.matrices.suite import EXTRA_WORK, KILLED, QUOTA, WRONG_COUNT, MatrixSuite, TestCase
from data.matrices.tables import SIDES, SUMMARY, MatrixTables
from data.measure import machine, perf_stat
from data.measure.groups import remove_abandoned_groups
from data.measure.screen import Screen
from data.measure.session import Session, shuffled

#: Seconds that each cost is calibrated from.
CALIBRATION = 0.1
#: Trial runs for each cost, the size that defects are tried with, and the most that a trial may correct.
TRIALS, TRIAL_SIZE, LARGEST = 2, 0.4, 4.0
#: A metric varies if at least this share of the runs does not have its commonest value.
VARIES = 0.005


@dataclass(frozen=True)
class PlannedRun:
    """One run to measure.

    ``pair`` counts the versions of a test case; ``cause`` with its ``size`` is the defect of the version,
    empty if it has none; ``invalid`` is how the run is made invalid, empty for a valid one.
    """

    case: str
    pair: int
    side: str
    number: int
    cause: str = ""
    size: float = 0.0
    invalid: str = ""

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
class Costs:
    """What a unit of the work of a test case, and of each defect, costs in seconds."""

    case: str
    costs: dict[str, float]


def plan(suite: MatrixSuite, causes: Sequence[str], kinds: Sequence[str]) -> list[PlannedRun]:
    """List all runs: pairs in random order, and within a pair all runs of both sides in random order.

    Parameters
    ----------
    suite : MatrixSuite
    causes, kinds : sequence of str
        The causes and the kinds of invalid runs that this machine can make.
    """
    shuffle = random.Random(suite.seed)
    pairs = [(case.name, number) for case in suite.cases for number in range(1, suite.versions + 1)]
    defects = _defects(suite, causes, shuffle)
    runs = {
        (pair, side): [
            PlannedRun(*pair, side, number, *(defects.get(pair, ()) if side == SIDES[1] else ()))
            for number in range(1, suite.runs + 1)
        ]
        for pair in pairs
        for side in SIDES
    }
    _add_invalid(runs, suite, kinds, shuffle)
    shuffle.shuffle(pairs)
    return shuffled(([run for side in SIDES for run in runs[pair, side]] for pair in pairs), shuffle)


def _defects(
    suite: MatrixSuite, causes: Sequence[str], shuffle: random.Random
) -> dict[tuple[str, int], tuple[str, float]]:
    """Choose which pairs get which defect of which size: spread over groups, then over test cases."""
    count = round(suite.abnormal * suite.versions * len(suite.cases)) if causes else 0
    numbers = {
        case.name: shuffle.sample(range(1, suite.versions + 1), suite.versions) for case in suite.cases
    }
    waiting: dict[str, list[tuple[str, int]]] = {}
    for turn in range(suite.versions):
        for case in shuffle.sample(suite.cases, len(suite.cases)):
            waiting.setdefault(case.group, []).append((case.name, numbers[case.name][turn]))
    groups = cycle(shuffle.sample(list(waiting), len(waiting)))
    cause = cycle(shuffle.sample(causes, len(causes)))
    size = cycle(shuffle.sample(suite.sizes, len(suite.sizes)))
    chosen: dict[tuple[str, int], tuple[str, float]] = {}
    while len(chosen) < count:
        group = next(groups)
        if waiting[group]:
            chosen[waiting[group].pop(0)] = (next(cause), next(size))
    return chosen


def _add_invalid(
    runs: dict[tuple[tuple[str, int], str], list[PlannedRun]],
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


def order(suite: MatrixSuite, planned: PlannedRun, costs: dict[str, float]) -> Order:
    """Return how to make the run that is planned, from what a unit of its work and of its defect costs."""
    case = next(case for case in suite.cases if case.name == planned.case)
    draw = random.Random(f"{suite.seed} {planned.run_id}")
    units = suite.seconds / costs["unit"] / case.transactions
    defect, amount, quota = "", 0.0, 1.0
    if planned.cause == EXTRA_WORK:
        units *= 1 + planned.size
    elif planned.cause == QUOTA:
        quota = 1 / (1 + planned.size)
    elif planned.cause:
        defect = planned.cause
        amount = planned.size * suite.seconds / costs[defect] / case.transactions
    transactions = case.transactions
    if planned.invalid == WRONG_COUNT:
        transactions = max(1, round(transactions * draw.choice((0.5, 0.7, 0.9, 1.1, 1.3))))
    latest = 0.7 if planned.invalid == KILLED else 0.5
    moment = suite.seconds * draw.uniform(0.2, latest)
    heavy = draw.choice(HEAVY)
    return Order(case.workload, transactions, units, defect, amount, quota, planned.invalid, moment, heavy)


def trials(
    suite: MatrixSuite,
    case: TestCase,
    needed: Sequence[str],
    first: dict[str, float],
    seconds: Callable[[Order], float],
) -> dict[str, float]:
    """Correct the costs of a test case by trial runs, as counting makes some programs slower than others.

    Parameters
    ----------
    suite : MatrixSuite
    case : TestCase
    needed : sequence of str
        The defects that its versions will have.
    first : dict
        Costs as the program itself found them, without anybody counting.
    seconds : callable
        Makes one run and returns its elapsed seconds.
    """
    costs = dict(first)
    plain = PlannedRun(case.name, 0, SIDES[0], 0)
    for _ in range(TRIALS):
        costs["unit"] *= seconds(order(suite, plain, costs)) / suite.seconds
    for cause in needed:
        if cause in costs:
            spoiled = replace(plain, side=SIDES[1], cause=cause, size=TRIAL_SIZE)
            for _ in range(TRIALS):
                extra = seconds(order(suite, spoiled, costs)) / suite.seconds - 1
                costs[cause] *= min(LARGEST, max(1 / LARGEST, extra / TRIAL_SIZE))
    return costs


def measure(
    session: Session[MeasuredRun],
    suite: MatrixSuite,
    everything: Sequence[PlannedRun],
    *,
    run: Callable[[Order], Outcome],
    cost: Callable[[TestCase, Sequence[str]], dict[str, float]],
) -> None:
    """Measure what the journal lacks, keeping each run at once.

    Parameters
    ----------
    session : Session
    suite : MatrixSuite
    everything : sequence of PlannedRun
    run : callable
        Makes one run.
    cost : callable
        Calibrates a test case, and for it the defects that are named.
    """
    costs = calibrated(session, suite, everything, cost)

    def made(now: Sequence[PlannedRun]) -> tuple[list[MeasuredRun], float]:
        at = datetime.now(UTC).isoformat()
        outcome = run(order(suite, now[0], costs[now[0].case]))
        return [_measured(now[0], at, outcome)], outcome.foreign

    session.measure(everything, made)


def calibrated(
    session: Session[MeasuredRun],
    suite: MatrixSuite,
    everything: Sequence[PlannedRun],
    cost: Callable[[TestCase, Sequence[str]], dict[str, float]],
) -> dict[str, dict[str, float]]:
    """Return what units cost by test case, after finding it for those that wait to be measured."""
    costs: dict[str, dict[str, float]] = {note.case: note.costs for note in session.journal.notes}
    waiting = session.waiting(everything)
    names = {planned.case for planned in waiting} - set(costs)
    for case in (case for case in suite.cases if case.name in names):
        done = len(everything) - len(waiting)
        session.screen.advance(done, len(everything), f"calibrating {case.name}")
        needed = {run.cause for run in everything if run.case == case.name and run.cause in DEFECTS}
        costs[case.name] = cost(case, sorted(needed))
        session.journal.note(Costs(case.name, costs[case.name]))
    return costs


def _measured(planned: PlannedRun, at: str, outcome: Outcome) -> MeasuredRun:
    """Return what is kept of an outcome: metrics in six digits."""
    metrics = {
        name: None if math.isnan(value) else float(f"{value:.6g}") for name, value in outcome.metrics.items()
    }
    return MeasuredRun(planned, at, outcome.elapsed, outcome.transactions, outcome.foreign, metrics)


def tables(suite: MatrixSuite, entries: Sequence[MeasuredRun], name: str) -> MatrixTables:
    """Make the tables of what is measured; metrics that are the same in all runs are left out.

    Parameters
    ----------
    suite : MatrixSuite
    entries : sequence of MeasuredRun
    name : str
        Of the machine.
    """
    groups = {case.name: case.group for case in suite.cases}
    entries = sorted(entries, key=lambda entry: entry.planned.run_id)
    planned = [entry.planned for entry in entries]
    values = _values(entries)
    metrics = [
        {
            "metric": metric,
            "unit": summaries.UNITS.get(metric) or matrix_rates.unit(metric),
            "signed": matrix_rates.signed(metric) or metric == summaries.CPU_OTHERS,
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
        summaries.ELAPSED: [float(f"{entry.elapsed:.6g}") for entry in entries],
        summaries.TRANSACTIONS: [float(entry.transactions) for entry in entries],
    }
    rolled = summaries.rolled_up(raw.assign(**measured))
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

    Raises
    ------
    InputError
        If the suite is wrong, a program is missing or fails, or the measurement was begun by who can make
        other defects or count other events.
    """
    suite = matrix_suite.load(path)
    *others, cpu = sorted(os.sched_getaffinity(0))
    lacking = list(perf_stat.uncountable(suite.events))
    remove_abandoned_groups()
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
        session = Session.begin(directory, suite, screen, "runs", MeasuredRun, note=Costs, able=able)
        cost = partial(_cost, suite, bench)
        # we look from another processor than the one that programs run on
        with running_on(others or [cpu]), session:
            measure(session, suite, plan(suite, causes, kinds), run=bench.run, cost=cost)
    entries = session.journal.entries
    made = tables(suite, entries, machine.name())
    return session.end(suite, made, lacking=lacking, foreign=sorted(entry.foreign for entry in entries))


def _cost(suite: MatrixSuite, bench: Bench, case: TestCase, needed: Sequence[str]) -> dict[str, float]:
    first = calibrate(case.workload, CALIBRATION, bench.cpu)
    return trials(suite, case, needed, first, lambda trial: bench.run(trial).elapsed)
