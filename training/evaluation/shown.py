"""What DVC shows of an evaluation: a few figures of the champion, and plots of it and of those next to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from data.places import Places
from data.tables.files import replacing, write_json
from training.evaluation.plots import counts, coverage, precision_recall, predicted, reliability

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

Table = Callable[[pd.DataFrame], pd.DataFrame]


@dataclass(frozen=True)
class Exhibit:
    """What ``dvc metrics show`` and ``dvc plots show`` read.

    Attributes
    ----------
    summary : dict
        ``champion`` and some of its scores over all held-out cases: flat, as each becomes a column.
    plots : dict
        Tables by name, each with a column ``entry`` first.
    """

    summary: dict[str, str | float]
    plots: dict[str, pd.DataFrame]

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


def _tables(tables: Mapping[str, Table], rows: pd.DataFrame, order: list[str]) -> dict[str, pd.DataFrame]:
    parts = {entry: rows[rows["entry"] == entry] for entry in order}
    return {
        name: pd.concat({entry: table(part) for entry, part in parts.items()}, names=["entry"])
        .reset_index("entry")
        .reset_index(drop=True)
        for name, table in tables.items()
    }
