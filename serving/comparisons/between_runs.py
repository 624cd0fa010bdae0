"""Verdicts adjusted for between-run variation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints
from features.comparisons.between_run_variation import QUIET
from features.comparisons.run_shifts import RunShifts
from serving.comparisons.run_reasons import RunReason, run_reason
from training.comparisons.stored import Card


@dataclass(frozen=True)
class AdjustedVerdicts:
    """Verdicts and probabilities, shape (n_comparisons,), and the reasons of those that runs decided."""

    answers: NDArray[np.str_]
    probability: Floats
    reasons: Mapping[int, RunReason]  # by row


def adjust_to_runs(
    answers: NDArray[np.str_],
    probability: Floats,
    shifts: RunShifts,
    worst: Ints,
    card: Card,
) -> AdjustedVerdicts:
    """Return the model's verdicts, adjusted for between-run variation; the arguments are not changed.

    `worst`, shape (n_comparisons,): the configuration of `shifts` with the worst median, which reasons are
    about.

    On a machine with five operations or more, ``fail`` and ``unsure`` become ``fail`` if the shift to worse
    is significant (`RunShifts.is_beyond`), else ``unsure`` if it is doubtful (`RunShifts.is_doubted`), else
    ``pass``. A ``pass`` with a significant shift to worse becomes ``unsure`` if the whole run got faster by
    more than runs usually do; otherwise ``fail`` if the comparison, with the shift of the whole run, got
    worse by the minimum effect size or more; otherwise ``unsure`` if the whole run got faster by over
    0.5 %; otherwise it stays ``pass``. On other machines, only a ``fail`` changes: it becomes ``unsure`` if
    its shift is not significant and the runs are too few to estimate their variation. ``invalid`` stays, and
    so do comparisons with an unknown shift. If the policy limits false negatives, a ``fail`` or ``unsure``
    that would pass is ``unsure``; if it limits false positives, so is another verdict that would fail.

    All former ``fail`` and ``unsure`` on machines with five operations or more whose shift is known, and all
    changed verdicts, but no others, get a reason, and a probability in the range of their verdict
    by the thresholds of `card`.
    """
    adjusted, cuts = adjust_answers(answers, shifts, card), card.decision_thresholds
    not_passed, (decides, _) = np.isin(answers, ("fail", "unsure")), shifts.deciding_rows()
    touched = (not_passed & decides) | (adjusted != answers)
    of_shifts = shifts.regression_probability(cuts.low, cuts.high)
    is_between = (adjusted == "unsure") & ((of_shifts < cuts.low) | (of_shifts >= cuts.high))
    of_shifts[is_between] = min((cuts.low + cuts.high) / 2, np.nextafter(cuts.high, 0))
    reasons = {
        row: run_reason(str(adjusted[row]), shifts, row, worst, card.min_effect_size)
        for row in np.flatnonzero(touched).tolist()
    }
    return AdjustedVerdicts(adjusted, np.where(touched, of_shifts, probability), reasons)


def adjust_answers(answers: NDArray[np.str_], shifts: RunShifts, card: Card) -> NDArray[np.str_]:
    """Return only the verdicts of `adjust_to_runs`, which states the rules; no argument is changed."""
    decides, doubts = shifts.deciding_rows()
    worse, doubted = shifts.is_beyond(-1.0), shifts.is_doubted()
    faster_run = np.bincount(shifts.comparison, shifts.together > QUIET, shifts.n_comparisons) > 0
    adjusted = answers.copy()
    rows = np.isin(answers, ("fail", "unsure")) & decides
    adjusted[rows] = np.where(worse, "fail", np.where(doubted, "unsure", "pass"))[rows]
    passed_worse, small = (answers == "pass") & decides & worse, ~shifts.is_worse_by(card.min_effect_size)
    faster_build = shifts.is_faster_build()
    adjusted[passed_worse & ~small & ~faster_build] = "fail"
    adjusted[passed_worse & ((small & faster_run) | faster_build)] = "unsure"
    adjusted[(answers == "fail") & doubts & ~worse] = "unsure"
    if card.policy.max_false_negative_rate is not None:
        adjusted[rows & (adjusted == "pass")] = "unsure"
    if card.policy.max_false_positive_rate is not None:
        adjusted[(answers != "fail") & (adjusted == "fail")] = "unsure"
    return adjusted
