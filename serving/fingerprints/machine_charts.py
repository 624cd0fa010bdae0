"""Machines and applications: figures 6 to 9, 12 and 15 of seed 003, and how stable two methods are."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from serving.reports.chart_marks import Boxes, Diagonal, Dots, Heat, Line, ValueLine, five_of
from serving.reports.charts import INK, Chart, Words, counted, percent
from serving.reports.panels import Axis, Panel, drawn
from serving.reports.separation import more_often

Floats = NDArray[np.float64]

#: Boxes in one chart; of more, the ones with the longest tails are drawn.
BOXES = 45
#: Stressors up to which a heat map has room for its numbers, and need not be as wide as the page.
_FEW = 14
#: Correlation from which two stressors carry the same information.
ALIKE = 0.9
#: The share of the variance that the components of figure 8 are counted for.
MOST = 0.95
#: Minimal number of applications for a chart of their stability.
_ENOUGH = 5
#: Values of a parameter that make a series.
_SERIES_OF = 4
_NUMBERED = re.compile(r"(?P<family>.+)-(?P<number>\d+)")


def boxes_chart(name: str, scores: pd.DataFrame, what: str) -> Chart:
    """Draw how much the machines differ, a box a column (seed 003, figures 6 and 9)."""
    reach = scores.abs().max().sort_values(ascending=False, kind="stable")
    chosen = sorted(reach.index[:BOXES])
    top = reach.index[0]
    title = (
        f"The farthest extreme is one of {top}: {reach.iloc[0]:.1f} standard deviations from the mean of all "
        "machines"
    )
    left_out = (
        f" Drawn: the {BOXES} of {scores.shape[1]} {what}s that reach farthest." if len(reach) > BOXES else ""
    )
    note = (
        "Boxes are quartiles, whiskers go to the 5th and 95th percentile, dots are the smallest and largest "
        f"run.{left_out}"
    )
    shows = f"Box plots of z-scores over the machines, one a {what}"
    values, places = [scores[column].dropna().to_numpy(float) for column in chosen], range(len(chosen))
    extremes = [
        Dots([extreme(row) for row in values], places, fill=INK, edge="none", size=6)
        for extreme in (np.min, np.max)
    ]
    panel = Panel(
        [Boxes([five_of(row, 5, 95) for row in values]), *extremes, ValueLine(x=0)],
        Axis("z-score (standard deviations from the mean of all runs)"),
        Axis(what, chosen),
    )
    return drawn(Words(name, title, shows, note), [panel], (8.4, 1.1 + 0.19 * len(chosen)))


def correlation_chart(name: str, scores: pd.DataFrame, rows: str) -> Chart | None:
    """Draw Pearson's correlation of all pairs of stressors (seed 003, figures 7 and 15)."""
    varying = scores.loc[:, scores.std() > 0]
    if varying.shape[1] < 2:  # noqa: PLR2004 - a correlation has two sides
        return None
    pearson = varying.corr().fillna(0.0)
    order = _alike_together(pearson.to_numpy(float))
    pearson = pearson.iloc[order, order]
    upper = np.abs(pearson.to_numpy(float)[np.triu_indices(len(pearson), 1)])
    title = (
        f"{percent(float((upper >= ALIKE).mean()), 0)} of the pairs of stressors rise and fall together "
        f"(|r| \N{GREATER-THAN OR EQUAL TO} {ALIKE}) on {rows}"
    )
    shows = f"Heat map of Pearson correlations between {counted(len(pearson), 'stressor')}"
    note = "Correlated stressors stand side by side."
    if len(varying) == 2:  # noqa: PLR2004 - as said
        note += " Any two points lie on a line: two measurements correlate perfectly, whatever they are."
    few = len(pearson) <= _FEW
    names = Axis("stressor", [str(name) for name in pearson.index])
    heat = Heat(pearson.to_numpy(float), "Pearson's r (\N{MINUS SIGN}1 to 1)", 0, 1, told=few)
    size = (4.6, 4.0) if few else (8.4, 7.4)
    return drawn(
        Words(name, title, shows, note), [Panel([heat], names, names, square=True)], size, narrows=False
    )


def _alike_together(pearson: Floats) -> NDArray[np.int64]:
    """Return an order that puts correlated stressors next to each other."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    distance = 1 - np.abs((pearson + pearson.T) / 2)
    np.fill_diagonal(distance, 0.0)
    order: NDArray[np.int64] = leaves_list(
        linkage(squareform(np.clip(distance, 0, None), checks=False), "average")
    )
    return order


def components_chart(name: str, scores: Floats, of: str) -> Chart:
    """Draw the explained variance of the principal components, each and cumulated (seed 003, figure 8)."""
    singular = np.linalg.svd(scores - scores.mean(axis=0), compute_uv=False)
    shares = singular**2 / (singular**2).sum()
    # what is below this is the rounding of floats
    shares = shares[shares > np.finfo(float).eps]
    enough = int(np.searchsorted(shares.cumsum(), MOST)) + 1
    title = (
        f"{counted(enough, 'component')} of {counted(scores.shape[1], of)} "
        f"{'explains' if enough == 1 else 'explain'} {percent(MOST, 0)} of the variance"
    )
    places = np.arange(1, len(shares) + 1)
    panel = Panel(
        [
            Line("this component", places, shares, 2),
            Line("all up to this one", places, shares.cumsum(), 3),
            ValueLine(x=enough),
        ],
        Axis("component (number, largest first)"),
        Axis("share of the variance (log scale)", log=True, percent=True),
    )
    shows = "Line chart of explained variance by number of components, on a log scale"
    return drawn(Words(name, title, shows), [panel], (8.4, 3.6))


def series_of(applications: list[str]) -> dict[str, dict[int, str]]:
    """Find applications that differ by a number at their end, such as STREAM's additions."""
    found: dict[str, dict[int, str]] = {}
    for application in applications:
        told = _NUMBERED.fullmatch(application)
        if told:
            found.setdefault(told["family"], {})[int(told["number"])] = application
    return {
        family: dict(sorted(members.items()))
        for family, members in sorted(found.items())
        if len(members) >= _SERIES_OF
    }


def series_chart(name: str, targets: pd.DataFrame) -> Chart | None:
    """Draw the applications of a numbered series over their number (seed 003, figure 12)."""
    families = series_of(sorted(targets["application"].unique()))
    if not families:
        return None
    same = _on_the_same_machines(targets, families)
    values = same.groupby("application")["value"]
    means, deviations = values.mean(), values.std().fillna(0.0)
    metric = str(targets.loc[targets["application"].isin(means.index), "metric"].iloc[0])
    machines = counted(same["machine"].nunique(), "machine")
    words = Words(
        name,
        _series_title(families, means),
        f"Line chart of {metric} by the number at the end of the application's name",
        f"Means over the {machines} that ran every number of a series; bars are one standard deviation.",
    )
    lines = [
        Line(
            family,
            np.array(list(members)) + 0.14 * (place - (len(families) - 1) / 2),
            means[list(members.values())],
            place,
            spread=deviations[list(members.values())],
        )
        for place, (family, members) in enumerate(families.items())
    ]
    number = Axis("number at the end of the name (STREAM-NADDS: terms in the sum of Add)")
    return drawn(words, [Panel(lines, number, Axis(metric, low=0))], (8.4, 3.8))


def _on_the_same_machines(targets: pd.DataFrame, families: dict[str, dict[int, str]]) -> pd.DataFrame:
    """Keep, per family of applications, the machines that ran all of them; all machines if none did.

    Means over different machines per number would show which machines ran it, not the effect of the number.
    """
    kept = []
    for members in families.values():
        rows = targets[targets["application"].isin(members.values())]
        complete = rows.groupby("machine")["application"].nunique() == len(members)
        kept.append(rows[rows["machine"].map(complete)] if complete.any() else rows)
    return pd.concat(kept)


def _series_title(families: dict[str, dict[int, str]], means: pd.Series) -> str:
    """Name the family that changes most from its smallest to its largest number."""
    changes = {
        family: float(means[members[max(members)]] / means[members[min(members)]] - 1)
        for family, members in families.items()
    }
    family = max(changes, key=lambda name: abs(changes[name]))
    first, *_, last = families[family]
    return f"{family} changes most: {percent(changes[family], 0)} on average from {first} to {last}"


def stability_chart(name: str, stability: pd.DataFrame) -> Chart | None:
    """Draw the stability of our method over the paper's method, one dot per application."""
    known = stability.dropna()
    if len(known) < _ENOUGH:
        return None
    higher = int((known["ours"] > known["seed"]).sum())
    title = f"Our top five are the more stable ones on {higher} of {counted(len(known), 'application')}"
    if not more_often(higher, len(known)):
        title += ", so that the two methods cannot be told apart"
    note = "Above the line ours is the more stable one. 1 = always the same five stressors."
    panel = Panel(
        [Diagonal(0, 1), Dots(known["seed"], known["ours"], told=known["application"].tolist())],
        Axis("the paper's method (overlap of the top five, 0 to 1)", low=0, high=1.02),
        Axis("ours (overlap of the top five, 0 to 1)", low=0, high=1.02),
        square=True,
    )
    shows = "Scatter plot of the stability of our method over that of the paper's"
    return drawn(Words(name, title, shows, note), [panel], (4.6, 4.4))
