"""What the remedies of seed 001 change: its figures 4 to 7, and the ablation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from serving.matrices.evaluated import Beside, Worth
from serving.pages.charts import (
    LINES,
    MARKERS,
    MUTED,
    PAPER,
    SERIES,
    Chart,
    inline,
    sketch,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Figures of the seed, as curves.parquet calls them.
COST, UNDERSAMPLING, DIMENSION = 4, 5, 6
#: Two balanced accuracies that differ by less are called equal.
EQUAL = 0.01
_GROUPINGS = {"none": "one model", "given": "a model per group"}
_ACCURACY = "balanced accuracy of vectors (0 to 1)"
_OF_PAIRS = "balanced accuracy of pairs (0 to 1)"
_BARS = "Bars are one standard deviation over the folds."


class Line(NamedTuple):
    """Balanced accuracy over one parameter. ``look`` is its model's; ``hollow``: others have groups."""

    name: str
    look: int
    hollow: bool
    x: list[float]
    accuracy: list[float]
    spread: list[float]

    def at_best(self) -> int:
        """Return the first place of the best accuracy."""
        return self.accuracy.index(max(self.accuracy))

    @property
    def gain(self) -> float:
        """By how much the best is better than the first, which has no remedy."""
        return max(self.accuracy) - self.accuracy[0]


def lines(curves: pd.DataFrame, figure: int) -> list[Line]:
    """Return the curves of a figure, one per model and grouping, each from no remedy on."""
    own = curves[(curves["figure"] == figure) & curves["balanced_accuracy"].notna()]
    models, several = sorted(own["model"].unique()), len(own["grouping"].drop_duplicates()) > 1
    found = []
    for (model, grouping), part in own.groupby(["model", "grouping"], sort=True):
        ordered = part.sort_values("x", ascending=figure != UNDERSAMPLING, kind="stable")
        name = f"{model}, {_GROUPINGS.get(str(grouping), grouping)}" if several else str(model)
        columns = (ordered[column].tolist() for column in ("x", "balanced_accuracy", "spread"))
        found.append(Line(name, models.index(model), several and grouping == "none", *columns))
    return found


def cost_chart(curves: pd.DataFrame) -> Chart | None:
    """Draw balanced accuracy by cost ratio (seed 001, figure 4); None where there is no curve."""
    found = lines(curves, COST)
    if not found:
        return None
    top = max(found, key=lambda line: line.gain)
    best = f"where a miss costs {top.x[top.at_best()]:g} times a false alarm"
    title = _finding(top, best, "where both cost the same")
    with sketch(8.4, 4.0) as figure:
        axes = _curves(figure, found, "cost of a missed abnormal vector, in false alarms (log scale)")
        _ratios(axes, found)
        return _chart("figure-4", title, figure, "balanced accuracy by cost ratio, a line a model")


def sampling_chart(curves: pd.DataFrame) -> Chart | None:
    """Draw balanced accuracy by undersampling (seed 001, figure 5); None where there is no curve."""
    found = lines(curves, UNDERSAMPLING)
    if not found:
        return None
    top = max(found, key=lambda line: line.gain)
    title = _finding(top, f"at a ratio of {top.x[top.at_best()]:.2g}:1", "with all normal vectors")
    with sketch(8.4, 4.4) as figure:
        axes = _curves(
            figure, found, "normal training vectors per abnormal one, from all to as many (log scale)"
        )
        _ratios(axes, found)
        axes.invert_xaxis()
        words = "balanced accuracy by undersampling, a line a model and grouping"
        return _chart("figure-5", title, figure, words)


def dimensions_chart(curves: pd.DataFrame) -> Chart | None:
    """Draw balanced accuracy by the dimensions kept (seed 001, figure 6); None where there is no curve."""
    found = lines(curves, DIMENSION)
    if not found:
        return None
    top = max(found, key=lambda line: max(line.accuracy))
    best = top.at_best()
    enough = next(
        place for place, accuracy in enumerate(top.accuracy) if accuracy >= top.accuracy[best] - EQUAL
    )
    title = f"{top.name} is best with {top.x[best]:g} dimensions ({top.accuracy[best]:.2f})"
    if enough != best:
        title += f", and hardly less so with {top.x[enough]:g} ({top.accuracy[enough]:.2f})"
    with sketch(8.4, 4.0) as figure:
        _curves(figure, found, "dimensions that are kept (number; the last are all metrics, not projected)")
        return _chart("figure-6", title, figure, "balanced accuracy by dimensions, a line a model")


def times_chart(times: pd.DataFrame) -> Chart | None:
    """Draw training time by dimensions (seed 001, figure 7); None where nothing was timed."""
    from matplotlib.ticker import LogLocator, NullLocator

    if times.empty:
        return None
    ordered = times.sort_values(["model", "dimensions"], kind="stable")
    ends = ordered.groupby("model")["seconds"].agg(["first", "last"])
    slow = ends["last"].idxmax()
    most, least = int(ordered["dimensions"].max()), int(ordered["dimensions"].min())
    title = (
        f"{slow} takes longest to train: {_seconds(ends.loc[slow, 'last'])} with {most} dimensions, "
        f"{_seconds(ends.loc[slow, 'first'])} with {least}"
    )
    with sketch(8.4, 4.0) as figure:
        axes = figure.subplots()
        for number, (model, own) in enumerate(ordered.groupby("model", sort=True)):
            axes.plot(own["dimensions"], own["seconds"], label=str(model), **_look(number))
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlabel("dimensions (number)")
        axes.set_ylabel("time to fit an engine (s, log scale)")
        figure.legend(loc="outside upper center", ncols=4, fontsize=8)
        note = "Mean over the folds, on the machine that made this page; times are never the same twice."
        words = "training time by dimensions, a line a model"
        return _chart("figure-7", title, figure, words, note)


def ablation_chart(name: str, steps: Sequence[Sequence[Beside]], *, alone: bool) -> Chart | None:
    """Draw the balanced accuracy of pairs, which are the same whatever the form, remedy by remedy.

    Parameters
    ----------
    name : str
        The anchor.
    steps : sequence of sequence of Beside
        The rows of each model, all with the same remedies; the first row has none taken, or all.
    alone : bool
        Whether a row is one remedy alone left out; else the remedies add up.
    """
    if not steps or len(steps[0]) < 2:  # noqa: PLR2004 - nothing to compare
        return None
    title = (_missed_most if alone else _gained)(steps)
    remedies = [row.name for row in steps[0]]
    first = "all remedies" if alone else "no remedy"
    labels = [first, *(f"all but: {one}" if alone else f"+ {one}" for one in remedies[1:])]
    with sketch(8.4, 1.4 + 0.42 * len(labels)) as figure:
        axes = figure.subplots()
        for number, rows in enumerate(steps):
            _remedies(axes, rows, number, joined=not alone)
        if not all(isnan(row.seeds.balanced_accuracy) for rows in steps for row in rows):
            axes.plot([], [], label="the seed's, of vectors, on its own data", **_SEEDS, color=MUTED)
        axes.axvline(0.5, color=MUTED, linewidth=1, linestyle=":")
        axes.set_yticks(range(len(labels)), labels)
        axes.invert_yaxis()
        axes.set_xlabel(f"{_OF_PAIRS}; 0.5 is guessing")
        axes.grid(visible=False, axis="y")
        figure.legend(loc="outside upper center", ncols=4, fontsize=8)
        how = "without one remedy" if alone else "remedy by remedy"
        return _chart(name, title, figure, f"balanced accuracy of pairs {how}, a line a model")


_SEEDS: dict[str, Any] = {
    "marker": "D",
    "markersize": 6,
    "markerfacecolor": PAPER,
    "linestyle": "",
    "markeredgewidth": 1.4,
}


def _remedies(axes: Axes, rows: Sequence[Beside], number: int, *, joined: bool) -> None:
    places, look = range(len(rows)), _look(number) | ({} if joined else {"linestyle": ""})
    axes.errorbar(
        [row.pairs for row in rows],
        [place + 0.09 * (number - 1) for place in places],
        xerr=[row.pair_spread for row in rows],
        elinewidth=0.7, label=rows[0].model, **look,
    )  # fmt: skip
    colour = SERIES[number % len(SERIES)]
    axes.plot(
        [row.seeds.balanced_accuracy for row in rows], places, **_SEEDS, color=colour, markeredgecolor=colour
    )


def _gained(steps: Sequence[Sequence[Beside]]) -> str:
    top = max(steps, key=lambda rows: rows[-1].pairs)
    accuracies = f"{top[0].pairs:.2f} without any remedy", f"{top[-1].pairs:.2f} with all"
    whole = {
        "helps": "{model} rises from {0} to {1}",
        "hurts": "{model} falls from {0} to {1}",
        "cannot be told": "{model} has {0} and {1}, which cannot be told apart",
    }[Worth.of(top[-1], top[0]).told].format(*accuracies, model=top[0].model)
    told = [(Worth.of(row, before), row.name) for before, row in pairwise(top)]
    helping = [(worth.gain, name) for worth, name in told if worth.told == "helps"]
    if not helping:
        return f"{whole}; of no single step can it be told that it helps"
    gain, name = max(helping, key=lambda step: step[0])
    return f'{whole}; the largest step that can be told (+{gain:.2f}) is "{name}"'


def _missed_most(steps: Sequence[Sequence[Beside]]) -> str:
    top = max(steps, key=lambda rows: rows[0].pairs)
    whole = f"{top[0].model} has {top[0].pairs:.2f} with all"
    told = [(Worth.of(top[0], row), row) for row in top[1:]]
    missed = [(worth.gain, row) for worth, row in told if worth.told == "helps"]
    if not missed:
        return f"{whole}; of no remedy alone can it be told that it is missed"
    _, row = max(missed, key=lambda step: step[0])
    return f'{whole}; the largest loss that can be told is without "{row.name}": {row.pairs:.2f}'


def _finding(top: Line, best: str, without: str) -> str:
    if top.gain <= EQUAL:
        return f"No line rises by more than {EQUAL:g} above what it has {without}"
    return f"{top.name} gains most: {max(top.accuracy):.2f} {best}, {top.accuracy[0]:.2f} {without}"


def _curves(figure: Figure, found: Sequence[Line], across: str) -> Axes:
    axes = figure.subplots()
    for line in found:
        look = _look(line.look) | ({"markerfacecolor": PAPER, "linestyle": ":"} if line.hollow else {})
        axes.errorbar(line.x, line.accuracy, line.spread, elinewidth=0.6, label=line.name, **look)
    axes.set_xlabel(across)
    axes.set_ylabel(_ACCURACY)
    figure.legend(loc="outside upper center", ncols=3, fontsize=8)
    return axes


def _ratios(axes: Axes, found: Sequence[Line]) -> None:
    """Label a logarithmic axis by the ratios that were tried."""
    ticks = sorted({x for line in found for x in line.x})
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{x:.3g}:1" for x in ticks])
    axes.minorticks_off()


def _look(number: int) -> dict[str, Any]:
    return {
        "color": SERIES[number % len(SERIES)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": LINES[number % len(LINES)],
        "markersize": 4.5,
        "linewidth": 1.4,
    }


def _chart(name: str, title: str, figure: Figure, words: str, note: str = _BARS) -> Chart:
    alt = f"Chart of {words}. {title}."
    return Chart(name, title, alt, inline(figure, name, alt), note)


def _seconds(value: float) -> str:
    return f"{value:.3g} s"
