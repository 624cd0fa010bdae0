"""Right and wrong verdicts on held-out folds: the confusion matrix and precision by recall."""

from __future__ import annotations

import numpy as np
import pandas as pd

from serving.pages.apart import Leaders, listed
from serving.pages.charts import INK, MUTED, PAPER, SERIES, Chart, Words, counted, percent
from serving.pages.evaluated import Confusion
from serving.pages.marks import MARKERS, Cells, Dots, HeatCell, Line
from serving.pages.panels import Axis, Mark, Panel, drawn
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

    Parameters
    ----------
    name : str
        The chart's anchor.
    models, rules : DataFrame
        Held-out verdicts with the columns of `serving.comparisons.evaluated.VERDICTS`.
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
