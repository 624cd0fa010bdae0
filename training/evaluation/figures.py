"""Pictures of what a model said of unseen cases, for the page of its run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.paths import Places
from data.tables.files import replacing, write_json
from training.evaluation.metrics import Floats, confusion, half_width, precision_by_recall

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

#: Where precision is told.
RECALLS = np.linspace(0.01, 1, 100)
#: Probabilities are told in that many ranges of the same width.
RANGES = 10
#: Shares of the cases that intervals are asked to hold.
CONFIDENCES = np.linspace(0.05, 0.95, 19)
#: Of more predictions, only so many are drawn.
MOST_POINTS = 1000


def precision_recall(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return ``recall`` and ``precision`` (`training.evaluation.metrics.precision_by_recall`)."""
    recall, precision = precision_by_recall(verdicts)
    # the last step is at 1, which no rounding may pass
    reached = np.minimum(np.searchsorted(recall, RECALLS), len(recall) - 1)
    return pd.DataFrame({"recall": RECALLS, "precision": precision[reached]})


def reliability(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return mean ``probability``, ``share_of_fails`` and ``cases`` of each range that has any."""
    number = np.minimum((verdicts["probability"] * RANGES).astype("int64"), RANGES - 1)
    ranges = verdicts.assign(failed=verdicts["status"] == "fail").groupby(number)
    told = {"probability": ("probability", "mean"), "share_of_fails": ("failed", "mean")}
    return ranges.agg(**told, cases=("failed", "size")).reset_index(drop=True)


def counts(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return the confusion matrix: ``label``, ``verdict``, ``cases``, and their ``share`` of the label's."""
    failed, judged = ((verdicts[name] == "fail").to_numpy(bool) for name in ("status", "verdict"))
    found = pd.DataFrame(confusion(failed, judged), ["pass", "fail"], ["pass", "fail"])
    rows = found.rename_axis("label").melt(var_name="verdict", value_name="cases", ignore_index=False)
    share = rows["cases"] / rows.groupby(level=0)["cases"].transform("sum")
    return rows.assign(share=share).reset_index()


def predicted(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return ``measured`` and ``predicted`` of all cases, or of `MOST_POINTS` evenly among them."""
    chosen = np.linspace(0, len(predictions) - 1, min(len(predictions), MOST_POINTS)).astype("int64")
    return predictions[["measured", "predicted"]].sort_values("measured", kind="stable").iloc[chosen]


def coverage(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the empirical coverage of intervals: ``wanted``, ``covered`` and the number of ``cases``."""
    misses = np.log(predictions["measured"] / predictions["predicted"]).abs()
    inside = [part for _, own in misses.groupby(predictions["unit"]) for part in _held(own, predictions)]
    held = np.concatenate(inside)
    return pd.DataFrame({"wanted": CONFIDENCES, "covered": held.mean(axis=0), "cases": len(held)})


def _held(misses: pd.Series, predictions: pd.DataFrame) -> Iterator[Floats]:
    """Yield, a fold at a time, whether each interval holds each case: 1 or 0, of shape (n, n_confidences)."""
    folds = predictions.loc[misses.index, "fold"]
    for fold in folds.unique():
        own, others = misses[folds == fold].to_numpy(), misses[folds != fold].to_numpy()
        widths = [half_width(others if len(others) else own, confidence) for confidence in CONFIDENCES]
        yield (own[:, None] <= widths).astype(np.float64)


#: The scores that are told of verdicts, by the name they are told under.
JUDGED = {
    "balanced_accuracy": "balanced_accuracy",
    "missed": "false_negative_rate",
    "false_alarms": "false_positive_rate",
}
#: The same of predictions.
PREDICTED = {"within": "within_tolerance", "mape": "mape"}
#: Digits after the point.
DIGITS = 4
#: Models beside the champion in plots.
BESIDE = 2

PlotTable = Callable[[pd.DataFrame], pd.DataFrame]


@dataclass(frozen=True)
class Exhibit:
    """What ``dvc metrics show`` and ``dvc plots show`` read."""

    #: ``champion`` and some of its scores over all held-out cases: flat, as each becomes a column.
    summary: dict[str, str | float]
    plots: dict[str, pd.DataFrame]  # tables by name, each with a column ``entry`` first

    def write(self, places: Places) -> None:
        """Write summary.json, and a CSV file a plot."""
        for name, table in self.plots.items():
            with replacing(places.evaluated / f"{name}.csv") as path:
                table.to_csv(path, index=False, float_format="%.6g", lineterminator="\n")
        write_json(places.summary, self.summary)


def of_verdicts(metrics: Mapping[str, Any], split: str, verdicts: pd.DataFrame) -> Exhibit:
    """Show judges.

    Parameters
    ----------
    metrics : mapping
        The content of metrics.json.
    split : str
        In which the champion was chosen.
    verdicts : DataFrame
        Rows of oof.parquet.
    """
    order = leading(metrics, split, lambda entry: -entry["balanced_accuracy"]["pooled"])
    tables = {"precision_recall": precision_recall, "reliability": reliability, "confusion": counts}
    rows = verdicts[verdicts["split"] == split]
    return Exhibit(summary(metrics, split, JUDGED), _tables(tables, rows, order))


def of_predictions(metrics: Mapping[str, Any], split: str, by: str, predictions: pd.DataFrame) -> Exhibit:
    """Show predictors.

    Parameters
    ----------
    metrics : mapping
        The content of metrics.json.
    split : str
        In which the champion was chosen.
    by : str
        The error by which it was.
    predictions : DataFrame
        ``entry, unit, fold, measured, predicted`` of that split; cases of one unit can be compared.
    """
    order = leading(metrics, split, lambda entry: entry[by]["pooled"])
    tables = {"predicted": predicted, "coverage": coverage}
    return Exhibit(summary(metrics, split, PREDICTED), _tables(tables, predictions, order))


def summary(metrics: Mapping[str, Any], split: str, told: Mapping[str, str]) -> dict[str, str | float]:
    """Return the champion of metrics.json and its pooled scores that are known, under the names `told`."""
    scores = metrics["splits"][split]["entries"][metrics["champion"]]
    pooled = {name: scores[score]["pooled"] for name, score in told.items()}
    known = {name: round(value, DIGITS) for name, value in pooled.items() if value is not None}
    return {"champion": metrics["champion"], **known}


def leading(metrics: Mapping[str, Any], split: str, rank: Callable[[Mapping[str, Any]], float]) -> list[str]:
    """Return the champion of metrics.json and the best others of its kind, the lowest `rank` first."""
    entries, champion = metrics["splits"][split]["entries"], metrics["champion"]
    alike = [name for name, entry in entries.items() if entry["kind"] == entries[champion]["kind"]]
    others = sorted(set(alike) - {champion}, key=lambda name: (rank(entries[name]), name))
    return [champion, *others[:BESIDE]]


def _tables(tables: Mapping[str, PlotTable], rows: pd.DataFrame, order: list[str]) -> dict[str, pd.DataFrame]:
    parts = {entry: rows[rows["entry"] == entry] for entry in order}
    return {
        name: pd.concat({entry: table(part) for entry, part in parts.items()}, names=["entry"])
        .reset_index("entry")
        .reset_index(drop=True)
        for name, table in tables.items()
    }


def show(metrics: dict[str, Any], outcome: str, split: str = "grouped", cases: str = "comparisons") -> None:
    """Print the table, and who is champion."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 110)
    console.print(opponents(metrics, split, cases))
    console.print(outcome, highlight=False, markup=False)


def opponents(metrics: dict[str, Any], split: str = "grouped", cases: str = "comparisons") -> Table:
    """Make the table of one split from the content of metrics.json; best first."""
    from rich.table import Table

    content, data = metrics["splits"][split], metrics["data"]
    table = Table(
        title=f"{Path(data['path']).name}: {data[cases]} {cases}, {data['fails']} fails; "
        f"{content['scheme']}, seed {metrics['seed']}",
        title_justify="left",
        caption="Average precision is the mean over folds; the other figures count all folds' verdicts.",
        caption_justify="left",
    )
    for name in ("judge", "kind"):
        table.add_column(name, no_wrap=True)
    for name in ("balanced accuracy", "missed fails", "false alarms", "average precision"):
        table.add_column(name, justify="right", no_wrap=True)
    entries = content["entries"]
    for name in sorted(entries, key=lambda name: (-entries[name]["balanced_accuracy"]["pooled"], name)):
        style = "bold" if name == metrics["champion"] else ""
        table.add_row(name, *_cells(entries[name]), style=style)
    return table


def _cells(entry: dict[str, Any]) -> tuple[str, ...]:
    accuracy, ranking = entry["balanced_accuracy"], entry["average_precision"]["mean"]
    return (
        entry["kind"],
        f"{accuracy['pooled']:.3f} ± {accuracy['std']:.3f}",
        f"{entry['false_negative_rate']['pooled']:.1%}",
        f"{entry['false_positive_rate']['pooled']:.1%}",
        "" if ranking is None else f"{ranking:.3f}",
    )


_TENTHS = 10
#: What is measured over a wider range is drawn on logarithms.
_DECADE = 10


def verdict_figures(verdicts: pd.DataFrame, title: str) -> dict[str, Figure]:
    """Draw what rows of oof.parquet of one entry in one split show, by file name."""
    drawn = {
        "confusion": confusion_matrix,
        "precision-recall": draw_precision_recall,
        "reliability": draw_reliability,
    }
    return {f"{name}.png": draw(verdicts, title) for name, draw in drawn.items()}


def confusion_matrix(verdicts: pd.DataFrame, title: str) -> Figure:
    """Draw how many passes and fails were judged how, from rows of oof.parquet."""
    figure = _figure()
    axes = figure.subplots()
    counts = confusion(*_flags(verdicts))
    axes.imshow(counts, cmap="Greys", vmax=2 * counts.max())
    for (row, column), count in zip(((0, 0), (0, 1), (1, 0), (1, 1)), counts.ravel(), strict=True):
        axes.text(column, row, str(count), ha="center", va="center", fontsize=16)
    axes.set_xticks([0, 1], ["pass", "fail"])
    axes.set_yticks([0, 1], ["pass", "fail"])
    axes.set(title=title, xlabel="our verdict", ylabel="the people's verdict")
    return figure


def draw_precision_recall(verdicts: pd.DataFrame, title: str) -> Figure:
    """Draw the folds' mean precision over recall, and the chosen thresholds' point, from oof.parquet."""
    figure = _figure()
    axes = figure.subplots()
    failed, judged = _flags(verdicts)
    axes.step(*precision_by_recall(verdicts), where="pre", color="black")
    (_, alarms), (_, caught) = confusion(failed, judged)
    axes.plot(caught / failed.sum(), caught / max(caught + alarms, 1), "o", color="black", markersize=9)
    axes.set(
        title=title,
        xlabel="recall (share of fails caught)",
        ylabel="precision (mean of the folds)",
        ylim=(0, 1.05),
    )
    return figure


def draw_reliability(verdicts: pd.DataFrame, title: str) -> Figure:
    """Draw which share failed of those that were given a probability, in tenths of the cases."""
    from sklearn.calibration import calibration_curve

    figure = _figure()
    axes = figure.subplots()
    failed, _ = _flags(verdicts)
    share, given = calibration_curve(failed, verdicts["probability"], n_bins=_TENTHS, strategy="quantile")
    axes.plot([0, 1], [0, 1], "--", color="grey", label="as often as was said")
    axes.plot(given, share, "o-", color="black", label=f"tenths of {len(failed):,} verdicts")
    axes.set(title=title, xlabel="probability of fail that was given", ylabel="share that failed")
    axes.legend(loc="upper left")
    return figure


def predicted_measured(rows: pd.DataFrame, tolerance: float, title: str, unit: str) -> dict[str, Figure]:
    """Draw predictions over what was measured, and the band that counts as right, by file name.

    Parameters
    ----------
    rows : DataFrame
        With ``measured`` and ``predicted``, both positive.
    tolerance : float
        Of the measured value.
    """
    figure = _figure()
    axes = figure.subplots()
    ends = np.array([rows["measured"].min(), rows["measured"].max()])
    axes.plot(rows["measured"], rows["predicted"], ".", color="black", alpha=0.4)
    axes.plot(ends, ends, color="grey")
    label = f"within {tolerance:.0%}"
    axes.fill_between(ends, ends * (1 - tolerance), ends * (1 + tolerance), color="silver", label=label)
    axes.set(title=title, xlabel=f"measured {unit}", ylabel=f"predicted {unit}")
    axes.legend(loc="upper left")
    if ends[1] > _DECADE * ends[0]:
        axes.set(xscale="log", yscale="log")
    return {"predicted-measured.png": figure}


def _flags(verdicts: pd.DataFrame) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which comparisons failed, and which were judged to fail."""
    failed, judged = ((verdicts[name] == "fail").to_numpy(bool) for name in ("status", "verdict"))
    return failed, judged


def _figure() -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4.5))
    # a layout that is found by drawing twice takes twice as long
    figure.subplots_adjust(left=0.15, right=0.97, top=0.9, bottom=0.13)
    return figure
