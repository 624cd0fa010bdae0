"""Collector of matrices: programs with and without defects, and invalid runs (matrix paper)."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import cycle, product
from pathlib import Path
from typing import Any

import pandas as pd

from data.matrices import run as matrix_rates
from data.matrices import suite as matrix_suite
from data.matrices import validity
from data.matrices.programs import Work
from data.matrices.run import HEAVY, Bench, Order, Outcome, calibrate_unit
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
from data.matrices.tables import CAUSE_DTYPES, SIDES, SUMMARY, MatrixTables
from data.matrices.workloads import DEFECTS, STANDING
from data.measure import machine, perf_stat
from data.measure.session import Screen, Session, shuffle_blocks

Pair = tuple[str, int]


@dataclass(frozen=True)
class PlannedRun:
    """One run to measure.

    ``pair`` numbers the versions of a test case from 1; ``cause`` with its ``size`` is the defect of the
    version, empty without; ``invalid`` is the way in which the run is made invalid, empty for a valid run;
    ``session`` counts from 0.
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
        """The name of the pair of matrices: test case and number of the version."""
        return f"{self.case} {self.pair}"

    @property
    def run_id(self) -> str:
        """The name of the run: pair, side and number of the run."""
        return f"{self.pair_id} {self.side} {self.number}"

    journal_key, description = run_id, pair_id


def plan_runs(suite: MatrixSuite, causes: Sequence[str], kinds: Sequence[str]) -> list[PlannedRun]:
    """Return all runs in their order: one session after the other, each in random order.

    With one session, the runs of a pair follow each other, also in random order; with several, baseline and
    target of a pair are in different ones. `causes` are the defects and `kinds` the ways to make runs invalid
    that are possible on this machine. The suite's seed determines the result.
    """
    shuffle = random.Random(suite.seed)
    pairs = [(name, number) for name in suite.test_cases for number in range(1, suite.versions + 1)]
    defects = _choose_defects(suite, causes, shuffle)
    # the sessions of the baselines have the same number of pairs each, spread over the test cases
    count = len(suite.sessions)
    sessions = cycle(shuffle.sample(range(count), count))
    baselines = {pair: next(sessions) for pair in shuffle.sample(pairs, len(pairs))}
    runs: dict[tuple[Pair, str], list[PlannedRun]] = {}
    for pair, side in product(pairs, SIDES):
        defect, numbers = defects.get(pair, ()) if side == SIDES[1] else (), range(1, suite.runs + 1)
        runs[pair, side] = [PlannedRun(*pair, side, number, *defect) for number in numbers]
    _add_invalid(runs, suite, kinds, shuffle)
    blocks: dict[tuple[int, Pair | None], list[PlannedRun]] = {}
    for (pair, side), matrix in runs.items():
        session = (baselines[pair] + (count // 2 if side == SIDES[1] else 0)) % count
        block = blocks.setdefault((session, pair if count == 1 else None), [])
        block += [replace(run, session=session) for run in matrix]
    order = shuffle.sample(list(blocks), len(blocks))
    return shuffle_blocks((blocks[block] for block in sorted(order, key=lambda block: block[0])), shuffle)


def _choose_defects(
    suite: MatrixSuite, causes: Sequence[str], shuffle: random.Random
) -> dict[Pair, tuple[str, float]]:
    """Return the cause and size of the defect of each defective pair, spread over groups and test cases."""

    def cause_fits_case(cause: str, case: TestCase) -> bool:
        # a program that waits most of the time has a quota anyway
        return cause != QUOTA or case.pace == CLOSED

    all_cases = suite.test_cases.values()
    cases = [case for case in all_cases if any(cause_fits_case(cause, case) for cause in causes)]
    count = round(suite.abnormal * suite.versions * len(suite.test_cases))
    numbers = {case.name: shuffle.sample(range(1, suite.versions + 1), suite.versions) for case in cases}
    queues: dict[str, list[tuple[TestCase, int]]] = {}
    for turn in range(suite.versions):
        for case in shuffle.sample(cases, len(cases)):
            queues.setdefault(case.group, []).append((case, numbers[case.name][turn]))
    groups = cycle(shuffle.sample(list(queues), len(queues)))
    cause = cycle(shuffle.sample(causes, len(causes)))
    size = cycle(shuffle.sample(suite.sizes, len(suite.sizes)))
    chosen: dict[Pair, tuple[str, float]] = {}
    while len(chosen) < count and any(queues.values()):
        if queue := queues[next(groups)]:
            case, number = queue.pop(0)
            fitting = next(name for name in cause if cause_fits_case(name, case))
            chosen[case.name, number] = (fitting, next(size))
    return chosen


def _add_invalid(
    runs: dict[tuple[Pair, str], list[PlannedRun]],
    suite: MatrixSuite,
    kinds: Sequence[str],
    shuffle: random.Random,
) -> None:
    """Add the share of invalid runs: a side gets a second one only after all sides have one."""
    count = round(len(runs) * suite.runs * suite.invalid / (1 - suite.invalid)) if kinds else 0
    kind = cycle(shuffle.sample(kinds, len(kinds)))
    for added in range(0, count, len(runs)):
        for side in shuffle.sample(list(runs), min(count - added, len(runs))):
            runs[side].append(replace(runs[side][0], number=len(runs[side]) + 1, invalid=next(kind)))


def build_order(suite: MatrixSuite, planned: PlannedRun, costs: Mapping[str, float]) -> Order:
    """Return the parameters of the program of a planned run, with its defect or invalidity.

    `costs` are seconds per unit by workload and defect, KeyError if that of a workload of the test case is
    missing; a defect that is measured in units is not added without its cost. Random values depend on the
    suite's seed and the name of the run only.
    """
    case = suite.test_cases[planned.case]
    draw = random.Random(f"{suite.seed} {planned.run_id}")
    seconds = suite.seconds * case.length
    transaction_seconds = seconds / case.transactions
    shares = case.workload_shares.items()
    units = {name: transaction_seconds * case.load * share / costs[name] for name, share in shares}
    period = 0.0 if case.pace == CLOSED else transaction_seconds
    work = Work(units, case.transactions, period, case.pace == POLLING)
    work = _with_defect(work, planned, seconds * case.load, costs)
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


def _with_defect(work: Work, planned: PlannedRun, seconds: float, costs: Mapping[str, float]) -> Work:
    cause, size = planned.cause.removesuffix(EQUAL_TIME), planned.size
    grown = size if cause == EXTRA_WORK else -size if cause != planned.cause else 0.0
    work = work._replace(units={name: units * (1 + grown) for name, units in work.units.items()})
    if cause in STANDING:
        return work._replace(defect=cause, defect_size=size)
    if cause in costs:
        # at least one unit per run, or the version would not have the defect
        amount = max(1.0, size * seconds / costs[cause]) / work.transactions
        return work._replace(defect=cause, amount=amount)
    return work


#: Seconds of each calibration.
CALIBRATION = 0.1
#: Trial runs per cost, their number of transactions, and the largest correction by one trial.
TRIALS, TRANSACTIONS, LARGEST = 2, 50, 4.0
#: Workload of the trial runs of defects.
HOST = "recursion"
#: A metric varies if at least this share of the runs does not have its most frequent value.
VARIES = 0.005


@dataclass(frozen=True)
class MeasuredRun:
    """A measured run: ``at`` a UTC time, and its raw metrics, None where not measured.

    ``elapsed`` is in seconds; ``foreign`` is the share of the program's processor that others used.
    """

    planned: PlannedRun
    at: str
    elapsed: float
    transactions: int
    foreign: float
    metrics: dict[str, float | None]

    @property
    def journal_key(self) -> str:
        """The key of the planned run."""
        return self.planned.journal_key


@dataclass(frozen=True)
class Cost:
    """Seconds per unit of a workload or defect."""

    name: str
    seconds: float


def corrected_cost(
    suite: MatrixSuite, name: str, costs: Mapping[str, float], seconds: Callable[[Order], float]
) -> float:
    """Return the seconds per unit of `name`, a workload or defect, corrected by two trial runs.

    Counting events slows some programs down. `costs` has estimates for `name` and, if that is a defect, for
    `HOST`; `seconds` runs an order and returns its duration. Each trial multiplies the estimate by measured /
    planned duration (of a defect: without that of `HOST`), limited to 1/4 to 4.
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
    """Calibrate the workloads and defects, and measure the runs, that are not in the journal.

    `everything` are all planned runs. `run` runs a program once; `cost` returns the seconds per unit of a
    workload or defect, from its name and the costs known so far. Each result is written to the journal at
    once; a run over its time limit is recorded as invalid.
    """
    costs = calibrate_costs(session, suite, everything, cost)

    def measure_batch(now: Sequence[PlannedRun]) -> tuple[list[MeasuredRun], float]:
        planned, at = now[0], datetime.now(UTC).isoformat()
        limit = session.limits.limit_for(planned.case)
        outcome = run(replace(build_order(suite, planned, costs), limit=limit))
        session.limits.record_duration(planned.case, outcome.elapsed)
        metrics = {name: _six_digits(value) for name, value in outcome.metrics.items()}
        entry = MeasuredRun(planned, at, outcome.elapsed, outcome.transactions, outcome.foreign, metrics)
        return [entry], outcome.foreign

    session.measure_missing(everything, measure_batch)


def _six_digits(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.6g}")


def calibrate_costs(
    session: Session[MeasuredRun],
    suite: MatrixSuite,
    everything: Sequence[PlannedRun],
    cost: Callable[[str, Mapping[str, float]], float],
) -> dict[str, float]:
    """Return seconds per unit by workload and defect: those in the session's journal, and new ones by `cost`.

    New ones are those of runs of `everything` still to be measured, each noted in the journal at once. `cost`
    takes a name and the costs known so far.
    """
    costs: dict[str, float] = {note.name: note.seconds for note in session.journal.notes}
    missing_runs = session.runs_to_measure(everything)
    cases = dict.fromkeys(run.case for run in missing_runs)
    workloads = [name for case in cases for name in suite.test_cases[case].workload_shares]
    causes = [run.cause.removesuffix(EQUAL_TIME) for run in missing_runs]
    defects = [cause for cause in causes if cause in DEFECTS]
    for name in dict.fromkeys([*([HOST] if defects else []), *workloads, *defects]):
        if name not in costs:
            done = len(everything) - len(missing_runs)
            session.screen.show_progress(done, len(everything), f"calibrating {name}")
            costs[name] = cost(name, costs)
            session.journal.add_note(Cost(name, costs[name]))
    return costs


def build_tables(suite: MatrixSuite, entries: Sequence[MeasuredRun], name: str) -> MatrixTables:
    """Return the tables of the runs in `entries`, measured on the machine `name`, sorted by the run's name.

    A raw metric that has the same value in more than 99.5 % of the runs is left out of ``runs`` and
    ``metrics``; all summary metrics are kept. A metric that is not in the entry of a run is 0, also for this
    check; None is NaN. ``valid`` is False for runs that the suite made invalid on purpose; ``abnormal`` is
    whether the version has a defect (missing for invalid runs). ``causes`` has the defective and the invalid
    runs.
    """
    entries = sorted(entries, key=lambda entry: entry.planned.run_id)
    values = _metric_values(entries)
    metrics = []
    for metric in values.columns:
        unit = validity.UNITS.get(metric) or matrix_rates.metric_unit(metric)
        signed = matrix_rates.may_be_negative(metric) or metric == validity.CPU_OTHERS
        metrics.append({"metric": metric, "unit": unit, "signed": signed})
    about, causes = [], []
    for run in (entry.planned for entry in entries):
        about.append(
            {
                "run_id": run.run_id,
                "workload": run.case,
                "group": suite.test_cases[run.case].group,
                "version": f"v{run.pair if run.side == SIDES[1] else 0}",
                "machine": name,
                "side": run.side,
                "pair_id": run.pair_id,
                "valid": not run.invalid,
                "abnormal": None if run.invalid else bool(run.cause),
            }
        )
        if run.cause or run.invalid:
            causes.append((run.run_id, run.cause, run.size or None, run.invalid))
    runs = pd.concat([pd.DataFrame(about), values], axis="columns")
    return MatrixTables.from_rows(runs, pd.DataFrame(causes, columns=list(CAUSE_DTYPES)), metrics)


def _metric_values(entries: Sequence[MeasuredRun]) -> pd.DataFrame:
    # 0 for counts that a run does not have, such as an interrupt that came for the first time later
    zeros = dict.fromkeys((name for entry in entries for name in entry.metrics), 0.0)
    raw = pd.DataFrame([{**zeros, **entry.metrics} for entry in entries], dtype="float64")
    measured = {
        validity.ELAPSED: [_six_digits(entry.elapsed) for entry in entries],
        validity.TRANSACTIONS: [float(entry.transactions) for entry in entries],
    }
    rolled = validity.with_summary_metrics(raw.assign(**measured))
    largest_share = {name: rolled[name].value_counts(normalize=True, dropna=False).max() for name in rolled}
    return rolled[[name for name in rolled if name.startswith(SUMMARY) or 1 - largest_share[name] >= VARIES]]


def collect(path: Path, directory: Path, screen: Screen) -> bool:
    """Measure or resume the suite at `path`, and write its tables to `directory`; return whether complete.

    False after Ctrl-C; the tables then have the runs so far. The result may be True without the runs that
    exceeded their time limit. ``settings.json`` has, besides the usual settings, ``foreign``, the ascending
    shares of the programs' processor that others used in each run, ``others_busy``, the median share of the
    whole machine that others used (%; None without runs), and ``lacking``, the events that perf cannot count.
    InputError if the suite is invalid, perf is missing, a program fails, all runs exceeded their time limit,
    or `directory` has a measurement of another suite, or one for which other causes, kinds of invalid runs or
    events were possible.
    """
    suite = matrix_suite.load_suite(path)
    *others, cpu = sorted(os.sched_getaffinity(0))
    lacking = list(perf_stat.uncountable_events(suite.events))
    if lacking:
        screen.print_note(f"perf cannot count {', '.join(lacking)}")
    counted = [event for event in suite.events if event not in lacking]
    with Bench(cpu, suite.interval, counted) as bench, ExitStack() as stack:
        for name, problem in bench.missing.items():
            screen.print_note(f"leaving out {name}: {problem}")
        causes = [name for name in suite.causes if name not in bench.missing]
        kinds = [name for name in suite.invalid_kinds if name not in bench.missing]
        able = {"causes": causes, "kinds of invalid runs": kinds, "events": counted}
        session = Session.begin_or_resume(directory, suite, screen, "runs", MeasuredRun, note=Cost, able=able)

        def measure_cost(name: str, costs: Mapping[str, float]) -> float:
            all_costs = {**costs, name: calibrate_unit(name, CALIBRATION, cpu)}
            return corrected_cost(suite, name, all_costs, lambda trial: bench.run_once(trial).elapsed)

        # this process runs on other processors than the measured programs
        stack.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
        os.sched_setaffinity(0, others or [cpu])
        with session:
            measure(session, suite, plan_runs(suite, causes, kinds), run=bench.run_once, cost=measure_cost)
    entries = session.journal.entries
    made = build_tables(suite, entries, machine.machine_name())
    busy = made.runs[validity.CPU_OTHERS].dropna()
    others_busy = round(float(busy.median()), 1) if len(busy) else None
    foreign = sorted(entry.foreign for entry in entries)
    loads: dict[str, Any] = {"lacking": lacking, "foreign": foreign, "others_busy": others_busy}
    return session.write_results(path, suite, made, measured=len(entries), **loads)
