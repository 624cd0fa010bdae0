"""What a regression is worth on CPU models that it has not seen, and what it loses without a stressor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from features.fingerprints.matrix import Measured
from training.fingerprints.importance import log_rates

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
FOLDS = 5
TREES = 50
HALVES = 2


@dataclass(frozen=True)
class HeldOut:
    """Errors on held-out CPU models.

    Attributes
    ----------
    r2 : float
        Of the logarithm of the performance; NaN where there are not two CPU models.
    median_error : float
        Median relative error.
    growth : ndarray of shape (n_groups,)
        By how much the mean squared error of the logarithm grows when the columns of a group are shuffled
        together (permutation importance); never negative.
    """

    r2: float
    median_error: float
    growth: Floats


def folds(cpus: NDArray[np.str_], number: int = FOLDS) -> Iterator[tuple[Rows, Rows]]:
    """Yield training and test rows; the machines of a CPU model are in one part only."""
    from sklearn.model_selection import GroupKFold

    parts = min(number, len(np.unique(cpus)))
    yield from GroupKFold(parts).split(cpus, groups=cpus)


def held_out(measured: Measured, groups: Sequence[Sequence[int]], seed: int) -> HeldOut:
    """Predict each CPU model from the others, as it is and with groups of columns shuffled.

    The regression is a forest of extremely randomised trees on logarithms: quick, and without assumptions
    about how stressors act together.

    Parameters
    ----------
    measured : Measured
        One row per machine.
    groups : sequence of sequences of int
        Columns to shuffle together.
    seed : int
    """
    if len(np.unique(measured.cpus)) < 2:  # noqa: PLR2004 - one to learn from, one to predict
        return HeldOut(float("nan"), float("nan"), np.zeros(len(groups)))
    generator = np.random.default_rng(seed)
    truth = measured.speed
    error = np.zeros(len(truth))
    squares = np.zeros(len(groups))
    for train, test in folds(measured.cpus):
        model, logs = _forest(measured, train, seed)
        shuffled = _shuffled(logs[test], groups, generator)
        predicted = model.predict(np.concatenate([logs[test], *shuffled])).reshape(-1, len(test))
        misses = predicted - truth[test]
        error[test] = misses[0]
        squares += (misses[1:] ** 2).sum(axis=1)
    growth = (squares - (error**2).sum()) / len(truth)
    return HeldOut(
        r2(error, truth),
        float(np.median(np.abs(np.expm1(error)))),
        np.maximum(growth, 0),
    )


def more_for(measured: Measured, reached: float, wanted: float, seed: int) -> float:
    """Estimate how many times as many machines like these a regression needs for some R2 on other CPU models.

    The unexplained part is taken to fall as a power of the number of CPU models, whose exponent is read off
    folds that learn from half of them and from most of them.

    Parameters
    ----------
    measured : Measured
        One row per machine.
    reached, wanted : float
        R2; what `held_out` reached.
    seed : int

    Returns
    -------
    float
        Infinite where half of the machines teach as much as most of them.
    """
    parts = min(FOLDS, len(np.unique(measured.cpus)))
    if parts <= HALVES:
        return float("inf")
    halved = np.zeros(len(measured.y))
    for train, test in folds(measured.cpus, HALVES):
        model, logs = _forest(measured, train, seed)
        halved[test] = model.predict(logs[test]) - measured.speed[test]
    fallen = (1 - r2(halved, measured.speed)) / (1 - reached)
    exponent = float(np.log(fallen) / np.log((1 - 1 / parts) * HALVES))
    return ((1 - reached) / (1 - wanted)) ** (1 / exponent) if exponent > 0 else float("inf")


def r2(misses: Floats, truth: Floats) -> float:
    """Return the share of the variance that predictions explain; NaN where there is none."""
    total = float(((truth - truth.mean()) ** 2).sum())
    return 1 - float((misses**2).sum()) / total if total else float("nan")


def _forest(measured: Measured, train: Rows, seed: int) -> tuple[Any, Floats]:
    from sklearn.ensemble import ExtraTreesRegressor

    logs = log_rates(measured.x, train)
    forest = ExtraTreesRegressor(TREES, max_features=0.5, min_samples_leaf=2, random_state=seed)
    return forest.fit(logs[train], measured.speed[train]), logs


def _shuffled(logs: Floats, groups: Sequence[Sequence[int]], generator: np.random.Generator) -> Floats:
    copies = np.repeat(logs[None], len(groups), axis=0)
    for copy, group in zip(copies, groups, strict=True):
        copy[:, list(group)] = logs[generator.permutation(len(logs))][:, list(group)]
    return copies
