"""What to measure: the typed form of a SUITE.yaml for matrices."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from data.errors import InputError
from data.matrices.defects import DEFECTS
from data.matrices.workloads import WORKLOADS
from data.measure.suite import Count, CountedSuite, content, typed, unique
from data.tables.given import Section
from data.tables.nearest import unknown

Share = Annotated[float, Field(ge=0, lt=1)]
#: Defects that are not inside the program: more units of its own work, and a quota of processor time.
EXTRA_WORK, QUOTA = "extra-work", "quota"
CAUSES = (EXTRA_WORK, QUOTA, *DEFECTS)
#: How a run becomes invalid.
KILLED, WRONG_COUNT, DISTURBED, BACKWARDS = "killed", "wrong-count", "disturbed", "counter-backwards"
INVALID_KINDS = (KILLED, WRONG_COUNT, DISTURBED, BACKWARDS)


class TestCase(Section):
    """A workload and how many transactions it does in a run."""

    __test__ = False

    name: str
    group: str
    workload: str
    transactions: Count


class MatrixSuite(CountedSuite):
    """A measurement of matrices.

    Every test case is compared with ``versions`` versions of it; each comparison has ``runs`` valid runs a
    side, in random order. The share ``abnormal`` of the versions has a defect: one of ``causes``, of one of
    ``sizes``, which is the defect's cost as a share of the run's time. The share ``invalid`` of all runs is
    invalid, and comes on top of the valid ones. A run of a baseline takes about ``seconds``.
    """

    kind: Literal["matrix"]
    seconds: Annotated[float, Field(ge=0.1, le=60)] = 0.58
    versions: Count
    runs: Annotated[int, Field(ge=2)] = 3
    abnormal: Share = 0.035
    invalid: Share = 0.09
    causes: tuple[str, ...] = CAUSES
    sizes: Annotated[tuple[Annotated[float, Field(gt=0, le=5)], ...], Field(min_length=1)]
    invalid_kinds: tuple[str, ...] = INVALID_KINDS
    cases: Annotated[tuple[TestCase, ...], Field(min_length=1)]


def load(path: Path) -> MatrixSuite:
    """Read and validate a suite; InputError naming file, key and value."""
    suite = typed(MatrixSuite, content(path), path)
    for what, names, known in (
        ("workload", [case.workload for case in suite.cases], WORKLOADS),
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
    unique([case.name for case in suite.cases], "case", path)
    unique(suite.events, "event", path)
    return suite
