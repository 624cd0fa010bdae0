"""Verdicts adjusted for between-run variation, with the interval of each change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isnan
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints, Sides
from data.comparisons.tables import ComparisonTables
from features.comparisons.between_run_variation import ASSUMED, share_of_baseline
from features.comparisons.lasting_changes import SMALLEST, WANTED
from features.comparisons.outliers import select_configurations
from features.comparisons.run_shifts import RunShifts
from features.comparisons.vectors import PreparedComparisons
from serving.comparisons.between_runs import adjust_to_runs
from serving.comparisons.judge import (
    Judgement,
    Move,
    Verdict,
    configuration_moves,
    judge_tables,
    with_adjusted,
)
from serving.comparisons.model import Judge
from serving.comparisons.run_reasons import noise_notes, whole_run_notes

Outcome = Literal[
    "regression", "acknowledged", "unsure", "improvement", "invalid", "within_noise", "unchanged"
]


class Changes(NamedTuple):
    """Changes of one configuration of each comparison, as shares of the baseline; negative is worse.

    Arrays of shape (n_comparisons,), NaN if unknown.
    """

    low: Floats  # low, high: limits of the interval of 95 %, including the shift of the whole run
    high: Floats
    detectable: Floats  # the smallest slow-down that is found with a probability of 80 %, and may fail
    usual_difference: Floats  # between two runs; see `RunShifts.usual_difference`

    @classmethod
    def of_all(cls, shifts: RunShifts, change: Floats, min_effect_size: float) -> Changes:
        """Return the changes of all configurations, arrays of shape (n_configurations,), for `take`.

        `change`, of the same shape: that of the medians, which an interval always includes.
        `min_effect_size`, a share: smaller slow-downs pass.
        """
        is_lower = shifts.sign < 0
        low, high = (np.where(is_lower, -np.expm1(-limit), np.expm1(limit)) for limit in shifts.interval)
        low, high = np.fmin(low, change), np.fmax(high, change)
        detectable = np.maximum(shifts.detectable, min_effect_size)
        columns, is_known = (low, high, detectable, shifts.usual_difference), np.isfinite(shifts.own.value)
        return cls(*(np.where(is_known, values, np.nan) for values in columns))

    def take(self, configurations: Ints) -> Changes:
        """Return the changes of the `configurations`, one per comparison; -1: unknown."""
        return Changes(*(np.append(values, np.nan)[configurations] for values in self))


@dataclass(frozen=True, kw_only=True)
class AdjustedJudgement:
    """Judged comparisons, adjusted for between-run variation."""

    judgement: Judgement  # the adjusted verdicts, with remarks where they differ from the model's
    judged: NDArray[np.str_]  # shape (n_comparisons,), the model's verdicts
    faster: dict[int, Move]  # the largest improvement of improved comparisons, by row
    changes: Changes  # of the configuration in `faster`, else of that with the worst median
    whole: dict[str, float]  # change of the whole run by machine, as a share; negative is worse

    def in_doubt(self, *, is_first: bool) -> NDArray[np.bool_]:
        """Return which comparisons are worth further runs, shape (n_comparisons,): unsure ones and fails.

        After the first repetition (not `is_first`), fails whose probability is nearer to 1 than to the
        threshold are settled.
        """
        answers, card = self.judgement.answers, self.judgement.card
        is_clear = self.judgement.probability > (1 + card.decision_thresholds.high) / 2
        return (answers == "unsure") | ((answers == "fail") & (is_first | ~is_clear))

    def replace_rows(self, other: AdjustedJudgement, rows: NDArray[np.bool_]) -> AdjustedJudgement:
        """Return a copy with the rows that are true in `rows`, shape (n_comparisons,), taken from `other`.

        The change of the whole run is that of `other`.
        """
        before, after = self.judgement, other.judgement
        pairs = zip(rows.tolist(), after.verdicts, before.verdicts, strict=True)
        verdicts = [new if is_other else old for is_other, new, old in pairs]
        faster = {row: move for row, move in self.faster.items() if not rows[row]}
        changes = (np.where(rows, *pair) for pair in zip(other.changes, self.changes, strict=True))
        return AdjustedJudgement(
            judgement=replace(
                after,
                answers=np.where(rows, after.answers, before.answers),
                probability=np.where(rows, after.probability, before.probability),
                iterate_verdicts=lambda: verdicts,
            ),
            judged=np.where(rows, other.judged, self.judged),
            faster=faster | {row: move for row, move in other.faster.items() if rows[row]},
            changes=Changes(*changes),
            whole=other.whole,
        )


def judge_runs(
    tables: ComparisonTables, served: Judge, assumed: float, notes: tuple[str, ...] = ()
) -> AdjustedJudgement:
    """Return verdicts on comparisons of runs, adjusted for between-run variation, with intervals of changes.

    `adjust_to_runs` defines the adjustment.
    `tables`: of `data.comparisons.pair.paired_runs`. `notes`: assumptions made while reading.
    `assumed`: standard deviation between runs of one build, as a share of the median, where it cannot be
    estimated; 0: no verdict is adjusted, and intervals assume `ASSUMED` there. Invalid comparisons have no
    change, and do not count in the whole run, in the variation, nor in the number of operations.
    Raises ModelError if the model computes a number that is not finite.
    """
    judgement = judge_tables(tables, served, notes=notes, assumed=0)
    prepared = PreparedComparisons.from_sides(Sides.from_tables(tables), served.model.card.run_spread)
    is_judged = (judgement.answers != "invalid")[prepared.sides.comparison]
    sides = select_configurations(prepared.sides, is_judged)
    shifts = RunShifts.from_sides(sides, tables.comparisons["machine"].tolist(), assumed or ASSUMED)
    card, place = judgement.card, np.append(np.where(is_judged, is_judged.cumsum() - 1, -1), -1)
    by_configuration = Changes.of_all(shifts, prepared.change[is_judged], card.min_effect_size)
    worst = place[prepared.worst]
    changes = by_configuration.take(worst)
    whole = {
        machine: share_of_baseline(build.whole.value[0], float(shifts.sign[shifts.machine == machine].min()))
        for machine, build in shifts.by_machine.items()
    }
    weighed, answers = judgement, judgement.answers
    if assumed:
        adjusted = adjust_to_runs(answers, judgement.probability, shifts, worst, card)
        decides, doubts = shifts.deciding_rows()
        # the model alone knows the change that flips a verdict: that of a fail which runs may only doubt
        by_model = ~decides & (~doubts | (adjusted.answers == "fail"))
        differences = [None if isnan(share) else share for share in changes.usual_difference.tolist()]

        def iterate_verdicts() -> Iterator[Verdict]:
            verdicts = with_adjusted(judgement.verdicts, adjusted)
            for verdict, has, difference in zip(verdicts, by_model.tolist(), differences, strict=True):
                yield verdict._replace(has_counterfactual=has, usual_difference=difference)

        sign = np.append(shifts.sign, np.nan)[worst]
        run_notes = noise_notes(changes.detectable, sign, tables, card.min_effect_size)
        weighed = replace(
            judgement,
            answers=adjusted.answers,
            probability=adjusted.probability,
            by_runs=len(judgement),
            iterate_verdicts=iterate_verdicts,
            notes=(*judgement.notes, *whole_run_notes(shifts, whole), *run_notes),
        )
    faster = _find_improvements(tables, served, prepared, shifts, weighed.answers == "pass")
    shown, improved = worst.copy(), [*faster]
    shown[improved] = place[prepared.best[improved]]
    changes = by_configuration.take(shown)
    return AdjustedJudgement(judgement=weighed, judged=answers, faster=faster, changes=changes, whole=whole)


def _find_improvements(
    tables: ComparisonTables,
    served: Judge,
    prepared: PreparedComparisons,
    shifts: RunShifts,
    passed: NDArray[np.bool_],
) -> dict[int, Move]:
    """Return the largest improvement of each comparison that fails if its sides are exchanged, by row."""
    rows = np.flatnonzero(passed & shifts.is_beyond(1.0))
    if not len(rows):
        return {}
    rows = rows[judge_tables(_exchange_sides(tables, rows), served, assumed=0).answers == "fail"]
    moves = filter(None, configuration_moves(prepared, prepared.best[rows]))
    return dict(zip(rows.tolist(), moves, strict=True))


def _exchange_sides(tables: ComparisonTables, rows: NDArray[np.int64]) -> ComparisonTables:
    chosen = tables.comparisons.iloc[rows].reset_index(drop=True)
    first = chosen["baseline_from"].min()
    results = tables.results[tables.results["order"] >= first]
    # the last run becomes the first
    span = results["order"].max() + first
    ends = ("baseline_from", "baseline_to", "target_from", "target_to")
    exchanged = {end: span - chosen[other] for end, other in zip(ends, reversed(ends), strict=True)}
    return replace(
        tables, results=results.assign(order=span - results["order"]), comparisons=chosen.assign(**exchanged)
    )


_BY_SEVERITY: tuple[Outcome, ...] = ("improvement", "unsure", "regression")
#: Least number of repetitions per side of an operation whose values differ.
_SEVERAL = 4


def outcomes_from_zero(tables: ComparisonTables) -> dict[int, Outcome]:
    """Return the outcome of comparisons whose values are all 0 on one side and above 0 on the other, by row.

    They are invalid for models, which know relative changes only. The outcome of a configuration is
    "regression" or "improvement" if all values of each side are equal, as counts of allocations often are, or
    both sides have at least four repetitions, else "unsure"; with fewer than two it has none. A comparison
    has the worst outcome of its configurations, where one with another change than from or to 0 is "unsure".
    """
    sides, outcomes = Sides.from_tables(tables), dict[int, Outcome]()
    before, after = ((five[:, 0], five[:, -1]) for _, _, five in sides.both_sides)  # smallest, largest
    appears = (before[0] == 0) & (before[1] == 0) & (after[0] > 0)
    vanishes = (after[0] == 0) & (after[1] == 0) & (before[0] > 0)
    is_constant = (before[0] == before[1]) & (after[0] == after[1])
    repetitions = np.minimum(sides.baseline.lengths, sides.target.lengths)
    is_same = is_constant & (before[0] == after[0])
    for row in np.flatnonzero((appears | vanishes) & (repetitions >= 2)).tolist():  # noqa: PLR2004 - one proves nothing
        comparison = int(sides.comparison[row])
        others = (sides.comparison == comparison) & ~appears & ~vanishes & ~is_same
        is_sure = is_constant[row] or repetitions[row] >= _SEVERAL
        is_worse = bool(appears[row]) == (sides.sign[row] < 0)
        found: Outcome = "regression" if is_sure and is_worse else "unsure"
        if is_sure and not is_worse and not others.any():
            found = "improvement"
        outcomes[comparison] = max(found, outcomes.get(comparison, found), key=_BY_SEVERITY.index)
    return outcomes


def outcome_of(verdict: Verdict, row: int, weighed: AdjustedJudgement) -> Outcome:
    """Return the outcome of comparison `row`, given its adjusted `verdict`.

    A fail is "regression"; "unsure" and "invalid" stay. A pass is
    "improvement" if `row` is a key of ``weighed.faster``. It is "unchanged" if the median of the worst
    configuration changed, either way, by less than the minimum effect size, no other configuration improved
    by that or more, and a slow-down of 5 % would be detected with a probability of 80 %. With a minimum of 0,
    the worst change must be below 0.5 %, and no other configuration may have improved. Else a pass is
    "within_noise".
    """
    match verdict.verdict:
        case "fail":
            return "regression"
        case "pass" if row in weighed.faster:
            return "improvement"
        case "pass":
            moved, min_effect_size = verdict.moved, weighed.judgement.card.min_effect_size or SMALLEST
            still = moved is not None and abs(moved.change) < min_effect_size and verdict.improved is None
            return "unchanged" if still and weighed.changes.detectable[row] <= WANTED else "within_noise"
    return verdict.verdict
