"""Verdicts adjusted for between-run variation, with the reason in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan, nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats
from features.comparisons.run_shifts import DOUBTED, RunShifts
from serving.comparisons.explain.features import percent
from serving.comparisons.explain.sentences import Direction, describe_change
from training.evaluation.thresholds import DecisionThresholds

#: Largest logarithm of a ratio that is reported.
_FARTHEST = 20.0
#: Smaller changes of a whole run are not mentioned.
QUIET = 0.005


class RunReason(NamedTuple):
    """Why between-run variation decided; shares, shifts are logarithms of ratios, negative is worse."""

    answer: str
    spread: float  # between-run standard deviation of the operation
    detectable: float  # the smallest slow-down that is found with a probability of 80 %
    whole: float  # the part of the whole run's shift that was taken out; NaN if unknown
    whole_limit: float  # the usual shift of whole runs if that of this run decided, else NaN
    sign: float  # -1 if lower values are better, else 1

    def in_words(self, change: str, words: Direction) -> str:
        """Return the reason as a sentence of at most 15 words; `change`: that of the median, in words."""
        whole = f"the run {describe_change(share_of_baseline(self.whole, self.sign), words)}"
        if not isnan(self.whole_limit):
            return f"{change}, {whole}; runs differ by {percent(self.whole_limit)}"
        spread, detectable = percent(self.spread), percent(self.detectable)
        if abs(self.whole) > QUIET:
            change = f"{change}, {whole}"
            if self.answer == "unsure" and self.whole > 0:
                return change
            endings = f"builds differ by {spread}", f"certain from {detectable}", f"usual variation {spread}"
        else:
            endings = (
                f"builds of this operation differ by {spread}",
                f"certain only from {detectable} on",
                f"within the usual variation of {spread}",
            )
        return f"{change}; {endings[('fail', 'unsure', 'pass').index(self.answer)]}"


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
    cuts: DecisionThresholds,
    min_effect_size: float,
) -> AdjustedVerdicts:
    """Return the model's verdicts, adjusted for between-run variation; the arguments are not changed.

    On a machine with five operations or more, ``fail`` and ``unsure`` become ``fail`` if the shift to worse
    is significant (`RunShifts.is_beyond`), else ``unsure`` if it is doubtful (`RunShifts.is_doubted`), else
    ``pass``. A ``pass`` with a significant shift to worse becomes ``unsure`` if the whole run got faster by
    more than runs usually do; otherwise ``fail`` if the comparison, with the shift of the whole run, got
    worse by `min_effect_size`, a share, or more; otherwise ``unsure`` if the whole run got faster by over
    0.5 %; otherwise it stays ``pass``. On other machines, only a ``fail`` changes: it becomes ``unsure`` if
    its shift is not significant and the runs are too few to estimate their variation. ``invalid`` stays, and
    so do comparisons with an unknown shift.

    The result has ``answers`` and ``probability``, in the order of the arguments, and ``reasons`` by row
    number. All former ``fail`` and ``unsure`` on machines with five operations or more whose shift is known,
    and all changed verdicts, but no others, get a reason, and a probability in the range of their verdict by
    `cuts`.
    """
    adjusted = adjust_answers(answers, shifts, min_effect_size)
    not_passed, (decides, _) = np.isin(answers, ("fail", "unsure")), shifts.deciding_rows()
    touched = (not_passed & decides) | (adjusted != answers)
    of_shifts = shifts.regression_probability(cuts.low, cuts.high)
    is_between = (adjusted == "unsure") & ((of_shifts < cuts.low) | (of_shifts >= cuts.high))
    of_shifts[is_between] = min((cuts.low + cuts.high) / 2, np.nextafter(cuts.high, 0))
    reasons = {row: _run_reason(str(adjusted[row]), shifts, row) for row in np.flatnonzero(touched).tolist()}
    return AdjustedVerdicts(adjusted, np.where(touched, of_shifts, probability), reasons)


def adjust_answers(answers: NDArray[np.str_], shifts: RunShifts, min_effect_size: float) -> NDArray[np.str_]:
    """Return only the verdicts of `adjust_to_runs`, which states the rules; no argument is changed."""
    decides, doubts = shifts.deciding_rows()
    worse, doubted = shifts.is_beyond(-1.0), shifts.is_doubted()
    faster_run = np.bincount(shifts.comparison, shifts.together > QUIET, shifts.n_comparisons) > 0
    adjusted = answers.copy()
    rows = np.isin(answers, ("fail", "unsure")) & decides
    adjusted[rows] = np.where(worse, "fail", np.where(doubted, "unsure", "pass"))[rows]
    passed_worse, small = (answers == "pass") & decides & worse, ~shifts.is_worse_by(min_effect_size)
    faster_build = shifts.is_faster_build()
    adjusted[passed_worse & ~small & ~faster_build] = "fail"
    adjusted[passed_worse & ((small & faster_run) | faster_build)] = "unsure"
    adjusted[(answers == "fail") & doubts & ~worse] = "unsure"
    return adjusted


def _run_reason(answer: str, shifts: RunShifts, row: int) -> RunReason:
    """Return the reason from the configuration of comparison `row` that got worse most clearly."""
    rows = np.flatnonzero(shifts.comparison == row)
    at = rows[np.nanargmin(shifts.own.value[rows] / shifts.own.error[rows])]
    build, whole = shifts.by_machine.get(str(shifts.machine[at])), float(shifts.together[at])
    is_own = shifts.own.value[at] < -DOUBTED * shifts.own.usual_error[at]
    by_whole_run = build is not None and answer != "pass" and not is_own and whole < 0
    limit = float(np.expm1(min(build.whole_limit, _FARTHEST))) if build is not None and by_whole_run else nan
    spread, detectable, sign = (
        float(column[at]) for column in (shifts.run_spread, shifts.detectable, shifts.sign)
    )
    return RunReason(answer, spread, detectable, whole, limit, sign)


def share_of_baseline(shift: float, sign: float) -> float:
    """Return a shift as a share of the baseline (0.05 is 5 %), negative if the target is worse.

    `sign`: -1 if lower values are better, else 1. `shift` is `sign` times the natural logarithm of target /
    baseline, so it is negative, too, if the target is worse. Shifts below -20 or above 20 count as -20 or 20.
    """
    limited = np.clip(shift, -_FARTHEST, _FARTHEST)
    return float(-np.expm1(-limited) if sign < 0 else np.expm1(limited))
