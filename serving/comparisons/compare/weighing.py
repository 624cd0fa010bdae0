"""Verdicts beside what whole runs differ by: a fail within that is unsure, until further runs confirm it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Sides
from data.comparisons.tables import ComparisonTables
from features.comparisons.between_run_variation import Known, MachineOffsets, machine_offsets
from features.comparisons.lasting_changes import SMALLEST, WANTED
from features.comparisons.summaries import spread
from features.comparisons.vectors import PreparedComparisons
from serving.comparisons.explain.features import percent
from serving.comparisons.judge import Judgement, Move, Verdict, judge, moves
from serving.comparisons.model import Judge

Outcome = Literal[
    "regression", "acknowledged", "unsure", "improvement", "invalid", "within_noise", "unchanged"
]
#: The error of a median of a normal distribution, in standard deviations by the root of the number.
_MEDIAN_ERROR = 1.2533
#: A difference is told from noise, 95 times in 100, from so many of its standard errors on.
_TOLD = 1.96
#: Samples that a summary stands for, which does not say how many there were.
_SUMMARIZED = 5
#: A whole run that moved by less is not spoken of.
_QUIET = 0.005
_TELLS: dict[Known, str] = {
    "runs": "as other runs show",
    "operations": "as the other operations of these runs show",
    "assumed": "assumed: several runs a side, --history or --runs-differ say more",
}


@dataclass(frozen=True)
class Weighed:
    """Judged comparisons."""

    judgement: Judgement  # with the verdicts that count, and remarks where they are not the model's
    judged: NDArray[np.str_]  # shape (n_comparisons,), what the model says
    faster: dict[int, Move]  # improvements by row: the configuration that got better most
    #: shape (n_comparisons,), the smallest change that can be told from the scatter of the samples, 95 times
    #: in 100, as a share: of the configuration where it is largest; NaN where a comparison cannot be judged
    hidden: Floats
    #: how far the whole run moved, by machine, as a share; negative is worse. Of those that tell.
    whole: dict[str, float]

    def beside(self, other: Weighed, rows: NDArray[np.bool_]) -> Weighed:
        """Return these, but what `other` says of some rows."""
        mine, theirs = self.judgement, other.judgement
        of_each = [theirs if one else mine for one in rows.tolist()]
        faster = {row: move for row, move in self.faster.items() if not rows[row]}
        faster |= {row: move for row, move in other.faster.items() if rows[row]}
        answers = np.where(rows, theirs.answers, mine.answers)
        judged = np.where(rows, other.judged, self.judged)
        judgement = replace(
            theirs, answers=answers, told=lambda: (one.verdicts[row] for row, one in enumerate(of_each))
        )
        hidden = np.where(rows, other.hidden, self.hidden)
        return Weighed(judgement, judged, faster, hidden, other.whole)


def weigh(tables: ComparisonTables, served: Judge, assumed: float, notes: tuple[str, ...] = ()) -> Weighed:
    """Judge comparisons of runs, and hold what moved against what runs differ by.

    `tables`: of `data.comparisons.pair.paired_runs`.
    `assumed`: as `features.comparisons.between_run_variation.offsets` takes it; 0: nothing is held against
    anything.
    `notes`: what had to be assumed to read them.
    """
    judgement = judge(tables, served, notes=notes)
    asked = PreparedComparisons.of(Sides.of(tables), served.model.card.run_spread)
    found = machine_offsets(asked.sides, tables.comparisons["machine"].tolist(), assumed)
    remarks = dict(_doubts(judgement.answers, asked, found)) if assumed else {}
    answers = judgement.answers.copy()
    answers[[*remarks]] = "unsure"
    said = tuple(_of_whole(found, tables)) if assumed else ()
    return Weighed(
        replace(
            judgement,
            answers=answers,
            told=lambda: _with_doubts(judgement, remarks),
            notes=(*judgement.notes, *said),
        ),
        judgement.answers,
        _faster(tables, served, asked, found, answers == "pass"),
        _hidden(asked.sides),
        {name: _share(one.value[0]) for name, one in found.whole.items()},
    )


def _with_doubts(judgement: Judgement, doubts: dict[int, str]) -> Iterator[Verdict]:
    """Yield the verdicts, in rows with a doubt ``unsure`` instead."""
    for row, verdict in enumerate(judgement.verdicts):
        if (doubt := doubts.get(row)) is None:
            yield verdict
            continue
        chance = "" if verdict.probability is None else f" ({verdict.probability:.3f})"
        remark = f"unsure, where the model alone says {verdict.verdict}{chance}: {doubt}"
        yield verdict._replace(verdict="unsure", remarks=(remark, *verdict.remarks))


def _doubts(
    answers: NDArray[np.str_], asked: PreparedComparisons, found: MachineOffsets
) -> Iterator[tuple[int, str]]:
    """Yield the rows that are unsure, though the model is not, and why."""
    owner, n = asked.sides.comparison, asked.sides.n_comparisons
    beyond = _any(found.own < 0, owner, n)
    stands = beyond | _any(np.isnan(found.value) | (found.beyond < 0), owner, n)
    for row in np.flatnonzero((answers == "fail") & ~stands).tolist():
        yield row, _within(found, _worst(found, owner == row))
    faster = _any(found.together > _QUIET, owner, n)
    for row in np.flatnonzero((answers == "pass") & beyond & faster).tolist():
        at = _worst(found, owner == row)
        yield row, f"{_moved(found.value[at])}{_beside(found, at)}"


def _any(flags: NDArray[np.bool_], owner: NDArray[np.int64], n: int) -> NDArray[np.bool_]:
    return np.bincount(owner[flags], minlength=n) > 0


def _within(found: MachineOffsets, at: int) -> str:
    beside = _beside(found, at) if abs(found.together[at]) > _QUIET else ""
    return (
        f"{_moved(found.value[at])}{beside}, and runs differ by up to {_size(found.limit[at])} without a"
        f" change ({_TELLS[found.known(at)]})"
    )


def _beside(found: MachineOffsets, at: int) -> str:
    return f" beside the whole run, which got {_moved(found.together[at])}"


def _worst(found: MachineOffsets, own: NDArray[np.bool_]) -> int:
    rows = np.flatnonzero(own)
    return int(rows[np.nanargmin(found.value[rows] / found.limit[rows])])


def _of_whole(found: MachineOffsets, tables: ComparisonTables) -> Iterator[str]:
    """Say how far whole runs moved."""
    operations = tables.comparisons["machine"].value_counts()
    for machine, whole in found.whole.items():
        if abs(whole.value[0]) <= _QUIET:
            continue
        where = f" on {machine}" if len(found.each) > 1 else ""
        told = f"the whole run{where} got {_moved(whole.value[0])}"
        of = f"{told}, by the middle one of its {operations[machine]}"
        limit = _size(whole.limit[0])
        if abs(whole.value[0]) > whole.limit[0]:
            yield f"{of} operations: more than the {limit} that runs differ by, so all have a cause in common"
        else:
            yield f"{of} operations; runs differ by up to {limit} ({_TELLS[whole.known]})"


def _faster(
    tables: ComparisonTables,
    served: Judge,
    asked: PreparedComparisons,
    found: MachineOffsets,
    passed: NDArray[np.bool_],
) -> dict[int, Move]:
    """Find what got better by as much as a regression is worse: judge it the other way round."""
    owner, n = asked.sides.comparison, asked.sides.n_comparisons
    beyond = (found.own > 0) | ((found.beyond > 0) & (asked.change > 0))
    rows = np.flatnonzero(passed & _any(beyond, owner, n))
    if not len(rows):
        return {}
    turned = judge(_turned(tables, rows), served).answers
    best = asked.best[rows[turned == "fail"]]
    return dict(zip(rows[turned == "fail"].tolist(), filter(None, moves(asked, best)), strict=True))


def _turned(tables: ComparisonTables, rows: NDArray[np.int64]) -> ComparisonTables:
    """Return some comparisons with their sides exchanged, and nothing before them."""
    chosen = tables.comparisons.iloc[rows].reset_index(drop=True)
    first = chosen["baseline_from"].min()
    results = tables.results[tables.results["order"] >= first]
    # the last run becomes the first
    span = results["order"].max() + first
    turned = chosen.assign(
        baseline_from=span - chosen["target_to"],
        baseline_to=span - chosen["target_from"],
        target_from=span - chosen["baseline_to"],
        target_to=span - chosen["baseline_from"],
    )
    return replace(tables, results=results.assign(order=span - results["order"]), comparisons=turned)


def _moved(shift: float) -> str:
    """Say how far a logarithm moved."""
    return f"{_size(shift)} {'worse' if shift < 0 else 'better'}"


def _size(shift: float) -> str:
    return percent(abs(_share(shift)))


def _share(shift: float) -> float:
    """Return a logarithm as a share, of whichever side is the better one."""
    return float(np.copysign(np.expm1(abs(shift)), shift))


def _hidden(sides: Sides) -> Floats:
    """Return what `Weighed.hidden` has: of medians, whose error is that of a normal distribution's."""
    variance, found = np.zeros(len(sides.comparison)), np.full(sides.n_comparisons, np.nan)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for samples, five in ((sides.baseline, sides.baseline_five), (sides.target, sides.target_five)):
            many = np.where(samples.lengths > 0, samples.lengths, _SUMMARIZED)
            variance += (_MEDIAN_ERROR * spread(five) / np.abs(five[:, 2])) ** 2 / many
        np.fmax.at(found, sides.comparison, _TOLD * np.sqrt(variance))
    return np.where(np.isfinite(found), found, np.nan)


def outcome_of(verdict: Verdict, row: int, weighed: Weighed, *, acknowledged: bool) -> Outcome:
    """Return what a comparison is, for whoever reads many.

    Of those that pass and are no improvement, `unchanged` are those whose medians all moved by less than what
    counts as a change, and whose samples would show more than that; the others lie `within_noise`.
    """
    match verdict.verdict:
        case "fail":
            return "acknowledged" if acknowledged else "regression"
        case "pass" if row in weighed.faster:
            return "improvement"
        case "pass":
            moved, floor = verdict.moved, weighed.judgement.card.floor or SMALLEST
            still = moved is not None and abs(moved.change) < floor and verdict.improved is None
            return "unchanged" if still and weighed.hidden[row] <= WANTED else "within_noise"
    return verdict.verdict
