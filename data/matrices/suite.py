"""Parameters of a measurement of matrices: the typed form of a SUITE.yaml."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from data.errors import InputError
from data.matrices.workloads import DEFECTS, STANDING, WORKLOADS
from data.measure.session import Count, CountedSuite, read_suite, require_unique
from data.tables.documents import Section
from data.tables.problems import unknown_message

Share = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0, le=5)]
#: Defects outside `DEFECTS`: more units of the program's workloads, and a quota of processor time.
EXTRA_WORK, QUOTA = "extra-work", "quota"
#: Suffix of a defect whose duration is compensated by fewer units of the program's workloads.
EQUAL_TIME = " at equal time"
CAUSES = (EXTRA_WORK, QUOTA, *DEFECTS, *STANDING, *(f"{name}{EQUAL_TIME}" for name in DEFECTS))
#: Ways to make a run invalid.
KILLED, WRONG_COUNT, DISTURBED, BACKWARDS = "killed", "wrong-count", "disturbed", "counter-backwards"
INVALID_KINDS = (KILLED, WRONG_COUNT, DISTURBED, BACKWARDS)
Pace = Literal["closed", "waiting", "polling"]
#: Transactions start without pause (closed), or at a fixed rate: until the next is due, the program sleeps
#: (waiting) or checks the time in short intervals (polling).
CLOSED: Pace = "closed"
POLLING: Pace = "polling"


class TestCase(Section):
    """A test case: a workload and its number of transactions per run.

    A ``second`` workload has the ``share`` of the work. With a ``pace`` other than closed, the work takes the
    share ``load`` of the run. A run takes ``length`` times the seconds of the suite.
    """

    __test__ = False

    name: str
    group: str
    workload: str
    transactions: Count
    second: str = ""
    share: Share = 0.0
    pace: Pace = CLOSED
    load: Annotated[float, Field(gt=0, le=1)] = 1.0
    length: Positive = 1.0

    @property
    def workload_shares(self) -> dict[str, float]:
        """The share of the work by workload, from 0 to 1; the sum is 1."""
        return {self.workload: 1 - self.share} | ({self.second: self.share} if self.second else {})


class CaseGroup(Section):
    """A group of test cases, with the candidates for their first workload."""

    group: str
    workloads: Annotated[tuple[str, ...], Field(min_length=1)]
    pace: Pace = CLOSED


class MixedCases(Section):
    """Randomly mixed test cases: ``each`` per group, of one of its workloads and one of another group.

    Second workloads are drawn without replacement. Drawn for each test case: the share of the second workload
    from ``shares``, ``transactions``, ``lengths``, and with a pace the load from ``loads``.
    """

    each: Count
    shares: Annotated[tuple[Share, ...], Field(min_length=1)]
    transactions: Annotated[tuple[Count, ...], Field(min_length=1)]
    lengths: Annotated[tuple[Positive, ...], Field(min_length=1)] = (1.0,)
    loads: Annotated[tuple[Annotated[float, Field(gt=0, le=1)], ...], Field(min_length=1)] = (0.5,)
    groups: tuple[CaseGroup, ...]

    def draw_cases(self, seed: int) -> Iterator[TestCase]:
        """Yield the test cases group by group, drawn with `seed`; at most ``each`` per group."""
        every = dict.fromkeys(name for group in self.groups for name in group.workloads)
        for kind in self.groups:
            draw = random.Random(f"{seed} {kind.group}")
            others = [name for name in every if name not in kind.workloads]
            for number, second in enumerate(draw.sample(others, min(self.each, len(others)))):
                first = kind.workloads[number % len(kind.workloads)]
                yield TestCase(
                    name=f"{first} with {second}" + ("" if kind.pace == CLOSED else f", {kind.pace}"),
                    group=kind.group,
                    workload=first,
                    second=second,
                    share=draw.choice(self.shares),
                    transactions=draw.choice(self.transactions),
                    length=draw.choice(self.lengths),
                    pace=kind.pace,
                    load=1.0 if kind.pace == CLOSED else draw.choice(self.loads),
                )


class MatrixSuite(CountedSuite):
    """A measurement of matrices.

    Every test case is compared with ``versions`` versions of it, with ``runs`` valid runs per side. The share
    ``abnormal`` of the versions has a defect: one of ``causes``, of one of ``sizes``, the defect's cost as a
    share of the duration of the work. The share ``invalid`` of all runs is invalid; these runs are added to
    the valid ones. A run of a baseline takes about ``seconds``.

    ``sessions`` are environments that are measured one after the other; the two sides of a comparison are
    measured in sessions whose distance is half the number of sessions, in either order. With one session, the
    runs of both sides are in random order. Test cases are ``cases``, and those drawn by ``mixture``.
    """

    kind: Literal["matrix"]
    seconds: Annotated[float, Field(ge=0.1, le=60)] = 0.58
    versions: Count
    runs: Annotated[int, Field(ge=2)] = 3
    abnormal: Share = 0.035
    invalid: Share = 0.09
    causes: tuple[str, ...] = CAUSES
    sizes: Annotated[tuple[Positive, ...], Field(min_length=1)]
    invalid_kinds: tuple[str, ...] = INVALID_KINDS
    sessions: Annotated[tuple[dict[str, str], ...], Field(min_length=1)] = ({},)
    cases: tuple[TestCase, ...] = ()
    mixture: MixedCases | None = None

    @cached_property
    def test_cases(self) -> dict[str, TestCase]:
        """All test cases by name."""
        mixed = self.mixture.draw_cases(self.seed) if self.mixture else ()
        return {case.name: case for case in (*self.cases, *mixed)}


def load_suite(path: Path) -> MatrixSuite:
    """Return the parameters of a measurement in a YAML file; InputError with file, key and value if invalid.

    InputError, too, if the file cannot be read, a workload, cause or kind of invalid run is unknown, there is
    no test case, ``causes`` (``invalid_kinds``) is empty although the share ``abnormal`` (``invalid``) is
    above 0, or an event or a test case of ``cases`` occurs twice. Unknown events are no error.
    """
    suite = read_suite(MatrixSuite, path)
    workloads = [name for case in suite.test_cases.values() for name in case.workload_shares]
    for noun, names, allowed in (
        ("workload", workloads, WORKLOADS),
        ("cause", suite.causes, CAUSES),
        ("kind of invalid run", suite.invalid_kinds, INVALID_KINDS),
    ):
        for name in names:
            if name not in allowed:
                raise InputError(f'{noun} "{name}" {unknown_message(name, allowed)}', file=path)
    for share, key in (("abnormal", "causes"), ("invalid", "invalid_kinds")):
        if getattr(suite, share) and not getattr(suite, key):
            raise InputError(f"{key}=[]: expected at least one", file=path)
    if not suite.test_cases:
        raise InputError("cases=[]: expected at least one, or a mixture", file=path)
    require_unique([case.name for case in suite.cases], "case", path)
    require_unique(suite.events, "event", path)
    return suite
