"""Is one judge or one predictor worse than another? A paired bootstrap over whole groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Difference:
    """By how much the candidate is better than the present champion.

    Verdicts: balanced accuracy; predictions: mean relative error.

    Attributes
    ----------
    observed : float
        On all rows.
    low, high : float
        The interval of the bootstrap.
    """

    observed: float
    low: float
    high: float

    @property
    def worse(self) -> bool:
        """Whether the whole interval is below zero."""
        return self.high < 0


def paired_difference(
    failed: Flags,
    candidate: Flags,
    present: Flags,
    groups: NDArray[np.str_],
    *,
    resamples: int,
    confidence: float,
    seed: int,
) -> Difference:
    """Estimate the difference in balanced accuracy, with an interval.

    Comparisons of one operation resemble each other, so whole groups are drawn with replacement. Both
    judges are scored on the same draws.

    Parameters
    ----------
    failed : ndarray of bool, shape (n_rows,)
        The people's verdicts.
    candidate, present : ndarray of bool, shape (n_rows,)
        The verdicts of both judges.
    groups : ndarray of shape (n_rows,)
    resamples : int
        How many draws. Draws without any fail or pass are left out.
    confidence : float
        Of the percentile interval, for example 0.95.
    seed : int
    """
    _, group = np.unique(groups, return_inverse=True)
    gains = candidate.astype(np.float64) - present
    columns = np.stack([failed, failed * gains, ~failed, -(~failed * gains)])
    totals = np.stack([np.bincount(group, weights=column) for column in columns], axis=1)
    generator = np.random.default_rng(seed)
    size = len(totals)
    draws = generator.multinomial(size, np.full(size, 1 / size), size=resamples)
    sums = np.asarray(draws @ totals, np.float64)
    usable = (sums[:, 0] > 0) & (sums[:, 2] > 0)
    tail = (1 - confidence) / 2
    low, high = np.quantile(_difference(sums[usable]), (tail, 1 - tail))
    return Difference(float(_difference(totals.sum(axis=0)[None])[0]), float(low), float(high))


def _difference(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the difference from fails, more fails caught, passes, more passes spared (columns)."""
    return np.asarray((sums[:, 1] / sums[:, 0] + sums[:, 3] / sums[:, 2]) / 2, np.float64)


def paired_gain(
    candidate: NDArray[np.float64],
    present: NDArray[np.float64],
    groups: NDArray[np.str_],
    *,
    resamples: int,
    confidence: float,
    seed: int,
) -> Difference:
    """Estimate by how much smaller the candidate's mean error is, with an interval.

    Parameters
    ----------
    candidate, present : ndarray of shape (n_rows,)
        The relative errors of both on the same rows.
    groups : ndarray of shape (n_rows,)
        Drawn whole, with replacement.
    resamples : int
    confidence : float
        Of the percentile interval.
    seed : int
    """
    _, group = np.unique(groups, return_inverse=True)
    totals = np.stack([np.bincount(group, weights=present - candidate), np.bincount(group)], axis=1)
    generator = np.random.default_rng(seed)
    size = len(totals)
    sums = np.asarray(
        generator.multinomial(size, np.full(size, 1 / size), size=resamples) @ totals, np.float64
    )
    tail = (1 - confidence) / 2
    low, high = np.quantile(sums[:, 0] / sums[:, 1], (tail, 1 - tail))
    return Difference(float((present - candidate).mean()), float(low), float(high))
