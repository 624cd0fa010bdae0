"""What probabilities are worth, and what a person's looks save: charts of held-out verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel

from serving.reports.chart_marks import (
    MARKERS,
    Boxes,
    Cells,
    Dots,
    HeatCell,
    Line,
    ValueLine,
    five_of,
    thinned,
)
from serving.reports.charts import FAIL, INK, MUTED, PAPER, PASS, SERIES, Chart, Words, counted, percent
from serving.reports.evaluation_files import Confusion
from serving.reports.panels import Axis, Mark, Panel, drawn
from serving.reports.separation import Leaders, listed
from training.evaluation.figures import reliability
from training.evaluation.metrics import Floats, precision_by_recall


def confusion_chart(name: str, champion: str, confusion: Confusion) -> Chart:
    """Draw the confusion matrix of `champion` at the thresholds chosen inside the training parts."""
    title = (
        f"{champion} misses {confusion.missed:,} of {counted(confusion.fails, 'regression')} "
        f"and raises {counted(confusion.false_alarms, 'false alarm')} "
        f"in {counted(confusion.passes, 'pass', 'passes')}"
    )
    shows = (
        f"Confusion matrix. Labelled fail: {confusion.caught} called fail, {confusion.missed} called pass. "
        f"Labelled pass: {confusion.false_alarms} called fail, {confusion.cleared} called pass"
    )
    cells = (
        _cell(confusion.caught, confusion.fails, "caught", right=True),
        _cell(confusion.missed, confusion.fails, "missed", right=False),
        _cell(confusion.false_alarms, confusion.passes, "false alarms", right=False),
        _cell(confusion.cleared, confusion.passes, "cleared", right=True),
    )
    rows, answers = (cells[:2], cells[2:]), ("fail", "pass")
    panel = Panel([Cells(rows)], Axis("verdict (comparisons)", answers), Axis("label (comparisons)", answers))
    return drawn(Words(name, title, shows), [panel], (4.6, 2.9))


def _cell(number: int, total: int, word: str, *, right: bool) -> HeatCell:
    share = number / total if total else 0.0
    return HeatCell(number, 0.25 + 0.5 * share if right else 0.0, f"{word}, {percent(share)} of the row")


def precision_recall_chart(name: str, models: pd.DataFrame, rules: pd.DataFrame) -> Chart | None:
    """Draw precision by recall: a curve a model over all its thresholds, a point a rule.

    `name`: the chart's anchor.
    `models`, `rules`: Held-out verdicts with the columns of `serving.comparisons.evaluated.VERDICTS`.
    """
    if models.empty or not (models["status"] == "fail").any():
        return None
    curves = {str(entry): precision_by_recall(part) for entry, part in models.groupby("entry")}
    areas = {
        entry: float(np.diff(recall, prepend=0) @ precision) for entry, (recall, precision) in curves.items()
    }
    order = sorted(areas, key=lambda entry: (-areas[entry], entry))
    points = {str(entry): Confusion.of(part) for entry, part in rules.groupby("entry")}
    leaders = Leaders.of(_by_fold(models))
    title = _curve_finding(leaders, areas, curves, points)
    note = (
        "Curves are means over the folds, whose probabilities have scales of their own: of the precision at "
        "every recall, and so of the average precision, the area below. A dot, like a mark of a rule, counts "
        "all folds' verdicts: it is where a model stands at its chosen thresholds."
    )
    shows = f"Precision by recall on held-out folds, {len(order)} models and {len(points)} rules"
    marks: list[Mark] = []
    for look, entry in enumerate(order):
        here = Confusion.of(models[models["entry"] == entry])
        label = f"{entry} ({areas[entry]:.3f})"
        marks += [
            Line(label, *curves[entry], look, marked=False, steps=True),
            Dots([here.recall], [here.precision], fill=SERIES[look % len(SERIES)], edge=MUTED, size=36),
        ]
    marks += [
        Dots([point.recall], [point.precision], entry, PAPER, INK, MARKERS[number % len(MARKERS)], 81, 1.4)
        for number, (entry, point) in enumerate(points.items())
    ]
    panel = Panel(
        marks,
        Axis("recall (% of regressions caught)", percent=True, low=-0.02, high=1.02),
        Axis("precision (% of alarms that are right)", percent=True, low=-0.02, high=1.04),
    )
    beside = "models (mean average precision), then rules"
    return drawn(Words(name, title, shows, note), [panel], (8.4, 5.0), beside=beside)


def _by_fold(models: pd.DataFrame) -> pd.DataFrame:
    """Return the area below the curve of each model (column) on each fold (row)."""
    areas = {
        (fold, str(entry)): float(np.diff(recall, prepend=0) @ precision)
        for (fold, entry), part in models.groupby(["fold", "entry"])
        if (part["status"] == "fail").any()
        for recall, precision in [precision_by_recall(part)]
    }
    return pd.Series(areas).unstack()


def _curve_finding(
    leaders: Leaders,
    areas: dict[str, float],
    curves: dict[str, tuple[Floats, Floats]],
    points: dict[str, Confusion],
) -> str:
    """Compare the best curve, or one of them, with the best rule at the same recall."""
    best, curve = leaders.best, curves[leaders.best]
    title = f"{best} has the best curve (average precision {areas[best]:.3f} in the mean over folds)"
    if leaders.alike:
        title = f"{_alike(leaders, areas)} cannot be told apart by their curves"
    useful = {entry: point for entry, point in points.items() if point.recall > 0 and point.precision > 0}
    if not useful:
        return title
    recall, precision = curve
    rule, point = max(useful.items(), key=lambda item: 2 / (1 / item[1].precision + 1 / item[1].recall))
    there = float(precision[recall >= point.recall].max())
    return (
        f"{title}: where the best rule, {rule}, catches {percent(point.recall)}, {percent(there)} of "
        f"{f'the alarms of {best}' if leaders.alike else 'its alarms'} are right instead of "
        f"{percent(point.precision)}"
    )


def _alike(leaders: Leaders, areas: dict[str, float]) -> str:
    low, high = (f"{choose(areas[name] for name in leaders.all):.3f}" for choose in (min, max))
    return f"{listed(leaders.all)} (average precision {low if low == high else f'{low} to {high}'})"


#: More marks of a kind than this hide each other; then an even share of them is drawn.
DRAWN = 400


def without_root(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Undo the signed square root of seed 000, figure 6.5: ``x * |x|``."""
    return values * np.abs(values)


def vectors_chart(name: str, features: pd.DataFrame, columns: list[str]) -> Chart | None:
    """Draw pass and fail in the three best of `columns`, without and with the signed square root.

    `name`: the chart's anchor.
    `features`: one row per labelled comparison: ``comparison_id, status`` and the `columns`, with the square
    root applied.
    `columns`: the features that went through the signed square root.
    Returns: None where there are fewer than three columns or only one status.
    """
    if len(columns) < 3 or features["status"].nunique() < 2:  # noqa: PLR2004 - three dimensions, two classes
        return None
    rooted = features[columns].to_numpy(float)
    failed = features["status"].to_numpy() == "fail"
    plain = without_root(rooted)
    scores = _separation(rooted, failed)
    best = [int(place) for place in np.argsort(-scores, kind="stable")[:3]]
    before = float(_separation(plain[:, best[:1]], failed)[0])
    title = _vector_chart_finding(columns[best[0]], before, float(scores[best[0]]))
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


def _vector_chart_finding(column: str, before: float, after: float) -> str:
    title = f"{column} parts pass from fail best"
    if after > before:
        return f"{title}, and the square root parts them further: F rises from {before:,.0f} to {after:,.0f}"
    return f"{title}, and the square root does not help there: F goes from {before:,.0f} to {after:,.0f}"


class Rates(BaseModel):
    """What cuts did, over the folds."""

    share: float  # what was asked for
    #: folds, made, held: of so many folds, in how many it could be promised, and in how many of these it held
    folds: int
    made: int
    held: int
    missed: float  # missed, false_alarms, unsure: of the fails, of the passes, of all
    false_alarms: float
    unsure: float


class ModelPromises(BaseModel):
    """What metrics.json says of a model's probabilities and promises."""

    calibration_error: float
    chosen: list[Rates]
    missed: list[Rates]
    false_alarms: list[Rates]
    sent: list[Rates]


def reliability_chart(verdicts: pd.DataFrame, champion: str, error: float) -> Chart:
    """Draw the share of fails by the probability that was told.

    `verdicts`: the champion's, on held-out folds.
    `error`: the expected calibration error.
    """
    ranges = reliability(verdicts)
    title = f"What {champion} calls a probability is off by {percent(error)} in the mean"
    note = (
        "A dot a tenth of the scale, the larger the more comparisons; on the line, of comparisons with a "
        "probability of 30 % three in ten are regressions. The mean of the distances, weighted by "
        "comparisons, is the expected calibration error."
    )
    sizes = 20 + 200 * ranges["cases"] / ranges["cases"].max()
    marks: list[Mark] = [
        Line("as it should be", [0.0, 1.0], [0.0, 1.0], 1, marked=False),
        *(
            Dots(
                [one.probability],
                [one.share_of_fails],
                told=[counted(int(one.cases), "comparison")],
                size=float(size),
            )
            for one, size in zip(ranges.itertuples(), sizes, strict=True)
        ),
    ]
    x = Axis("probability (mean of a range)", percent=True, low=-0.04, high=1.04)
    y = Axis("regressions (% of the comparisons there)", percent=True, low=-0.04, high=1.04)
    words = Words("reliability", title, "Share of regressions by the probability that was told", note)
    return drawn(words, [Panel(marks, x, y)], (4.6, 3.9))


def looks_chart(sent: Sequence[Rates]) -> Chart:
    """Draw misses and false alarms by the share of comparisons that a person looks at."""
    unsure, missed, alarms = (np.array([getattr(one, name) for one in sent]) for name in _SENT)
    best = sent[int(np.abs(unsure - _TOLD).argmin())]
    title = (
        f"With {percent(best.unsure)} of the comparisons sent to a person, {percent(best.missed)} of the "
        f"regressions are missed at {percent(best.false_alarms)} false alarms"
    )
    note = "Sent are the comparisons that are most worth a look, by shares from inside."
    words = Words("looks", title, "Misses and false alarms by the share that is sent to a person", note)
    lines = [Line("missed", unsure, missed, 0), Line("false alarms", unsure, alarms, 3)]
    x = Axis("unsure (% of the comparisons)", percent=True)
    y = Axis("wrong (% of the regressions, % of the others)", percent=True, low=0.0)
    return drawn(words, [Panel(lines, x, y)], (8.4, 3.7))


_SENT = ("unsure", "missed", "false_alarms")
#: The share that the title tells of, or the nearest.
_TOLD = 0.05


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

    `curves`: ``curve, parameter, fold, accuracy``.
    `always_pass`: the accuracy of calling everything ``pass``.
    Returns: None where `curves` has no k-NN.
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

    `verdicts`: Held-out verdicts of models, with the columns of `serving.comparisons.evaluated.VERDICTS`.
    `always_pass`: the accuracy of calling everything ``pass``.
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
