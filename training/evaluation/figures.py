"""Pictures of what a model said of unseen cases, for the page of its run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from training.evaluation.metrics import confusion, precision_by_recall

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TENTHS = 10
#: What is measured over a wider range is drawn on logarithms.
_DECADE = 10


def of_verdicts(verdicts: pd.DataFrame, title: str) -> dict[str, Figure]:
    """Draw what rows of oof.parquet of one entry in one split show, by file name."""
    drawn = {"confusion": confusion_matrix, "precision-recall": precision_recall, "reliability": reliability}
    return {f"{name}.png": draw(verdicts, title) for name, draw in drawn.items()}


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


def reliability(verdicts: pd.DataFrame, title: str) -> Figure:
    """Draw which share failed of those that were given a probability, in tenths of the cases."""
    from sklearn.calibration import calibration_curve

    figure = _figure()
    axes = figure.subplots()
    failed, _ = _flags(verdicts)
    share, given = calibration_curve(failed, verdicts["probability"], n_bins=_TENTHS, strategy="quantile")
    axes.plot([0, 1], [0, 1], "--", color="grey", label="as often as was said")
    axes.plot(given, share, "o-", color="black", label=f"tenths of {len(failed):,} verdicts")
    axes.set(title=title, xlabel="probability of fail that was given", ylabel="share that failed")
    axes.legend(loc="upper left")
    return figure


def predicted_measured(rows: pd.DataFrame, tolerance: float, title: str, unit: str) -> Figure:
    """Draw predictions over what was measured, and the band that counts as right.

    Parameters
    ----------
    rows : DataFrame
        With ``measured`` and ``predicted``, both positive.
    tolerance : float
        Of the measured value.
    title, unit : str
    """
    figure = _figure()
    axes = figure.subplots()
    ends = np.array([rows["measured"].min(), rows["measured"].max()])
    axes.plot(rows["measured"], rows["predicted"], ".", color="black", alpha=0.4)
    axes.plot(ends, ends, color="grey")
    label = f"within {tolerance:.0%}"
    axes.fill_between(ends, ends * (1 - tolerance), ends * (1 + tolerance), color="silver", label=label)
    axes.set(title=title, xlabel=f"measured {unit}", ylabel=f"predicted {unit}")
    axes.legend(loc="upper left")
    if ends[1] > _DECADE * ends[0]:
        axes.set(xscale="log", yscale="log")
    return figure


def _flags(verdicts: pd.DataFrame) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which comparisons failed, and which were judged to fail."""
    failed, judged = ((verdicts[name] == "fail").to_numpy(bool) for name in ("status", "verdict"))
    return failed, judged


def _figure() -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4.5))
    # a layout that is found by drawing twice takes twice as long
    figure.subplots_adjust(left=0.15, right=0.97, top=0.9, bottom=0.13)
    return figure
