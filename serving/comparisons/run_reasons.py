"""Words on between-run variation: reasons of verdicts, and notes on a run."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan, nan
from typing import NamedTuple

import numpy as np

from data.comparisons.pair import list_names, number_with_noun
from data.comparisons.sides import Floats, Ints
from data.comparisons.tables import ComparisonTables
from features.comparisons.between_run_variation import FARTHEST, QUIET, share_of_baseline
from features.comparisons.lasting_changes import WANTED
from features.comparisons.run_shifts import DOUBTED, RunShifts
from serving.comparisons.explain.features import percent
from serving.comparisons.explain.sentences import Direction, describe_change

#: Operations of which smaller changes cannot be detected are named in a note.
_NOISY = 0.1
#: Long and short endings of reasons, by the answer; {0} is the usual difference, {1} the detectable one.
_ENDINGS = {
    "fail": ("builds of this operation differ by {0}", "builds differ by {0}"),
    "unsure": ("reliable only from {1} on", "reliable from {1}"),
    "pass": ("within the usual variation of {0}", "usual variation {0}"),
    # of a pass whose change exceeds the usual difference
    "beyond": ("not significant where builds differ by {0}", "builds differ by {0}"),
    "at level": ("at the level of earlier builds; builds differ by {0}", "at the level of earlier builds"),
    "better": ("", ""),
}


class RunReason(NamedTuple):
    """Why between-run variation decided; shares, shifts are logarithms of ratios, negative is worse."""

    answer: str  # the verdict, or "better" if the configuration got better by more than the usual variation
    difference: float  # standard deviation of the difference of two runs; NaN if the answer is by assumption
    detectable: float  # the smallest slow-down that is found with a probability of 80 %
    whole: float  # the whole run's shift; at most `QUIET` if no more was taken out, NaN if unknown
    whole_limit: float  # the usual shift of whole runs if that of this run decided, else NaN
    sign: float  # -1 if lower values are better, else 1
    at_level: bool = False  # whether the target is within the usual difference of earlier builds

    def in_words(self, change: str, words: Direction, share: float = 0.0) -> str:
        """Return the reason as a sentence of at most 15 words.

        `change`: that of the median, in words; `share`: as a share of the baseline.
        """
        shift = describe_change(share_of_baseline(self.whole, self.sign), words)
        whole = f"the run {shift}"
        if not isnan(self.whole_limit):
            return f"{change}, {whole}; runs differ by {percent(self.whole_limit)}"
        is_larger = self.answer == "pass" and abs(share) > self.difference
        ending, short_ending = _ENDINGS[
            ("at level" if self.at_level else "beyond") if is_larger else self.answer
        ]
        if abs(self.whole) > QUIET:
            if self.answer == "unsure" and self.whole > 0:
                return f"{change}, but the other operations {shift}"
            change, ending = f"{change}, {whole}", short_ending
        ending = ending.format(percent(self.difference), percent(self.detectable))
        return "; ".join(filter(None, (change, ending)))


def run_reason(answer: str, shifts: RunShifts, row: int, worst: Ints, min_effect_size: float) -> RunReason:
    """Return the reason of the verdict `answer` on comparison `row`, from its `worst` configuration.

    `min_effect_size`, a share: the smallest slow-down that is detectable.
    """
    at, shown = shifts.clearest[row], worst[row]
    build, whole = shifts.by_machine.get(str(shifts.machine[at])), float(shifts.together[at])
    if build is not None and abs(whole) > QUIET:
        # all of it, as in the note on the run
        whole = float(build.whole.value[0])
    is_own = shifts.own.value[at] < -DOUBTED * shifts.own.usual_error[at]
    by_whole_run = build is not None and answer != "pass" and not is_own and whole < 0
    limit = float(np.expm1(min(build.whole_limit, FARTHEST))) if build is not None and by_whole_run else nan
    difference, detectable, sign = (
        float(column[shown]) for column in (shifts.usual_difference, shifts.detectable, shifts.sign)
    )
    if answer != "fail" and shifts.own.value[shown] > DOUBTED * shifts.own.usual_error[shown]:
        answer = "better"
    at_level = (
        build is not None and build.has_history and abs(np.expm1(shifts.own.value[shown])) <= difference
    )
    return RunReason(
        answer, difference, max(detectable, min_effect_size), whole, limit, sign, at_level=bool(at_level)
    )


def whole_run_notes(shifts: RunShifts, whole: dict[str, float]) -> Iterator[str]:
    """Yield a note for each machine whose run moved by more than `QUIET`; `whole`: the shares by machine."""
    for machine, build in shifts.by_machine.items():
        change, limit = abs(build.whole.value[0]), build.whole_limit
        if change <= QUIET:
            continue
        place = f" on {machine}" if len(shifts.by_machine) > 1 else ""
        got = f"{percent(abs(whole[machine]))} {'worse' if whole[machine] < 0 else 'better'}"
        operations = len(np.unique(shifts.comparison[shifts.machine == machine]))
        note = f"the whole run{place} got {got}, as estimated from its {operations} operations"
        if change > limit:
            yield f"{note}: more than the {percent(np.expm1(limit))} of usual runs, so with a common cause"
        else:
            yield f"{note}; usual runs differ by up to {percent(np.expm1(limit))}"


def noise_notes(
    detectable: Floats, sign: Floats, tables: ComparisonTables, min_effect_size: float
) -> Iterator[str]:
    """Yield a note if comparisons are too noisy to detect 10 %, or the minimum effect size if it is larger.

    `detectable`: the smallest slow-down that can be found in each comparison of `tables`, a share; `sign`: -1
    where lower values are better, else 1.
    """
    limit, wanted = max(_NOISY, min_effect_size), max(WANTED, min_effect_size)
    noisy, known = detectable > limit, np.isfinite(detectable)
    if not noisy.any():
        return
    comparisons = tables.comparisons[noisy]
    runs = (comparisons["target_to"] - comparisons["target_from"] + 1).to_numpy(np.float64)
    # the error of the logarithm falls with the root of the number of runs
    shift, wanted_shift = (np.log1p(-sign[noisy] * share) for share in (detectable[noisy], wanted))
    needed = int(np.ceil(np.median(runs * (shift / wanted_shift) ** 2)))
    names = list_names(comparisons["operation"].tolist())
    yield (
        f"{noisy.sum()} of {number_with_noun(int(known.sum()), 'operation')} too noisy to detect "
        f"{limit:.0%} ({names}): {number_with_noun(needed, 'run')} per side would detect {wanted:.0%}"
    )
