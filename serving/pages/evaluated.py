"""What a classification family's evaluation left behind, read for a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pandas as pd
from pydantic import BaseModel

from data.places import Places
from data.tables.files import read_json
from data.tables.specs import read_table
from serving.pages.charts import percent

OOF_DTYPES = {
    "comparison_id": "str",
    "split": "str",
    "repeat": "int64",
    "fold": "int64",
    "entry": "str",
    "kind": "str",
    "probability": "float64",
    "threshold": "float64",
    "verdict": "str",
    "status": "str",
}
CURVE_DTYPES = {"curve": "str", "parameter": "int64", "fold": "int64", "accuracy": "float64"}


class Score(BaseModel):
    """One metric of one entry: mean and spread over the folds, and of all folds' verdicts at once.

    Average precision has no figure of all folds at once, and is told by its mean.
    """

    mean: float | None = None
    std: float | None = None
    pooled: float | None = None


class Entry(BaseModel):
    """The scores of one model or rule."""

    kind: Literal["model", "rule"]
    balanced_accuracy: Score
    false_negative_rate: Score
    false_positive_rate: Score
    precision: Score
    recall: Score
    f1: Score
    average_precision: Score | None = None


class Split(BaseModel):
    """All entries on the folds of one scheme."""

    scheme: str
    folds: int
    entries: dict[str, Entry]

    def ranked(self) -> list[tuple[str, Entry]]:
        """Return the entries, the best pooled balanced accuracy first."""
        return sorted(
            self.entries.items(), key=lambda item: (-(item[1].balanced_accuracy.pooled or 0.0), item[0])
        )


class DataSet(BaseModel):
    """The data that was judged."""

    format: str
    path: str
    digest: str
    comparisons: int
    fails: int
    operations: int


class Metrics(BaseModel):
    """The content of ``metrics.json``."""

    family: str
    data: DataSet
    seed: int
    features: str
    splits: dict[str, Split]
    champion: str


@dataclass(frozen=True)
class Evaluated:
    """Metrics, the verdicts on held-out folds, and the accuracy curves.

    Attributes
    ----------
    metrics : Metrics
    verdicts : DataFrame
        One row per entry, split, repeat and comparison, with the columns of `OOF_DTYPES`.
    curves : DataFrame
        One row per curve, parameter and fold, with the columns of `CURVE_DTYPES`; empty if there are none.
    """

    metrics: Metrics
    verdicts: pd.DataFrame
    curves: pd.DataFrame

    @classmethod
    def read(cls, places: Places) -> Evaluated:
        """Read ``metrics.json``, ``oof.parquet`` and, where it exists, ``curves.parquet``."""
        curves = places.evaluated / "curves.parquet"
        return cls(
            read_json(places.metrics, Metrics),
            read_table(places.evaluated / "oof.parquet", OOF_DTYPES),
            read_table(curves, CURVE_DTYPES)
            if curves.is_file()
            else pd.DataFrame(columns=list(CURVE_DTYPES)).astype(CURVE_DTYPES),
        )

    def of(self, split: str, kind: str) -> pd.DataFrame:
        """Return the verdicts of all models or all rules on the folds of `split`."""
        verdicts = self.verdicts
        return verdicts[(verdicts["split"] == split) & (verdicts["kind"] == kind)]

    def champion(self, split: str) -> pd.DataFrame:
        """Return the champion's verdicts on the folds of `split`."""
        models = self.of(split, "model")
        return models[models["entry"] == self.metrics.champion]


@dataclass(frozen=True)
class Confusion:
    """How many verdicts are right and wrong; ``fail`` is the positive class."""

    caught: int
    missed: int
    false_alarms: int
    cleared: int

    @classmethod
    def of(cls, verdicts: pd.DataFrame) -> Confusion:
        """Count the verdicts of one entry."""
        failed, called = verdicts["status"] == "fail", verdicts["verdict"] == "fail"
        counts = (failed & called, failed & ~called, ~failed & called, ~failed & ~called)
        return cls(*(int(count.sum()) for count in counts))

    @property
    def fails(self) -> int:
        """How many comparisons people labelled ``fail``."""
        return self.caught + self.missed

    @property
    def passes(self) -> int:
        """How many comparisons people labelled ``pass``."""
        return self.false_alarms + self.cleared

    @property
    def precision(self) -> float:
        """Which share of the ``fail`` verdicts is right; not a number if there are none."""
        called = self.caught + self.false_alarms
        return self.caught / called if called else float("nan")

    @property
    def recall(self) -> float:
        """Which share of the fails is caught; not a number if there are none."""
        return self.caught / self.fails if self.fails else float("nan")

    @property
    def missed_told(self) -> str:
        """Which share of the fails is missed, in words."""
        return percent(self.missed / self.fails) if self.fails else "none to miss"

    @property
    def alarms_told(self) -> str:
        """Which share of the passes raises an alarm, in words."""
        return percent(self.false_alarms / self.passes) if self.passes else "none to raise"
