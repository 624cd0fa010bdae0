"""The labelled vectors in their three best dimensions: what figure 6.4 of seed 000 shows."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from serving.pages.charts import FAIL, PASS, Chart, Words
from serving.pages.marks import Dots, thinned
from serving.pages.panels import Axis, Panel, drawn

#: More marks of a kind than this hide each other; then an even share of them is drawn.
DRAWN = 400


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
        One row per labelled comparison: ``comparison_id, status`` and the `columns`, with the square root
        applied.
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
    fails, passes = (np.flatnonzero(of)[thinned(int(of.sum()), DRAWN)] for of in (failed, ~failed))
    shows = f"Scatter plots of pass and fail in {', '.join(columns[place] for place in best)}"
    note = (
        f"Drawn: {len(fails):,} of {failed.sum():,} fails and {len(passes):,} of {(~failed).sum():,} passes."
    )
    names = (features["comparison_id"] + ", " + features["status"]).to_numpy(str)
    panels = [
        Panel(
            _clouds(vectors[:, [x, y]], fails, passes, names),
            Axis(f"{columns[x]}\n({unit})"),
            Axis(f"{columns[y]}\n({unit})"),
        )
        for vectors, unit in (
            (plain, "relative difference"),
            (rooted, "signed \u221a of relative difference"),
        )
        for x, y in combinations(best, 2)
    ]
    return drawn(Words(name, title, shows, note), panels, (10.2, 6.6), across=3, narrows=False)


def _clouds(
    places: NDArray[np.float64],
    fails: NDArray[np.int64],
    passes: NDArray[np.int64],
    names: NDArray[np.str_],
) -> list[Dots]:
    """Return the dots of passes, and over them those of fails; each tells its name."""
    x, y = places.T
    told = names[passes].tolist()
    below = Dots(x[passes], y[passes], "pass", "none", PASS, size=16, thickness=1, told=told)
    told = names[fails].tolist()
    return [below, Dots(x[fails], y[fails], "fail", FAIL, "none", marker="^", alpha=0.85, told=told)]


def _separation(vectors: NDArray[np.float64], failed: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return how far the classes lie apart in every dimension (F of the analysis of variance)."""
    from sklearn.feature_selection import SelectKBest, f_classif

    varies = np.ptp(vectors, axis=0) > 0
    scores = np.zeros(vectors.shape[1])
    if varies.any():
        scores[varies] = SelectKBest(f_classif, k="all").fit(vectors[:, varies], failed).scores_
    return np.nan_to_num(scores)


def _finding(column: str, before: float, after: float) -> str:
    title = f"{column} parts pass from fail best"
    if after > before:
        return f"{title}, and the square root parts them further: F rises from {before:,.0f} to {after:,.0f}"
    return f"{title}, and the square root does not help there: F goes from {before:,.0f} to {after:,.0f}"
