"""Ways to name the metrics that drove a verdict, and what is left of verdicts without these."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.table import SEED
from data.matrices.tables import MatrixTables
from features.matrices.forms import Removal
from training.matrices.engine.drivers import Odds, drivers
from training.matrices.engine.engine import FittedEngine

Floats = NDArray[np.float64]
Whole = NDArray[np.intp]
#: From rows of pairs, the engine and a number, to places of so many metrics for each pair.
Way = Callable[[Removal, Odds, int], Whole]

#: So many metrics are tried by Shapley's ends.
TRIED = 100


def ours(removal: Removal, odds_of: Odds, n: int) -> Whole:
    """Name what perfjudge names."""
    return np.concatenate([found.metric for _, found in drivers(removal, odds_of, n)])


def largest(removal: Removal, odds_of: Odds, n: int) -> Whole:
    """Name the largest differences in units of noise, whatever the engine makes of them."""
    del odds_of
    return np.argsort(-removal.sizes, axis=1, kind="stable")[:, :n]


def ends(removal: Removal, odds_of: Odds, n: int) -> Whole:
    """Name by the mean of the first and the last term of Shapley's value, each metric by itself."""
    return np.array([_ends_of(removal, odds_of, pair)[:n] for pair in range(len(removal.sizes))])


def _ends_of(removal: Removal, odds_of: Odds, pair: int) -> Whole:
    tried = np.argsort(-removal.sizes[pair], kind="stable")[:TRIED]
    gone = np.zeros((2 * len(tried), removal.sizes.shape[1]), bool)
    gone[len(tried) :] = True
    rows = np.arange(len(tried))
    gone[rows, tried], gone[len(tried) + rows, tried] = True, False
    without, alone = np.split(odds_without(removal, odds_of, np.full(len(gone), pair), gone), 2)
    return tried[np.argsort(-np.round(alone - without, 9), kind="stable")]


def chance(removal: Removal, odds_of: Odds, n: int) -> Whole:
    """Name metrics at random."""
    del odds_of
    every = np.tile(np.arange(removal.sizes.shape[1]), (len(removal.sizes), 1))
    return np.random.default_rng(SEED).permuted(every, axis=1)[:, :n]


WAYS: dict[str, Way] = {
    "perfjudge": ours,
    "first and last term of Shapley's value": ends,
    "largest differences by noise": largest,
    "at random": chance,
}


def odds_without(removal: Removal, odds_of: Odds, pair: Whole, gone: NDArray[np.bool_]) -> Floats:
    """Return the log-odds of versions of pairs without what is `gone`, shape (n_versions,)."""
    x, version = removal.without(pair, gone)
    odds = odds_of(x, pair[version])
    return np.bincount(version, odds, len(pair)) / np.bincount(version, minlength=len(pair))


def through_tables(fitted: FittedEngine, one: MatrixTables) -> pd.Series:
    """Return what each metric adds to the log-odds of a pair, by Shapley's ends, each asked as tables.

    This is what perfjudge did before it made versions of rows: a table of runs for every version.
    """
    metrics, target = list(fitted.metrics), one.standing.target
    values = one.runs[metrics].to_numpy(np.float64)
    scaled = fitted.known.scaled(values)
    moved = np.nanmedian(scaled[target], axis=0) - np.nanmedian(scaled[~target], axis=0)
    back = np.where(target[:, None], fitted.known.unscaled(scaled - moved), values)
    versions = []
    for metric in range(len(metrics)):
        without, alone = values.copy(), back.copy()
        without[:, metric], alone[:, metric] = back[:, metric], values[:, metric]
        versions += [without, alone]
    name = np.repeat(np.arange(len(versions)), len(values)).astype(str)
    about = one.runs.drop(columns=metrics).iloc[np.tile(np.arange(len(values)), len(versions))]
    about = about.assign(run_id=about["run_id"] + " " + name, pair_id=name).reset_index(drop=True)
    numbers = pd.DataFrame(np.concatenate(versions), columns=metrics)
    asked = MatrixTables(pd.concat([about, numbers], axis="columns"), one.causes, one.metrics)
    odds = fitted.log_odds(asked)
    return pd.Series(odds[1::2] - odds[::2], metrics).sort_values(ascending=False)
