"""Accuracy by parameter and by model: what figures 6.6, 6.8 and 6.9 of seed 000 show."""

from __future__ import annotations

import pandas as pd

from serving.pages.apart import Leaders, listed
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
    words = Words(name, _finding(known, names, axis[1]), f"Line chart of accuracy by {axis[0]}", note)
    parts = [(table[table["curve"] == curve], label) for curve, label in names.items()]
    lines = [
        Line(label, part["parameter"], part["mean"], look, band=part["std"])
        for (part, label), look in zip(parts, _LOOKS, strict=True)
    ]
    marks: list[Mark] = [*lines, ValueLine(ALWAYS, y=always_pass)]
    panel = Panel(marks, Axis(axis[0]), Axis("accuracy (% of verdicts right)", percent=True))
    return drawn(words, [panel], (8.4, 3.7))


def _finding(known: pd.DataFrame, names: dict[str, str], word: str) -> str:
    """Say which curve is best, if that can be told, and from which parameter on it cannot be told from it."""
    folds = known.pivot_table(index="fold", columns=["curve", "parameter"], values="accuracy")
    means = folds.mean()
    places = {f"{curve} {parameter}": (str(curve), parameter) for curve, parameter in folds.columns}
    leaders = Leaders.of(folds.set_axis(list(places), axis="columns"))
    curve, best = places[leaders.best]
    alike = [places[name] for name in leaders.all]
    curves = [name for name in names if name in {found for found, _ in alike}]
    enough = min(parameter for found, parameter in alike if found == curve)

    def at(parameter: object) -> str:
        return f"k = {parameter}" if word == "k" else f"{parameter} {word}"

    right = percent(float(means[curve, best]))
    if len(curves) > 1:
        title = f"{names[curves[0]]} and {names[curves[1]]} cannot be told apart"
        told = f"{right} right at best, no less that could be told from {at(enough)} on"
        return f"{title[0].upper()}{title[1:]}: {told}"
    title = f"Best with {names[curve]} at {at(best)}: {right} right"
    return title if enough == best else f"{title}, and no less that could be told at {at(enough)}"


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
        "the scheduler thesis, section 6.7, published for its own 250 comparisons, another data set than "
        "this one."
    )
    words = Words(
        "figure-6-9",
        _spread_finding(accuracy, medians, split),
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


def _spread_finding(accuracy: pd.DataFrame, medians: pd.DataFrame, split: str) -> str:
    folds = accuracy[accuracy["split"] == split]
    leaders = Leaders.of(folds.pivot_table(index=["repeat", "fold"], columns="entry", values="accuracy"))
    own = medians[medians["entry"] == leaders.best].set_index("split")["accuracy"]
    if leaders.alike:
        shown = medians[(medians["split"] == split) & medians["entry"].isin(leaders.all)]["accuracy"]
        low, high = (percent(float(end)) for end in (shown.min(), shown.max()))
        return (
            f"{listed(leaders.all)} cannot be told apart on {split} folds: "
            f"{low if low == high else f'{low} to {high}'} right at the median"
        )
    best = leaders.best
    title = f"{best} is right most often on {split} folds: {percent(float(own.loc[split]))} at the median"
    if split == "stratified" and "grouped" in own.index:
        title += f", {percent(float(own.loc['grouped']))} on operations it never saw"
    return title
