"""Charts of machines and applications: figures 6 to 9, 12 and 15 of the quiho paper, and stability."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from serving.reports.chart_marks import Boxes, Diagonal, Dots, Heat, Line, ValueLine, box_percentiles
from serving.reports.charts import INK, Chart, Words, percent, with_noun
from serving.reports.panels import Axis, Panel, draw_chart
from serving.reports.separation import differs_from_half

Floats = NDArray[np.float64]

#: Maximal number of boxes in a chart; of more, those with the longest tails are drawn.
BOXES = 45
#: Number of stressors up to which a heat map is small and shows its numbers.
_FEW = 14
#: Correlation from which two stressors count as equivalent.
ALIKE = 0.9
#: Share of the variance in the title of figure 8.
MOST = 0.95
#: Minimal numbers of applications for a chart of their stability, and in a numbered series.
_ENOUGH, _SERIES_OF = 5, 4
_NUMBERED = r"^(?P<series>.+)-(?P<number>\d+)\Z"


def boxes_chart(name: str, scores: pd.DataFrame, column_kind: str) -> Chart:
    """Draw the z-scores over the machines, a box per column of `scores` (quiho paper, figures 6 and 9).

    `name` is the chart's id, `column_kind` the noun for a column. The 45 columns with the largest absolute
    values are drawn; NaN is ignored. IndexError without columns, ValueError if a drawn one has only NaN.
    """
    reach = scores.abs().max().sort_values(ascending=False, kind="stable")
    chosen = sorted(reach.index[:BOXES])
    top, most = reach.index[0], reach.iloc[0]
    title = f"{top} has the most extreme value: {most:.1f} standard deviations from the mean of all runs"
    drawn_part = f" Drawn: the {BOXES} of {scores.shape[1]} {column_kind}s with the most extreme values."
    left_out = drawn_part if len(reach) > BOXES else ""
    note = (
        "Boxes are quartiles, whiskers go to the 5th and 95th percentile, dots are the smallest and largest "
        f"run.{left_out}"
    )
    shows = f"Box plots of z-scores over the machines, one per {column_kind}"
    values, positions = [scores[column].dropna().to_numpy(float) for column in chosen], range(len(chosen))
    extremes = [
        Dots([extreme(row) for row in values], positions, fill=INK, edge="none", size=6)
        for extreme in (np.min, np.max)
    ]
    boxes = Boxes([box_percentiles(row, 5, 95) for row in values])
    across = Axis("z-score (standard deviations from the mean of all runs)")
    panel = Panel([boxes, *extremes, ValueLine(x=0)], across, Axis(column_kind, chosen))
    return draw_chart(Words(name, title, shows, note), [panel], (8.4, 1.1 + 0.19 * len(chosen)))


def correlation_chart(name: str, scores: pd.DataFrame, rows: str) -> Chart | None:
    """Draw Pearson's correlation of all pairs of stressors, the columns (quiho paper, figures 7 and 15).

    `name` is the chart's id, `rows` the noun for the rows of `scores`. Stressors that do not vary are left
    out; correlated ones (of either sign) are adjacent. None if fewer than two stressors vary.
    """
    varying = scores.loc[:, scores.std() > 0]
    if varying.shape[1] < 2:  # noqa: PLR2004 - a correlation has two sides
        return None
    pearson = varying.corr().fillna(0.0)
    order = _cluster_order(pearson.to_numpy(float))
    pearson = pearson.iloc[order, order]
    upper = np.abs(pearson.to_numpy(float)[np.triu_indices(len(pearson), 1)])
    title = (
        f"{percent(float((upper >= ALIKE).mean()), 0)} of the pairs of stressors are strongly correlated "
        f"(|r| \N{GREATER-THAN OR EQUAL TO} {ALIKE}) over {rows}"
    )
    shows = f"Heat map of Pearson correlations between {with_noun(len(pearson), 'stressor')}"
    note = "Correlated stressors are adjacent."
    if len(varying) == 2:  # noqa: PLR2004 - as said
        note += " Two points are always on a line, so any two rates correlate perfectly."
    few = len(pearson) <= _FEW
    names = Axis("stressor", [str(name) for name in pearson.index])
    heat = Heat(pearson.to_numpy(float), "Pearson's r (\N{MINUS SIGN}1 to 1)", 0, 1, shows_values=few)
    size = (4.6, 4.0) if few else (8.4, 7.4)
    panel = Panel([heat], names, names, square=True)
    return draw_chart(Words(name, title, shows, note), [panel], size, narrows=False)


def _cluster_order(pearson: Floats) -> NDArray[np.int64]:
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    distance = 1 - np.abs((pearson + pearson.T) / 2)
    np.fill_diagonal(distance, 0.0)
    pairs = squareform(np.clip(distance, 0, None), checks=False)
    order: NDArray[np.int64] = leaves_list(linkage(pairs, "average"))
    return order


def components_chart(scores: Floats) -> Chart:
    """Draw the explained variance of principal components, single and cumulated (quiho paper, figure 8).

    `scores`, shape (n_runs, n_stressors), without NaN, are centred here, but not scaled.
    """
    singular = np.linalg.svd(scores - scores.mean(axis=0), compute_uv=False)
    shares = singular**2 / (singular**2).sum()
    # smaller shares are rounding errors
    shares = shares[shares > np.finfo(float).eps]
    enough = int(np.searchsorted(shares.cumsum(), MOST)) + 1
    title = (
        f"{with_noun(enough, 'principal component')} of {with_noun(scores.shape[1], 'stressor')} "
        f"{'explains' if enough == 1 else 'explain'} at least {percent(MOST, 0)} of the variance"
    )
    positions = np.arange(1, len(shares) + 1)
    single = Line("this component", positions, shares, 2)
    cumulative = Line("cumulative", positions, shares.cumsum(), 3)
    across = Axis("number of the principal component, largest first")
    along = Axis("share of the variance (log scale)", log=True, percent=True)
    panel = Panel([single, cumulative, ValueLine(x=enough)], across, along)
    shows = "Line chart of explained variance by number of components, on a log scale"
    return draw_chart(Words("figure-8", title, shows), [panel], (8.4, 3.6))


def series_chart(targets: pd.DataFrame) -> Chart | None:
    """Draw the mean values of numbered applications over their number (quiho paper, figure 12).

    A series, one line of the chart, is at least four applications ``PREFIX-NUMBER`` with one prefix; other
    applications are left out, and the result is None without a series. `targets` has ``application, machine,
    metric, value``, of one metric: values of several would be averaged together. The means of a series are
    over the machines that ran all of its applications, or over all machines if none did, which the note below
    the chart says.
    """
    numbered = _numbered_rows(targets)
    if numbered.empty:
        return None
    # means over different machines per number would mix their differences with the effect of the number
    sizes = numbered.groupby("series")["number"].transform("nunique")
    is_complete = numbered.groupby(["series", "machine"])["number"].transform("nunique") == sizes
    has_complete = is_complete.groupby(numbered["series"]).any()
    rows = numbered[is_complete | ~numbered["series"].map(has_complete)]
    machines = with_noun(rows["machine"].nunique(), "machine")
    over = f"the {machines} that ran every number of a series"
    if not has_complete.all():
        incomplete = " or ".join(has_complete.index[~has_complete])
        over = f"{machines}, none of which ran every number of {incomplete}"
    values = rows.groupby(["series", "number"])["value"].agg(["mean", "std"]).fillna(0.0)
    ends = values["mean"].groupby("series").agg(["first", "last"])
    changes = ends["last"] / ends["first"] - 1
    most = changes.abs().idxmax()
    first, *_, last = sorted(rows.loc[rows["series"] == most, "number"].unique())
    metric = str(numbered["metric"].iloc[0])
    words = Words(
        "figure-12",
        f"{most} changes most: {percent(changes[most], 0)} on average from {first} to {last}",
        f"Line chart of {metric} by the number at the end of the application's name",
        f"Means over {over}; bars are one standard deviation.",
    )
    lines = []
    for place, (series, points) in enumerate(values.groupby("series")):
        x = points.index.get_level_values("number") + 0.14 * (place - (len(ends) - 1) / 2)
        lines.append(Line(series, x, points["mean"], place, spread=points["std"]))
    number = Axis("number at the end of the name (STREAM-NADDS: terms in the sum of Add)")
    return draw_chart(words, [Panel(lines, number, Axis(metric, low=0))], (8.4, 3.8))


def _numbered_rows(targets: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of series, with their ``series, number``; of equal numbers the last name counts."""
    names = pd.Series(sorted(targets["application"].unique()), dtype="str", name="application")
    members = names.str.extract(_NUMBERED).join(names).dropna()
    members["number"] = members["number"].map(int)
    members = members.drop_duplicates(["series", "number"], keep="last")
    members = members[members.groupby("series")["number"].transform("size") >= _SERIES_OF]
    return targets.merge(members, on="application")


def stability_chart(stability: pd.DataFrame) -> Chart | None:
    """Draw the stability of our method over that of the quiho paper, a dot per application.

    `stability` has ``application, seed, ours``: the mean overlaps of the top five stressors between
    resamples, by the paper's method and by ours. Rows with NaN are ignored; None if fewer than five remain.
    """
    complete_rows = stability.dropna()
    if len(complete_rows) < _ENOUGH:
        return None
    higher = int((complete_rows["ours"] > complete_rows["seed"]).sum())
    title = (
        f"The top five stressors of our method are more stable on {higher} of "
        f"{with_noun(len(complete_rows), 'application')}"
    )
    if not differs_from_half(higher, len(complete_rows)):
        title += ", a share that does not differ significantly from half"
    note = "Above the diagonal, our method is more stable. 1: always the same five stressors."
    names = complete_rows["application"].tolist()
    panel = Panel(
        [Diagonal(0, 1), Dots(complete_rows["seed"], complete_rows["ours"], point_names=names)],
        Axis("the paper's method (overlap of the top five, 0 to 1)", low=0, high=1.02),
        Axis("our method (overlap of the top five, 0 to 1)", low=0, high=1.02),
        square=True,
    )
    shows = "Scatter plot of the stability of our method over that of the paper's"
    return draw_chart(Words("stability-chart", title, shows, note), [panel], (4.6, 4.4))
