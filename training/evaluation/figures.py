"""Figures and tables of out-of-fold predictions, for MLflow and DVC."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.paths import FamilyPaths
from data.tables.files import replacing, write_json
from training.evaluation.metrics import confusion_counts, fail_flags, half_width, precision_by_recall

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.table import Table

#: Recalls where precision is reported.
RECALLS = np.linspace(0.01, 1, 100)
#: Number of bins of probabilities, of equal width.
RANGES = 10
#: Nominal coverages of intervals.
CONFIDENCES = np.linspace(0.05, 0.95, 19)
#: Largest number of predictions that are drawn.
MOST_POINTS = 1000


def precision_recall(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return the precision, a mean over folds, at 100 values of recall: ``recall, precision``.

    Recalls are 0.01, 0.02, ... 1; the positive class is ``fail``; folds without fails are ignored. `verdicts`
    are rows of oof.parquet of one entry in one split; ValueError if none has the label fail, or a probability
    is missing.
    """
    recall, precision = precision_by_recall(verdicts)
    # the last step is at 1; rounding must not exceed it
    reached = np.minimum(np.searchsorted(recall, RECALLS), len(recall) - 1)
    return pd.DataFrame({"recall": RECALLS, "precision": precision[reached]})


def reliability_bins(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return mean ``probability``, ``share_of_fails`` and number of ``cases`` by bin of probability.

    The 10 bins have equal width and ascend (1 is in the last); empty ones are left out. `verdicts` has
    ``probability`` (ValueError if one is NaN) and ``status``, the label.
    """
    number = np.minimum((verdicts["probability"] * RANGES).astype("int64"), RANGES - 1)
    ranges = verdicts.assign(failed=verdicts["status"] == "fail").groupby(number)
    means = {"probability": ("probability", "mean"), "share_of_fails": ("failed", "mean")}
    return ranges.agg(**means, cases=("failed", "size")).reset_index(drop=True)


def confusion_rows(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return the confusion matrix, 4 rows: ``label, verdict, cases``, and ``share`` of the label's cases.

    Rows are ordered by verdict, then label, pass before fail. `verdicts` has ``status`` (the label) and
    ``verdict``; any verdict except fail counts as pass. The share is NaN for a label without cases.
    """
    matrix = pd.DataFrame(confusion_counts(*fail_flags(verdicts)), ["pass", "fail"], ["pass", "fail"])
    rows = matrix.rename_axis("label").melt(var_name="verdict", value_name="cases", ignore_index=False)
    share = rows["cases"] / rows.groupby(level=0)["cases"].transform("sum")
    return rows.assign(share=share).reset_index()


def predicted_points(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return ``measured, predicted``, ascending by the first; of more than 1000 cases, 1000 evenly spaced."""
    chosen = np.linspace(0, len(predictions) - 1, min(len(predictions), MOST_POINTS)).astype("int64")
    return predictions[["measured", "predicted"]].sort_values("measured", kind="stable").iloc[chosen]


def interval_coverage(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the empirical coverage of intervals: ``wanted``, ``covered`` and the number of ``cases``.

    One row per nominal coverage (``wanted``), 0.05 to 0.95 in steps of 0.05; ``covered`` is the share of the
    measured values in their intervals, ``cases`` the number of all predictions. `predictions` has ``unit,
    fold, measured, predicted``, the last two above 0, at least one row. The width of a fold's intervals,
    symmetric on a log scale, comes from the errors of the unit's other folds (of a single fold: its own).
    """
    inside = list[NDArray[np.bool_]]()
    for _, rows in predictions.groupby("unit"):
        misses, folds = np.log(rows["measured"] / rows["predicted"]).abs(), rows["fold"]
        for fold in folds.unique():
            test, others = misses[folds == fold].to_numpy(), misses[folds != fold].to_numpy()
            widths = [half_width(others if len(others) else test, confidence) for confidence in CONFIDENCES]
            inside.append(test[:, None] <= widths)
    covered = np.concatenate(inside)
    return pd.DataFrame({"wanted": CONFIDENCES, "covered": covered.mean(axis=0), "cases": len(covered)})


#: Scores of verdicts, and of predicted numbers, in summary.json.
JUDGED = ("balanced_accuracy", "false_negative_rate", "false_positive_rate")
PREDICTED = ("within_tolerance", "mape")
#: Decimals of the scores.
DIGITS = 4
#: Number of models in plots, apart from the champion.
BESIDE = 2


@dataclass(frozen=True)
class DvcFigures:
    """The input of ``dvc metrics show`` and ``dvc plots show``."""

    #: ``champion`` and some of its scores over all held-out cases: flat, as each becomes a column.
    summary: dict[str, str | float]
    plots: dict[str, pd.DataFrame]  # tables by name, each with a column ``entry`` first

    def write(self, paths: FamilyPaths) -> None:
        """Write summary.json to its path, and each plot as a CSV file to the directory ``evaluated``."""
        for name, table in self.plots.items():
            with replacing(paths.evaluated / f"{name}.csv") as path:
                table.to_csv(path, index=False, float_format="%.6g", lineterminator="\n")
        write_json(paths.summary, self.summary)


def dvc_verdict_figures(metrics: Mapping[str, Any], split: str, verdicts: pd.DataFrame) -> DvcFigures:
    """Return the figures of a family whose models give verdicts, for DVC: ``summary`` and ``plots``.

    The summary has ``champion`` (its name), and its pooled ``balanced_accuracy, false_negative_rate,
    false_positive_rate``, as shares; scores that are None are left out. The plots ``precision_recall``,
    ``reliability`` and ``confusion`` are the tables of `precision_recall`, `reliability_bins` and
    `confusion_rows`, with the first column ``entry``, for the champion and up to two other models, those with
    the highest pooled balanced accuracy. `metrics` is the content of metrics.json, `split` the split that the
    champion was chosen by, `verdicts` rows of oof.parquet; those of other splits are ignored.
    """
    tables = {
        "precision_recall": precision_recall,
        "reliability": reliability_bins,
        "confusion": confusion_rows,
    }
    rows = verdicts[verdicts["split"] == split]
    return _dvc_figures(
        metrics, split, JUDGED, tables, rows, lambda entry: -entry["balanced_accuracy"]["pooled"]
    )


def dvc_prediction_figures(
    metrics: Mapping[str, Any], split: str, by: str, predictions: pd.DataFrame
) -> DvcFigures:
    """Return the figures of a family whose models predict numbers, for DVC, as `dvc_verdict_figures` does.

    The scores are the pooled ``within_tolerance`` and ``mape``, as shares. The plots ``predicted`` and
    ``coverage`` are the tables of `predicted_points` and `interval_coverage`; the other models are those with
    the smallest pooled score `by`, such as "mape". `predictions` has ``entry, unit, fold, measured,
    predicted`` of `split` only; an interval's width comes from errors of the same ``unit``.
    """
    tables = {"predicted": predicted_points, "coverage": interval_coverage}
    return _dvc_figures(metrics, split, PREDICTED, tables, predictions, lambda entry: entry[by]["pooled"])


def leading_entries(
    metrics: Mapping[str, Any], split: str, rank: Callable[[Mapping[str, Any]], float]
) -> list[str]:
    """Return the champion of metrics.json, then up to 2 other entries of the champion's kind.

    They are those with the smallest `rank`, in ascending order, then by name. `rank` gets an entry of
    `metrics`: ``metrics["splits"][split]["entries"][name]``. KeyError if the split lacks the champion.
    """
    entries, champion = metrics["splits"][split]["entries"], metrics["champion"]
    alike = {name for name, entry in entries.items() if entry["kind"] == entries[champion]["kind"]}
    others = sorted(alike - {champion}, key=lambda name: (rank(entries[name]), name))
    return [champion, *others[:BESIDE]]


def _dvc_figures(  # noqa: PLR0917 - two callers in this module
    metrics: Mapping[str, Any],
    split: str,
    scores: Sequence[str],
    tables: Mapping[str, Callable[[pd.DataFrame], pd.DataFrame]],
    rows: pd.DataFrame,
    rank: Callable[[Mapping[str, Any]], float],
) -> DvcFigures:
    """Return the champion's known scores, and plots of the entries that `leading_entries` returns."""
    entries, champion = metrics["splits"][split]["entries"], metrics["champion"]
    pooled = {score: entries[champion][score]["pooled"] for score in scores}
    summary = {name: round(value, DIGITS) for name, value in pooled.items() if value is not None}
    parts = {entry: rows[rows["entry"] == entry] for entry in leading_entries(metrics, split, rank)}

    def join_entries(table: Callable[[pd.DataFrame], pd.DataFrame]) -> pd.DataFrame:
        by_entry = pd.concat({entry: table(part) for entry, part in parts.items()}, names=["entry"])
        return by_entry.reset_index("entry").reset_index(drop=True)

    plots = {name: join_entries(table) for name, table in tables.items()}
    return DvcFigures({"champion": champion, **summary}, plots)


def print_scores(metrics: dict[str, Any], split: str, cases: str) -> None:
    """Print the table of one split of metrics.json to stdout; see `scores_table`."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 130).print(scores_table(metrics, split, cases))


def scores_table(metrics: dict[str, Any], split: str, cases: str) -> Table:
    """Return a `rich` table of one split from the content of metrics.json, the best balanced accuracy first.

    A row has the entry's name and kind, pooled balanced accuracy with the standard deviation over folds,
    pooled error rates, and mean average precision (empty if None); the champion is bold. `cases` is the noun
    for rows, and the key of their number in ``metrics["data"]``. KeyError if the split is missing.
    """
    from rich.table import Table

    content, data = metrics["splits"][split], metrics["data"]
    table = Table(
        title=f'"{Path(data["path"]).name}": {data[cases]} {cases}, {data["fails"]} labelled fail; '
        f"{content['scheme']}, seed {metrics['seed']}",
        title_justify="left",
        caption="Scores pool the verdicts of all folds, but average precision is a mean over folds; "
        "± is the standard deviation over folds.",
        caption_justify="left",
    )
    for name in ("method", "kind"):
        table.add_column(name, no_wrap=True)
    for name in ("balanced accuracy", "missed", "false alarms", "average precision"):
        table.add_column(name, justify="right", no_wrap=True)
    entries = content["entries"]
    for name in sorted(entries, key=lambda name: (-entries[name]["balanced_accuracy"]["pooled"], name)):
        entry = entries[name]
        accuracy, ranking = entry["balanced_accuracy"], entry["average_precision"]["mean"]
        table.add_row(
            name,
            entry["kind"],
            f"{accuracy['pooled']:.3f} ± {accuracy['std']:.3f}",
            f"{entry['false_negative_rate']['pooled']:.1%}",
            f"{entry['false_positive_rate']['pooled']:.1%}",
            "" if ranking is None else f"{ranking:.3f}",
            style="bold" if name == metrics["champion"] else "",
        )
    return table


_TENTHS = 10
#: A wider range of measured values is drawn on logarithmic axes.
_DECADE = 10


def verdict_figures(verdicts: pd.DataFrame, title: str) -> dict[str, Figure]:
    """Return figures by file name: ``confusion.png``, ``precision-recall.png`` and ``reliability.png``.

    `title` is written above each figure. Each point of the reliability figure is one of ten about equally
    large parts of the verdicts, sorted by probability. `verdicts` are the rows of one entry (a model) in one
    split of oof.parquet; ValueError if none has the label fail, or a probability is missing.
    """
    return {
        "confusion.png": _draw_confusion(verdicts, title),
        "precision-recall.png": _draw_precision_recall(verdicts, title),
        "reliability.png": _draw_reliability(verdicts, title),
    }


def _draw_confusion(verdicts: pd.DataFrame, title: str) -> Figure:
    figure, axes = _empty_figure(title, "model's verdict", "annotators' label")
    counts = confusion_counts(*fail_flags(verdicts))
    axes.imshow(counts, cmap="Greys", vmax=2 * counts.max())
    for (row, column), count in np.ndenumerate(counts):
        axes.text(column, row, str(count), ha="center", va="center", fontsize=16)
    axes.set_xticks([0, 1], ["pass", "fail"])
    axes.set_yticks([0, 1], ["pass", "fail"])
    return figure


def _draw_precision_recall(verdicts: pd.DataFrame, title: str) -> Figure:
    figure, axes = _empty_figure(title, "recall (share of fails caught)", "precision (mean of the folds)")
    failed, judged = fail_flags(verdicts)
    axes.step(*precision_by_recall(verdicts), where="pre", color="black")
    (_, alarms), (_, caught) = confusion_counts(failed, judged)
    axes.plot(caught / failed.sum(), caught / max(caught + alarms, 1), "o", color="black", markersize=9)
    axes.set_ylim(0, 1.05)
    return figure


def _draw_reliability(verdicts: pd.DataFrame, title: str) -> Figure:
    from sklearn.calibration import calibration_curve

    figure, axes = _empty_figure(title, "predicted probability of fail", "share that failed")
    failed, _ = fail_flags(verdicts)
    share, mean = calibration_curve(failed, verdicts["probability"], n_bins=_TENTHS, strategy="quantile")
    axes.plot([0, 1], [0, 1], "--", color="grey", label="perfect calibration")
    axes.plot(mean, share, "o-", color="black", label=f"tenths of {len(failed):,} verdicts")
    axes.legend(loc="upper left")
    return figure


def predicted_measured(rows: pd.DataFrame, tolerance: float, title: str, unit: str) -> dict[str, Figure]:
    """Return a figure of predicted over measured values, by its file name, ``predicted-measured.png``.

    It shows the tolerance band, on logarithmic axes if measured values differ by more than a factor of 10.
    `rows` has ``measured, predicted``, both positive; `tolerance` is a share of the measured value; `unit` is
    text for the axes.
    """
    figure, axes = _empty_figure(title, f"measured {unit}", f"predicted {unit}")
    ends = np.array([rows["measured"].min(), rows["measured"].max()])
    axes.plot(rows["measured"], rows["predicted"], ".", color="black", alpha=0.4)
    axes.plot(ends, ends, color="grey")
    label = f"within {tolerance:.0%}"
    axes.fill_between(ends, ends * (1 - tolerance), ends * (1 + tolerance), color="silver", label=label)
    axes.legend(loc="upper left")
    if ends[1] > _DECADE * ends[0]:
        axes.set(xscale="log", yscale="log")
    return {"predicted-measured.png": figure}


def _empty_figure(title: str, x: str, y: str) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4.5))
    # an automatic layout draws twice, which takes twice as long
    figure.subplots_adjust(left=0.15, right=0.97, top=0.9, bottom=0.13)
    axes = figure.subplots()
    axes.set(title=title, xlabel=x, ylabel=y)
    return figure, axes
