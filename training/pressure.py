"""Impact as the sensitivity of a task times the pressure of those beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.corun_tables import AND

Floats = NDArray[np.float64]
Words = NDArray[np.str_]

#: What joins a task and its co-runners in the name of a pair.
BESIDE = "\n"
_ROUNDS = 50
#: Errors of log impact below this weigh alike, in units of log impact.
_NEAR = 0.004
#: How much of a prior, as a share of the mean weight in the sums of one task, holds what few rows tell of.
_PRIOR = 1e-3


class PressureRegressor:
    """Log impact as a product: how sensitive the task is, times how much its co-runners press together.

    The table of log impacts, tasks by co-runners, is factorised with rank one by alternating least squares,
    reweighted so that absolute errors are minimised: a few pairs with an impact of their own don't move the
    rest. Pressures of several co-runners add up. It says nothing of tasks and co-runners that it never saw.

    Notes
    -----
    That a program's slow-down is known from its own sensitivity and a score of the pressure of those beside
    it is from Mars, Tang, Hundt, Skadron and Soffa, "Bubble-Up: increasing utilization in modern warehouse
    scale computers via sensible co-locations", MICRO 2011. There both are measured by a probe; here both are
    found in co-runs.
    """

    def fit(self, pairs: Words, logs: Floats) -> PressureRegressor:
        """Fit to log impacts.

        Parameters
        ----------
        pairs : ndarray of str, shape (n_rows,)
            The task, `BESIDE`, and its co-runners joined by ``+``.
        logs : ndarray of shape (n_rows,)
        """
        tasks, beside = _parted(pairs)
        self.tasks_, task = np.unique(tasks, return_inverse=True)
        self.corunners_ = np.unique(np.concatenate([np.array(names, np.str_) for names in beside]))
        counts = _counts(beside, self.corunners_)
        sensitivity = np.ones(len(self.tasks_))
        pressure = np.full(len(self.corunners_), max(float(np.mean(logs)), _NEAR))
        for _ in range(_ROUNDS):
            pressed = counts @ pressure
            weights = _weights(logs - sensitivity[task] * pressed)
            sensitivity = _sensitivity(task, pressed, logs, weights, len(sensitivity))
            sensitive = sensitivity[task]
            weights = _weights(logs - sensitive * (counts @ pressure))
            pressure = _pressure(counts, sensitive, logs, weights, float(np.mean(pressure)))
        self.sensitivity_, self.pressure_ = sensitivity, pressure
        return self

    def predict(self, pairs: Words) -> Floats:
        """Return log impacts, shape (n_rows,); NaN where the task or a co-runner was never seen so."""
        codes, names = pd.factorize(np.asarray(pairs, object))
        if not len(names):
            return np.zeros(0)
        tasks, beside = _parted(names)
        place = np.minimum(np.searchsorted(self.tasks_, tasks), len(self.tasks_) - 1)
        sensitivity = np.where(self.tasks_[place] == tasks, self.sensitivity_[place], np.nan)
        pressures = dict(zip(self.corunners_.tolist(), self.pressure_.tolist(), strict=True))
        pressed = np.array([sum(pressures.get(name, np.nan) for name in row) for row in beside])
        return np.asarray((sensitivity * pressed)[codes])


def members(pair: str) -> list[str]:
    """Return the task of a pair, then its co-runners."""
    task, _, beside = pair.partition(BESIDE)
    return [task, *beside.split(AND)]


def _parted(pairs: Any) -> tuple[Words, list[list[str]]]:
    """Part the names of pairs into tasks and lists of co-runners."""
    parts = [members(str(pair)) for pair in pairs]
    return np.array([part[0] for part in parts], np.str_), [part[1:] for part in parts]


def _counts(beside: list[list[str]], known: Words) -> Any:
    """Return how often each known co-runner stands in each row, a sparse matrix."""
    from scipy.sparse import csr_array

    rows = np.repeat(np.arange(len(beside)), [len(names) for names in beside])
    columns = np.searchsorted(known, [name for names in beside for name in names])
    return csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(beside), len(known)))


def _weights(errors: Floats) -> Floats:
    return np.asarray(1 / np.maximum(np.abs(errors), _NEAR))


def _sensitivity(
    task: NDArray[np.intp], pressed: Floats, logs: Floats, weights: Floats, number: int
) -> Floats:
    """Return what each task makes of the pressure on it; one where its rows don't tell."""
    above = np.bincount(task, weights * pressed * logs, minlength=number)
    below = np.bincount(task, weights * pressed**2, minlength=number)
    prior = _PRIOR * below.mean() + np.finfo(float).tiny
    return np.asarray((above + prior) / (below + prior))


def _pressure(counts: Any, sensitive: Floats, logs: Floats, weights: Floats, usual: float) -> Floats:
    """Return how much each co-runner presses; the usual pressure where its rows don't tell."""
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import spsolve

    below = (counts.T @ (diags_array(weights * sensitive**2) @ counts)).tocsc()
    prior = _PRIOR * below.diagonal().mean() + np.finfo(float).tiny
    above = counts.T @ (weights * sensitive * logs) + prior * usual
    return np.atleast_1d(spsolve((below + prior * diags_array(np.ones(below.shape[0]))).tocsc(), above))
