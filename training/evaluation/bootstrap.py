"""Is one judge or one predictor worse than another? A paired bootstrap over whole groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]


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
    confidence : float
        Of that interval.
    """

    observed: float
    low: float
    high: float
    confidence: float

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
    gains = candidate.astype(np.float64) - present
    columns = np.stack([failed, failed * gains, ~failed, -(~failed * gains)])
    sums, draws = _drawn(columns, groups, resamples, seed)
    usable = draws[(draws[:, 0] > 0) & (draws[:, 2] > 0)]
    return _found(float(_difference(sums)), _difference(usable), confidence)


def _difference(sums: Floats) -> Floats:
    """Return the difference from fails, more fails caught, passes, more passes spared (last axis)."""
    return np.asarray((sums[..., 1] / sums[..., 0] + sums[..., 3] / sums[..., 2]) / 2, np.float64)


def paired_gain(
    candidate: Floats,
    present: Floats,
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
    columns = np.stack([present - candidate, np.ones(len(present))])
    _, draws = _drawn(columns, groups, resamples, seed)
    return _found(float((present - candidate).mean()), draws[:, 0] / draws[:, 1], confidence)


def _drawn(columns: Floats, groups: NDArray[np.str_], resamples: int, seed: int) -> tuple[Floats, Floats]:
    """Return each column's sum over all rows, and over the rows of groups drawn with replacement."""
    _, group = np.unique(groups, return_inverse=True)
    totals = np.stack([np.bincount(group, weights=column) for column in columns], axis=1)
    size = len(totals)
    draws = np.random.default_rng(seed).multinomial(size, np.full(size, 1 / size), size=resamples)
    return totals.sum(axis=0), np.asarray(draws @ totals, np.float64)


def _found(observed: float, drawn: Floats, confidence: float) -> Difference:
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, (tail, 1 - tail))
    return Difference(observed, float(low), float(high), confidence)
