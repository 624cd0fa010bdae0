"""The answer to pairs of matrices: validity, group, verdict, and the raw metrics that drove it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from data.matrix_tables import MatrixTables
    from training.trained_engine import TrainedEngine

PASS, FAIL, INVALID = "pass", "fail", "invalid"


@dataclass(frozen=True)
class InvalidRun:
    """A run that is not judged, and why.

    Attributes
    ----------
    run_id, side : str
    by : {"rule", "tree"}
        A rule of `data.matrix_validity`, or the decision tree of seed 001, section 4.1.
    rule : str
        The short name of the rule, such as "0 or more"; empty for the tree.
    reason : str
        What broke it, such as "process.wait=-3 must be 0 or more", or the path through the tree, such as
        "process.wait > 3.2 ms/txn and summary_cpu_others > 8 %".
    """

    run_id: str
    side: str
    by: Literal["rule", "tree"]
    rule: str
    reason: str


@dataclass(frozen=True)
class Driver:
    """A raw metric that drove a verdict.

    Attributes
    ----------
    metric, unit : str
        The unit is empty where nobody told it.
    baseline, target : float or None
        The medians of the valid runs of both sides; None where the metric was not measured.
    contribution : float
        Towards ``fail`` if above 0; only the order and the sign can be compared between models.
    """

    metric: str
    unit: str
    baseline: float | None
    target: float | None
    contribution: float


@dataclass(frozen=True)
class MatrixVerdict:
    """What is said of one pair of matrices.

    Attributes
    ----------
    pair_id, workload, group : str
    group_used : str
        Whose model answered: the group's, or "fallback", learned from all groups; empty where invalid.
    verdict : {"pass", "fail", "invalid"}
    probability, threshold : float or None
        Of ``fail``, and from which on the verdict is ``fail``; None where invalid.
    reason : str
        Why the pair is invalid, such as "has 1 valid of 3 baseline runs; expected at least 2"; else empty.
    baseline_runs, target_runs : int
        Valid ones, on which the verdict rests.
    invalid_runs : tuple of InvalidRun
        A pair may be judged without them.
    drivers : tuple of Driver
        Largest contribution first; empty where invalid.
    notes : tuple of str
        What a reader of this verdict should know, such as a metric that looks like another unit.
    """

    pair_id: str
    workload: str
    group: str
    group_used: str
    verdict: Literal["pass", "fail", "invalid"]
    probability: float | None
    threshold: float | None
    reason: str
    baseline_runs: int
    target_runs: int
    invalid_runs: tuple[InvalidRun, ...]
    drivers: tuple[Driver, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Judgement:
    """The verdicts on all pairs, in the order of their first runs, and what holds for all of them.

    Attributes
    ----------
    verdicts : tuple of MatrixVerdict
    notes : tuple of str
        What a reader should know of all: metrics that are missing, unknown, in another unit, unknown groups.
    """

    verdicts: tuple[MatrixVerdict, ...]
    notes: tuple[str, ...]


def judge(trained: TrainedEngine, tables: MatrixTables, drivers: int = 5) -> Judgement:
    """Judge every pair of `tables`: one that cannot be judged is ``invalid``, and says why.

    Parameters
    ----------
    trained : TrainedEngine
        From `training.trained_engine.TrainedEngine.read`.
    tables : MatrixTables
        As `data.matrix_formats.read` gives them. Flags ``valid`` and ``abnormal`` are not looked at.
    drivers : int
        How many raw metrics to name for each pair.

    Raises
    ------
    InputError
        If the tables break their schema, there is no run, or more metrics are missing than the model can do
        without.
    """
    raise NotImplementedError
