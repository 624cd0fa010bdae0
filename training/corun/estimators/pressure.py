"""Impact as the sensitivity of a task times the pressure of its co-runners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.corun.tables import AND
from features.corun.rates import Floats, Placed

Words = NDArray[np.str_]

#: Separator of the task and its co-runners in the name of a pair.
PAIR_SEPARATOR = "\n"
_ROUNDS = 50
#: Errors of log impact below this have equal weight.
_NEAR = 0.004
#: Weight of the prior, as a share of the mean weight in the sums of one task, for tasks with few rows.
_PRIOR = 1e-3
#: Number of rows of a task on a machine at which the shift is shrunk by half.
_HALF = 6


@dataclass(frozen=True)
class Named:
    """The pair and the machine of each row, shape (n_rows,).

    A pair is the task, `PAIR_SEPARATOR` and the co-runners joined by ``+``.
    """

    pairs: Words
    machines: Words

    @classmethod
    def from_placed(cls, placed: Placed) -> Named:
        """Return the names of co-runs, whose co-runners are sorted."""
        joined = zip(placed.tasks, map(AND.join, placed.corunners), strict=True)
        return cls(
            np.array([f"{task}{PAIR_SEPARATOR}{corunners}" for task, corunners in joined], np.str_),
            np.array(placed.machines, np.str_),
        )

    def __getitem__(self, rows: NDArray[np.intp]) -> Named:
        return Named(self.pairs[rows], self.machines[rows])


class _CorunnersOfRows:
    """`row` and `corunner` list every co-runner of every row, the cells every two co-runners of a row."""

    def __init__(self, corunner_lists: list[list[str]], corunner_names: Words) -> None:
        self.row = np.repeat(np.arange(len(corunner_lists)), [len(names) for names in corunner_lists])
        flat = [name for names in corunner_lists for name in names]
        self.corunner, self.number = np.searchsorted(corunner_names, flat), len(corunner_names)
        memberships = pd.DataFrame({"row": self.row, "corunner": self.corunner})
        pairs = memberships.merge(memberships, on="row")
        self.corunner_cells = pairs["corunner_x"].to_numpy() * self.number + pairs["corunner_y"].to_numpy()
        self.rows_of_cells = pairs["row"].to_numpy()

    def total_pressure(self, pressure: Floats) -> Floats:
        return np.asarray(np.bincount(self.row, pressure[self.corunner]))

    def solve_pressures(self, sensitive: Floats, logs: Floats, weights: Floats, usual: float) -> Floats:
        below = np.bincount(self.corunner_cells, (weights * sensitive**2)[self.rows_of_cells], self.number**2)
        below = below.reshape(self.number, self.number)
        prior = _PRIOR * below.diagonal().mean() + np.finfo(float).tiny
        above = np.bincount(self.corunner, (weights * sensitive * logs)[self.row]) + prior * usual
        return np.asarray(np.linalg.solve(below + prior * np.eye(self.number), above))


@dataclass(frozen=True)
class CorunEvidence:
    """A sensitivity or pressure estimated from other co-runs, its median `usual`, its share of log impact."""

    value: float = float("nan")
    usual: float = float("nan")
    share: float = 0.0


NO_EVIDENCE = CorunEvidence()


class PressureRegressor:
    """Log impact as the sensitivity of the task times the total pressure of its co-runners.

    The table of log impacts, tasks by co-runners, is factorised with rank one by alternating least squares,
    reweighted so that absolute errors are minimised: a few exceptional pairs do not affect the rest.
    Pressures of several co-runners add up. All machines are fitted together; then a shift per task and
    machine is added, the median residual over the task's co-runners, shrunk where rows are few. Unknown tasks
    and co-runners are not predicted.

    Notes
    -----
    The model of a program's slow-down as its sensitivity and a score of the pressure of its neighbours is
    from Mars, Tang, Hundt, Skadron and Soffa, "Bubble-Up: increasing utilization in modern warehouse scale
    computers via sensible co-locations", MICRO 2011. There both are measured by a probe; here both are
    estimated from co-runs.
    """

    def fit(self, named: Named, logs: Floats) -> PressureRegressor:
        """Fit to log impacts, shape (n_rows,), of the co-runs in `named`; return self.

        Sets ``sensitivity_`` (n_tasks,), ``pressure_`` (n_corunners,) and ``shift_`` (n_machines, n_tasks).
        """
        tasks, corunners = _split_pairs(named.pairs)
        self.tasks_, task = np.unique(tasks, return_inverse=True)
        self.corunners_ = np.unique(np.concatenate([np.array(names, np.str_) for names in corunners]))
        together = _CorunnersOfRows(corunners, self.corunners_)
        sensitivity = np.ones(len(self.tasks_))
        pressure = np.full(len(self.corunners_), max(float(np.mean(logs)), _NEAR))
        for _ in range(_ROUNDS):
            pressed = together.total_pressure(pressure)
            weights = _error_weights(logs - sensitivity[task] * pressed)
            above = np.bincount(task, weights * pressed * logs, minlength=len(sensitivity))
            below = np.bincount(task, weights * pressed**2, minlength=len(sensitivity))
            # about 1 where the rows of a task are uninformative
            prior = _PRIOR * below.mean() + np.finfo(float).tiny
            sensitivity = (above + prior) / (below + prior)
            sensitive = sensitivity[task]
            weights = _error_weights(logs - sensitive * pressed)
            pressure = together.solve_pressures(sensitive, logs, weights, float(np.mean(pressure)))
        self.sensitivity_, self.pressure_ = sensitivity, pressure
        self.machines_, machine = np.unique(named.machines, return_inverse=True)
        left = logs - sensitivity[task] * together.total_pressure(pressure)
        cells = pd.Series(left).groupby([machine, task]).agg(["median", "size"])
        self.shift_ = np.zeros((len(self.machines_), len(self.tasks_)))
        shifts = cells["median"] * cells["size"] / (cells["size"] + _HALF)
        self.shift_[cells.index.get_level_values(0), cells.index.get_level_values(1)] = shifts
        return self

    def predict(self, named: Named) -> Floats:
        """Return log impacts, shape (n_rows,); NaN where the task or a co-runner is unknown in its role."""
        pairs, pair = np.unique(named.pairs, return_inverse=True)
        if not len(pairs):
            return np.zeros(0)
        tasks, corunners = _split_pairs(pairs)
        task, is_known = locate_words(self.tasks_, tasks)
        pressed = np.array([self._total_pressure(names) for names in corunners])
        product = np.where(is_known, self.sensitivity_[task] * pressed, np.nan)
        machine, is_here = locate_words(self.machines_, named.machines)
        shift = np.where(is_here, self.shift_[machine, task[pair]], 0.0)
        return np.asarray(product[pair] + shift)

    def _total_pressure(self, corunners: Sequence[str]) -> float:
        """Return the sum of the pressures of co-runners; NaN if one is unknown."""
        place, is_known = locate_words(self.corunners_, np.array(corunners, np.str_))
        return float(sum(self.pressure_[place].tolist())) if is_known.all() else float("nan")

    def split_log_impact(self, named: Named) -> tuple[float, CorunEvidence, CorunEvidence] | None:
        """Split the log impact of one co-run, the only row of `named`; None if it is not predicted.

        Returns the product of the usual sensitivity and the usual pressure, and the evidence on the task and
        on its co-runners; the first and the shares of the others add up to the prediction. Usual are the
        median over tasks, and the median over co-runners times their number.
        """
        task, *corunners = pair_members(str(named.pairs[0]))
        place, is_known = locate_words(self.tasks_, np.array([task], np.str_))
        sensitivity, pressure = float(self.sensitivity_[place[0]]), self._total_pressure(corunners)
        if not is_known[0] or np.isnan(pressure):
            return None
        shift = float(self.predict(named)[0]) - sensitivity * pressure
        usual_sensitivity = float(np.median(self.sensitivity_))
        usual_pressure = len(corunners) * float(np.median(self.pressure_))
        suffered = (sensitivity - usual_sensitivity) * (pressure + usual_pressure) / 2
        caused = (pressure - usual_pressure) * (sensitivity + usual_sensitivity) / 2
        return (
            usual_sensitivity * usual_pressure,
            CorunEvidence(sensitivity, usual_sensitivity, suffered + shift),
            CorunEvidence(pressure, usual_pressure, caused),
        )


def pair_members(pair: str) -> list[str]:
    """Return the task of a pair, then its co-runners, in the order of the text.

    `pair` is the task, a line break, and the co-runners joined by ``+``; without a line break, the only
    co-runner is the empty text.
    """
    task, _, corunners = pair.partition(PAIR_SEPARATOR)
    return [task, *corunners.split(AND)]


def locate_words(names: Words, words: Words) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the index of each of `words` in the sorted `names`, and a mask of the words in `names`.

    `names` must not be empty; the index of a word that is not in `names` has no meaning.
    """
    place = np.minimum(np.searchsorted(names, words), len(names) - 1)
    return place, names[place] == words


def _split_pairs(pairs: Any) -> tuple[Words, list[list[str]]]:
    parts = [pair_members(str(pair)) for pair in pairs]
    return np.array([part[0] for part in parts], np.str_), [part[1:] for part in parts]


def _error_weights(errors: Floats) -> Floats:
    return np.asarray(1 / np.maximum(np.abs(errors), _NEAR))
