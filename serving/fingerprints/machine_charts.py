"""Machines and applications before anything is learned: figures 6 to 9, 12 and 15 of seed 003."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from serving.pages.charts import (
    INK,
    LINES,
    MARKERS,
    MUTED,
    PASS,
    SERIES,
    Chart,
    counted,
    inline,
    percent,
    sketch,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

#: Boxes in one chart; of more, the ones with the longest tails are drawn.
BOXES = 45
#: Names that an axis of the heat map still has room for.
_NAMES = 50
#: Stressors up to which a heat map has room for its numbers, and need not be as wide as the page.
_FEW = 14
#: Correlations from which on the map is dark.
_DARK = 0.6
#: From this correlation on, two stressors tell the same.
ALIKE = 0.9
#: The share of the variance that the components of figure 8 are counted for.
MOST = 0.95
#: Values of a parameter that make a series.
_SERIES_OF = 4
_NUMBERED = re.compile(r"(?P<family>.+)-(?P<number>\d+)")


def boxes_chart(name: str, scores: pd.DataFrame, what: str, of: str) -> Chart:
    """Draw how much the machines differ, a box a column (seed 003, figures 6 and 9).

    Parameters
    ----------
    name : str
        The anchor.
    scores : DataFrame of shape (n_rows, n_columns)
        z-scores; NaN where there is none.
    what, of : str
        What a column is, in the singular and the plural.
    """
    reach = scores.abs().max().sort_values(ascending=False, kind="stable")
    drawn = sorted(reach.index[:BOXES])
    top = reach.index[0]
    title = (
        f"{top} differs most between the machines: its extreme lies "
        f"{reach.iloc[0]:.1f} standard deviations from the mean"
    )
    left_out = (
        f" Drawn: the {BOXES} of {scores.shape[1]} {of} that reach farthest." if len(reach) > BOXES else ""
    )
    note = (
        "Boxes are quartiles, whiskers go to the 5th and 95th percentile, dots are the smallest and largest "
        f"run.{left_out}"
    )
    alt = f"Box plots of z-scores over the machines, one a {what}. {title}."
    with sketch(8.4, 1.1 + 0.19 * len(drawn)) as figure:
        axes = figure.subplots()
        values = [scores[column].dropna().to_numpy(float) for column in drawn]
        _boxes(axes, values)
        axes.set_yticks(range(len(drawn)), drawn)
        axes.set_ylim(len(drawn) - 0.4, -0.6)
        axes.axvline(0, color=MUTED, linewidth=0.8)
        axes.set_xlabel("z-score (standard deviations from the mean of all runs)")
        axes.grid(visible=False, axis="y")
        return Chart(name, title, alt, inline(figure, name, alt), note)


def _boxes(axes: Axes, values: list[Floats]) -> None:
    thin = {"color": INK, "linewidth": 0.7}
    axes.boxplot(
        values, orientation="horizontal", positions=np.arange(len(values)), widths=0.6, whis=(5, 95),
        patch_artist=True, manage_ticks=False, showfliers=False,
        medianprops={"color": INK, "linewidth": 1.6}, whiskerprops=thin, capprops=thin,
        boxprops={"facecolor": PASS, "edgecolor": INK, "linewidth": 0.6},
    )  # fmt: skip
    for extreme in (np.min, np.max):
        axes.scatter([extreme(row) for row in values], range(len(values)), s=6, color=INK, linewidths=0)


def correlation_chart(name: str, scores: pd.DataFrame, rows: str) -> Chart | None:
    """Draw Pearson's correlation of all pairs of stressors (seed 003, figures 7 and 15).

    Parameters
    ----------
    scores : DataFrame of shape (n_rows, n_stressors)
        Rates or z-scores of them; NaN where a stressor did not run.
    rows : str
        What the rows are, for the title.

    Returns
    -------
    Chart or None
        None where fewer than two stressors vary.
    """
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
    alt = f"Heat map of Pearson correlations between {counted(len(pearson), 'stressor')}. {title}."
    note = "Correlated stressors stand side by side."
    if len(varying) == 2:  # noqa: PLR2004 - as said
        note += " Any two points lie on a line: two measurements correlate perfectly, whatever they are."
    return _heat_map(name, pearson, title, alt, note)


def _alike_together(pearson: Floats) -> NDArray[np.int64]:
    """Return an order in which correlated stressors stand side by side."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    distance = 1 - np.abs((pearson + pearson.T) / 2)
    np.fill_diagonal(distance, 0.0)
    order: NDArray[np.int64] = leaves_list(
        linkage(squareform(np.clip(distance, 0, None), checks=False), "average")
    )
    return order


def _heat_map(name: str, pearson: pd.DataFrame, title: str, alt: str, note: str) -> Chart:
    every = 1 + (len(pearson) - 1) // _NAMES
    shown = range(0, len(pearson), every)
    names = [str(pearson.index[place]) for place in shown]
    if every > 1:
        note += f" Every {_ordinal(every)} is named."
    small = len(pearson) <= _FEW
    with sketch(*((5.2, 4.3) if small else (8.4, 7.4))) as figure:
        axes = figure.subplots()
        values = pearson.to_numpy(float)
        image = axes.imshow(values, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="none")
        if small:
            _numbers(axes, values)
        axes.set_xticks(shown, names, rotation=90, fontsize=7)
        axes.set_yticks(shown, names, fontsize=7)
        axes.set_xlabel("stressor")
        axes.set_ylabel("stressor")
        axes.grid(visible=False)
        figure.colorbar(image, ax=axes, label="Pearson's r (\N{MINUS SIGN}1 to 1)", shrink=0.6, pad=0.015)
        return Chart(name, title, alt, inline(figure, name, alt), note, small)


def _numbers(axes: Axes, values: Floats) -> None:
    for (row, column), value in np.ndenumerate(values):
        # the colours of the map are the same on dark paper, so that the ink on them is too
        ink = "white" if abs(value) > _DARK else "black"
        told = f"{value:.1f}".replace("-", "\N{MINUS SIGN}")
        axes.text(column, row, told, ha="center", va="center", fontsize=7, color=ink)


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")


def components_chart(name: str, scores: Floats, of: str) -> Chart:
    """Draw the explained variance of the principal components, each and cumulated (seed 003, figure 8).

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_stressors)
        z-scores, without gaps.
    of : str
        What the columns are.
    """
    singular = np.linalg.svd(scores - scores.mean(axis=0), compute_uv=False)
    shares = singular**2 / (singular**2).sum()
    # what is below this is the rounding of floats
    shares = shares[shares > np.finfo(float).eps]
    enough = int(np.searchsorted(shares.cumsum(), MOST)) + 1
    title = (
        f"{counted(enough, 'component')} of {counted(scores.shape[1], of)} "
        f"{'explains' if enough == 1 else 'explain'} {percent(MOST, 0)} of the variance"
    )
    alt = f"Line chart of explained variance by number of components, on a log scale. {title}."
    places = np.arange(1, len(shares) + 1)
    with sketch(8.4, 3.6) as figure:
        axes = figure.subplots()
        style: dict[str, Any] = {"markersize": 4, "linewidth": 1.4, "markevery": max(1, len(shares) // 45)}
        axes.plot(places, shares, color=SERIES[2], marker=MARKERS[0], label="this component", **style)
        axes.plot(
            places, shares.cumsum(), color=SERIES[3], marker=MARKERS[1], linestyle="--",
            label="all up to this one", **style,
        )  # fmt: skip
        axes.axvline(enough, color=MUTED, linestyle=":")
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
        axes.set_xlabel("component (number, largest first)")
        axes.set_ylabel("share of the variance (log scale)")
        axes.legend(loc="center right")
        return Chart(name, title, alt, inline(figure, name, alt))


def series_of(applications: list[str]) -> dict[str, dict[int, str]]:
    """Find applications that differ by a number at their end, such as STREAM's additions.

    Returns
    -------
    dict of str to dict of int to str
        By family, the application of each number, ascending.
    """
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
    """Draw the applications of a numbered series over their number (seed 003, figure 12).

    Parameters
    ----------
    targets : DataFrame
        ``machine, application, metric, value``.

    Returns
    -------
    Chart or None
        None where no applications form a series.
    """
    families = series_of(sorted(targets["application"].unique()))
    if not families:
        return None
    same = _on_the_same_machines(targets, families)
    values = same.groupby("application")["value"]
    means, deviations = values.mean(), values.std().fillna(0.0)
    metric = str(targets.loc[targets["application"].isin(_members(families)), "metric"].iloc[0])
    title = _series_title(families, means)
    alt = f"Line chart of {metric} by the number at the end of the application's name. {title}."
    with sketch(8.4, 3.8) as figure:
        axes = figure.subplots()
        for place, (family, members) in enumerate(families.items()):
            shift = 0.14 * (place - (len(families) - 1) / 2)
            axes.errorbar(
                [number + shift for number in members], means[list(members.values())],
                deviations[list(members.values())], color=SERIES[place % len(SERIES)],
                marker=MARKERS[place % len(MARKERS)], linestyle=LINES[place % len(LINES)], markersize=4.5,
                linewidth=1.3, elinewidth=0.7, capsize=2, label=family,
            )  # fmt: skip
        axes.set_xlabel("number at the end of the name (STREAM-NADDS: terms in the sum of Add)")
        axes.set_ylabel(metric)
        axes.set_ylim(bottom=0)
        axes.legend(loc="best", ncols=2)
        machines = counted(same["machine"].nunique(), "machine")
        note = (
            f"Means over the {machines} that ran every number of a series; bars are one standard deviation."
        )
        return Chart(name, title, alt, inline(figure, name, alt), note)


def _on_the_same_machines(targets: pd.DataFrame, families: dict[str, dict[int, str]]) -> pd.DataFrame:
    """Keep of each family the machines that ran all of it; all of them where none did.

    Means over other machines at every number would show which machines ran it, not what the number does.
    """
    kept = []
    for members in families.values():
        rows = targets[targets["application"].isin(members.values())]
        complete = rows.groupby("machine")["application"].nunique() == len(members)
        kept.append(rows[rows["machine"].map(complete)] if complete.any() else rows)
    return pd.concat(kept)


def _members(families: dict[str, dict[int, str]]) -> list[str]:
    return [application for members in families.values() for application in members.values()]


def _series_title(families: dict[str, dict[int, str]], means: pd.Series) -> str:
    """Name the family that changes most from its smallest to its largest number."""
    changes = {
        family: float(means[members[max(members)]] / means[members[min(members)]] - 1)
        for family, members in families.items()
    }
    family = max(changes, key=lambda name: abs(changes[name]))
    first, *_, last = families[family]
    return f"{family} changes most: {percent(changes[family], 0)} on average from {first} to {last}"
