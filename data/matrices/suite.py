"""What to measure: the typed form of a SUITE.yaml for matrices."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from data.errors import InputError
from data.matrices.workloads import DEFECTS, STANDING, WORKLOADS
from data.measure.session import Count, CountedSuite, typed, unique
from data.tables.documents import Section
from data.tables.files import yaml_content
from data.tables.problems import unknown

Share = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0, le=5)]
#: Defects that are not inside the program: more units of its own work, and a quota of processor time.
EXTRA_WORK, QUOTA = "extra-work", "quota"
#: What ends the name of a defect that a version makes up for by as much less of its own work.
EQUAL_TIME = " at equal time"
CAUSES = (EXTRA_WORK, QUOTA, *DEFECTS, *STANDING, *(f"{name}{EQUAL_TIME}" for name in DEFECTS))
#: How a run becomes invalid.
KILLED, WRONG_COUNT, DISTURBED, BACKWARDS = "killed", "wrong-count", "disturbed", "counter-backwards"
INVALID_KINDS = (KILLED, WRONG_COUNT, DISTURBED, BACKWARDS)
Pace = Literal["closed", "waiting", "polling"]
#: Transactions come one after the other, or at a fixed rate: until the next is due, a program sleeps
#: (waiting) or looks again and again whether it is (polling).
CLOSED: Pace = "closed"
POLLING: Pace = "polling"


class TestCase(Section):
    """A workload and how many transactions it does in a run.

    A ``second`` workload has the ``share`` of the work. The work takes the share ``load`` of the run if the
    transactions come at a ``pace``, else all of it. A run takes ``length`` times the seconds of the suite.
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
    def workloads(self) -> dict[str, float]:
        """The share of the work by workload."""
        return {self.workload: 1 - self.share} | ({self.second: self.share} if self.second else {})


class CaseGroup(Section):
    """A group of test cases: any of its ``workloads`` comes first."""

    group: str
    workloads: Annotated[tuple[str, ...], Field(min_length=1)]
    pace: Pace = CLOSED


class MixedCases(Section):
    """Test cases by a rule: ``each`` of a group has one of its workloads and another of any other group.

    The others are drawn without putting back, all else for each test case: the ``shares`` of the second,
    ``transactions``, ``lengths``, and the ``loads`` of those that have a pace.
    """

    each: Count
    shares: Annotated[tuple[Share, ...], Field(min_length=1)]
    transactions: Annotated[tuple[Count, ...], Field(min_length=1)]
    lengths: Annotated[tuple[Positive, ...], Field(min_length=1)] = (1.0,)
    loads: Annotated[tuple[Annotated[float, Field(gt=0, le=1)], ...], Field(min_length=1)] = (0.5,)
    groups: tuple[CaseGroup, ...]

    def cases(self, seed: int) -> Iterator[TestCase]:
        """Yield the test cases, drawn by `seed`."""
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

    Every test case is compared with ``versions`` versions of it; each comparison has ``runs`` valid runs a
    side. The share ``abnormal`` of the versions has a defect: one of ``causes``, of one of ``sizes``, which
    is the defect's cost as a share of the time that the work takes. The share ``invalid`` of all runs is
    invalid, and comes on top of the valid ones. A run of a baseline takes about ``seconds``.

    There are as many ``sessions`` as environments, one after the other; the two sides of a comparison are
    measured in sessions that lie half of all sessions apart, either first. With one session, runs of both
    sides come in random order. Test cases are ``cases``, and those of the rule ``mixture``.
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
        mixed = self.mixture.cases(self.seed) if self.mixture else ()
        return {case.name: case for case in (*self.cases, *mixed)}


def load(path: Path) -> MatrixSuite:
    """Read and validate a suite; InputError naming file, key and value."""
    suite = typed(MatrixSuite, yaml_content(path), path)
    for what, names, known in (
        ("workload", [name for case in suite.test_cases.values() for name in case.workloads], WORKLOADS),
        ("cause", suite.causes, CAUSES),
        ("kind of invalid run", suite.invalid_kinds, INVALID_KINDS),
    ):
        for name in names:
            if name not in known:
                raise InputError(f'{what} "{name}" {unknown(name, known)}', file=path)
    for share, names, what in (
        (suite.abnormal, suite.causes, "causes"),
        (suite.invalid, suite.invalid_kinds, "invalid_kinds"),
    ):
        if share and not names:
            raise InputError(f"{what}=[]: expected at least one", file=path)
    if not suite.test_cases:
        raise InputError("cases=[]: expected at least one, or a mixture", file=path)
    unique([case.name for case in suite.cases], "case", path)
    unique(suite.events, "event", path)
    return suite
