"""The tables that ``dvc plots show`` draws, of what models said on held-out folds.

Each holds one entry; they are small whatever the data set is.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from training.evaluation.intervals import half_width
from training.evaluation.metrics import Floats, confusion, precision_by_recall

#: Where precision is told.
RECALLS = np.linspace(0.01, 1, 100)
#: Probabilities are told in that many ranges of the same width.
RANGES = 10
#: Shares of the cases that intervals are asked to hold.
CONFIDENCES = np.linspace(0.05, 0.95, 19)
#: Of more predictions, only so many are drawn.
MOST_POINTS = 1000


def precision_recall(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return ``recall`` and ``precision`` (`training.evaluation.metrics.precision_by_recall`)."""
    recall, precision = precision_by_recall(verdicts)
    # the last step is at 1, which no rounding may pass
    reached = np.minimum(np.searchsorted(recall, RECALLS), len(recall) - 1)
    return pd.DataFrame({"recall": RECALLS, "precision": precision[reached]})


def reliability(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return mean ``probability``, ``share_of_fails`` and ``cases`` of each range that has any."""
    number = np.minimum((verdicts["probability"] * RANGES).astype("int64"), RANGES - 1)
    ranges = verdicts.assign(failed=verdicts["status"] == "fail").groupby(number)
    told = {"probability": ("probability", "mean"), "share_of_fails": ("failed", "mean")}
    return ranges.agg(**told, cases=("failed", "size")).reset_index(drop=True)


def counts(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return the confusion matrix: ``label``, ``verdict``, ``cases``, and their ``share`` of the label's."""
    failed, judged = ((verdicts[name] == "fail").to_numpy(bool) for name in ("status", "verdict"))
    found = pd.DataFrame(confusion(failed, judged), ["pass", "fail"], ["pass", "fail"])
    rows = found.rename_axis("label").melt(var_name="verdict", value_name="cases", ignore_index=False)
    share = rows["cases"] / rows.groupby(level=0)["cases"].transform("sum")
    return rows.assign(share=share).reset_index()


def predicted(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return ``measured`` and ``predicted`` of all cases, or of `MOST_POINTS` evenly among them."""
    chosen = np.linspace(0, len(predictions) - 1, min(len(predictions), MOST_POINTS)).astype("int64")
    return predictions[["measured", "predicted"]].sort_values("measured", kind="stable").iloc[chosen]


def coverage(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the share of the ``cases`` that intervals held, ``covered``, by the share that was ``wanted``.

    Parameters
    ----------
    predictions : DataFrame
        ``unit, fold, measured, predicted``. The intervals of a fold of a unit are as wide as its other folds
        say, on the scale of logarithms.
    """
    misses = np.log(predictions["measured"] / predictions["predicted"]).abs()
    inside = [part for _, own in misses.groupby(predictions["unit"]) for part in _held(own, predictions)]
    held = np.concatenate(inside)
    return pd.DataFrame({"wanted": CONFIDENCES, "covered": held.mean(axis=0), "cases": len(held)})


def _held(misses: pd.Series, predictions: pd.DataFrame) -> Iterator[Floats]:
    """Yield, a fold at a time, whether each interval holds each case: 1 or 0, of shape (n, n_confidences)."""
    folds = predictions.loc[misses.index, "fold"]
    for fold in folds.unique():
        own, others = misses[folds == fold].to_numpy(), misses[folds != fold].to_numpy()
        widths = [half_width(others if len(others) else own, confidence) for confidence in CONFIDENCES]
        yield (own[:, None] <= widths).astype(np.float64)
