"""Which metrics moved a verdict: what the engine says if they had, or had alone, moved."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.matrices.tables import SIDES, MatrixTables
from features.matrices.forms import Known, MatrixPairs, noise

Floats = NDArray[np.float64]

#: So many metrics, those that differ most by their noise, are tried.
TRIED = 100
#: So many numbers at a time are judged.
AT_ONCE = 4_000_000


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
    values, unmoved, size = _moves(tables, grouped, known)
    tried = np.argsort(-size, kind="stable")[:TRIED]

    def odds_of(*versions: Floats) -> Floats:
        return log_odds(_as_pairs(tables, names, np.array(versions)))

    all_moved, none_moved = odds_of(values, unmoved)
    contribution = np.zeros(len(tried))
    step = max(1, AT_ONCE // (2 * values.size))
    for first in range(0, len(tried), step):
        chosen = tried[first : first + step]
        without = [_exchanged(values, unmoved, metric) for metric in chosen]
        alone = [_exchanged(unmoved, values, metric) for metric in chosen]
        lost, won = np.split(odds_of(*without, *alone), 2)
        contribution[first : first + step] = (all_moved - lost + won - none_moved) / 2
    target = (tables.runs["side"] == SIDES[1]).to_numpy(bool)
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


def _moves(tables: MatrixTables, grouped: MatrixTables, known: Known) -> tuple[Floats, Floats, Floats]:
    """Return metrics by run, the same with the target moved to the baseline, and sizes of moves by noise."""
    values = tables.runs[list(known.metrics)].to_numpy(np.float64, copy=True)
    values[~np.isfinite(values)] = np.nan
    scaled = known.scaled(values)
    matrices = MatrixPairs.of(grouped.runs, scaled)
    place = known.places(matrices.about["group"].tolist())
    moved = np.nan_to_num(matrices.difference[0])
    target = (tables.runs["side"] == SIDES[1]).to_numpy(bool)
    unmoved = np.where(target[:, None], known.unscaled(scaled - moved), values)
    return values, unmoved, np.abs(moved) / noise(matrices, known, place)[0]


def _exchanged(values: Floats, others: Floats, metric: int) -> Floats:
    exchanged = values.copy()
    exchanged[:, metric] = others[:, metric]
    return exchanged


def _as_pairs(tables: MatrixTables, names: list[str], versions: Floats) -> MatrixTables:
    """Return the pair once for every version of its metrics, in their order."""
    count, runs, _ = versions.shape
    name = pd.Series(np.repeat(np.arange(count), runs)).astype("str")
    about = tables.runs.drop(columns=names).iloc[np.tile(np.arange(runs), count)].reset_index(drop=True)
    about = about.assign(run_id=about["run_id"] + " " + name, pair_id=name)
    metrics = pd.DataFrame(versions.reshape(count * runs, -1), columns=names)
    return MatrixTables(pd.concat([about, metrics], axis="columns"), tables.causes, tables.metrics)
