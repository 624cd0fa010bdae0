"""Which runs a suite wants, in which order, and what each of them does."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle

from data.matrices.defects import STANDING
from data.matrices.programs import Work
from data.matrices.run import HEAVY, Order
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
from data.matrices.tables import SIDES
from data.measure.session import shuffled

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

    Parameters
    ----------
    suite : MatrixSuite
    causes, kinds : sequence of str
        The causes and the kinds of invalid runs that this machine can make.
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
    """Return the work with the defect that is planned, where it lies inside the program.

    Parameters
    ----------
    work : Work
    planned : PlannedRun
    seconds : float
        What the work takes in a run.
    costs : mapping
    """
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
