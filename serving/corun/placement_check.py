"""What the best placement by predictions of unseen pairs would have taken, as the pairs were measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from training.corun import placement
from training.corun.placement import Placement, Room

Floats = NDArray[np.float64]
#: Placements at random.
DRAWS = 1000
#: Fewer tasks leave no choice.
_FEWEST = 4


@dataclass(frozen=True)
class Check:
    """Totals of co-run seconds of all tasks, two to a machine, as the pairs were measured.

    Attributes
    ----------
    tasks : int
    chosen : float
        Of the placement with the least slow-down by predictions of pairs that the model had not seen, as
        `serving.corun.place.place` chooses.
    best, worst : float
        Of the placements with the least and the most time by the measurement.
    random : ndarray of shape (DRAWS,)
        Of placements at random.
    """

    tasks: int
    chosen: float
    best: float
    worst: float
    random: Floats

    @property
    def beaten(self) -> float:
        """The share of placements at random that take longer than the chosen one."""
        return float((self.random > self.chosen).mean())

    @property
    def saving(self) -> float:
        """The share of a random placement's time that the chosen one saves on average."""
        return 1 - self.chosen / float(self.random.mean())

    @property
    def possible(self) -> float:
        """The share that the placement that is best by the measurement would have saved."""
        return 1 - self.best / float(self.random.mean())


def check(predicted: pd.DataFrame, measured: pd.DataFrame, solo: pd.Series, seed: int) -> Check | None:
    """Place all tasks by predictions, and add up what was measured.

    Parameters
    ----------
    predicted, measured : DataFrame
        Impacts, a row per task and a column per co-runner, NaN where they did not run together.
    solo : Series
        Solo seconds by task.

    Returns
    -------
    Check or None
        None where not all pairs of the tasks were measured on one machine.
    """
    tasks = [task for task in measured.index if task in measured.columns and task in solo.index]
    if len(tasks) < _FEWEST:
        return None
    matrices = [frame.loc[tasks, tasks].to_numpy(np.float64) for frame in (predicted, measured)]
    apart = ~np.eye(len(tasks), dtype=bool)
    if any(np.isnan(matrix[apart]).any() for matrix in matrices):
        return None
    said, real = (np.where(apart, matrix, 1.0) - 1 for matrix in matrices)
    seconds = solo[tasks].to_numpy(np.float64)
    room = Room(-(-len(tasks) // 2), 2)
    cost = placement.pairwise(real * seconds[:, None])

    def total(found: Placement) -> float:
        return float(seconds.sum()) + placement.total(list(found.groups), cost)

    number = len(tasks)
    return Check(
        number,
        total(placement.best(number, room, placement.pairwise(said), seed)),
        total(placement.best(number, room, cost, seed)),
        total(placement.worst(number, room, cost, seed)),
        float(seconds.sum()) + placement.random(number, room, cost, DRAWS, seed),
    )
