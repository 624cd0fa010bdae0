"""Out-of-fold verdicts on whole operations, over several seeds of the folds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.comparisons.family import Examples, group_folds
from training.estimators.answering import Guide
from training.estimators.catalogue import CATALOGUE, fail_probability, pipeline
from training.evaluation.thresholds import best_cut

FOLDS, INNER = 5, 3
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Judged:
    """What a model says of every row, by models that had not seen its operation.

    Attributes
    ----------
    probability : ndarray of shape (n_rows,)
        Of fail; 0 below the floor.
    failed : ndarray of bool, shape (n_rows,)
        Whether that reaches the threshold, which comes from inside each training part.
    """

    probability: Floats
    failed: NDArray[np.bool_]

    def of(self, rows: NDArray[np.bool_]) -> Judged:
        """Return what is said of some rows."""
        return Judged(self.probability[rows], self.failed[rows])


@dataclass(frozen=True)
class Question:
    """A model of the catalogue, as it starts, and what it is asked about.

    Attributes
    ----------
    guide : Guide or None
        What the columns promise, as models are trained.
    """

    model: str
    examples: Examples
    guide: Guide | None = None

    def judged(self, seed: int) -> Judged:
        """Judge every row once."""
        rows = len(self.examples.y)
        probability, failed = np.zeros(rows), np.zeros(rows, bool)
        for train, test in group_folds(self.examples, FOLDS, seed, "folds"):
            inside = self.examples.rows(train)
            threshold = best_cut(inside.y, self._out_of_fold(inside, seed)).threshold
            said = self._said(inside, self.examples.rows(test), seed)
            probability[test], failed[test] = said, said >= threshold
        return Judged(probability, failed)

    def _out_of_fold(self, examples: Examples, seed: int) -> Floats:
        probability = np.zeros(len(examples.y))
        for train, test in group_folds(examples, INNER, seed, "inner folds"):
            probability[test] = self._said(examples.rows(train), examples.rows(test), seed)
        return probability

    def _said(self, train: Examples, test: Examples, seed: int) -> Floats:
        model, lessons = CATALOGUE[self.model], train.lessons
        fitted = pipeline(model, model.start, lessons.y, seed, self.guide).fit(lessons.x, lessons.y)
        return np.where(test.asked, fail_probability(fitted, test.x), 0.0)


def missed_at(alarms: float, y: NDArray[np.int64], probability: Floats) -> float:
    """Return the share of fails that is missed where that share of the passes raises an alarm."""
    passes = np.sort(probability[y == 0])[::-1]
    return float((probability[y == 1] <= passes[int(alarms * len(passes))]).mean())
