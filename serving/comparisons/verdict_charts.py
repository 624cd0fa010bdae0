"""Right and wrong verdicts on held-out folds: the confusion matrix and precision by recall."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from serving.pages.charts import (
    GRID,
    INK,
    LINES,
    MARKERS,
    MUTED,
    PAPER,
    PASS,
    SERIES,
    Chart,
    counted,
    inline,
    percent,
    percent_axis,
    sketch,
)
from serving.pages.evaluated import Confusion
from training.evaluation.metrics import Floats, precision_by_recall

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def confusion_chart(name: str, champion: str, confusion: Confusion) -> Chart:
    """Draw the confusion matrix of `champion` at the thresholds chosen inside the training parts."""
    title = (
        f"{champion} misses {confusion.missed:,} of {counted(confusion.fails, 'regression')} "
        f"and raises {counted(confusion.false_alarms, 'false alarm')} "
        f"in {counted(confusion.passes, 'pass', 'passes')}"
    )
    alt = (
        f"Confusion matrix. Labelled fail: {confusion.caught} called fail, {confusion.missed} called pass. "
        f"Labelled pass: {confusion.false_alarms} called fail, {confusion.cleared} called pass."
    )
    rows = (
        ((confusion.caught, "caught"), (confusion.missed, "missed")),
        ((confusion.false_alarms, "false alarms"), (confusion.cleared, "cleared")),
    )
    with sketch(5.6, 3.1) as figure:
        axes = figure.subplots()
        for down, (row, total) in enumerate(zip(rows, (confusion.fails, confusion.passes), strict=True)):
            for across, (number, word) in enumerate(row):
                _cell(axes, (across, down), number, total, word)
        axes.set(
            xlim=(-0.5, 1.5), ylim=(1.5, -0.5), xlabel="verdict (comparisons)", ylabel="label (comparisons)"
        )
        axes.set_xticks([0, 1], ["fail", "pass"])
        axes.set_yticks([0, 1], ["fail", "pass"])
        axes.grid(visible=False)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        return Chart(name, title, alt, inline(figure, name, alt))


def _cell(axes: Axes, place: tuple[int, int], number: int, total: int, word: str) -> None:
    from matplotlib.patches import Rectangle

    across, down = place
    right = across == down
    share = number / total if total else 0.0
    axes.add_patch(
        Rectangle(
            (across - 0.48, down - 0.47), 0.96, 0.94,
            facecolor=PASS if right else PAPER, edgecolor=GRID if right else INK,
            alpha=0.25 + 0.5 * share if right else 1.0, linewidth=0.8 if right else 1.2,
        )
    )  # fmt: skip
    axes.text(across, down - 0.08, f"{number:,}", ha="center", va="center", fontsize=17)
    axes.text(
        across, down + 0.24, f"{word}, {percent(share)} of the row", ha="center", va="center", fontsize=8.5
    )


def precision_recall_chart(name: str, models: pd.DataFrame, rules: pd.DataFrame) -> Chart | None:
    """Draw precision by recall: a curve a model over all its thresholds, a point a rule.

    Parameters
    ----------
    name : str
        The chart's anchor.
    models, rules : DataFrame
        Held-out verdicts with the columns of `serving.pages.evaluated.OOF_DTYPES`.
    """
    if models.empty or not (models["status"] == "fail").any():
        return None
    curves = {str(entry): precision_by_recall(part) for entry, part in models.groupby("entry")}
    areas = {
        entry: float(np.diff(recall, prepend=0) @ precision) for entry, (recall, precision) in curves.items()
    }
    order = sorted(areas, key=lambda entry: (-areas[entry], entry))
    points = {str(entry): Confusion.of(part) for entry, part in rules.groupby("entry")}
    title = _curve_finding(order[0], areas[order[0]], curves[order[0]], points)
    alt = f"Precision by recall on held-out folds, {len(order)} models and {len(points)} rules. {title}."
    note = (
        "Curves are means over the folds, whose probabilities have scales of their own: of the precision at "
        "every recall, and so of the average precision, the area below. A dot, like a mark of a rule, counts "
        "all folds' verdicts: it is where a model stands at its chosen thresholds."
    )
    with sketch(8.4, 5.0) as figure:
        axes = figure.subplots()
        for number, entry in enumerate(order):
            verdicts = models[models["entry"] == entry]
            _curve(axes, curves[entry], Confusion.of(verdicts), f"{entry} ({areas[entry]:.3f})", number)
        for number, (entry, point) in enumerate(points.items()):
            axes.plot(
                point.recall, point.precision, linestyle="",
                marker=MARKERS[number % len(MARKERS)], markersize=9,
                markerfacecolor=PAPER, markeredgecolor=INK, markeredgewidth=1.4, label=entry,
            )  # fmt: skip
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.04))
        axes.set_xlabel("recall (% of regressions caught)")
        axes.set_ylabel("precision (% of alarms that are right)")
        percent_axis(axes, "x")
        percent_axis(axes, "y")
        figure.legend(
            loc="outside right upper", title="models (mean average precision), then rules", fontsize=8.5
        )
        return Chart(name, title, alt, inline(figure, name, alt), note)


def _curve(axes: Axes, curve: tuple[Floats, Floats], point: Confusion, label: str, number: int) -> None:
    colour, dash = SERIES[number % len(SERIES)], LINES[number % len(LINES)]
    axes.plot(
        *curve,
        drawstyle="steps-pre",
        color=colour,
        linestyle=dash,
        linewidth=2.2 if number == 0 else 1.4,
        label=label,
        zorder=10 - number,
    )
    axes.plot(
        point.recall,
        point.precision,
        marker="o",
        markersize=6,
        color=colour,
        markeredgecolor=MUTED,
        zorder=11,
    )


def _curve_finding(best: str, area: float, curve: tuple[Floats, Floats], points: dict[str, Confusion]) -> str:
    """Compare the best curve with the rule that catches most at the precision nearest to it."""
    title = f"{best} has the best curve (average precision {area:.3f} in the mean over folds)"
    useful = {entry: point for entry, point in points.items() if point.recall > 0 and point.precision > 0}
    if not useful:
        return title
    recall, precision = curve
    rule, point = max(useful.items(), key=lambda item: 2 / (1 / item[1].precision + 1 / item[1].recall))
    there = float(precision[recall >= point.recall].max())
    return (
        f"{title}: where the best rule, {rule}, catches {percent(point.recall)}, "
        f"{percent(there)} of its alarms are right instead of {percent(point.precision)}"
    )
