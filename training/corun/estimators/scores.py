"""What predictions of impact are worth, per fold and pooled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.corun.rates import CORUN, Placed
from training.corun.estimators.fitting import Ranges
from training.evaluation.metrics import DIGITS, half_width, spread

Floats = NDArray[np.float64]
#: A measured impact and its neighbours in repeats: fewer say nothing of how well a measurement repeats.
_REPEATS = 2


def scores(rows: pd.DataFrame) -> dict[str, float]:
    """Score rows of oof.parquet.

    Returns
    -------
    dict
        ``within_tolerance``: the share predicted rightly
        (`training.corun.estimators.fitting.Learned.right`); ``mape``, ``median_error``, ``p90_error``: mean,
        median and 90th percentile of |predicted / measured - 1|; ``r2``; ``coverage``: the share of measured
        impacts inside the interval; ``interval_width``: its mean width over the predicted impact.
    """
    measured, predicted = rows["measured"].to_numpy(np.float64), rows["predicted"].to_numpy(np.float64)
    error = np.abs(predicted / measured - 1)
    spread = float(((measured - measured.mean()) ** 2).sum())
    inside = (rows["low"] <= rows["measured"]) & (rows["measured"] <= rows["high"])
    return {
        "within_tolerance": float(rows["right"].mean()),
        "mape": float(error.mean()),
        "median_error": float(np.median(error)),
        "p90_error": float(np.quantile(error, 0.9)),
        "r2": 1 - float(((measured - predicted) ** 2).sum()) / spread if spread else 0.0,
        "coverage": float(inside.mean()),
        "interval_width": float(((rows["high"] - rows["low"]) / rows["predicted"]).mean()),
    }


def accuracy(errors: Any, tolerance: float) -> dict[str, float]:
    """Return the share of relative errors below the tolerance, and their mean."""
    return {"within_tolerance": float((errors < tolerance).mean()), "mape": float(errors.mean())}


def summary(rows: pd.DataFrame) -> dict[str, Any]:
    """Summarise one model in one design: per score ``mean`` and ``std`` over the folds and ``pooled``."""
    folds = [scores(own) for _, own in rows.groupby("fold", sort=True)]
    spreads = {name: spread([one[name] for one in folds], pooled) for name, pooled in scores(rows).items()}
    return {"kind": str(rows["kind"].iloc[0]), **spreads}


def log_width(rows: pd.DataFrame, confidence: float) -> float:
    """Return the half width on the scale of log impact, from rows with ``measured`` and ``predicted``."""
    return half_width(np.log(rows["measured"] / rows["predicted"]).to_numpy(np.float64), confidence)


def with_intervals(rows: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """Add ``low`` and ``high`` to one model's rows in one design.

    The width of a fold's intervals comes from the residuals of the other folds, so that its coverage is
    measured on rows that had no say in it.
    """
    parts = []
    for fold, own in rows.groupby("fold", sort=True):
        others = rows[rows["fold"] != fold]
        factor = np.exp(log_width(others if len(others) else own, confidence))
        parts.append(own.assign(low=own["predicted"] / factor, high=own["predicted"] * factor))
    return pd.concat(parts, ignore_index=True)


def repeatability(pairs: pd.DataFrame, solo: pd.Series, tolerance: float) -> dict[str, Any]:
    """Say how well the measurement repeats itself, which bounds every accuracy.

    Parameters
    ----------
    pairs : DataFrame
        The table of pairs, with repetitions.
    solo : Series
        Solo seconds by machine and task.
    tolerance : float
        Also the width of ranges, as a share of a task's mean impact.

    Returns
    -------
    dict
        ``repeated`` co-runs, and of one repetition as the prediction of the median of the others:
        ``within_tolerance, mape, p90_error``, and ``same_range``, the share that falls into the same range;
        None where nothing was repeated. ``solo_spread``: the median over tasks of the standard deviation of
        solo times as a share of their mean.
    """
    alone = solo.groupby(level=[0, 1])
    spread = (alone.std(ddof=1) / alone.mean()).dropna()
    median = alone.median().reindex(pd.MultiIndex.from_frame(pairs[["machine", "task"]])).to_numpy()
    runs = Placed.of(pairs).named.assign(impact=pairs["corun_seconds"].to_numpy() / median)
    again = _again(runs)
    scores: dict[str, Any] = {"repeated": len(again[CORUN].drop_duplicates())}
    scores |= dict.fromkeys(("within_tolerance", "mape", "p90_error", "same_range", "solo_spread"))
    if len(again):
        error = (again["impact"] / again["others"] - 1).abs()
        ranges = Ranges.of(runs["task"].to_numpy(np.str_), runs["impact"].to_numpy(np.float64), tolerance)
        tasks = again["task"].to_numpy(np.str_)
        one, other = (
            ranges.numbers(tasks, again[name].to_numpy(np.float64)) for name in ("impact", "others")
        )
        scores |= accuracy(error, tolerance)
        scores |= {"p90_error": float(error.quantile(0.9)), "same_range": float((one == other).mean())}
    if len(spread):
        scores["solo_spread"] = float(spread.median())
    return {
        name: round(value, DIGITS) if isinstance(value, float) else value for name, value in scores.items()
    }


def _again(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs that were repeated, with ``others``, the median of the other repetitions."""
    found = [
        own.assign(others=[own["impact"].drop(place).median() for place in own.index])
        for _, own in runs.groupby(["machine", "task", "corunners"], sort=True)
        if len(own) >= _REPEATS
    ]
    return pd.concat(found, ignore_index=True) if found else runs.iloc[:0].assign(others=0.0)


def best(summaries: dict[str, Any]) -> str:
    """Return the regression that is `ranked` first."""
    return ranked(summaries)[0]


def ranked(summaries: dict[str, Any]) -> list[str]:
    """Sort regressions by pooled mean error, the smallest first, then by name: ranges are no numbers."""
    models = {name: content for name, content in summaries.items() if content["kind"] == "regression"}
    return sorted(models, key=lambda name: (models[name]["mape"]["pooled"], name))
