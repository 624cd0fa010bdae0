"""The labelled vectors in their three best dimensions: what figure 6.4 of seed 000 shows."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from serving.pages.charts import FAIL, PASS, Chart, inline, sketch

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: More marks of a kind than this hide each other; then an even share of them is drawn.
DRAWN = 700


def without_root(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Undo the signed square root of seed 000, figure 6.5: ``x * |x|``."""
    return values * np.abs(values)


def vectors_chart(name: str, features: pd.DataFrame, columns: list[str]) -> Chart | None:
    """Draw pass and fail in the three best of `columns`, without and with the signed square root.

    Parameters
    ----------
    name : str
        The chart's anchor.
    features : DataFrame
        One row per labelled comparison: ``status`` and the `columns`, with the square root applied.
    columns : list of str
        The features that went through the signed square root.

    Returns
    -------
    Chart or None
        None where there are fewer than three columns or only one status.
    """
    if len(columns) < 3 or features["status"].nunique() < 2:  # noqa: PLR2004 - three dimensions, two classes
        return None
    rooted = features[columns].to_numpy(float)
    failed = features["status"].to_numpy() == "fail"
    plain = without_root(rooted)
    scores = _separation(rooted, failed)
    best = [int(place) for place in np.argsort(-scores, kind="stable")[:3]]
    before = float(_separation(plain[:, best[:1]], failed)[0])
    title = _finding(columns[best[0]], before, float(scores[best[0]]))
    alt = f"Scatter plots of pass and fail in {', '.join(columns[place] for place in best)}. {title}."
    shown = _thinned(failed)
    drawn = (f"{int((shown & of).sum()):,} of {int(of.sum()):,}" for of in (failed, ~failed))
    note = "Drawn: {} fails and {} passes.".format(*drawn)
    with sketch(10.2, 6.6) as figure:
        grid = figure.subplots(2, 3)
        units = ("relative difference", "signed \u221a of relative difference")
        for row, (vectors, unit) in enumerate(zip((plain, rooted), units, strict=True)):
            for axes, (x, y) in zip(grid[row], combinations(best, 2), strict=True):
                _scatter(axes, vectors[shown][:, [x, y]], failed[shown])
                axes.set_xlabel(f"{columns[x]}\n({unit})")
                axes.set_ylabel(f"{columns[y]}\n({unit})")
        figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
        return Chart(name, title, alt, inline(figure, name, alt), note)


def _separation(vectors: NDArray[np.float64], failed: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return how far the classes lie apart in every dimension (F of the analysis of variance)."""
    from sklearn.feature_selection import SelectKBest, f_classif

    varies = np.ptp(vectors, axis=0) > 0
    scores = np.zeros(vectors.shape[1])
    if varies.any():
        scores[varies] = SelectKBest(f_classif, k="all").fit(vectors[:, varies], failed).scores_
    return np.nan_to_num(scores)


def _thinned(failed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    shown = np.zeros(len(failed), bool)
    for kind in (np.flatnonzero(failed), np.flatnonzero(~failed)):
        shown[kind[:: max(1, -(-len(kind) // DRAWN))]] = True
    return shown


def _scatter(axes: Axes, points: NDArray[np.float64], failed: NDArray[np.bool_]) -> None:
    passed = points[~failed]
    axes.scatter(
        passed[:, 0], passed[:, 1], s=16, facecolors="none", edgecolors=PASS, linewidths=1.0, label="pass"
    )
    axes.scatter(
        points[failed, 0],
        points[failed, 1],
        s=24,
        marker="^",
        color=FAIL,
        alpha=0.85,
        linewidths=0,
        label="fail",
    )
    axes.margins(0.06)


def _finding(column: str, before: float, after: float) -> str:
    title = f"{column} parts pass from fail best"
    if after > before:
        return f"{title}, and the square root parts them further: F rises from {before:.0f} to {after:.0f}"
    return f"{title}, and the square root does not help there: F goes from {before:.0f} to {after:.0f}"
