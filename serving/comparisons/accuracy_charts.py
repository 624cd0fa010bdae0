"""Accuracy by parameter and by model: what figures 6.6, 6.8 and 6.9 of seed 000 show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from serving.pages.charts import (
    FAIL,
    INK,
    MARKERS,
    MUTED,
    PAPER,
    PASS,
    SERIES,
    Chart,
    inline,
    percent,
    percent_axis,
    sketch,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Seed 000, section 6.7: medians of accuracy on its own 250 comparisons, which nobody else has.
PUBLISHED = {
    "knn-uniform": 0.9363,
    "knn-distance": 0.9429,
    "logistic": 0.9205,
    "decision-tree": 0.9297,
    "random-forest": 0.9313,
    "extra-trees": 0.9185,
}
#: Two parameters whose accuracy differs by less are called equally good.
_EQUAL = 0.002


def by_neighbours(curves: pd.DataFrame, always_pass: float) -> Chart | None:
    """Draw the accuracy of k-NN by k, for both ways to vote (seed 000, figure 6.6).

    Parameters
    ----------
    curves : DataFrame
        ``curve, parameter, fold, accuracy``.
    always_pass : float
        The accuracy of calling everything ``pass``.

    Returns
    -------
    Chart or None
        None where `curves` has no k-NN.
    """
    names = {"knn-uniform": "uniform votes", "knn-distance": "votes weighted by distance"}
    return _by_parameter("figure-6-6", curves, names, ("k (number of neighbours)", "k"), always_pass)


def by_trees(curves: pd.DataFrame, always_pass: float) -> Chart | None:
    """Draw the accuracy of both forests by their number of trees (seed 000, figure 6.8)."""
    names = {"random-forest": "random forest", "extra-trees": "extra trees"}
    return _by_parameter("figure-6-8", curves, names, ("trees (number in the forest)", "trees"), always_pass)


def _by_parameter(
    name: str, curves: pd.DataFrame, names: dict[str, str], axis: tuple[str, str], always_pass: float
) -> Chart | None:
    known = curves[curves["curve"].isin(list(names))]
    if known.empty:
        return None
    folds = known.groupby(["curve", "parameter"])["accuracy"]
    table = pd.DataFrame({"mean": folds.mean(), "std": folds.std().fillna(0.0)}).reset_index()
    title = _finding(table, names, axis[1])
    alt = f"Line chart of accuracy by {axis[0]}. {title}."
    with sketch(8.4, 3.7) as figure:
        axes = figure.subplots()
        for number, curve in enumerate(names):
            _line(axes, table[table["curve"] == curve], names[curve], number)
        axes.axhline(always_pass, color=MUTED, linestyle=":", label="always saying pass")
        axes.set_xlabel(axis[0])
        axes.set_ylabel("accuracy (% of verdicts right)")
        percent_axis(axes, "y")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.14), ncols=3)
        return Chart(
            name,
            title,
            alt,
            inline(figure, name, alt),
            "Lines are means over the folds, bands one standard deviation.",
        )


def _line(axes: Axes, table: pd.DataFrame, label: str, number: int) -> None:
    colour = (SERIES[0], SERIES[3])[number]
    x, mean, std = (table[column].to_numpy(float) for column in ("parameter", "mean", "std"))
    axes.fill_between(x, mean - std, mean + std, color=colour, alpha=0.12, linewidth=0)
    axes.plot(
        x,
        mean,
        color=colour,
        marker=MARKERS[number],
        markersize=4.5,
        linestyle=("-", "--")[number],
        markevery=max(1, len(x) // 20),
        label=label,
    )


def _finding(table: pd.DataFrame, names: dict[str, str], word: str) -> str:
    """Say which curve is best where, and from which parameter on it is as good as that."""
    top = table.sort_values("mean", ascending=False, kind="stable").iloc[0]
    curve, best = str(top["curve"]), float(top["mean"])
    enough = table[(table["curve"] == curve) & (table["mean"] >= best - _EQUAL)]["parameter"].min()

    def at(parameter: object) -> str:
        return f"k = {parameter}" if word == "k" else f"{parameter} {word}"

    title = f"Best with {names[curve]} at {at(top['parameter'])}: {percent(best)} right"
    return title if enough == top["parameter"] else f"{title}, and hardly less at {at(enough)}"


def by_model(verdicts: pd.DataFrame, always_pass: float) -> Chart | None:
    """Draw the accuracy of every model over the folds of both schemes (seed 000, figure 6.9).

    Parameters
    ----------
    verdicts : DataFrame
        Held-out verdicts of models, with the columns of `serving.pages.evaluated.OOF_DTYPES`.
    always_pass : float
        The accuracy of calling everything ``pass``.
    """
    if verdicts.empty:
        return None
    accuracy = _by_fold(verdicts)
    medians = accuracy.groupby(["split", "entry"])["accuracy"].median().reset_index()
    split = "stratified" if (medians["split"] == "stratified").any() else "grouped"
    ranked = medians[medians["split"] == split].sort_values(["accuracy", "entry"], ascending=[True, False])
    order = [str(entry) for entry in ranked["entry"]]
    title = _spread_finding(medians, order[-1], split)
    alt = f"Box plots of accuracy over folds, one pair a model. {title}."
    note = (
        "Boxes: quartiles over folds; whiskers: smallest and largest fold. Diamonds: the medians that "
        "seed 000, section 6.7, published for its own 250 comparisons, another data set than this one."
    )
    with sketch(8.4, 1.3 + 0.55 * len(order)) as figure:
        axes = figure.subplots()
        _boxes(axes, accuracy, order)
        _published(axes, order)
        axes.axvline(always_pass, color=MUTED, linestyle=":", label="always saying pass")
        axes.set_yticks(range(len(order)), order)
        axes.set_ylabel("model (name in the catalogue)")
        axes.set_xlabel("accuracy (% of verdicts right, a fold a value)")
        percent_axis(axes, "x")
        axes.grid(visible=False, axis="y")
        figure.legend(loc="outside upper center", ncols=4)
        return Chart("figure-6-9", title, alt, inline(figure, "figure-6-9", alt), note)


def _published(axes: Axes, order: list[str]) -> None:
    known = [place for place, entry in enumerate(order) if entry in PUBLISHED]
    medians = [PUBLISHED[order[place]] for place in known]
    axes.scatter(
        medians, known, marker="D", s=34, color=PAPER, edgecolors=FAIL, linewidths=1.6, zorder=5,
        label="published (another data set)",
    )  # fmt: skip


def _by_fold(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return ``split, entry, repeat, fold, accuracy``."""
    right = verdicts.assign(accuracy=verdicts["verdict"] == verdicts["status"])
    return right.groupby(["split", "entry", "repeat", "fold"])["accuracy"].mean().reset_index()


def _boxes(axes: Axes, accuracy: pd.DataFrame, order: list[str]) -> None:
    looks = {
        "stratified": (0.19, PASS, "stratified folds"),
        "grouped": (-0.19, PAPER, "folds of whole operations"),
    }
    for split, (shift, colour, label) in looks.items():
        own = accuracy[accuracy["split"] == split]
        if own.empty:
            continue
        values = [own.loc[own["entry"] == entry, "accuracy"].to_numpy(float) for entry in order]
        boxes = axes.boxplot(
            values, orientation="horizontal", positions=np.arange(len(order)) + shift, widths=0.3,
            whis=(0, 100), patch_artist=True, manage_ticks=False,
            medianprops={"color": INK, "linewidth": 2}, boxprops={"facecolor": colour, "edgecolor": INK},
            whiskerprops={"color": INK}, capprops={"color": INK},
        )  # fmt: skip
        boxes["boxes"][0].set_label(label)
        if split == "grouped":
            for box in boxes["boxes"]:
                box.set_hatch("////")


def _spread_finding(medians: pd.DataFrame, best: str, split: str) -> str:
    own = medians[medians["entry"] == best].set_index("split")["accuracy"]
    title = f"{best} is right most often on {split} folds: {percent(float(own.loc[split]))} at the median"
    if split == "stratified" and "grouped" in own.index:
        title += f", {percent(float(own.loc['grouped']))} on operations it never saw"
    return title
