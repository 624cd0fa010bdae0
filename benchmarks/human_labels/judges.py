"""Who judges, and what their verdicts are worth: at the setting one gets, and at the best threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from benchmarks.human_labels.series import Floats, Ints
from training.evaluation.metrics import scores

Flags = NDArray[np.bool_]
#: How far from a boundary a point may lie to speak of it; the best one counts, in the tool's favour.
REACHES = (0, 1, 2, 3, 5)
#: Shares of false alarms at which it is told how many fails are missed.
ALARMS = (0.02, 0.005)


@dataclass(frozen=True)
class Cases:
    """The comparisons that all judge.

    Attributes
    ----------
    ids : sequence of str
    failed : ndarray of bool, shape (n_comparisons,)
        What people say.
    fold : ndarray of shape (n_comparisons,)
        In which fold of whole operations it is a test row.
    """

    ids: Sequence[str]
    failed: Flags
    fold: Ints


@dataclass(frozen=True)
class Judge:
    """One judge.

    Attributes
    ----------
    name, kind : str
    setting : str
        What it is set to when it judges as one gets it.
    judged : ndarray of bool, shape (n_comparisons,), or None
        Its verdicts at that setting.
    score : ndarray of shape (n_comparisons,), or None
        The larger, the more surely a fail; 0 where nothing speaks for one.
    inside : bool
        Whether `judged` has thresholds from inside the training part already.
    seconds : float or None
        Of the processor, for all comparisons at that setting.
    """

    name: str
    kind: str
    setting: str
    judged: Flags | None
    score: Floats | None
    inside: bool = False
    seconds: float | None = None


@dataclass(frozen=True)
class Curve:
    """What is missed against the share of false alarms, over all thresholds of a score."""

    cuts: Floats
    missed: Floats
    alarms: Floats

    @classmethod
    def of(cls, failed: Flags, score: Floats) -> Curve:
        """Compute it; cut i fails from ``cuts[i]`` on, and the first one fails nothing."""
        values, place = np.unique(-score, return_inverse=True)
        caught = np.cumsum(np.bincount(place, failed, len(values))) / failed.sum()
        alarms = np.cumsum(np.bincount(place, ~failed, len(values))) / (~failed).sum()
        return cls(np.r_[np.inf, -values], 1 - np.r_[0.0, caught], np.r_[0.0, alarms])

    @cached_property
    def best(self) -> int:
        """The cut of the highest balanced accuracy."""
        return int(np.argmin(self.missed + self.alarms))

    def missed_at(self, share: float) -> float:
        """Return what is missed where at most that share of the passes raises an alarm."""
        return float(self.missed[self.alarms <= share].min())


@dataclass(frozen=True)
class Worth:
    """Rates of verdicts, and the standard deviation of the balanced accuracy over folds."""

    balanced: float
    spread: float
    missed: float
    alarms: float


def worth(cases: Cases, judged: Flags) -> Worth:
    """Score verdicts on all comparisons."""
    pooled = scores(cases.failed, judged, None)
    folds = [
        scores(cases.failed[rows], judged[rows], None).balanced_accuracy
        for rows in (cases.fold == fold for fold in np.unique(cases.fold))
    ]
    rates = pooled.false_negative_rate, pooled.false_positive_rate
    return Worth(pooled.balanced_accuracy, float(np.std(folds)), *rates)


def at_best(cases: Cases, score: Floats) -> Worth:
    """Score a judge at the threshold that is best on these very comparisons."""
    curve = Curve.of(cases.failed, score)
    return worth(cases, score >= curve.cuts[curve.best])


def from_other_folds(cases: Cases, score: Floats) -> Worth:
    """Score a judge in each fold at the threshold that is best in the others."""
    judged = np.zeros(len(score), bool)
    for fold in np.unique(cases.fold):
        test = cases.fold == fold
        curve = Curve.of(cases.failed[~test], score[~test])
        judged[test] = score[test] >= curve.cuts[curve.best]
    return worth(cases, judged)


def average_precision(cases: Cases, score: Floats) -> tuple[float, float]:
    """Return its mean over the folds and the standard deviation."""
    from sklearn.metrics import average_precision_score

    rows = [cases.fold == fold for fold in np.unique(cases.fold)]
    folds = [average_precision_score(cases.failed[own], score[own]) for own in rows]
    return float(np.mean(folds)), float(np.std(folds))


def best_reach(cases: Cases, evidence: Floats) -> tuple[int, Floats]:
    """Return how near a point has to be for the best of all balanced accuracies, and the score then.

    Parameters
    ----------
    cases : Cases
    evidence : ndarray of shape (n_comparisons, 2 * within + 1)
        As `benchmarks.human_labels.views.View.evidence` gives it.
    """
    middle, known = evidence.shape[1] // 2, np.nan_to_num(evidence)
    reaches = [reach for reach in REACHES if reach <= middle]
    found = [(reach, known[:, middle - reach : middle + reach + 1].max(axis=1)) for reach in reaches]
    return max(found, key=lambda one: at_best(cases, one[1]).balanced)
