"""Inferred resource utilisation profiles: which stressors explain an application's performance (seed 003)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.fingerprints.params import Profiling
from data.fingerprints.stressors import CATEGORIES
from features.fingerprints.matrix import Measured, categories, stressor_of
from training.fingerprints.clusters import clusters
from training.fingerprints.heldout import held_out
from training.fingerprints.importance import car_scores
from training.fingerprints.resamples import resamples
from training.fingerprints.trust import Trust, reasons

Floats = NDArray[np.float64]
#: Stressors whose ranking is judged by its stability.
TOP = 5
#: Machines of this many CPU models are resampled as whole CPU models.
MANY_CPUS = 10


@dataclass(frozen=True)
class Profile:
    """An inferred resource utilisation profile (IRUP).

    Attributes
    ----------
    measured : Measured
        What was learned from, one row per machine.
    features : DataFrame
        One row per stressor, most important first: ``stressor, importance`` (most important = 100), ``low,
        high`` (interval over the bootstrap), ``score`` (correlation-adjusted, signed: positive where more of
        it goes with more speed), ``permutation`` (growth of the error on held-out CPU models when the
        stressor is shuffled, most important = 100), ``cluster`` (int, of correlated stressors),
        ``categories`` (of table 1, comma-separated).
    clusters : DataFrame
        One row per cluster of correlated stressors, most important first: ``cluster, stressors``
        (comma-separated), ``importance, low, high, permutation`` (most important = 100).
    categories : DataFrame
        The same per category of table 1: ``category, importance, low, high, permutation``. A stressor of
        several categories is shared among them in equal parts.
    trust : Trust
    shares : ndarray of shape (n_columns,)
        The importances before scaling; they add up to 1. In the order of ``measured.columns``.
    resampled : ndarray of shape (n_resamples, n_columns)
        The shares in each bootstrap resample.
    """

    measured: Measured
    features: pd.DataFrame
    clusters: pd.DataFrame
    categories: pd.DataFrame
    trust: Trust
    shares: Floats
    resampled: Floats

    @property
    def application(self) -> str:
        """The application's name."""
        return self.measured.application

    @property
    def top(self) -> tuple[str, ...]:
        """The five most important stressors."""
        return tuple(self.features["stressor"].head(TOP))


def profile(measured: Measured, params: Profiling, seed: int) -> Profile:
    """Infer which stressors explain an application's performance, and how far that can be trusted.

    Parameters
    ----------
    measured : Measured
    params : Profiling
    seed : int

    Raises
    ------
    InputError
        If there are fewer than two machines, or all perform alike.
    """
    machines = measured.by_machine()
    if len(machines.y) < 2 or not np.ptp(machines.y):  # noqa: PLR2004 - one machine has nothing to differ from
        raise InputError(
            f"has {len(np.unique(machines.y))} different values on {len(machines.y)} machines; "
            "expected two or more",
            place=f'application "{measured.application}"',
        )
    weights = resamples(units(machines), params.resamples, seed)
    scores = car_scores(machines)
    every = shares_of(np.concatenate([scores, car_scores(machines, weights)]))
    alike = clusters(machines)
    named = categories(machines.columns)
    singles = [[column] for column in range(len(machines.columns))]
    worth = held_out(machines, [*singles, *alike, *named.values()], seed)
    single, cluster, category = np.split(worth.growth, np.cumsum([len(singles), len(alike)]))
    stability = overlap([top(row) for row in every[1:]])
    trust = _trust(machines, worth.r2, worth.median_error, stability, params)
    interval = _Interval(every, params.confidence)
    return Profile(
        machines,
        _features(machines, interval, scores[0], single, alike),
        _clusters(machines, interval, cluster, alike),
        _categories(machines.columns, interval, category, named),
        trust,
        every[0],
        every[1:],
    )


def units(measured: Measured) -> NDArray[np.str_]:
    """Return what is resampled: whole CPU models, or machines where there are only a few CPU models."""
    return measured.cpus if len(np.unique(measured.cpus)) >= MANY_CPUS else measured.machines


def top(shares: Floats, number: int = TOP) -> frozenset[int]:
    """Return the columns with the largest shares."""
    return frozenset(np.argsort(-shares, kind="stable")[:number].tolist())


def overlap(tops: Sequence[frozenset[int]]) -> float:
    """Return the mean Jaccard index of all pairs."""
    pairs = [len(one & other) / len(one | other) for one, other in combinations(tops, 2)]
    return float(np.mean(pairs)) if pairs else float("nan")


def scaled(values: Floats) -> Floats:
    """Scale so that the largest is 100 (section 5.2)."""
    largest = values.max()
    return np.asarray(100 * values / largest if largest > 0 else values * 0, np.float64)


def shares_of(scores: Floats) -> Floats:
    """Return the share of each column in the sum of the squares of a row; rows of zeros stay."""
    squares = scores**2
    totals = squares.sum(axis=1, keepdims=True)
    return np.asarray(squares / np.where(totals > 0, totals, 1), np.float64)


def _trust(machines: Measured, r2: float, median_error: float, stability: float, params: Profiling) -> Trust:
    count, cpus = len(machines.y), len(np.unique(machines.cpus))
    return Trust(count, cpus, r2, median_error, stability, reasons(count, cpus, r2, stability, params.trust))


@dataclass(frozen=True)
class _Interval:
    """Shares of all rows (first) and of the resamples, and how wide intervals are."""

    shares: Floats
    confidence: float

    def of(self, sums: Floats) -> dict[str, Floats]:
        """Return importance, low and high of sums of the shares (n_columns, n_groups)."""
        grouped = self.shares @ sums
        largest = grouped.max(axis=1, keepdims=True)
        importance = 100 * grouped / np.where(largest > 0, largest, 1)
        tail = (1 - self.confidence) / 2
        low, high = np.quantile(importance[1:], (tail, 1 - tail), axis=0)
        return {"importance": importance[0], "low": low, "high": high}


def _features(
    machines: Measured, interval: _Interval, scores: Floats, growth: Floats, alike: list[list[int]]
) -> pd.DataFrame:
    cluster_of = {column: number for number, group in enumerate(alike, 1) for column in group}
    columns = machines.columns
    table = pd.DataFrame(
        {
            "stressor": columns,
            **interval.of(np.eye(len(columns))),
            "score": scores,
            "permutation": scaled(growth),
            "cluster": [cluster_of[number] for number in range(len(columns))],
            "categories": [", ".join(CATEGORIES.get(stressor_of(name), ("other",))) for name in columns],
        }
    )
    return _ranked(table)


def _clusters(
    machines: Measured, interval: _Interval, growth: Floats, alike: list[list[int]]
) -> pd.DataFrame:
    sums = np.zeros((len(machines.columns), len(alike)))
    for number, group in enumerate(alike):
        sums[group, number] = 1
    names = [", ".join(machines.columns[column] for column in group) for group in alike]
    table = pd.DataFrame({"cluster": range(1, len(alike) + 1), "stressors": names, **interval.of(sums)})
    return _ranked(table.assign(permutation=scaled(growth)))


def _categories(
    columns: tuple[str, ...], interval: _Interval, growth: Floats, named: dict[str, list[int]]
) -> pd.DataFrame:
    sums = category_sums(columns)
    table = pd.DataFrame({"category": list(named), **interval.of(sums)})
    return _ranked(table.assign(permutation=scaled(growth)))


def category_sums(columns: tuple[str, ...]) -> Floats:
    """Return how much of each column (rows) belongs to each category (columns); rows add up to 1."""
    named = categories(columns)
    sums = np.zeros((len(columns), len(named)))
    for number, members in enumerate(named.values()):
        sums[members, number] = 1
    return sums / sums.sum(axis=1, keepdims=True)


def _ranked(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values("importance", ascending=False, kind="stable", ignore_index=True)
