"""Ranges of impact: what classification predicts (seed 002, section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Words = NDArray[np.str_]


@dataclass(frozen=True)
class Ranges:
    """Ranges whose width is a share of each task's mean impact.

    Attributes
    ----------
    share : float
        Of the mean impact of the task; the seed's is 0.03.
    means : dict of str to float
        By task, from training rows.
    overall : float
        The mean of all training rows, for a task that they lack.
    """

    share: float
    means: dict[str, float]
    overall: float

    @classmethod
    def of(cls, tasks: Words, impacts: Floats, share: float) -> Ranges:
        """Take the means from training rows."""
        names, owners = np.unique(tasks, return_inverse=True)
        means = np.bincount(owners, impacts) / np.bincount(owners)
        return cls(share, dict(zip(names.tolist(), means.tolist(), strict=True)), float(impacts.mean()))

    def widths(self, tasks: Words) -> Floats:
        """Return the width of each task's ranges, shape (n_rows,)."""
        return self.share * np.array([self.means.get(task, self.overall) for task in tasks.tolist()])

    def numbers(self, tasks: Words, impacts: Floats) -> NDArray[np.int64]:
        """Return the number of the range that holds each impact."""
        return np.floor(impacts / self.widths(tasks)).astype(np.int64)

    def middles(self, tasks: Words, numbers: NDArray[np.int64]) -> Floats:
        """Return the impact in the middle of each range."""
        return (numbers + 0.5) * self.widths(tasks)


@dataclass(frozen=True)
class RangeModel:
    """A classifier of ranges that answers with impacts.

    Attributes
    ----------
    classifier : Any
        Of the places in `classes`.
    classes : ndarray of int
        The ranges that training rows fell into, ascending.
    ranges : Ranges
    """

    classifier: Any
    classes: NDArray[np.int64]
    ranges: Ranges

    @classmethod
    def fitted(cls, classifier: Any, x: Floats, impacts: Floats, tasks: Words, share: float) -> RangeModel:
        """Fit `classifier` to the ranges of `impacts`."""
        ranges = Ranges.of(tasks, impacts, share)
        classes, places = np.unique(ranges.numbers(tasks, impacts), return_inverse=True)
        return cls(classifier.fit(x, places), classes, ranges)

    def numbers(self, x: Floats) -> NDArray[np.int64]:
        """Return the predicted range of each row."""
        return self.classes[np.asarray(self.classifier.predict(x), np.int64)]

    def predict(self, x: Floats, tasks: Words) -> Floats:
        """Return the middle of the predicted range of each row."""
        return self.ranges.middles(tasks, self.numbers(x))
