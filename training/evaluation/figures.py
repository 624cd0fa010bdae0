"""Pictures of a model's verdicts, for the page of its run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from training.evaluation.metrics import confusion, precision_by_recall

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def confusion_matrix(verdicts: pd.DataFrame, title: str) -> Figure:
    """Draw how many passes and fails were judged how, from rows of oof.parquet."""
    figure = _figure()
    axes = figure.subplots()
    counts = confusion(*_flags(verdicts))
    axes.imshow(counts, cmap="Greys", vmax=2 * counts.max())
    for (row, column), count in zip(((0, 0), (0, 1), (1, 0), (1, 1)), counts.ravel(), strict=True):
        axes.text(column, row, str(count), ha="center", va="center", fontsize=16)
    axes.set_xticks([0, 1], ["pass", "fail"])
    axes.set_yticks([0, 1], ["pass", "fail"])
    axes.set(title=title, xlabel="our verdict", ylabel="the people's verdict")
    return figure


def precision_recall(verdicts: pd.DataFrame, title: str) -> Figure:
    """Draw the folds' mean precision over recall, and the chosen thresholds' point, from oof.parquet."""
    figure = _figure()
    axes = figure.subplots()
    failed, judged = _flags(verdicts)
    axes.step(*precision_by_recall(verdicts), where="pre", color="black")
    (_, alarms), (_, caught) = confusion(failed, judged)
    axes.plot(caught / failed.sum(), caught / max(caught + alarms, 1), "o", color="black", markersize=9)
    axes.set(
        title=title,
        xlabel="recall (share of fails caught)",
        ylabel="precision (mean of the folds)",
        ylim=(0, 1.05),
    )
    return figure


def _flags(verdicts: pd.DataFrame) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which comparisons failed, and which were judged to fail."""
    failed, judged = ((verdicts[name] == "fail").to_numpy(bool) for name in ("status", "verdict"))
    return failed, judged


def _figure() -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(5, 4), layout="constrained")
