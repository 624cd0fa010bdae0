"""Read the results of an evaluation for a report: ``metrics.json`` and the verdicts."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import pandas as pd
from pydantic import BaseModel

from serving.reports.charts import percent, with_noun


def dtypes_of(**columns: str) -> dict[str, str]:
    """Return the type of each column: ``dtypes_of(str="a b")`` is ``{"a": "str", "b": "str"}``."""
    return {name: dtype for dtype, names in columns.items() for name in names.split()}


#: Accuracy on public data, written by a benchmark; a project of a user has no such file.
OTHER_DATA = Path("docs/results/transfer.csv")


def other_data_rows(root: Path, family: str) -> list[dict[str, str]]:
    """Return the rows of `family` in ``docs/results/transfer.csv`` of the project `root`, texts by column.

    Columns: ``family, data, held out, cases, figure, ours, plain entries, reference, goal, reached``. Empty
    without the file.
    """
    if not (path := root / OTHER_DATA).is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["family"] == family]


#: Columns of out-of-fold verdicts, without the name of the case.
VERDICTS = dtypes_of(str="split entry kind verdict status", int64="fold", float64="probability threshold")


class Score(BaseModel):
    """One score of one entry: mean and standard deviation over the folds, and pooled over all folds.

    Average precision has only the mean.
    """

    mean: float | None = None
    std: float | None = None
    pooled: float | None = None


class Entry(BaseModel):
    """One model, rule or reference method; subclasses add its scores."""

    kind: str

    @property
    def sort_key(self) -> float:
        """The sort key of entries, ascending."""
        return 0.0


class Verdicts(BaseModel):
    """Scores of verdicts."""

    balanced_accuracy: Score
    false_negative_rate: Score
    false_positive_rate: Score

    @property
    def pooled_accuracy(self) -> float:
        """Balanced accuracy pooled over all folds; 0 if it is unknown."""
        return self.balanced_accuracy.pooled or 0.0


class Judged(Verdicts, Entry):
    """The scores of an entry with verdicts."""

    precision: Score
    recall: Score
    f1: Score
    average_precision: Score | None = None

    @property
    def sort_key(self) -> float:
        """The negative pooled balanced accuracy, so that the best entry comes first."""
        return -self.pooled_accuracy


E = TypeVar("E", bound=Entry)


class Split(BaseModel, Generic[E]):
    """All entries on the folds of one scheme."""

    scheme: str
    folds: int
    entries: dict[str, E]

    def ranked(self, kind: str | None = None) -> list[tuple[str, E]]:
        """Return names and entries of a kind, or of all kinds if None, the best first, ties by name."""
        chosen = [(name, entry) for name, entry in self.entries.items() if kind in {None, entry.kind}]
        return sorted(chosen, key=lambda item: (item[1].sort_key, item[0]))

    def best_entry(self, kind: str) -> tuple[str, E] | None:
        """Return name and entry of the best of a kind, such as "model" or "rule"; None without entries."""
        return next(iter(self.ranked(kind)), None)


class DataSet(BaseModel):
    """The training data; subclasses add its sizes."""

    format: str
    path: str
    digest: str


class Metrics(BaseModel, Generic[E]):
    """The part of ``metrics.json`` that a page uses."""

    data: DataSet
    seed: int
    champion: str
    splits: dict[str, Split[E]]


def surest_mistakes(verdicts: pd.DataFrame, name: str, max_cases: int) -> pd.DataFrame:
    """Return at most `max_cases` wrong verdicts (other than the label) in descending order of confidence.

    `verdicts`: one model's out-of-fold verdicts: ``verdict, status`` (the label), ``probability, threshold``.
    Confidence (additional column ``sure``) is the distance of the probability from its threshold, as a share
    of the largest possible distance on the same side of it. The column `name` names the judged case: its
    first wrong row counts, and ties are in ascending order of it.
    """
    wrong = verdicts[verdicts["verdict"] != verdicts["status"]].drop_duplicates(name)
    probability, threshold = wrong["probability"], wrong["threshold"]
    room = np.maximum(np.where(probability >= threshold, 1 - threshold, threshold), 1e-9)
    ranked = wrong.assign(sure=np.abs(probability - threshold) / room)
    return ranked.sort_values(["sure", name], ascending=[False, True]).head(max_cases)


def largest_errors(predictions: pd.DataFrame, errors: pd.Series, max_cases: int) -> pd.DataFrame:
    """Return the rows of `predictions` with the `max_cases` largest `errors`, the largest first.

    `errors` has the index of `predictions`. Rows with NaN are left out, ties are in the order of the rows.
    """
    ranked = errors.dropna().sort_values(ascending=False, kind="stable")
    return predictions.loc[ranked.index[:max_cases]]


@dataclass(frozen=True)
class Confusion:
    """Counts of right and wrong verdicts; ``fail`` is the positive class."""

    caught: int
    false_negatives: int
    false_positives: int
    cleared: int

    @classmethod
    def from_verdicts(cls, verdicts: pd.DataFrame) -> Confusion:
        """Return the counts of ``status`` (the label) and ``verdict``; others than ``fail`` count as pass."""
        failed, called = verdicts["status"] == "fail", verdicts["verdict"] == "fail"
        counts = (failed & called, failed & ~called, ~failed & called, ~failed & ~called)
        return cls(*(int(count.sum()) for count in counts))

    @property
    def n_fails(self) -> int:
        """Number of cases labelled ``fail``."""
        return self.caught + self.false_negatives

    @property
    def n_passes(self) -> int:
        """Number of cases labelled ``pass``."""
        return self.false_positives + self.cleared

    @property
    def precision(self) -> float:
        """The share of ``fail`` verdicts that are right; NaN without such verdicts."""
        called = self.caught + self.false_positives
        return self.caught / called if called else float("nan")

    @property
    def recall(self) -> float:
        """The share of labelled fails with the verdict ``fail``; NaN without fails."""
        return self.caught / self.n_fails if self.n_fails else float("nan")

    def error_sentence(self, champion: str, fail: str, passes: str) -> str:
        """Return a sentence with the errors of `champion` as counts and percentages.

        `fail`: noun for a case labelled ``fail``. `passes`: the number and noun of cases labelled ``pass``.
        """
        misses = percent(self.false_negatives / self.n_fails) if self.n_fails else "none to miss"
        alarms = percent(self.false_positives / self.n_passes) if self.n_passes else "none to raise"
        return (
            f"“{champion}” misses {self.false_negatives:,} of {with_noun(self.n_fails, fail)} ({misses}) "
            f"and raises {with_noun(self.false_positives, 'false alarm')} in {passes} ({alarms})."
        )
