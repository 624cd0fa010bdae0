"""What other operations did at the same versions: their results, by the version's name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Numbers of sizes between these can be squared, and the squares be added up and divided, without overflow.
_LEAST_SQUARABLE, _MOST_SQUARABLE = 2.0**-256, 2.0**256


def are_squarable(values: Floats) -> bool:
    """Return whether all numbers that are not 0 or NaN can be squared without overflow or underflow."""
    least, most = np.fmin.reduce(values, None, initial=1.0), np.fmax.reduce(values, None, initial=1.0)
    if least <= 0:
        sizes = np.abs(values[values != 0])
        least, most = np.fmin.reduce(sizes, initial=1.0), np.fmax.reduce(sizes, initial=1.0)
    return bool(least >= _LEAST_SQUARABLE and most <= _MOST_SQUARABLE)


def scaled(values: Floats, exponents: Ints) -> Floats:
    """Return `values` divided by 2**exponents, bounded by the largest number that can be squared."""
    with np.errstate(over="ignore", under="ignore"):
        return np.clip(np.ldexp(values, -exponents), -_MOST_SQUARABLE, _MOST_SQUARABLE)


def exponents_of(values: Floats) -> Ints:
    """Return the exponent of the power of two above every number; 0 for what is not finite and above 0."""
    known = np.isfinite(values) & (values > 0)
    return np.where(known, np.frexp(np.where(known, values, 1.0))[1], 0).astype(np.int64)


@dataclass(frozen=True)
class Ordered:
    """Samples in the order of series and versions, and which row of the results each was."""

    values: Floats
    orders: Ints
    series: Ints
    place: Ints


@dataclass(frozen=True)
class Versions:
    """Every version of every series that the results hold, a series after the other, each in its order.

    Attributes
    ----------
    values : ndarray of shape (n_samples,)
        All samples.
    starts : ndarray of shape (n_versions + 1,)
        Version ``i`` has the samples ``values[starts[i]:starts[i + 1]]``.
    series, operation : ndarray of shape (n_versions,)
        Which series, and which operation, it belongs to.
    name : ndarray of shape (n_versions,)
        A number for its benchmark, machine and name; -1 where it has no name.
    lower : ndarray of bool, shape (n_versions,)
        Whether lower is better.
    """

    values: Floats
    starts: Ints
    series: Ints
    operation: Ints
    name: Ints
    lower: NDArray[np.bool_]

    @classmethod
    def of(cls, results: pd.DataFrame, ordered: Ordered, operation: Ints) -> Versions | None:
        """Gather them from results without summaries; None if no version has a name.

        Parameters
        ----------
        results : DataFrame
        ordered : Ordered
            Their samples, in the order of series and versions.
        operation : ndarray of shape (n_samples,)
            In the same order.
        """
        if "version" not in results or not results["version"].notna().any():
            return None
        begins = (np.diff(ordered.orders) != 0) | (np.diff(ordered.series) != 0)
        starts = np.flatnonzero(np.append(True, begins))
        head = results[["benchmark", "machine", "version", "better"]].iloc[ordered.place[starts]]
        name = head.groupby(["benchmark", "machine", "version"], sort=False).ngroup()
        return cls(
            ordered.values,
            np.append(starts, len(results)),
            ordered.series[starts],
            operation[starts],
            name.fillna(-1).to_numpy(np.int64),
            np.asarray(head["better"] == "lower"),
        )

    def siblings(self, targets: Targets, n_comparisons: int) -> Siblings:
        """Find the targets of all comparisons; where there are several configurations, the first one's."""
        held = targets.stops > targets.starts
        owner, at = np.unique(targets.comparison[held], return_index=True)
        found = np.zeros((2, n_comparisons), np.int64)
        for row, place in zip(found, (targets.starts, targets.stops), strict=True):
            row[owner] = np.searchsorted(self.starts, place[held][at])
        return Siblings(self, *found)


class Targets(NamedTuple):
    """The targets of configurations: the comparison of each, and that it is the samples ``starts:stops``."""

    comparison: Ints
    starts: Ints
    stops: Ints


@dataclass(frozen=True)
class Siblings:
    """Where the targets stand among all versions.

    Attributes
    ----------
    versions : Versions
    first, stop : ndarray of shape (n_comparisons,)
        The target is the versions ``first:stop``.
    """

    versions: Versions
    first: Ints
    stop: Ints

    def of(self, rows: Ints) -> Siblings:
        """Return those of some comparisons, in that order."""
        return Siblings(self.versions, self.first[rows], self.stop[rows])

    @cached_property
    def normalized(self) -> Siblings:
        """The same with every series divided by a power of two, if any number cannot be squared."""
        versions = self.versions
        if are_squarable(versions.values):
            return self
        begins = np.flatnonzero(np.diff(versions.series, prepend=-1))
        largest = np.maximum.reduceat(versions.values, versions.starts[begins])
        per_version = np.repeat(exponents_of(largest), np.diff(np.append(begins, len(versions.series))))
        per_sample = np.repeat(per_version, np.diff(versions.starts))
        return replace(self, versions=replace(versions, values=scaled(versions.values, per_sample)))
