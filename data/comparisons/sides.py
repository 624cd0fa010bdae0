"""The two sides of many comparisons, gathered once from the tables as flat arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons.tables import FIVE_NUMBERS, ComparisonTables

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Earlier versions kept as history of a comparison, the newest ones.
HISTORY_VERSIONS = 40


@dataclass(frozen=True)
class Samples:
    """One list of samples per configuration, as slices of one flat array.

    Attributes
    ----------
    values : ndarray of shape (n_samples,)
        In the unit of the result.
    orders : ndarray of shape (n_samples,)
        The version's order of every sample; ascending within a slice.
    starts, stops : ndarray of shape (n_configurations,)
        List ``i`` is ``values[starts[i]:stops[i]]``; lists may overlap and may be empty.
    """

    values: Floats
    orders: Ints
    starts: Ints
    stops: Ints

    @property
    def lengths(self) -> Ints:
        """How many samples each list has, shape (n_configurations,)."""
        return self.stops - self.starts

    def versions(self, row: int) -> Iterator[tuple[int, Floats]]:
        """Yield the versions of one list: the order, and the samples."""
        part = slice(self.starts[row], self.stops[row])
        orders = self.orders[part]
        edges = np.flatnonzero(np.diff(orders, prepend=orders[:1] - 1))
        for first, last in pairwise([*edges, len(orders)]):
            yield int(orders[first]), self.values[part][first:last]

    def matrices(self) -> Iterator[tuple[Ints, Floats]]:
        """Yield the non-empty lists grouped by length.

        Yields
        ------
        rows : ndarray of shape (k,)
            Which lists.
        matrix : ndarray of shape (k, length)
            Their samples, a list a row.
        """
        for rows, index in self.indices():
            yield rows, self.values[index]

    def indices(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield, like `matrices`, which positions of `values` and `orders` the lists hold."""
        lengths = self.lengths
        for length in np.unique(lengths[lengths > 0]):
            rows = np.flatnonzero(lengths == length)
            yield rows, self.starts[rows, None] + np.arange(length)


@dataclass(frozen=True)
class Sides:
    """Baseline, target and history of every configuration of every comparison.

    A configuration is present if either side has anything for it.

    Attributes
    ----------
    comparison : ndarray of shape (n_configurations,)
        The row in the comparisons table that a configuration belongs to; ascending.
    n_comparisons : int
        How many comparisons there are, with or without configurations.
    threads : ndarray of shape (n_configurations,)
    sign : ndarray of shape (n_configurations,)
        1 where higher is better, -1 where lower is better.
    baseline, target, history : Samples
        History is what lies before the baseline, at most `HISTORY_VERSIONS` versions of it.
    baseline_five, target_five : ndarray of shape (n_configurations, 5)
        min, q1, median, q3, max: of the samples, or as the source gave them; NaN where there is neither.
    """

    comparison: Ints
    n_comparisons: int
    threads: Ints
    sign: Floats
    baseline: Samples
    target: Samples
    history: Samples
    baseline_five: Floats
    target_five: Floats

    @classmethod
    def of(cls, tables: ComparisonTables) -> Sides:
        """Gather the sides of all comparisons of `tables`."""
        return _gather(tables)


def five_numbers(samples: Samples) -> Floats:
    """Return min, quartiles and max of every list, NaN for empty ones.

    Returns
    -------
    ndarray of shape (n_configurations, 5)
        Quartiles are interpolated linearly, as NumPy does by default.
    """
    five = np.full((len(samples.starts), len(FIVE_NUMBERS)), np.nan)
    # what is infinite, or so large that it becomes it, data.comparisons.validity reports
    with np.errstate(invalid="ignore", over="ignore"):
        for rows, matrix in samples.matrices():
            five[rows] = np.quantile(matrix, (0.0, 0.25, 0.5, 0.75, 1.0), axis=1).T
    return five


def _gather(tables: ComparisonTables) -> Sides:
    operations, result_key, comparison_key = _operation_keys(tables)
    results = tables.results
    summary = results["stat"].notna().to_numpy()
    raw, given = _Table.of(results[~summary], result_key[~summary]), None
    if summary.any():
        given = _Summaries.of(results[summary], result_key[summary])
    comparison, series = _configurations(raw, given, comparison_key, operations)
    bounds = {
        name: tables.comparisons[name].to_numpy(np.int64)[comparison]
        for name in ("baseline_from", "baseline_to", "target_from", "target_to")
    }
    baseline = raw.between(series, bounds["baseline_from"], bounds["baseline_to"])
    target = raw.between(series, bounds["target_from"], bounds["target_to"])
    history = raw.before(series, bounds["baseline_from"])
    baseline_five, target_five = five_numbers(baseline), five_numbers(target)
    if given is not None:
        baseline_five = given.fill(baseline_five, series, bounds["baseline_from"])
        target_five = given.fill(target_five, series, bounds["target_from"])
    present = (baseline.lengths > 0) | (target.lengths > 0)
    present |= ~np.isnan(np.c_[baseline_five, target_five]).all(axis=1)
    sign = np.where(_better(results, result_key, comparison_key)[comparison] == "lower", -1.0, 1.0)
    return Sides(
        comparison[present],
        len(tables.comparisons),
        series[present] % _THREADS,
        sign[present],
        _subset(baseline, present),
        _subset(target, present),
        _subset(history, present),
        baseline_five[present],
        target_five[present],
    )


#: A series is an operation's key and a number of threads in one integer.
_THREADS = 1 << 20


def _subset(samples: Samples, rows: NDArray[np.bool_]) -> Samples:
    return Samples(samples.values, samples.orders, samples.starts[rows], samples.stops[rows])


def _operation_keys(tables: ComparisonTables) -> tuple[int, Ints, Ints]:
    """Return how many (benchmark, operation, machine) there are, and which one every row belongs to."""
    columns = ["benchmark", "operation", "machine"]
    n_results = len(tables.results)
    key = np.zeros(n_results + len(tables.comparisons), np.int64)
    for column in columns:
        both = pd.concat([tables.results[column], tables.comparisons[column]], ignore_index=True)
        codes, levels = pd.factorize(both, use_na_sentinel=False)
        key = key * (len(levels) + 1) + codes
        _, key = np.unique(key, return_inverse=True)
    return int(key.max(initial=-1)) + 1, key[:n_results], key[n_results:]


def _better(results: pd.DataFrame, result_key: Ints, comparison_key: Ints) -> NDArray[np.str_]:
    """Return the direction of every comparison's operation ("higher" where it has no results)."""
    lower = results["better"].to_numpy() == "lower"
    keys = np.unique(result_key[lower])
    return np.where(np.isin(comparison_key, keys), "lower", "higher")


@dataclass(frozen=True)
class _Table:
    """Raw samples sorted by series and order."""

    values: Floats
    orders: Ints
    series: Ints

    @classmethod
    def of(cls, results: pd.DataFrame, key: Ints) -> _Table:
        series = key * _THREADS + results["threads"].to_numpy(np.int64)
        orders = results["order"].to_numpy(np.int64)
        place = np.lexsort((orders, series))
        return cls(results["value"].to_numpy(np.float64)[place], orders[place], series[place])

    def _position(self, series: Ints, order: Ints) -> Ints:
        """Return the first row of each series at that order or later."""
        if not len(self.series):
            return np.zeros(len(series), np.int64)
        low, span = int(self.orders.min()), int(np.ptp(self.orders)) + 2
        distinct, code = np.unique(self.series, return_inverse=True)
        rank = code * span + (self.orders - low)
        place = np.searchsorted(distinct, series)
        found = np.clip(place, 0, len(distinct) - 1)
        known = distinct[found] == series
        at = np.searchsorted(rank, found * span + np.clip(order - low, 0, span - 1))
        return np.where(known, at, 0)

    def between(self, series: Ints, first: Ints, last: Ints) -> Samples:
        return Samples(
            self.values, self.orders, self._position(series, first), self._position(series, last + 1)
        )

    def before(self, series: Ints, first: Ints) -> Samples:
        """Return the samples of the last `HISTORY_VERSIONS` versions before `first`."""
        stops = self._position(series, first)
        version = np.cumsum(
            np.r_[True, (np.diff(self.orders) != 0) | (np.diff(self.series) != 0)]
            if len(self.series)
            else np.zeros(0, bool)
        )
        starts = self._position(series, np.full(len(series), np.iinfo(np.int32).min, np.int64))
        if len(version):
            newest = version[np.maximum(stops - 1, 0)]
            starts = np.maximum(starts, np.searchsorted(version, newest - HISTORY_VERSIONS + 1))
        return Samples(self.values, self.orders, np.minimum(starts, stops), stops)


@dataclass(frozen=True)
class _Summaries:
    """Five numbers as a source gave them, by (series, order)."""

    five: pd.DataFrame

    @classmethod
    def of(cls, results: pd.DataFrame, key: Ints) -> _Summaries:
        """Turn rows of one statistic each into rows of five numbers."""
        series = key * _THREADS + results["threads"].to_numpy(np.int64)
        wide = (
            pd.DataFrame(
                {
                    "series": series,
                    "order": results["order"].to_numpy(np.int64),
                    "stat": results["stat"].to_numpy(),
                    "value": results["value"].to_numpy(np.float64),
                }
            )
            .groupby(["series", "order", "stat"])["value"]
            .first()
            .unstack("stat")
            .reindex(columns=list(FIVE_NUMBERS))
        )
        return cls(wide)

    def fill(self, five: Floats, series: Ints, order: Ints) -> Floats:
        """Put the given numbers where there were no samples."""
        given = self.five.reindex(pd.MultiIndex.from_arrays([series, order])).to_numpy(np.float64)
        return np.where(np.isnan(five), given, five)


def _configurations(
    raw: _Table, given: _Summaries | None, comparison_key: Ints, operations: int
) -> tuple[Ints, Ints]:
    """Return, for every configuration, its comparison's row and its series."""
    series = np.unique(raw.series)
    if given is not None:
        series = np.union1d(series, given.five.index.get_level_values("series").to_numpy(np.int64))
    first = np.searchsorted(series, np.arange(operations) * _THREADS)
    last = np.searchsorted(series, np.arange(1, operations + 1) * _THREADS)
    counts = (last - first)[comparison_key]
    comparison = np.repeat(np.arange(len(comparison_key)), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return comparison, series[first[comparison_key][comparison] + within]
