"""Charts of the report: out-of-fold verdicts, probabilities, guarantees; figures of the scheduler thesis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel

from serving.comparisons.explain.features import describe_feature
from serving.reports.chart_marks import (
    MARKERS,
    Boxes,
    Cells,
    Dots,
    HeatCell,
    Line,
    ValueLine,
    box_percentiles,
    even_slice,
)
from serving.reports.charts import FAIL, INK, MUTED, PAPER, PASS, SERIES, Chart, Words, percent, with_noun
from serving.reports.evaluation_files import Confusion
from serving.reports.panels import Axis, Mark, Panel, draw_chart
from serving.reports.separation import Leaders, join_names
from training.evaluation.figures import reliability_bins
from training.evaluation.metrics import Floats, precision_by_recall

#: Most dots of one kind; of more an even share is drawn.
DRAWN = 400
#: The review rate in the title of `review_rate_chart`, or the nearest one.
_TITLE_RATE = 0.05
#: Medians of accuracy on the 250 unpublished comparisons of the scheduler thesis, section 6.7.
PUBLISHED = {
    "knn-uniform": 0.9363,
    "knn-distance": 0.9429,
    "logistic": 0.9205,
    "decision-tree": 0.9297,
    "random-forest": 0.9313,
    "extra-trees": 0.9185,
}
ALWAYS = "always pass"
#: Cells of the confusion matrix with right verdicts.
_RIGHT = ("caught", "cleared")


def confusion_chart(name: str, champion: str, confusion: Confusion) -> Chart:
    """Return a chart of the confusion matrix of `champion`: labels by verdicts, counts and shares of labels.

    `name`: the chart's anchor in the page. `confusion`: out-of-fold counts; ``unsure`` counts as ``pass``.
    """
    title = (
        f"{champion} misses {confusion.false_negatives:,} of {with_noun(confusion.n_fails, 'regression')} "
        f"and raises {with_noun(confusion.false_positives, 'false alarm')} "
        f"in {with_noun(confusion.n_passes, 'comparison')} without a regression"
    )
    shows = (
        f"Confusion matrix. Labelled fail: {confusion.caught} called fail, {confusion.false_negatives} "
        "called pass. "
        f"Labelled pass: {confusion.false_positives} called fail, {confusion.cleared} called pass"
    )

    counts = (
        (confusion.n_fails, {"caught": confusion.caught, "missed": confusion.false_negatives}),
        (confusion.n_passes, {"false alarms": confusion.false_positives, "cleared": confusion.cleared}),
    )
    rows = []
    for total, cells in counts:
        shares = {word: number / total if total else 0.0 for word, number in cells.items()}
        shades = [0.25 + 0.5 * shares[word] if word in _RIGHT else 0.0 for word in cells]
        texts = [f"{word}, {percent(share)} of the row" for word, share in shares.items()]
        rows.append(list(map(HeatCell, cells.values(), shades, texts)))
    answers = ("fail", "pass")
    panel = Panel([Cells(rows)], Axis("verdict (comparisons)", answers), Axis("label (comparisons)", answers))
    return draw_chart(Words(name, title, shows), [panel], (4.6, 2.9))


def precision_recall_chart(name: str, models: pd.DataFrame, rules: pd.DataFrame) -> Chart | None:
    """Return a chart of precision by recall: a curve and a point per model, a point per rule.

    A curve, over all thresholds, is the mean over the folds. A point counts the verdicts of all folds
    together; ``unsure`` is no alarm.
    `name`: the chart's anchor in the page.
    `models`, `rules`: out-of-fold verdicts, one row per ``entry`` (model or rule), ``repeat``, ``fold`` and
    comparison, with ``verdict``, ``status`` (the label), ``probability``.
    Returns None without models, or if no label in `models` is ``fail``. ValueError if a model's probability
    is NaN.
    """
    if models.empty or not (models["status"] == "fail").any():
        return None
    curves = {str(entry): precision_by_recall(part) for entry, part in models.groupby("entry")}
    areas = {entry: _area_below(*curve) for entry, curve in curves.items()}
    areas_by_fold = {
        (fold, str(entry)): _area_below(*precision_by_recall(part))
        for (fold, entry), part in models.groupby(["fold", "entry"])
        if (part["status"] == "fail").any()
    }
    leaders = Leaders.from_scores(pd.Series(areas_by_fold).unstack())
    points = {str(entry): Confusion.from_verdicts(part) for entry, part in rules.groupby("entry")}
    title = _curve_title(leaders, areas, curves, points)
    note = (
        "Curves are the mean precision over the folds at every recall, because probabilities of different "
        "folds are not comparable; the area below is the average precision. Dots (models at their "
        "thresholds) and hollow markers (rules) pool the verdicts of all folds."
    )
    shows = f"Precision by recall on held-out folds, {len(areas)} models and {len(points)} rules"
    marks: list[Mark] = []
    for style, entry in enumerate(sorted(areas, key=lambda entry: (-areas[entry], entry))):
        point, colour = Confusion.from_verdicts(models[models["entry"] == entry]), SERIES[style % len(SERIES)]
        marks.append(Line(f"{entry} ({areas[entry]:.3f})", *curves[entry], style, marked=False, steps=True))
        marks.append(Dots([point.recall], [point.precision], fill=colour, edge=MUTED, size=36))
    for number, (entry, point) in enumerate(points.items()):
        marker = MARKERS[number % len(MARKERS)]
        marks.append(Dots([point.recall], [point.precision], entry, PAPER, INK, marker, 81, 1.4))
    x = Axis("recall (% of regressions detected)", percent=True, low=-0.02, high=1.02)
    y = Axis("precision (% of alarms that are regressions)", percent=True, low=-0.02, high=1.04)
    legend = "models (mean average precision), then rules"
    return draw_chart(Words(name, title, shows, note), [Panel(marks, x, y)], (8.4, 5.0), legend_title=legend)


def _area_below(recall: Floats, precision: Floats) -> float:
    return float(np.diff(recall, prepend=0) @ precision)


def _curve_title(
    leaders: Leaders,
    areas: Mapping[str, float],
    curves: Mapping[str, tuple[Floats, Floats]],
    points: Mapping[str, Confusion],
) -> str:
    best, (recall, precision) = leaders.best, curves[leaders.best]
    title = f"{best} has the best curve (average precision {areas[best]:.3f}, mean over folds)"
    if leaders.alike:
        values = sorted(areas[name] for name in leaders.all_names)
        span = _range_text(f"{values[0]:.3f}", f"{values[-1]:.3f}")
        title = f"{join_names(leaders.all_names)} (average precision {span}) do not differ significantly"
    useful = {entry: point for entry, point in points.items() if point.recall > 0 and point.precision > 0}
    if not useful:
        return title
    rule, point = max(useful.items(), key=lambda item: 2 / (1 / item[1].precision + 1 / item[1].recall))
    at_recall = float(precision[recall >= point.recall].max())
    return (
        f"{title}; at the recall of the best rule, {rule} ({percent(point.recall)}), "
        f"{f'the precision of {best}' if leaders.alike else 'its precision'} is {percent(at_recall)}, "
        f"that of the rule {percent(point.precision)}"
    )


def _range_text(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def vectors_chart(name: str, features: pd.DataFrame, columns: list[str]) -> Chart | None:
    """Return scatter plots of the features that separate pass from fail best, without and with signed root.

    There is one for each pair of the three best features.

    `name`: the chart's anchor in the page. `features`: one row per labelled comparison: ``comparison_id``,
    ``status`` ("pass" or "fail") and the `columns`, as signed roots, which are undone for the plots without.
    `columns`: features to choose from, by the F of their signed roots in an analysis of variance, which
    counts as 0 for a column with NaN; of equal ones the first is taken. Returns None with fewer than three
    columns or only one status. At most 400 dots per status, evenly spaced, are drawn.
    """
    if len(columns) < 3 or features["status"].nunique() < 2:  # noqa: PLR2004 - three dimensions, two classes
        return None
    rooted = features[columns].to_numpy(float)
    failed = features["status"].to_numpy() == "fail"
    plain = rooted * np.abs(rooted)
    scores = _f_values(rooted, failed)
    best = np.argsort(-scores, kind="stable")[:3].tolist()
    best_names = [columns[place] for place in best]
    before, after = float(_f_values(plain[:, best[:1]], failed)[0]), float(scores[best[0]])
    effect = "separates them even better" if after > before else "does not separate them better"
    title = (
        f"Of {len(columns)} features, {best_names[0]} separates pass from fail best; its signed square "
        f"root {effect}: the F statistic of an analysis of variance {'rises' if after > before else 'goes'} "
        f"from {before:,.0f} to {after:,.0f}"
    )
    fails, passes = (np.flatnonzero(rows)[even_slice(int(rows.sum()), DRAWN)] for rows in (failed, ~failed))
    shows = f"Scatter plots of pass and fail in {', '.join(best_names)}"
    note = (
        f"The chart shows {len(fails):,} of {failed.sum():,} comparisons labelled fail and {len(passes):,} "
        f"of {(~failed).sum():,} labelled pass; F is computed from all. Compared: the features of the thesis "
        "that are relative differences of minima, quartiles, medians and maxima. "
        f"{'; '.join(f'{name}: {describe_feature(name, 2)}' for name in best_names)}. "
        "Positive differences are better."
    )
    names = (features["comparison_id"] + ", " + features["status"]).to_numpy(str)
    below: dict[str, Any] = {"fill": "none", "edge": PASS, "size": 16, "thickness": 1}
    above: dict[str, Any] = {"fill": FAIL, "edge": "none", "marker": "^", "alpha": 0.85}
    panels = []
    for vectors, unit in ((plain, "relative difference"), (rooted, "signed \u221a of relative difference")):
        for x, y in combinations(best, 2):
            dots = [
                Dots(vectors[rows, x], vectors[rows, y], label, point_names=names[rows].tolist(), **style)
                for rows, label, style in ((passes, "pass", below), (fails, "fail", above))
            ]
            panels.append(Panel(dots, Axis(f"{columns[x]}\n({unit})"), Axis(f"{columns[y]}\n({unit})")))
    return draw_chart(Words(name, title, shows, note), panels, (10.2, 6.6), across=3, narrows=False)


def _f_values(vectors: NDArray[np.float64], failed: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return F of the analysis of variance of every column, 0 for constant ones."""
    from sklearn.feature_selection import f_classif

    varies, scores = np.ptp(vectors, axis=0) > 0, np.zeros(vectors.shape[1])
    if varies.any():
        scores[varies] = f_classif(vectors[:, varies], failed)[0]
    return np.nan_to_num(scores)


class Rates(BaseModel):
    """Error rates over the folds with one requested share."""

    share: float  # the requested share
    folds: int
    made: int  # number of folds that could guarantee it
    n_kept: int  # number of these that kept it
    # rates of false negatives and positives, unsure: shares of the fails, of the passes, of all comparisons
    false_negative_rate: float
    false_positive_rate: float
    unsure: float


class ModelGuarantees(BaseModel):
    """The calibration and the risk guarantees of a model in metrics.json."""

    calibration_error: float
    chosen: list[Rates]
    max_false_negative_rate: list[Rates]
    max_false_positive_rate: list[Rates]
    sent: list[Rates]


def reliability_chart(verdicts: pd.DataFrame, champion: str, error: float) -> Chart:
    """Return a chart of the share of fails by probability: a dot per tenth of the scale that has verdicts.

    A dot is at the mean probability of its verdicts, and larger the more these are. `verdicts`: out-of-fold
    verdicts, at least one, of the model `champion`: ``probability`` of a fail (ValueError if one is NaN) and
    ``status``, the label. `error`: the expected calibration error, a share; for the title only.
    """
    ranges = reliability_bins(verdicts)
    title = (
        f"Probabilities of {champion} differ from observed frequencies by {100 * error:.1f} percentage points"
        " on average"
    )
    note = (
        "Each dot is a bin of 10 percentage points; larger dots stand for more comparisons. On the line, "
        "30 % of the comparisons with a probability of 30 % are regressions. The mean distance from the "
        "line, weighted by comparisons, is the expected calibration error."
    )
    marks: list[Mark] = [Line("perfect calibration", [0.0, 1.0], [0.0, 1.0], 1, marked=False)]
    for row in ranges.itertuples():
        cases, size = [with_noun(int(row.cases), "comparison")], 20 + 200 * row.cases / ranges["cases"].max()
        marks.append(Dots([row.probability], [row.share_of_fails], point_names=cases, size=float(size)))
    x = Axis("predicted probability (mean of each bin)", percent=True, low=-0.04, high=1.04)
    y = Axis("regressions (% of comparisons)", percent=True, low=-0.04, high=1.04)
    words = Words("reliability", title, "Share of regressions by predicted probability", note)
    return draw_chart(words, [Panel(marks, x, y)], (4.6, 3.9))


def review_rate_chart(sent: Sequence[Rates]) -> Chart:
    """Return a chart of the rates of missed regressions and false alarms by the review rate.

    `sent` has the mean rates over the folds for each requested review rate; ValueError if it is empty. Rates
    are drawn by the measured review rate, in the order of `sent`; the title has those at the measured review
    rate nearest to 5 %.
    """
    unsure = [rates.unsure for rates in sent]
    example = min(sent, key=lambda rates: abs(rates.unsure - _TITLE_RATE))
    title = (
        f"With {percent(example.unsure)} of the comparisons sent to a person, "
        f"{percent(example.false_negative_rate)} of the regressions are missed "
        f"at a false alarm rate of {percent(example.false_positive_rate)}"
    )
    note = (
        "Comparisons with a probability between two thresholds are sent to a person. The thresholds are "
        "chosen on training data, for several limits on the share sent; the title has the point nearest to "
        f"{percent(_TITLE_RATE, 0)}. Missed: % of the regressions. False alarms: % of the other "
        "comparisons."
    )
    words = Words("review-rate", title, "Misses and false alarms by the share that is sent to a person", note)
    misses = [rates.false_negative_rate for rates in sent]
    alarms = [rates.false_positive_rate for rates in sent]
    lines = [Line("missed", unsure, misses, 0), Line("false alarms", unsure, alarms, 3)]
    x = Axis("unsure (% of the comparisons)", percent=True)
    y = Axis("error rate (%)", percent=True, low=0.0)
    return draw_chart(words, [Panel(lines, x, y)], (8.4, 3.7))


#: Figures of the scheduler thesis: accuracy by a parameter; two models with their names in title and legend,
#: the axis, and a value of the parameter in the title.
PARAMETER_FIGURES = {
    "figure-6-6": (
        {"knn-uniform": "equally weighted neighbours", "knn-distance": "neighbours weighted by distance"},
        "k (number of neighbours)",
        "k = {}",
    ),
    "figure-6-8": (
        {"random-forest": "random forest", "extra-trees": "extra trees"},
        "trees (number in the forest)",
        "{} trees",
    ),
}


def parameter_chart(name: str, curves: pd.DataFrame, always_pass: float) -> Chart | None:
    """Return a chart of the accuracy of two models by a parameter: means over the folds.

    Bands are the means plus and minus one standard deviation.
    `name`: the anchor in the page, "figure-6-6" (k-NN by k) or "figure-6-8" (forests by their trees); else
    KeyError.
    `curves`: one row per ``curve`` (model), ``parameter`` and ``fold``, with ``accuracy``, a share.
    `always_pass`: the accuracy of calling everything ``pass``, drawn as a line.
    Returns None unless `curves` has rows of one of the two models.
    """
    models, axis, value = PARAMETER_FIGURES[name]
    rows = curves[curves["curve"].isin(list(models))]
    if rows.empty:
        return None
    folds = rows.groupby(["curve", "parameter"])["accuracy"]
    table = pd.DataFrame({"mean": folds.mean(), "std": folds.std().fillna(0.0)}).reset_index()
    marks: list[Mark] = []
    for (curve, label), style in zip(models.items(), (0, 3), strict=True):
        part = table[table["curve"] == curve]
        marks.append(Line(label, part["parameter"], part["mean"], style, band=part["std"]))
    marks.append(ValueLine(ALWAYS, y=always_pass))
    panel = Panel(marks, Axis(axis), Axis("accuracy (% of verdicts)", percent=True))
    note = "Lines are means over the stratified folds, bands \N{PLUS-MINUS SIGN} one standard deviation."
    words = Words(name, _parameter_title(rows, models, value), f"Line chart of accuracy by {axis}", note)
    return draw_chart(words, [panel], (8.4, 3.7))


def _parameter_title(rows: pd.DataFrame, models: Mapping[str, str], value: str) -> str:
    """Name the best curve, if it is significant, and the least parameter that is not significantly worse."""
    folds = rows.pivot_table(index="fold", columns=["curve", "parameter"], values="accuracy")
    curve_parameters = {f"{curve} {parameter}": (str(curve), parameter) for curve, parameter in folds.columns}
    leaders = Leaders.from_scores(folds.set_axis(list(curve_parameters), axis="columns"))
    best_curve, best = curve_parameters[leaders.best]
    alike = [curve_parameters[name] for name in leaders.all_names]
    names = [name for curve, name in models.items() if curve in {curve for curve, _ in alike}]
    enough = min(parameter for curve, parameter in alike if curve == best_curve)
    right = percent(float(folds.mean()[best_curve, best]))
    almost = f"at {value.format(enough)}, accuracy is not significantly lower"
    if len(names) > 1:
        both = f"{names[0][0].upper()}{names[0][1:]} and {names[1]}"
        return f"{both} do not differ significantly: best accuracy {right}; {almost}"
    title = f"Best with {names[0]} at {value.format(best)}: accuracy {right}"
    return title if enough == best else f"{title}; {almost}"


def models_chart(verdicts: pd.DataFrame, always_pass: float) -> Chart | None:
    """Return box plots of the accuracy of every model over the folds of both schemes (thesis, figure 6.9).

    `verdicts`: out-of-fold verdicts of models, one row per ``split`` ("stratified" or "grouped"), ``entry``
    (model), ``repeat``, ``fold`` and comparison, with ``verdict`` (``unsure`` is wrong) and ``status`` (the
    label). `always_pass`: the accuracy of calling everything ``pass``. Diamonds: medians of the thesis.
    Returns None without verdicts. Models are sorted by median accuracy, the best at the top: on stratified
    folds if there are any (models without them are left out); ties by name.
    """
    if verdicts.empty:
        return None
    right = verdicts.assign(accuracy=verdicts["verdict"] == verdicts["status"])
    accuracy = right.groupby(["split", "entry", "repeat", "fold"])["accuracy"].mean().reset_index()
    medians = accuracy.groupby(["split", "entry"])["accuracy"].median().reset_index()
    split = "stratified" if (medians["split"] == "stratified").any() else "grouped"
    ranked = medians[medians["split"] == split].sort_values(["accuracy", "entry"], ascending=[False, True])
    order = [str(entry) for entry in ranked["entry"]]
    marks: list[Mark] = []
    styles = {"stratified": (-0.19, 0, "stratified folds"), "grouped": (0.19, 1, "folds of whole operations")}
    for name, (shift, fill, label) in styles.items():
        part = accuracy[accuracy["split"] == name]
        if not part.empty:
            boxes = part.groupby("entry")["accuracy"].apply(box_percentiles).reindex(order)
            marks.append(Boxes(list(boxes), label, shift=shift, width=0.3, fill=fill))
    published = {place: PUBLISHED[entry] for place, entry in enumerate(order) if entry in PUBLISHED}
    values, positions, label = list(published.values()), list(published), "published (another data set)"
    marks.append(Dots(values, positions, label, PAPER, FAIL, marker="D", size=34, thickness=1.6))
    marks.append(ValueLine(ALWAYS, x=always_pass))
    note = (
        "Boxes: quartiles over folds; whiskers: smallest and largest fold. Diamonds: the medians that "
        "the scheduler thesis, section 6.7, published for its own 250 comparisons, another data set than "
        "this one."
    )
    title = _model_title(accuracy, medians, split)
    words = Words("figure-6-9", title, "Box plots of accuracy over folds, one pair per model", note)
    panel = Panel(marks, Axis("accuracy (% of the verdicts of a fold)", percent=True), Axis("model", order))
    return draw_chart(words, [panel], (8.4, 1.3 + 0.55 * len(order)))


def _model_title(accuracy: pd.DataFrame, medians: pd.DataFrame, split: str) -> str:
    folds = accuracy[accuracy["split"] == split]
    scores = folds.pivot_table(index=["repeat", "fold"], columns="entry", values="accuracy")
    leaders = Leaders.from_scores(scores)
    if leaders.alike:
        shown = medians[(medians["split"] == split) & medians["entry"].isin(leaders.all_names)]["accuracy"]
        span = _range_text(percent(shown.min()), percent(shown.max()))
        names = join_names(leaders.all_names)
        return f"{names} do not differ significantly on {split} folds: median accuracy {span}"
    best = leaders.best
    by_split = medians[medians["entry"] == best].set_index("split")["accuracy"]
    title = f"{best} has the highest median accuracy on {split} folds: {percent(by_split.loc[split])}"
    if split == "stratified" and "grouped" in by_split.index:
        title += f", {percent(by_split.loc['grouped'])} on held-out operations"
    return title
