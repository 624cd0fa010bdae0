"""The level of every run in every configuration, of several runs a side and those before them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints, Samples, Sides
from features.comparisons.five_numbers import spread

#: Fewer operations don't tell how far a whole run has moved.
FEWEST = 5
#: The variance of a median of normal samples, in that of their mean.
_MEDIAN = np.pi / 2


@dataclass(frozen=True)
class RunLevels:
    """Medians of runs as logarithms, as if higher were better: differences are shares, negative is worse.

    Attributes
    ----------
    history, baseline, target : ndarray of shape (n_runs, n_configurations)
        In the order of the runs, NaN where a run lacks a configuration.
    operation : ndarray of shape (n_configurations,)
        The row of the comparison that each belongs to; ascending.
    noise : ndarray of shape (n_configurations,)
        The variance that samples leave to the difference of both sides.
    """

    history: Floats
    baseline: Floats
    target: Floats
    operation: Ints
    noise: Floats

    @classmethod
    def of(cls, sides: Sides) -> RunLevels:
        """Take the medians of the sides; of summaries, those that were given."""
        baseline, target = (_measured(side, five, sides.sign) for _, side, five in sides.both)
        noise = sum(_noise(side, five) for _, side, five in sides.both)
        history = _levels(sides.history, sides.sign)
        return cls(history, baseline, target, sides.comparison, np.asarray(noise))

    @property
    def parts(self) -> tuple[Floats, Floats, Floats]:
        """History, baseline and target."""
        return self.history, self.baseline, self.target

    @cached_property
    def common(self) -> tuple[Floats, Floats, Floats] | None:
        """How far every run moved as a whole, by the middle one of the operations.

        Each of shape (n_runs,), against the baseline's level; NaN for a run of too few operations. None if
        there is such a run in baseline or target.
        """
        reference = mean(self.baseline)
        found = tuple(self._moved(part - reference) for part in self.parts)
        known = all(np.isfinite(moved).all() for moved in found[1:])
        return (found[0], found[1], found[2]) if known else None

    def own(self) -> RunLevels:
        """Return the same without what whole runs have in common; unchanged where that is not known."""
        if self.common is None:
            return self
        history, baseline, target = (
            part - moved[:, None] for part, moved in zip(self.parts, self.common, strict=True)
        )
        return replace(self, history=history, baseline=baseline, target=target)

    def per_operation(self, values: Floats) -> Floats:
        """Return the middle one of every operation's configurations, shape (n_operations,)."""
        starts = np.flatnonzero(np.diff(self.operation, prepend=-1))
        stops, found = np.append(starts[1:], len(values)), values[starts]
        for one in np.flatnonzero(stops - starts > 1).tolist():
            found[one] = middle(values[starts[one] : stops[one]])
        return found

    def _moved(self, against: Floats) -> Floats:
        each = (self.per_operation(run) for run in against)
        return np.array([middle(run) if np.isfinite(run).sum() >= FEWEST else np.nan for run in each])


def middle(values: Floats) -> float:
    """Return the median of what is known; NaN if nothing is."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else np.nan


def mean(runs: Floats) -> Floats:
    """Return the mean over the runs that are known, shape (n_configurations,)."""
    number = count(runs)
    return np.asarray(np.nansum(runs, axis=0) / np.where(number > 0, number, np.nan))


def count(runs: Floats) -> Floats:
    """Return how many runs are known, shape (n_configurations,)."""
    return np.isfinite(runs).sum(axis=0).astype(np.float64)


def _measured(side: Samples, five: Floats, sign: Floats) -> Floats:
    """Return the level of every run of a side; of a summary, the median that was given."""
    found, alone = _levels(side, sign), side.lengths == 0
    found[:1, alone] = _logarithm(five[alone, 2], sign[alone])
    return found


def _levels(side: Samples, sign: Floats) -> Floats:
    """Return the level of every run of a side, a run a row; one row at least."""
    levels = side.levels
    owner = np.repeat(np.arange(len(levels.starts)), levels.lengths)
    place = np.repeat(levels.starts - np.cumsum(levels.lengths) + levels.lengths, levels.lengths)
    place += np.arange(len(owner))
    orders, row = np.unique(levels.orders[place], return_inverse=True)
    found = np.full((max(len(orders), 1), len(sign)), np.nan)
    found[row, owner] = _logarithm(levels.values[place], sign[owner])
    return found


def _logarithm(values: Floats, sign: Floats) -> Floats:
    known: NDArray[np.bool_] = np.isfinite(values) & (values > 0)
    return sign * np.log(values, out=np.full(len(values), np.nan), where=known)


def _noise(side: Samples, five: Floats) -> Floats:
    """Return the variance of a side's median, as a share of it, by its samples; 0 if there are none."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found = _MEDIAN * (spread(five) / five[:, 2]) ** 2 / side.lengths
    return np.where(np.isfinite(found), found, 0.0)
