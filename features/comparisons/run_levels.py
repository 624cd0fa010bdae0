"""Levels of runs as logarithms, and statistics over runs with missing values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints, Samples, Sides, flatten_samples
from features.comparisons.summaries import interquartile_mean, limited_mean, relative_deviation, robust_spread

#: Least number of operations to estimate the shift of a whole run and the variation between operations.
FEWEST = 5

#: Least number of earlier runs to look for drift.
FEW_RUNS = 3

#: Least variance, as a share of the squared level; smaller ones are rounding errors.
TINY = 1e-18

#: Cut of the robust scale: larger values, in units of the scale, may be changes.
CUT = 3.0

#: Variance of the Hodges-Lehmann estimate of normal samples, and nearly of other levels, in that of the mean.
_LEVEL_VARIANCE = np.pi / 3

#: `relative_deviation` of samples from which on their mean is the better level.
_LIGHT_TAILED = 0.78

#: Number of samples whose own deviation counts as much as that of all configurations.
_SIMILAR_TAILS = 45.0


@dataclass(frozen=True)
class RunLevels:
    """Levels of runs as logarithms, as if higher were better: differences are shares, negative is worse."""

    #: Shape (n_runs, n_configurations), in the order of the runs; NaN where not measured.
    history: Floats
    baseline: Floats
    target: Floats
    operation: Ints  # shape (n_configurations,): row of the comparison, ascending
    noise: Floats  # shape (n_configurations,): variance of the difference of the sides due to their samples

    @classmethod
    def from_sides(cls, sides: Sides) -> RunLevels:
        """Return the runs' log levels; NaN unless above 0.

        The level of samples is their interquartile mean; where they have no heavier tails than normal ones,
        as bimodal samples, their mean, of which outliers are limited; of summaries, it is the median.
        """
        levels, noise = [], []
        is_light = _are_light_tailed([*(side for _, side, _ in sides.both_sides), sides.history])
        for _, side, five in sides.both_sides:
            runs, summary = _run_levels(side, sides.sign, is_light), side.lengths == 0
            runs[:1, summary] = signed_logarithm(five[summary, 2], sides.sign[summary])
            levels.append(runs)
            noise.append(sample_variance(side, five))
        history = _run_levels(sides.history, sides.sign, is_light)
        history = history[np.isfinite(history).any(axis=1)]
        return cls(history, levels[0], levels[1], sides.comparison, noise[0] + noise[1])

    @cached_property
    def _first_rows(self) -> Ints:
        return np.flatnonzero(np.diff(self.operation, prepend=-1))

    @property
    def n_operations(self) -> int:
        """Number of operations, each with one or more configurations."""
        return len(self._first_rows)

    @property
    def n_known(self) -> int:
        """Number of operations with a level on both sides."""
        is_known = np.isfinite(nan_mean(self.baseline) + nan_mean(self.target))
        return len(np.unique(self.operation[is_known]))

    def per_operation(self, values: Floats) -> Floats:
        """Return the medians of `values`, shape (..., n_configurations), as (..., n_operations)."""
        starts = self._first_rows
        if len(starts) == values.shape[-1]:
            return values
        edges = np.append(starts, values.shape[-1])
        columns = [nan_median(np.atleast_2d(values[..., start:stop]).T) for start, stop in pairwise(edges)]
        return np.stack(columns, axis=-1).reshape(*values.shape[:-1], len(starts))


def sample_variance(side: Samples, five: Floats) -> Floats:
    """Return the variance of the log of a side's levels due to its samples, shape (n_configurations,).

    It is pi / 3 * (standard deviation by the quartiles in `five` / median)**2 / number of samples; 0 for
    summaries, without samples, and where the median is 0 or unknown.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        variance = _LEVEL_VARIANCE * (robust_spread(five) / five[:, 2]) ** 2 / side.lengths
    return np.where(np.isfinite(variance), variance, 0.0)


def _are_light_tailed(sides: Sequence[Samples]) -> NDArray[np.bool_]:
    """Return the configurations whose samples have no heavier tails than normal ones."""
    weights, sums = np.zeros((2, len(sides[0].lengths)))
    for side in sides:
        ratios = side.reduce_versions(relative_deviation)
        owner, place = flatten_samples(ratios)
        ratio, weight = ratios.values[place], (side.lengths / np.maximum(ratios.lengths, 1))[owner]
        weights += np.bincount(owner, weight * np.isfinite(ratio), len(weights))
        sums += np.bincount(owner, weight * np.where(np.isfinite(ratio), ratio, 0.0), len(weights))
    usual = sums.sum() / max(weights.sum(), 1.0)
    return np.asarray((sums + _SIMILAR_TAILS * usual) / (weights + _SIMILAR_TAILS) >= _LIGHT_TAILED)


def _run_levels(side: Samples, sign: Floats, is_light_tailed: NDArray[np.bool_]) -> Floats:
    """Return the levels of the runs of a side, shape (n_runs or 1, n_configurations)."""
    levels, means = (side.reduce_versions(level) for level in (interquartile_mean, limited_mean))
    owner, place = flatten_samples(levels)
    values = np.where(is_light_tailed[owner], means.values[place], levels.values[place])
    orders, row = np.unique(levels.orders[place], return_inverse=True)
    runs = np.full((max(len(orders), 1), len(sign)), np.nan)
    runs[row, owner] = signed_logarithm(values, sign[owner])
    return runs


def signed_logarithm(values: Floats, sign: Floats) -> Floats:
    """Return the logarithms of `values`, times `sign`; NaN unless positive and finite. Shape of all: (n,)."""
    is_positive: NDArray[np.bool_] = np.isfinite(values) & (values > 0)
    return sign * np.log(values, out=np.full(len(values), np.nan), where=is_positive)


def nan_median(runs: Floats) -> Floats:
    """Return the median of each column, ignoring NaN; NaN without values. No value may be infinite."""
    is_known = np.isfinite(runs).any(axis=0)
    return np.where(is_known, np.nanmedian(np.where(is_known, runs, 0.0), axis=0), np.nan)


def nan_mean(runs: Floats) -> Floats:
    """Return the mean of each column, ignoring NaN; NaN without values. No value may be infinite."""
    number = count_runs(runs)
    return np.asarray(np.nansum(runs, axis=0) / np.where(number > 0, number, np.nan))


def count_runs(runs: Floats) -> Floats:
    """Return the number of finite values of each column, shape (n_configurations,)."""
    return np.isfinite(runs).sum(axis=0).astype(np.float64)
