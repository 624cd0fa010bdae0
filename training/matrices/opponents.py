"""The opponents of every model: what one would do without learning, each at its best threshold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.matrices.tables import MatrixTables

Floats = NDArray[np.float64]

SIGMAS = 3.0
#: A spread that is a smaller share of the mean is rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Opponent:
    """A score of pairs, and where it is cut.

    Attributes
    ----------
    name : str
    score : Series of float
        By ``pair_id``.
    threshold : float
        Abnormal from here on: of all cuts the one with the highest balanced accuracy on the very pairs that
        it is scored on, which can only help it.
    """

    name: str
    score: pd.Series
    threshold: float


def opponents(tables: MatrixTables, abnormal: pd.Series) -> list[Opponent]:
    """Return the largest z-score over raw metrics, and the number of metrics beyond 3 sigma.

    The z-score of a metric is the difference of the means of both sides in standard deviations of the
    baseline. As few runs tell little of a deviation, each opponent comes a second time with that of all
    baselines of the workload type together, which sees the cases that are judged.

    Parameters
    ----------
    tables : MatrixTables
        Valid runs of the pairs.
    abnormal : Series of bool
        By ``pair_id``: the pairs to judge, and the truth.
    """
    found = []
    for words, pooled in (("", False), (", pooled noise", True)):
        scores = zscores(tables, pooled=pooled).reindex(abnormal.index)
        for name, score in (
            (f"largest z{words}", scores.max(axis="columns")),
            (f"metrics beyond 3 sigma{words}", (scores > SIGMAS).sum(axis="columns").astype("float64")),
        ):
            known = score.fillna(0.0)
            cut = best_threshold(abnormal.to_numpy(bool), known.to_numpy(np.float64))
            found.append(Opponent(name, known, cut))
    return found


def zscores(tables: MatrixTables, *, pooled: bool) -> pd.DataFrame:
    """Return the size of the z-score of every raw metric, pairs x metrics.

    Infinite where the baseline does not vary and the target differs; NaN where a side was not measured.
    """
    runs, metrics = tables.runs, tables.raw
    sides = runs.groupby(["pair_id", "side"], sort=False)[metrics]
    mean, variance = (frame.unstack("side") for frame in (sides.mean(), sides.var()))
    baseline, target = (mean.xs(side, axis="columns", level="side") for side in ("baseline", "target"))
    spread = variance.xs("baseline", axis="columns", level="side")
    if pooled:
        group = runs.groupby("pair_id", sort=False)["group"].first().reindex(spread.index)
        spread = spread.groupby(group).transform("mean")
    deviation = np.sqrt(spread)
    deviation = deviation.mask(deviation <= _ROUNDING * baseline.abs(), 0.0)
    difference = (target - baseline).abs()
    difference = difference.mask(difference <= _ROUNDING * baseline.abs(), 0.0)
    return (difference / deviation).mask((deviation == 0) & (difference == 0), 0.0)[metrics]


def best_threshold(abnormal: NDArray[np.bool_], score: Floats) -> float:
    """Return the score from which on "abnormal" has the highest balanced accuracy; the highest of equals."""
    cuts = np.unique(score)[::-1]
    judged = score[:, None] >= cuts
    accuracy = judged[abnormal].mean(axis=0) - judged[~abnormal].mean(axis=0)
    return float(cuts[accuracy.argmax()])
