"""Verdicts adjusted for between-run variation: a fail within it is unsure, until further runs confirm it."""

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
#: Standard error of the median of n normal samples, in standard deviations divided by the root of n.
_MEDIAN_ERROR = 1.2533
#: Detectable difference at a confidence of 95 %, in standard errors.
_DETECTABLE = 1.96
#: Assumed number of samples of a summary.
_SUMMARIZED = 5
#: Smaller changes of a whole run are not mentioned.
_QUIET = 0.005
_EVIDENCE: dict[Known, str] = {
    "runs": "as other runs show",
    "operations": "as the other operations of these runs show",
    "assumed": "assumed: several runs a side, --history or --runs-differ say more",
}


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """Judged comparisons, adjusted for between-run variation."""

    judgement: Judgement  # the adjusted verdicts, with remarks where they differ from the model's
    judged: NDArray[np.str_]  # shape (n_comparisons,), the model's verdicts
    faster: dict[int, Move]  # the largest improvement of improved comparisons, by row
    #: shape (n_comparisons,), the smallest change detectable in the samples at a confidence of 95 %, as a
    #: share, of the configuration where it is largest; NaN if invalid
    hidden: Floats
    whole: dict[str, float]  # change of the whole run by machine, as a share; negative is worse

    def beside(self, other: Weighed, rows: NDArray[np.bool_]) -> Weighed:
        """Return a copy with some rows, shape (n_comparisons,), taken from `other`."""
        verdicts = [
            theirs if is_other else ours
            for ours, theirs, is_other in zip(
                self.judgement.verdicts, other.judgement.verdicts, rows.tolist(), strict=True
            )
        ]
        faster = {row: move for row, move in self.faster.items() if not rows[row]}
        return Weighed(
            judgement=replace(
                other.judgement,
                answers=np.where(rows, other.judgement.answers, self.judgement.answers),
                iterate_verdicts=lambda: verdicts,
            ),
            judged=np.where(rows, other.judged, self.judged),
            faster=faster | {row: move for row, move in other.faster.items() if rows[row]},
            hidden=np.where(rows, other.hidden, self.hidden),
            whole=other.whole,
        )


def weigh(tables: ComparisonTables, served: Judge, assumed: float, notes: tuple[str, ...] = ()) -> Weighed:
    """Judge comparisons of runs, and relate their changes to between-run variation.

    `tables`: of `data.comparisons.pair.paired_runs`.
    `assumed`: as of `features.comparisons.between_run_variation.offsets`; 0: keep the model's verdicts.
    `notes`: assumptions made while reading.
    """
    judgement = judge(tables, served, notes=notes)
    prepared = PreparedComparisons.of(Sides.of(tables), served.model.card.run_spread)
    offsets = machine_offsets(prepared.sides, tables.comparisons["machine"].tolist(), assumed)
    doubts = dict(_doubts(judgement.answers, prepared, offsets)) if assumed else {}
    answers = judgement.answers.copy()
    answers[[*doubts]] = "unsure"
    whole_run_notes = tuple(_whole_run_notes(offsets, tables)) if assumed else ()
    return Weighed(
        judgement=replace(
            judgement,
            answers=answers,
            iterate_verdicts=lambda: _with_doubts(judgement, doubts),
            notes=(*judgement.notes, *whole_run_notes),
        ),
        judged=judgement.answers,
        faster=_improvements(tables, served, prepared, offsets, answers == "pass"),
        hidden=_detectable_changes(prepared.sides),
        whole={machine: _share(offset.value[0]) for machine, offset in offsets.whole.items()},
    )


def _with_doubts(judgement: Judgement, doubts: dict[int, str]) -> Iterator[Verdict]:
    for row, verdict in enumerate(judgement.verdicts):
        if (doubt := doubts.get(row)) is None:
            yield verdict
            continue
        probability = "" if verdict.probability is None else f" ({verdict.probability:.3f})"
        remark = f"unsure, where the model alone says {verdict.verdict}{probability}: {doubt}"
        yield verdict._replace(verdict="unsure", remarks=(remark, *verdict.remarks))


def _doubts(
    answers: NDArray[np.str_], prepared: PreparedComparisons, offsets: MachineOffsets
) -> Iterator[tuple[int, str]]:
    """Yield the rows whose verdict becomes ``unsure``, and the reason."""
    owner, n = prepared.sides.comparison, prepared.sides.n_comparisons
    worse = _any_configuration(offsets.own < 0, owner, n)
    confirmed = worse | _any_configuration(np.isnan(offsets.value) | (offsets.beyond < 0), owner, n)
    faster_run = _any_configuration(offsets.together > _QUIET, owner, n)
    for row in np.flatnonzero((answers == "fail") & ~confirmed).tolist():
        at = _worst_configuration(offsets, owner == row)
        whole = _whole_run_clause(offsets, at) if abs(offsets.together[at]) > _QUIET else ""
        limit, evidence = _size(offsets.limit[at]), _EVIDENCE[offsets.known(at)]
        change = f"{_change(offsets.value[at])}{whole}"
        yield row, f"{change}, and runs differ by up to {limit} without a change ({evidence})"
    for row in np.flatnonzero((answers == "pass") & worse & faster_run).tolist():
        at = _worst_configuration(offsets, owner == row)
        yield row, f"{_change(offsets.value[at])}{_whole_run_clause(offsets, at)}"


def _any_configuration(flags: NDArray[np.bool_], owner: NDArray[np.int64], n: int) -> NDArray[np.bool_]:
    return np.bincount(owner[flags], minlength=n) > 0


def _whole_run_clause(offsets: MachineOffsets, at: int) -> str:
    return f" relative to the whole run, which got {_change(offsets.together[at])}"


def _worst_configuration(offsets: MachineOffsets, configurations: NDArray[np.bool_]) -> int:
    rows = np.flatnonzero(configurations)
    return int(rows[np.nanargmin(offsets.value[rows] / offsets.limit[rows])])


def _whole_run_notes(offsets: MachineOffsets, tables: ComparisonTables) -> Iterator[str]:
    operations = tables.comparisons["machine"].value_counts()
    for machine, whole in offsets.whole.items():
        change = whole.value[0]
        if abs(change) <= _QUIET:
            continue
        place = f" on {machine}" if len(offsets.each) > 1 else ""
        count, limit = operations[machine], _size(whole.limit[0])
        note = f"the whole run{place} got {_change(change)}, by the middle one of its {count} operations"
        if abs(change) > whole.limit[0]:
            yield f"{note}: more than the {limit} that runs differ by, so all have a cause in common"
        else:
            yield f"{note}; runs differ by up to {limit} ({_EVIDENCE[whole.known]})"


def _improvements(
    tables: ComparisonTables,
    served: Judge,
    prepared: PreparedComparisons,
    offsets: MachineOffsets,
    passed: NDArray[np.bool_],
) -> dict[int, Move]:
    owner, n = prepared.sides.comparison, prepared.sides.n_comparisons
    beyond = (offsets.own > 0) | ((offsets.beyond > 0) & (prepared.change > 0))
    rows = np.flatnonzero(passed & _any_configuration(beyond, owner, n))
    if not len(rows):
        return {}
    rows = rows[judge(_exchanged(tables, rows), served).answers == "fail"]
    return dict(zip(rows.tolist(), filter(None, moves(prepared, prepared.best[rows])), strict=True))


def _exchanged(tables: ComparisonTables, rows: NDArray[np.int64]) -> ComparisonTables:
    """Return some comparisons with their sides exchanged, and without history."""
    chosen = tables.comparisons.iloc[rows].reset_index(drop=True)
    first = chosen["baseline_from"].min()
    results = tables.results[tables.results["order"] >= first]
    # the last run becomes the first
    span = results["order"].max() + first
    exchanged = chosen.assign(
        baseline_from=span - chosen["target_to"],
        baseline_to=span - chosen["target_from"],
        target_from=span - chosen["baseline_to"],
        target_to=span - chosen["baseline_from"],
    )
    return replace(tables, results=results.assign(order=span - results["order"]), comparisons=exchanged)


def _change(shift: float) -> str:
    return f"{_size(shift)} {'worse' if shift < 0 else 'better'}"


def _size(shift: float) -> str:
    return percent(abs(_share(shift)))


def _share(shift: float) -> float:
    """Return the difference of two logarithms as a share of the worse side."""
    return float(np.copysign(np.expm1(abs(shift)), shift))


def _detectable_changes(sides: Sides) -> Floats:
    """Return `Weighed.hidden`, from the standard errors of medians of normal samples."""
    variance, changes = np.zeros(len(sides.comparison)), np.full(sides.n_comparisons, np.nan)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for _, samples, five in sides.both:
            numbers = np.where(samples.lengths > 0, samples.lengths, _SUMMARIZED)
            variance += (_MEDIAN_ERROR * spread(five) / np.abs(five[:, 2])) ** 2 / numbers
        np.fmax.at(changes, sides.comparison, _DETECTABLE * np.sqrt(variance))
    return np.where(np.isfinite(changes), changes, np.nan)


def outcome_of(verdict: Verdict, row: int, weighed: Weighed, *, acknowledged: bool) -> Outcome:
    """Return the outcome of a comparison.

    A comparison that passes without an improvement is `unchanged` if all medians changed by less than the
    minimum effect size and the samples would show a relevant change; else `within_noise`.
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
