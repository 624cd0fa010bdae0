"""Runs that differ as real ones do: each has an offset, as a whole, of every operation, or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from data.comparisons.sides import Floats
from data.comparisons.tables import Builder, Series

#: Between these lies the noise of operations' samples, a standard deviation as a share.
NOISE = (0.005, 0.03)


@dataclass(frozen=True)
class Circumstances:
    """Under which runs are measured.

    Attributes
    ----------
    offsets : {"whole run", "operations", "both"}
        What a run's offset is common to; of both, each has half of its variance.
    spread : float
        The standard deviation of a run's offset, as a share.
    operations, runs, history, samples : int
        How many operations, runs a side, earlier runs, and samples an operation and run.
    skewed : bool
        Whether samples have a long tail towards slow, else they are normal.
    """

    offsets: Literal["whole run", "operations", "both"] = "both"
    spread: float = 0.03
    operations: int = 5
    runs: int = 1
    history: int = 0
    samples: int = 10
    skewed: bool = False


class Projects:
    """Projects whose benchmarks are run again and again, each on a machine of its own.

    Parameters
    ----------
    rng : numpy.random.Generator
    circumstances : Circumstances
    number : int
    """

    def __init__(self, rng: np.random.Generator, circumstances: Circumstances, number: int = 1) -> None:
        self._rng, self._given = rng, circumstances
        self._shape = number, circumstances.operations
        self._level = rng.uniform(1, 100, self._shape)
        self._noise = np.exp(rng.uniform(*np.log(NOISE), self._shape))

    def runs(self, number: int, slower: Floats | float = 0.0) -> Sequence[pd.DataFrame]:
        """Return the results of so many runs of all, of operations that are slower by such shares."""
        builder = Builder()
        for order in range(number):
            each = self._level * np.exp(self._offsets()) * (1 + slower)
            for (machine, place), level in np.ndenumerate(each):
                names = (f"operation {place}", f"machine {machine}")
                series = Series(str(names), "b", "b", *names, "ms", "lower", 1)
                samples = level * (1 + self._noise[machine, place] * self._scatter())
                builder.results.samples(series, order, str(order), samples.tolist())
        return [run for _, run in builder.take().results.groupby("order")]

    def _offsets(self) -> Floats:
        given, (machines, _) = self._given, self._shape
        whole, own = {"whole run": (1.0, 0.0), "operations": (0.0, 1.0), "both": (0.5, 0.5)}[given.offsets]
        common = self._rng.normal(0, given.spread * np.sqrt(whole), (machines, 1))
        return common + self._rng.normal(0, given.spread * np.sqrt(own), self._shape)

    def _scatter(self) -> Floats:
        """Return samples around 0 with a standard deviation of 1."""
        if not self._given.skewed:
            return self._rng.normal(size=self._given.samples)
        return (self._rng.gamma(1.0, 1.0, self._given.samples) - 1.0).astype(np.float64)
