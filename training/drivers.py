"""Which metrics moved a verdict: what the engine says if they had, or had alone, moved."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.matrix_tables import SIDES, MatrixTables
from features.matrices import Known, Matrices, noise

Floats = NDArray[np.float64]

#: So many metrics, those that differ most by their noise, are tried.
TRIED = 100


def drivers(
    tables: MatrixTables,
    grouped: MatrixTables,
    known: Known,
    log_odds: Callable[[MatrixTables], Floats],
    n: int,
) -> pd.DataFrame:
    """Return the `n` metrics that raise the log-odds of abnormal most.

    A metric's contribution is the mean of two changes of the log-odds, both asked of the engine as it is,
    through form, projection and classifier: what is lost when the target's runs are moved so that this
    metric's middle is the baseline's, and what is won when all others are and this one is not (the first and
    last term of Shapley's value). Of metrics that contribute the same, that which differs most by its noise
    comes first.

    Parameters
    ----------
    tables : MatrixTables
        The runs of one pair.
    grouped : MatrixTables
        The same in the engine's groups.
    known : Known
    log_odds : callable
        Of every pair of tables.
    n : int

    Returns
    -------
    DataFrame
        ``metric, baseline, target, contribution``.
    """
    names = list(known.metrics)
    values = tables.runs[names].to_numpy(np.float64, copy=True)
    values[~np.isfinite(values)] = np.nan
    scaled = known.scaled(values)
    matrices = Matrices.of(grouped.runs, scaled)
    place = known.places(matrices.about["group"].tolist())
    moved = np.nan_to_num(matrices.difference[0])
    size = np.abs(moved) / noise(matrices, known, place)[0]
    tried = np.argsort(-size, kind="stable")[:TRIED]
    target = (tables.runs["side"] == SIDES[1]).to_numpy(bool)
    unmoved = np.where(target[:, None], known.unscaled(scaled - moved), values)
    # all moved, none moved; then for every metric: all but this one, only this one
    versions = np.array([values, unmoved, *(values,) * len(tried), *(unmoved,) * len(tried)])
    for number, metric in enumerate(tried):
        versions[2 + number, :, metric] = unmoved[:, metric]
        versions[2 + len(tried) + number, :, metric] = values[:, metric]
    odds = log_odds(_as_pairs(tables, names, versions))
    without, alone = odds[2 : 2 + len(tried)], odds[2 + len(tried) :]
    contribution = (odds[0] - without + alone - odds[1]) / 2
    # the sizes of differences settle what only rounding tells apart
    order = np.lexsort((np.arange(len(tried)), -np.round(contribution, 9)))[:n]
    chosen = tried[order]
    sides = [pd.DataFrame(values[rows][:, chosen]).median().to_numpy() for rows in (~target, target)]
    return pd.DataFrame(
        {
            "metric": np.array(names, object)[chosen],
            "baseline": sides[0],
            "target": sides[1],
            "contribution": contribution[order],
        }
    ).astype({"metric": "str"})


def _as_pairs(tables: MatrixTables, names: list[str], versions: Floats) -> MatrixTables:
    """Return the pair once for every version of its metrics, in their order."""
    count, runs, _ = versions.shape
    name = pd.Series(np.repeat(np.arange(count), runs)).astype("str")
    about = tables.runs.drop(columns=names).iloc[np.tile(np.arange(runs), count)].reset_index(drop=True)
    about = about.assign(run_id=about["run_id"] + " " + name, pair_id=name)
    metrics = pd.DataFrame(versions.reshape(count * runs, -1), columns=names)
    return MatrixTables(pd.concat([about, metrics], axis="columns"), tables.causes, tables.metrics)
