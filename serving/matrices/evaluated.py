"""Read the results of the stages of the family ``matrices`` for the report."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, nan, sqrt
from pathlib import Path

import pandas as pd
from pydantic import ConfigDict

from data.matrices.validity import MatrixDecisions
from data.paths import FamilyPaths
from data.tables.files import read_json
from data.tables.specs import read_table
from serving.reports import evaluation_files as pages
from serving.reports.evaluation_files import Judged, Split, Verdicts, dtypes_of
from serving.reports.separation import ERRORS
from training.matrices.schemes import ABNORMAL, ABNORMAL_PAIRS, PAIRS, VECTORS

#: The split that chooses the champion: test cases held out whole.
SPLIT = "test-cases"

_COUNTS = dtypes_of(
    float64="folds vectors abnormal balanced_accuracy spread false_positive false_negative"
    " pair_balanced_accuracy pair_spread target_balanced_accuracy target_spread"
    " seed_balanced_accuracy seed_false_positive seed_false_negative"
)
#: Columns of the tables of the evaluation, by file name.
TABLES = {
    "oof": pages.VERDICTS | dtypes_of(str="pair_id group cause", float64="cause_size"),
    "tables": dtypes_of(int64="table", str="row model scheme") | _COUNTS,
    "ablation": dtypes_of(str="part remedy model form", int64="step") | _COUNTS,
    "curves": dtypes_of(int64="figure", str="model grouping", float64="x balanced_accuracy spread"),
    "validity": dtypes_of(str="judge kind", int64="fold runs rejected"),
    "groups": dtypes_of(str="workload group automatic"),
    "served": dtypes_of(str="pair_id workload group verdict status reason"),
}
TIMES = dtypes_of(str="model", int64="dimensions", float64="seconds")


class DataSet(pages.DataSet):
    """The training data, with any further counts."""

    model_config = ConfigDict(extra="allow")

    @property
    def counts(self) -> list[tuple[str, int]]:
        """The further counts, each with the name that the page uses."""
        extra, names = self.model_extra or {}, {"fails": "abnormal pairs", "workloads": "test cases"}
        return [
            (names.get(name, name.replace("_", " ")), value)
            for name, value in extra.items()
            if isinstance(value, int)
        ]


class Metrics(pages.Metrics[Judged]):
    """The part of ``metrics.json`` that the page uses."""

    data: DataSet
    selected: Verdicts
    served: Verdicts

    @property
    def split(self) -> Split[Judged]:
        """Folds of whole test cases."""
        return self.splits[SPLIT]


@dataclass(frozen=True)
class VectorScores:
    """Scores of verdicts on vectors, counted as in the matrix paper; NaN: unknown."""

    balanced_accuracy: float
    spread: float
    false_positive: float
    false_negative: float
    alarms: float
    false_negatives: float

    @classmethod
    def from_row(
        cls, row: pd.Series, prefix: str, spread: float, vectors: float, abnormal: float
    ) -> VectorScores:
        """Return the scores in the columns with `prefix`; `abnormal` of all `vectors` are abnormal."""
        names = ("balanced_accuracy", "false_positive", "false_negative")
        accuracy, false_positive, false_negative = (row[f"{prefix}{name}"] for name in names)
        alarms, misses = false_positive / (vectors - abnormal or nan), false_negative / (abnormal or nan)
        return cls(accuracy, spread, false_positive, false_negative, alarms, misses)


@dataclass(frozen=True)
class TableRow:
    """A row of a table: its name, our scores, and the paper's.

    `same` and `same_spread` are mean and standard deviation over the folds of the balanced accuracy of pairs
    or target runs, whose set is equal in all forms.
    """

    name: str
    model: str
    scheme: str
    ours: VectorScores
    seeds: VectorScores
    same: float
    same_spread: float
    folds: int

    @classmethod
    def from_row(cls, row: pd.Series, name: str, scheme: str, same: str = "pair") -> TableRow:
        """Return a row of tables.parquet or ablation.parquet; `same` is "pair" or "target"."""
        # the seed counts pairs of vectors for similarity logistic in table 5 and in table 8
        paired = row.get("table") == 8 or row["model"] == "similarity-logistic"  # noqa: PLR2004
        ours = VectorScores.from_row(row, "", row["spread"], row["vectors"], row["abnormal"])
        of_paper = (PAIRS, ABNORMAL_PAIRS) if paired else (VECTORS, ABNORMAL)
        seeds = VectorScores.from_row(row, "seed_", nan, *of_paper)
        accuracy, spread = float(row[f"{same}_balanced_accuracy"]), float(row[f"{same}_spread"])
        return cls(row[name], row["model"], row[scheme], ours, seeds, accuracy, spread, int(row["folds"]))

    @property
    def standard_error(self) -> float:
        """The standard error of `same`; NaN with one fold."""
        # the spread has no correction for the degree of freedom of the mean
        return self.same_spread / sqrt(self.folds - 1) if self.folds > 1 else nan


@dataclass(frozen=True)
class RemedyGain:
    """The gain of one row over another in `same`, and its standard error.

    Accuracies of vectors cannot be subtracted, because their set differs by form.
    """

    gain: float
    error: float

    @classmethod
    def from_rows(cls, row: TableRow, other: TableRow) -> RemedyGain:
        """Return the accuracy (`same`) of `row` minus that of `other`, with its standard error."""
        return cls(row.same - other.same, hypot(row.standard_error, other.standard_error))

    @property
    def effect(self) -> str:
        """The gain in words: "helps", "hurts" or "not significant"."""
        if not abs(self.gain) > ERRORS * self.error:
            return "not significant"
        return "helps" if self.gain > 0 else "hurts"


@dataclass(frozen=True)
class EvaluatedMatrices:
    """The input of the page; frames as `training.matrices.stages` describes them."""

    metrics: Metrics
    notes: tuple[str, ...]
    verdicts: pd.DataFrame
    tables: pd.DataFrame
    ablation: pd.DataFrame
    curves: pd.DataFrame
    validity: pd.DataFrame
    groups: pd.DataFrame
    served: pd.DataFrame
    times: pd.DataFrame

    @classmethod
    def read(cls, root: Path) -> EvaluatedMatrices:
        """Read the stages' files under the project `root`; InputError if one is missing or invalid."""
        paths = FamilyPaths("matrices", root)
        metrics = read_json(paths.metrics, Metrics)
        times = paths.reports / "times.parquet"
        frames = [read_table(paths.evaluated / f"{name}.parquet", types) for name, types in TABLES.items()]
        # missing if DVC restored the stage's outputs from its cache
        frames.append(read_table(times, TIMES) if times.is_file() else pd.DataFrame(columns=[*TIMES]))
        notes = tuple(MatrixDecisions.read(paths.valid).explanation_lines())
        return cls(metrics, notes, *frames)

    @property
    def champion_verdicts(self) -> pd.DataFrame:
        """The champion's out-of-fold verdicts."""
        return self.verdicts[self.verdicts["entry"] == self.metrics.champion]

    def table_rows(self, number: int) -> list[TableRow]:
        """Return the rows of a table of the analysis engine paper; empty for another `number`."""
        rows = self.tables[self.tables["table"] == number]
        return [TableRow.from_row(row, "row", "scheme") for _, row in rows.iterrows()]

    def ablation_steps(self, part: str, same: str = "pair") -> list[list[TableRow]]:
        """Return the rows of a part of the ablation, one list per model and sequence of remedies.

        `same` is "pair" or "target", the unit of the accuracy.
        """
        rows = self.ablation[self.ablation["part"] == part]
        runs = rows.groupby((rows["step"] == 0).cumsum(), sort=False)
        return [
            [TableRow.from_row(row, "remedy", "form", same) for _, row in run.iterrows()] for _, run in runs
        ]
