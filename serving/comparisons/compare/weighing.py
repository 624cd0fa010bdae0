"""Verdicts adjusted for between-run variation: a fail within it is unsure, until further runs confirm it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Sides
from data.comparisons.tables import ComparisonTables
from features.comparisons.between_run_variation import MachineOffsets, VariationEvidence, machine_offsets
from features.comparisons.lasting_changes import SMALLEST, WANTED
from features.comparisons.summaries import robust_spread
from features.comparisons.vectors import PreparedComparisons
from serving.comparisons.explain.features import percent
from serving.comparisons.judge import Judgement, Move, Verdict, configuration_moves, judge_tables
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
_EVIDENCE: dict[VariationEvidence, str] = {
    "runs": "as other runs show",
    "operations": "as the other operations of these runs show",
    "assumed": "assumed: several runs a side, --history or --between-run-variation say more",
}


@dataclass(frozen=True, kw_only=True)
class AdjustedJudgement:
    """Judged comparisons, adjusted for between-run variation."""

    judgement: Judgement  # the adjusted verdicts, with remarks where they differ from the model's
    judged: NDArray[np.str_]  # shape (n_comparisons,), the model's verdicts
    faster: dict[int, Move]  # the largest improvement of improved comparisons, by row
    #: shape (n_comparisons,), the smallest change detectable in the samples at a confidence of 95 %, as a
    #: share, of the configuration where it is largest; NaN if invalid
    hidden: Floats
    whole: dict[str, float]  # change of the whole run by machine, as a share; negative is worse

    def replace_rows(self, other: AdjustedJudgement, rows: NDArray[np.bool_]) -> AdjustedJudgement:
        """Return a copy with the rows that are true in `rows`, shape (n_comparisons,), taken from `other`.

        The change of the whole run is that of `other`.
        """
        verdicts = [
            theirs if is_other else ours
            for ours, theirs, is_other in zip(
                self.judgement.verdicts, other.judgement.verdicts, rows.tolist(), strict=True
            )
        ]
        faster = {row: move for row, move in self.faster.items() if not rows[row]}
        return AdjustedJudgement(
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


def judge_runs(
    tables: ComparisonTables, served: Judge, assumed: float, notes: tuple[str, ...] = ()
) -> AdjustedJudgement:
    """Return verdicts on comparisons of runs; a fail within between-run variation becomes ``unsure``.

    So does a pass that got worse relative to a whole run that got faster.

    `tables`: of `data.comparisons.pair.paired_runs`.
    `assumed`: standard deviation between runs of one build, as a share of the median, where it cannot be
    estimated; 0: keep the model's verdicts.
    `notes`: assumptions made while reading.
    """
    judgement = judge_tables(tables, served, notes=notes)
    prepared = PreparedComparisons.from_sides(Sides.from_tables(tables), served.model.card.run_spread)
    offsets = machine_offsets(prepared.sides, tables.comparisons["machine"].tolist(), assumed)
    doubts = dict(_doubted_rows(judgement.answers, prepared, offsets)) if assumed else {}
    answers = judgement.answers.copy()
    answers[[*doubts]] = "unsure"
    whole_run_notes = tuple(_whole_run_notes(offsets, tables)) if assumed else ()
    return AdjustedJudgement(
        judgement=replace(
            judgement,
            answers=answers,
            iterate_verdicts=lambda: _with_doubts(judgement, doubts),
            notes=(*judgement.notes, *whole_run_notes),
        ),
        judged=judgement.answers,
        faster=_find_improvements(tables, served, prepared, offsets, answers == "pass"),
        hidden=_detectable_changes(prepared.sides),
        whole={
            machine: _share_of_worse(offset.value[0]) for machine, offset in offsets.whole_run_shifts.items()
        },
    )


def _with_doubts(judgement: Judgement, doubts: dict[int, str]) -> Iterator[Verdict]:
    for row, verdict in enumerate(judgement.verdicts):
        if (doubt := doubts.get(row)) is None:
            yield verdict
            continue
        probability = "" if verdict.probability is None else f" ({verdict.probability:.3f})"
        remark = f"unsure, where the model alone says {verdict.verdict}{probability}: {doubt}"
        yield verdict._replace(verdict="unsure", remarks=(remark, *verdict.remarks))


def _doubted_rows(
    answers: NDArray[np.str_], prepared: PreparedComparisons, offsets: MachineOffsets
) -> Iterator[tuple[int, str]]:
    owner, n = prepared.sides.comparison, prepared.sides.n_comparisons
    worse = _any_configuration(offsets.configuration_sign < 0, owner, n)
    confirmed = worse | _any_configuration(np.isnan(offsets.value) | (offsets.whole_run_sign < 0), owner, n)
    faster_run = _any_configuration(offsets.together > _QUIET, owner, n)
    for row in np.flatnonzero((answers == "fail") & ~confirmed).tolist():
        at = _worst_configuration(offsets, owner == row)
        whole = _whole_run_clause(offsets, at) if abs(offsets.together[at]) > _QUIET else ""
        limit, evidence = _size_text(offsets.limit[at]), _EVIDENCE[offsets.evidence_at(at)]
        change = f"{_change_text(offsets.value[at])}{whole}"
        yield row, f"{change}, and runs differ by up to {limit} without a change ({evidence})"
    for row in np.flatnonzero((answers == "pass") & worse & faster_run).tolist():
        at = _worst_configuration(offsets, owner == row)
        yield row, f"{_change_text(offsets.value[at])}{_whole_run_clause(offsets, at)}"


def _any_configuration(flags: NDArray[np.bool_], owner: NDArray[np.int64], n: int) -> NDArray[np.bool_]:
    return np.bincount(owner[flags], minlength=n) > 0


def _whole_run_clause(offsets: MachineOffsets, at: int) -> str:
    return f" relative to the whole run, which got {_change_text(offsets.together[at])}"


def _worst_configuration(offsets: MachineOffsets, configurations: NDArray[np.bool_]) -> int:
    rows = np.flatnonzero(configurations)
    return int(rows[np.nanargmin(offsets.value[rows] / offsets.limit[rows])])


def _whole_run_notes(offsets: MachineOffsets, tables: ComparisonTables) -> Iterator[str]:
    operations = tables.comparisons["machine"].value_counts()
    for machine, whole in offsets.whole_run_shifts.items():
        change = whole.value[0]
        if abs(change) <= _QUIET:
            continue
        place = f" on {machine}" if len(offsets.by_machine) > 1 else ""
        count, limit = operations[machine], _size_text(whole.limit[0])
        note = f"the whole run{place} got {_change_text(change)}, by the middle one of its {count} operations"
        if abs(change) > whole.limit[0]:
            yield f"{note}: more than the {limit} that runs differ by, so all have a cause in common"
        else:
            yield f"{note}; runs differ by up to {limit} ({_EVIDENCE[whole.evidence]})"


def _find_improvements(
    tables: ComparisonTables,
    served: Judge,
    prepared: PreparedComparisons,
    offsets: MachineOffsets,
    passed: NDArray[np.bool_],
) -> dict[int, Move]:
    owner, n = prepared.sides.comparison, prepared.sides.n_comparisons
    beyond = (offsets.configuration_sign > 0) | ((offsets.whole_run_sign > 0) & (prepared.change > 0))
    rows = np.flatnonzero(passed & _any_configuration(beyond, owner, n))
    if not len(rows):
        return {}
    rows = rows[judge_tables(_exchange_sides(tables, rows), served).answers == "fail"]
    return dict(
        zip(rows.tolist(), filter(None, configuration_moves(prepared, prepared.best[rows])), strict=True)
    )


def _exchange_sides(tables: ComparisonTables, rows: NDArray[np.int64]) -> ComparisonTables:
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


def _change_text(shift: float) -> str:
    return f"{_size_text(shift)} {'worse' if shift < 0 else 'better'}"


def _size_text(shift: float) -> str:
    return percent(abs(_share_of_worse(shift)))


def _share_of_worse(shift: float) -> float:
    """Return the difference of two logarithms as a share of the worse side."""
    return float(np.copysign(np.expm1(abs(shift)), shift))


def _detectable_changes(sides: Sides) -> Floats:
    """Return `AdjustedJudgement.hidden`, from the standard errors of medians of normal samples."""
    variance, changes = np.zeros(len(sides.comparison)), np.full(sides.n_comparisons, np.nan)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for _, samples, five in sides.both_sides:
            numbers = np.where(samples.lengths > 0, samples.lengths, _SUMMARIZED)
            variance += (_MEDIAN_ERROR * robust_spread(five) / np.abs(five[:, 2])) ** 2 / numbers
        np.fmax.at(changes, sides.comparison, _DETECTABLE * np.sqrt(variance))
    return np.where(np.isfinite(changes), changes, np.nan)


def outcome_of(verdict: Verdict, row: int, weighed: AdjustedJudgement, *, acknowledged: bool) -> Outcome:
    """Return the outcome of comparison `row`, given its adjusted `verdict`.

    A fail is "regression", or "acknowledged" if `acknowledged`; "unsure" and "invalid" stay. A pass is
    "improvement" if a configuration improved beyond between-run variation, "unchanged" if all medians changed
    by less than the minimum effect size and the samples would show a relevant change, else "within_noise".
    """
    match verdict.verdict:
        case "fail":
            return "acknowledged" if acknowledged else "regression"
        case "pass" if row in weighed.faster:
            return "improvement"
        case "pass":
            moved, min_effect_size = verdict.moved, weighed.judgement.card.min_effect_size or SMALLEST
            still = moved is not None and abs(moved.change) < min_effect_size and verdict.improved is None
            return "unchanged" if still and weighed.hidden[row] <= WANTED else "within_noise"
    return verdict.verdict
