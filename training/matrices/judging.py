"""The answer to pairs of matrices: validity, group, verdict, and the raw metrics that drove it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pandas as pd

from data.errors import InputError
from data.matrices.match import matched
from data.matrices.tables import SIDES, MatrixTables, incomparable
from data.matrices.validity import decide_runs, unit_changes, unjudgeable
from data.tables.problems import Problems

if TYPE_CHECKING:
    from training.matrices.engine.stored import TrainedEngine

#: Where all runs are valid, and yet the engine has nothing to compare.
NO_ANSWER = "a side has no value of any metric that the model looks at"
#: What a verdict tells of its runs.
TOLD = ("run_id", "workload", "group", "side", "pair_id")


@dataclass(frozen=True)
class InvalidRun:
    """A run that is not judged, and why.

    Attributes
    ----------
    run_id, side : str
    by : {"rule", "tree"}
        A rule of `data.matrices.validity`, or the decision tree of seed 001, section 4.1.
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
class MatrixJudgement:
    """The verdicts on all pairs, in the order of their first runs, and what holds for all of them.

    Attributes
    ----------
    verdicts : tuple of MatrixVerdict
    notes : tuple of str
        What a reader should know of all: metrics that are missing, unknown, in another unit, unknown groups.
    """

    verdicts: tuple[MatrixVerdict, ...]
    notes: tuple[str, ...]


def judge(trained: TrainedEngine, tables: MatrixTables, drivers: int = 5) -> MatrixJudgement:
    """Judge every pair of `tables`: one that cannot be judged is ``invalid``, and says why.

    Rules come first, then the validity tree looks at what they left; what is left of a pair then is judged.

    Parameters
    ----------
    trained : TrainedEngine
        From `training.matrices.engine.stored.TrainedEngine.read`.
    tables : MatrixTables
        As `data.matrices.formats.read_asked` gives them. Flags ``valid`` and ``abnormal`` are not looked at.
    drivers : int
        How many raw metrics to name for each pair.

    Raises
    ------
    InputError
        If a run has no place in the tables, there is none, or more metrics are missing than the model can do
        without.
    """
    card = trained.card
    asked = tables.without_flags().without_flawed_runs(Problems())
    if asked.runs.empty:
        raise InputError("there is none; expected at least one pair of matrices", place="runs")
    known = matched(asked, card.known_metrics(), card.groups, card.missing)
    rejected = list(_rejected(trained, known.tables))
    runs = known.tables.runs
    kept = ~runs["run_id"].isin([run.run_id for run in rejected]).to_numpy(bool)
    reasons = unjudgeable(runs, kept).to_dict() | incomparable(runs)
    whole = (runs["pair_id"].map(reasons) == "").to_numpy(bool)
    sound = known.tables.of_runs(kept & whole)
    answers = _answers(trained, sound, drivers)
    notes = _unit_notes(sound)
    return MatrixJudgement(
        tuple(
            _verdict(
                own,
                rejected,
                reasons[str(pair)],
                answers.get(str(pair)),
                tuple(notes.get(str(pair), ())),
            )
            for pair, own in runs[list(TOLD)].groupby("pair_id", sort=False)
        ),
        known.notes,
    )


@dataclass(frozen=True)
class _Answer:
    """What the engine said of a pair; of one that it was not asked about, nothing."""

    group_used: str = ""
    verdict: Literal["pass", "fail", "invalid"] = "invalid"
    probability: float | None = None
    threshold: float | None = None
    drivers: tuple[Driver, ...] = ()


def _rejected(trained: TrainedEngine, tables: MatrixTables) -> Iterator[InvalidRun]:
    """Yield the runs that a rule or the tree finds invalid."""
    decided = decide_runs(tables, trained.card.missing)
    kept = decided["kept"].to_numpy(bool)
    broken = zip(decided[~kept].itertuples(), tables.runs.loc[~kept, "side"], strict=True)
    for run, side in broken:
        yield InvalidRun(run.run_id, side, "rule", run.rule, run.reason)
    if trained.validity is not None and kept.any():
        told = trained.validity.judged(tables.of_runs(kept))
        for run in told[told["invalid"].to_numpy(bool)].itertuples():
            yield InvalidRun(run.run_id, run.side, "tree", "", run.path)


def _answers(trained: TrainedEngine, sound: MatrixTables, count: int) -> dict[str, _Answer]:
    """Ask the engine about the pairs of `sound`."""
    if sound.runs.empty:
        return {}
    units = sound.metrics.set_index("metric")["unit"]
    return {
        str(row.pair_id): _Answer(
            row.group_used,
            "fail" if row.abnormal else "pass",
            float(row.probability),
            float(row.threshold),
            tuple(_drivers(trained, sound, row.pair_id, count, units)) if count else (),
        )
        for row in trained.engine.judged(sound).itertuples()
    }


def _drivers(
    trained: TrainedEngine, sound: MatrixTables, pair_id: str, count: int, units: pd.Series
) -> Iterator[Driver]:
    """Yield the raw metrics that drove the verdict on one pair of `sound`."""
    pair = sound.of_runs((sound.runs["pair_id"] == pair_id).to_numpy(bool))
    for one in trained.engine.drivers(pair, pair_id, count).itertuples():
        yield Driver(
            one.metric,
            str(units[one.metric]),
            _known(one.baseline),
            _known(one.target),
            float(one.contribution),
        )


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _unit_notes(sound: MatrixTables) -> dict[str, list[str]]:
    """Return by pair which metrics look as if they came in another unit."""
    notes: dict[str, list[str]] = {}
    if sound.runs.empty:
        return notes
    for change in unit_changes(sound.runs, sound.raw).itertuples():
        told = f"{change.metric} is {change.ratio:.6g} times its baseline; is it in another unit?"
        notes.setdefault(str(change.pair_id), []).append(told)
    return notes


def _verdict(
    runs: pd.DataFrame,
    rejected: list[InvalidRun],
    reason: str,
    answer: _Answer | None,
    notes: tuple[str, ...],
) -> MatrixVerdict:
    own = set(runs["run_id"])
    invalid = tuple(run for run in rejected if run.run_id in own)
    left = runs[~runs["run_id"].isin([run.run_id for run in invalid])]["side"].value_counts()
    # what is asked about is the target; the sides may differ in the workload or the group
    target = runs[runs["side"] == SIDES[1]]
    first = (target if len(target) else runs).iloc[0]
    told = answer or _Answer()
    return MatrixVerdict(
        pair_id=first["pair_id"],
        workload=first["workload"],
        group=first["group"],
        reason=reason or (NO_ANSWER if answer is None else ""),
        baseline_runs=int(left.get("baseline", 0)),
        target_runs=int(left.get("target", 0)),
        invalid_runs=invalid,
        notes=notes,
        **vars(told),
    )
