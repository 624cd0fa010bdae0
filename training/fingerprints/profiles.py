"""Inferred resource utilisation profiles: the stressors that explain a performance (quiho paper)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from types import MappingProxyType
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.fingerprints.params import Profiling
from features.fingerprints.matrix import Measured, categories_of, columns_by_category
from training.fingerprints.importance import car_scores, cluster_columns, held_out, speed_correlations
from training.fingerprints.trust import Evidence, Trust, Unit, chance_correlation, choose_lead, judge_profile

Floats = NDArray[np.float64]
#: Number of leading stressors whose stability is measured.
TOP = 5
#: Least number of CPU models to resample whole CPU models instead of machines.
MANY_CPUS = 10
#: Least number of units in a resample to compute correlations.
ENOUGH = 3


@dataclass(frozen=True)
class Profile:
    """An inferred resource utilisation profile (IRUP).

    `measured` is the training data, one row per machine. `features` has a row per stressor, most important
    first: ``stressor, importance`` (largest = 100), ``low, high`` (bootstrap interval), ``score``
    (correlation-adjusted; positive where more of it goes with more speed), ``permutation`` (growth of the
    held-out error when it is shuffled, largest = 100), ``cluster`` (int, of correlated stressors),
    ``categories`` (of table 1, comma-separated). `clusters` and `categories` have ``cluster, stressors``
    (comma-separated) or ``category``, and ``importance, low, high, permutation``; a stressor of several
    categories is shared among them equally. `shares`, shape (n_columns,), are the importances before scaling,
    which add up to 1, in the order of ``measured.columns``; `resampled`, shape (n_resamples, n_columns),
    those of each bootstrap resample.
    """

    measured: Measured
    #: By table: its columns as lists. Answers are made of these, which takes less time than of frames.
    columns: Mapping[str, Mapping[str, list[Any]]]
    trust: Trust
    shares: Floats
    resampled: Floats

    @property
    def application(self) -> str:
        """The application's name."""
        return self.measured.application

    @cached_property
    def features(self) -> pd.DataFrame:
        """A row per stressor."""
        return pd.DataFrame(self.columns["features"])

    @cached_property
    def clusters(self) -> pd.DataFrame:
        """A row per cluster of correlated stressors."""
        return pd.DataFrame(self.columns["clusters"])

    @cached_property
    def categories(self) -> pd.DataFrame:
        """A row per category of stressors."""
        return pd.DataFrame(self.columns["categories"])

    @property
    def top_stressors(self) -> tuple[str, ...]:
        """The five most important stressors, the first first."""
        return tuple(self.features["stressor"].head(TOP))


def infer_profile(measured: Measured, params: Profiling, seed: int) -> Profile:
    """Return an application's profile: the stressors that explain its performance, and a verdict on trust.

    Rows of one machine are averaged first. InputError if there are fewer than two machines, or all perform
    alike.
    """
    machines = measured.by_machine()
    if len(machines.y) < 2 or not np.ptp(machines.y):  # noqa: PLR2004 - one machine has nothing to differ from
        values = f"{len(np.unique(machines.y))} different values on {len(machines.y)} machines"
        raise InputError(f"{values}; expected two or more", place=f'application "{measured.application}"')
    resampled = resample_weights(resampling_units(machines), params.n_bootstrap, seed)
    weights = np.concatenate([np.ones((1, len(machines.y))), resampled])
    scores = car_scores(machines, weights)
    every = shares_of(scores)
    names, alike, named = machines.columns, cluster_columns(machines), columns_by_category(machines.columns)
    singles = [[column] for column in range(len(names))]
    worth = held_out(machines, [*singles, *alike, *named.values()], seed)
    single, cluster, category = np.split(worth.growth, np.cumsum([len(singles), len(alike)]))
    level, limits = params.significance, params.trust
    leading = choose_lead(every, speed_correlations(machines, weights), limits.min_top_rank_stability)
    dealt = chance_correlation(machines, params.n_bootstrap, level, seed)
    evidence = Evidence(machines, resampled_unit(machines), leading, dealt, worth)
    stability = mean_overlap(top_columns(every[1:]))
    ranked = partial(_rank_groups, every, params.confidence)
    cluster_of = np.zeros(len(names), np.int64)
    for number, group in enumerate(alike, 1):
        cluster_of[group] = number
    kinds = [", ".join(categories_of(name)) for name in names]
    about_columns = {"cluster": cluster_of, "categories": kinds}
    joined = [", ".join(names[column] for column in group) for group in alike]
    return Profile(
        machines,
        {
            "features": ranked({"stressor": names}, singles, single, about=about_columns, score=scores[0]),
            "clusters": ranked({"cluster": range(1, len(alike) + 1), "stressors": joined}, alike, cluster),
            "categories": ranked({"category": list(named)}, named.values(), category),
        },
        judge_profile(evidence, stability, limits, level, seed),
        every[0],
        every[1:],
    )


def _rank_groups(
    shares: Floats,
    confidence: float,
    named: Mapping[str, Any],
    groups: Collection[Sequence[int]],
    growth: Floats,
    *,
    about: Mapping[str, Any] = MappingProxyType({}),
    **scores: Floats,
) -> dict[str, list[Any]]:
    """Return a table of groups of columns, most important first; the first row of `shares` is of all rows.

    `named`, `scores` and `about` are its first columns, those before ``permutation``, and the last.
    """
    grouped = shares @ sums_of(groups, shares.shape[1])
    largest = grouped.max(axis=1, keepdims=True)
    importance = 100 * grouped / np.where(largest > 0, largest, 1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(importance[1:], (tail, 1 - tail), axis=0)
    columns = {
        **named,
        "importance": importance[0],
        "low": low,
        "high": high,
        **scores,
        "permutation": scale_importances(growth),
        **about,
    }
    order = np.argsort(-importance[0], kind="stable")
    return {name: np.asarray(values)[order].tolist() for name, values in columns.items()}


def resampled_unit(measured: Measured) -> Unit:
    """Return the unit of resampling: "CPU models" if there are at least `MANY_CPUS` (10), else "machines"."""
    return "CPU models" if len(np.unique(measured.cpus)) >= MANY_CPUS else "machines"


def resampling_units(measured: Measured) -> NDArray[np.str_]:
    """Return the CPU model of each row, or its machine if there are fewer than 10 models; shape (n_rows,)."""
    return measured.cpus if resampled_unit(measured) == "CPU models" else measured.machines


def top_columns(shares: Floats) -> NDArray[np.int64]:
    """Return the columns of the five largest of each row of `shares`, largest first; the first of equals."""
    return np.argsort(-shares, axis=1, kind="stable")[:, :TOP]


def mean_overlap(tops: NDArray[np.int64]) -> float:
    """Return the mean Jaccard index of all pairs of rows, sets of columns; NaN with fewer than two rows.

    tops: shape (n_rows, size), column indices, different ones in a row.
    """
    if len(tops) < 2:  # noqa: PLR2004 - a pair
        return float("nan")
    members = np.zeros((len(tops), 1 + tops.max()))
    np.put_along_axis(members, tops, 1, axis=1)
    common = (members @ members.T)[~np.tri(len(tops), dtype=bool)]
    return float(np.mean(common / (2 * tops.shape[1] - common)))


def scale_importances(values: Floats) -> Floats:
    """Return `values` scaled so that the largest is 100 (all 0 if none is positive), shape unchanged.

    ValueError if `values` is empty.
    """
    largest = values.max()
    return np.asarray(100 * values / largest if largest > 0 else values * 0, np.float64)


def shares_of(scores: Floats) -> Floats:
    """Return the squares of scores, (n_rows, n_columns), as shares of their row's sum; rows of zeros stay."""
    squares = scores**2
    totals = squares.sum(axis=1, keepdims=True)
    return np.asarray(squares / np.where(totals > 0, totals, 1), np.float64)


def sums_of(groups: Collection[Sequence[int]], columns: int) -> Floats:
    """Return a matrix of shares, (columns, n_groups), which sums values of columns by group.

    ``values @ result`` are the sums; a column of k groups counts 1 / k in each. The row of a column in no
    group is NaN.
    """
    sums = np.zeros((columns, len(groups)))
    for number, members in enumerate(groups):
        sums[members, number] = 1
    return sums / sums.sum(axis=1, keepdims=True)


def resample_weights(units: NDArray[np.str_], number: int, seed: int) -> NDArray[np.float64]:
    """Return the weight of each row in each bootstrap resample of the units, shape (number, n_rows).

    All rows of a unit (a machine, a CPU model) have the same weight. Weights are Poisson with mean 1 (Oza and
    Russell 2001); a resample in which fewer than three units have a weight above 0 gets exponential ones with
    mean 1 (the Bayesian bootstrap). They are seeded by `seed` and the unit's name, so that profiles which
    share machines are resampled together.
    """
    names, rows = np.unique(units, return_inverse=True)
    drawn = zip(*(_draws(name, number, seed) for name in names), strict=True)
    counts, smooth = map(np.column_stack, drawn)
    few = (counts > 0).sum(axis=1) < ENOUGH
    return np.where(few[:, None], smooth, counts)[:, rows]


@lru_cache(1024)
def _draws(unit: str, number: int, seed: int) -> tuple[Floats, Floats]:
    generator = np.random.default_rng([seed, crc32(unit.encode())])
    return generator.poisson(1, number).astype(np.float64), generator.exponential(1, number)
