"""How far runs of one build lie apart, from whatever tells: earlier runs, other runs, other operations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from data.comparisons.sides import Floats
from features.comparisons.offsets.levels import count, mean

#: What is measured counts in place of what is assumed from so many degrees of freedom on.
ENOUGH = 5.0
#: A step between two runs counts as at most so many times the usual one: it may be a change.
_ORDINARY_STEPS = 3.0
#: The median of the size of a normal value.
_MAD = 0.6745
#: Degrees of freedom of squared steps between neighbours, which overlap (von Neumann 1941).
_OVERLAP = 2 / 3
#: What other operations tell counts as at most so many degrees of freedom.
_OTHERS = 8.0
#: Efficiency of the median absolute deviation of normal values.
_EFFICIENCY = 0.37
#: Its correction for few values (Croux and Rousseeuw 1992, section 4), from two on.
_FEW = (1.196, 1.495, 1.363, 1.206, 1.200, 1.140, 1.129, 1.107)


class Variance(NamedTuple):
    """Variances, and the degrees of freedom that each was told by (0: nothing tells)."""

    value: Floats
    freedom: Floats

    def with_others(self) -> Variance:
        """Return the same, each drawn towards the middle one of all."""
        known = self.freedom > 0
        if known.sum() <= 1:
            return self
        freedom = float(np.median(self.freedom[known]))
        usual = np.median(self.value[known]) / (1 - 2 / (9 * freedom)) ** 3
        others = min(_OTHERS, float(self.freedom[known].sum()) / 2)
        own = np.where(known, self.value * self.freedom, 0.0)
        return Variance((own + others * usual) / (self.freedom + others), self.freedom + others)


def between_runs(history: Floats, baseline: Floats, target: Floats) -> Variance:
    """Estimate the variance of a run's level from runs of one side, and from steps between earlier ones.

    Parameters
    ----------
    history, baseline, target : ndarray of shape (n_runs, n_configurations)
        NaN where a run lacks a configuration.

    Returns
    -------
    Variance
        Of shape (n_configurations,).
    """
    before = np.vstack([history, baseline])
    earlier = _of_steps(before) if np.isfinite(history).sum() else _around(baseline)
    after = _around(target)
    freedom = earlier.freedom + after.freedom
    total = earlier.value * earlier.freedom + after.value * after.freedom
    return Variance(total / np.where(freedom > 0, freedom, 1.0), freedom)


def between_operations(shifts: Floats) -> Variance:
    """Estimate the variance of shifts of operations of which most did not change (Efron 2004).

    Parameters
    ----------
    shifts : ndarray of shape (n_operations,)

    Returns
    -------
    Variance
        Of one value.
    """
    known = shifts[np.isfinite(shifts)]
    n = len(known)
    if n < 2:  # noqa: PLR2004 - one differs from nothing
        return Variance(np.zeros(1), np.zeros(1))
    few = _FEW[n - 2] if n - 2 < len(_FEW) else n / (n - 0.8)
    spread = few * float(np.median(np.abs(known - np.median(known)))) / _MAD
    return Variance(np.array([spread**2]), np.array([_EFFICIENCY * (n - 1)]))


def _around(runs: Floats) -> Variance:
    """Return the variance of the runs around their mean."""
    freedom = np.maximum(count(runs) - 1, 0.0)
    squares = np.nansum((runs - mean(runs)) ** 2, axis=0)
    return Variance(squares / np.where(freedom > 0, freedom, 1.0), freedom)


def _of_steps(runs: Floats) -> Variance:
    """Return half the mean square of the steps between neighbours, large ones cut."""
    steps = [_steps(column) for column in runs.T]
    many = np.array([len(one) for one in steps], np.float64)
    halves = np.array([np.mean(one**2) / 2 if len(one) else 0.0 for one in steps])
    return Variance(halves, _OVERLAP * many)


def _steps(runs: Floats) -> Floats:
    steps = np.abs(np.diff(runs[np.isfinite(runs)]))
    return np.minimum(steps, _ORDINARY_STEPS * np.median(steps) / _MAD) if len(steps) else steps
