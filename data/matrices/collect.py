"""Measuring matrices: versions of programs with and without defects, and invalid runs (seed 001)."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pandas as pd

from data.matrices import rates as matrix_rates
from data.matrices import schema
from data.matrices import suite as matrix_suite
from data.matrices.defects import DEFECTS
from data.matrices.planning import PlannedRun, order, plan
from data.matrices.programs import Work
from data.matrices.run import Bench, Order, Outcome, calibrate
from data.matrices.suite import EQUAL_TIME, MatrixSuite
from data.matrices.tables import SIDES, SUMMARY, MatrixTables
from data.measure import machine, perf_stat
from data.measure.session import Screen, Session

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
    """Correct what a unit costs by trial runs, as counting makes some programs slower than others.

    Parameters
    ----------
    suite : MatrixSuite
    name : str
        Of a workload or a defect; a defect is tried beside `HOST`.
    costs : mapping
        Seconds of that unit, as the program itself found them without anybody counting, and of the host.
    seconds : callable
        Makes one run and returns its elapsed seconds.
    """
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
    """Measure what the journal lacks, keeping each run at once.

    Parameters
    ----------
    session : Session
    suite : MatrixSuite
    everything : sequence of PlannedRun
    run : callable
        Makes one run.
    cost : callable
        Returns what a unit of a workload or defect costs, given the costs that are known.
    """
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
    """Make the tables of what is measured; metrics that are the same in all runs are left out.

    Parameters
    ----------
    suite : MatrixSuite
    entries : sequence of MeasuredRun
    name : str
        Of the machine.
    """
    groups = {name: case.group for name, case in suite.test_cases.items()}
    entries = sorted(entries, key=lambda entry: entry.planned.run_id)
    planned = [entry.planned for entry in entries]
    values = _values(entries)
    metrics = [
        {
            "metric": metric,
            "unit": schema.UNITS.get(metric) or matrix_rates.unit(metric),
            "signed": matrix_rates.signed(metric) or metric == schema.CPU_OTHERS,
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
        schema.ELAPSED: [float(f"{entry.elapsed:.6g}") for entry in entries],
        schema.TRANSACTIONS: [float(entry.transactions) for entry in entries],
    }
    rolled = schema.rolled_up(raw.assign(**measured))
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

    Raises
    ------
    InputError
        If the suite is wrong, a program is missing or fails, or the measurement was begun by who can make
        other defects or count other events.
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
    busy = made.runs[schema.CPU_OTHERS].dropna()
    others_busy = round(float(busy.median()), 1) if len(busy) else None
    foreign = sorted(entry.foreign for entry in entries)
    return session.end(suite, made, lacking=lacking, foreign=foreign, others_busy=others_busy)


def _cost(suite: MatrixSuite, bench: Bench, name: str, costs: Mapping[str, float]) -> float:
    first = calibrate(name, CALIBRATION, bench.cpu)
    return corrected(suite, name, {**costs, name: first}, lambda trial: bench.run(trial).elapsed)
