"""Accuracy by parameter and by model: what figures 6.6, 6.8 and 6.9 of seed 000 show."""

from __future__ import annotations

import pandas as pd

from serving.pages.charts import FAIL, PAPER, Chart, Words, percent
from serving.pages.marks import Boxes, Dots, Line, ValueLine, five_of
from serving.pages.panels import Axis, Mark, Panel, drawn

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
_LOOKS = (0, 3)
ALWAYS = "always saying pass"


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
    note = "Lines are means over the folds, bands one standard deviation."
    words = Words(name, _finding(table, names, axis[1]), f"Line chart of accuracy by {axis[0]}", note)
    parts = [(table[table["curve"] == curve], label) for curve, label in names.items()]
    lines = [
        Line(label, part["parameter"], part["mean"], look, band=part["std"])
        for (part, label), look in zip(parts, _LOOKS, strict=True)
    ]
    marks: list[Mark] = [*lines, ValueLine(ALWAYS, y=always_pass)]
    panel = Panel(marks, Axis(axis[0]), Axis("accuracy (% of verdicts right)", percent=True))
    return drawn(words, [panel], (8.4, 3.7))


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
        Held-out verdicts of models, with the columns of `serving.comparisons.evaluated.VERDICTS`.
    always_pass : float
        The accuracy of calling everything ``pass``.
    """
    if verdicts.empty:
        return None
    right = verdicts.assign(accuracy=verdicts["verdict"] == verdicts["status"])
    accuracy = right.groupby(["split", "entry", "repeat", "fold"])["accuracy"].mean().reset_index()
    medians = accuracy.groupby(["split", "entry"])["accuracy"].median().reset_index()
    split = "stratified" if (medians["split"] == "stratified").any() else "grouped"
    ranked = medians[medians["split"] == split].sort_values(["accuracy", "entry"], ascending=[False, True])
    order = [str(entry) for entry in ranked["entry"]]
    note = (
        "Boxes: quartiles over folds; whiskers: smallest and largest fold. Diamonds: the medians that "
        "seed 000, section 6.7, published for its own 250 comparisons, another data set than this one."
    )
    words = Words(
        "figure-6-9",
        _spread_finding(medians, order[0], split),
        "Box plots of accuracy over folds, one pair a model",
        note,
    )
    panel = Panel(
        [*_boxes(accuracy, order), _published(order), ValueLine(ALWAYS, x=always_pass)],
        Axis("accuracy (% of verdicts right, a fold a value)", percent=True),
        Axis("model (name in the catalogue)", order),
    )
    return drawn(words, [panel], (8.4, 1.3 + 0.55 * len(order)))


def _published(order: list[str]) -> Dots:
    known = [place for place, entry in enumerate(order) if entry in PUBLISHED]
    medians = [PUBLISHED[order[place]] for place in known]
    return Dots(
        medians, known, "published (another data set)", PAPER, FAIL, marker="D", size=34, thickness=1.6
    )


def _boxes(accuracy: pd.DataFrame, order: list[str]) -> list[Boxes]:
    looks = {"stratified": (-0.19, 0, "stratified folds"), "grouped": (0.19, 1, "folds of whole operations")}
    values = {
        split: own.groupby("entry")["accuracy"].apply(five_of).reindex(order)
        for split, own in accuracy.groupby("split")
    }
    return [
        Boxes(list(values[split]), label, shift=shift, width=0.3, fill=fill)
        for split, (shift, fill, label) in looks.items()
        if split in values
    ]


def _spread_finding(medians: pd.DataFrame, best: str, split: str) -> str:
    own = medians[medians["entry"] == best].set_index("split")["accuracy"]
    title = f"{best} is right most often on {split} folds: {percent(float(own.loc[split]))} at the median"
    if split == "stratified" and "grouped" in own.index:
        title += f", {percent(float(own.loc['grouped']))} on operations it never saw"
    return title
