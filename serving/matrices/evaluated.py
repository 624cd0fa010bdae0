"""Read the results of the stages of the family ``matrices`` for its report."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, nan, sqrt
from pathlib import Path

import pandas as pd
from pydantic import ConfigDict

from data.matrices.validity import MatrixDecisions
from data.paths import Places
from data.tables.files import read_json
from data.tables.specs import read_table
from serving.reports import evaluation_files as pages
from serving.reports.evaluation_files import Judged, Split, Verdicts
from serving.reports.separation import ERRORS
from training.matrices.schemes import ABNORMAL, ABNORMAL_PAIRS, PAIRS, VECTORS

#: How it is divided: test cases are held out whole.
SPLIT = "test-cases"
#: Causes are held out whole, too.
HARDER = "causes"
#: That which is more like the seed's.
EASIER = "pairs"

VERDICTS = pages.VERDICTS | dict.fromkeys(("pair_id", "group", "cause"), "str") | {"cause_size": "float64"}
COUNTS = dict.fromkeys(
    (
        *("folds", "vectors", "abnormal", "balanced_accuracy", "spread", "false_positive", "false_negative"),
        *("pair_balanced_accuracy", "pair_spread", "target_balanced_accuracy", "target_spread"),
        *("seed_balanced_accuracy", "seed_false_positive", "seed_false_negative"),
    ),
    "float64",
)
TABLES = {"table": "int64", "row": "str", "model": "str", "scheme": "str"} | COUNTS
ABLATION = dict.fromkeys(("part", "remedy", "model", "form"), "str") | {"step": "int64"} | COUNTS
CURVES = {"figure": "int64", "model": "str", "grouping": "str"} | dict.fromkeys(
    ("x", "balanced_accuracy", "spread"), "float64"
)
TIMES = {"model": "str", "dimensions": "int64", "seconds": "float64"}
VALIDITY = {"judge": "str", "fold": "int64", "kind": "str", "runs": "int64", "rejected": "int64"}
GROUPS = dict.fromkeys(("workload", "group", "automatic"), "str")
SERVED = dict.fromkeys(("pair_id", "workload", "group", "verdict", "status", "reason"), "str")


class DataSet(pages.DataSet):
    """The data that was learned from; further counts are shown as they are."""

    model_config = ConfigDict(extra="allow")

    @property
    def counts(self) -> list[tuple[str, int]]:
        """How much there is of what."""
        found = self.model_extra or {}
        return [(name.replace("_", " "), value) for name, value in found.items() if isinstance(value, int)]


class Metrics(pages.Metrics[Judged]):
    """The part of ``metrics.json`` that the page uses."""

    data: DataSet
    selected: Verdicts
    served: Verdicts

    @property
    def split(self) -> Split[Judged]:
        """Folds of whole test cases."""
        return self.splits[SPLIT]

    @property
    def harder(self) -> Split[Judged] | None:
        """Folds of whole causes; None where causes are not known."""
        return self.splits.get(HARDER)

    @property
    def easier(self) -> Split[Judged] | None:
        """Folds of whole pairs."""
        return self.splits.get(EASIER)


@dataclass(frozen=True)
class Counted:
    """Scores of verdicts on vectors, counted as in seed 001; NaN where unknown."""

    balanced_accuracy: float
    spread: float
    false_positive: float
    false_negative: float
    alarms: float
    missed: float

    @classmethod
    def of(cls, row: pd.Series) -> Counted:
        """Take ours from a row of tables.parquet or ablation.parquet."""
        return cls(
            row["balanced_accuracy"],
            row["spread"],
            row["false_positive"],
            row["false_negative"],
            row["false_positive"] / (row["vectors"] - row["abnormal"] or nan),
            row["false_negative"] / (row["abnormal"] or nan),
        )

    @classmethod
    def of_seed(cls, row: pd.Series, *, paired: bool) -> Counted:
        """Return the paper's scores from the same row; `paired`: it counts pairs of vectors."""
        cases, abnormal = (PAIRS, ABNORMAL_PAIRS) if paired else (VECTORS, ABNORMAL)
        accuracy, alarms, missed = (
            row[f"seed_{name}"] for name in ("balanced_accuracy", "false_positive", "false_negative")
        )
        return cls(accuracy, nan, alarms, missed, alarms / (cases - abnormal), missed / abnormal)


@dataclass(frozen=True)
class Beside:
    """A row of a table: its name, our scores, and the paper's."""

    name: str
    model: str
    scheme: str
    ours: Counted
    seeds: Counted
    same: float
    same_spread: float
    folds: int

    @classmethod
    def of(cls, row: pd.Series, name: str, scheme: str, same: str = "pair") -> Beside:
        """Take a row of tables.parquet or ablation.parquet."""
        # similarity logistic in table 5, and all of table 8, which the seed counts on pairs of vectors
        paired = row.get("table") == 8 or row["model"] == "similarity-logistic"  # noqa: PLR2004
        ours, seeds = Counted.of(row), Counted.of_seed(row, paired=paired)
        alike = float(row[f"{same}_balanced_accuracy"]), float(row[f"{same}_spread"])
        return cls(row[name], row["model"], row[scheme], ours, seeds, *alike, int(row["folds"]))

    @property
    def error(self) -> float:
        """The standard error of `same`; NaN where there is one fold only."""
        # the spread is that of the folds themselves, of which one degree of freedom went to their mean
        return self.same_spread / sqrt(self.folds - 1) if self.folds > 1 else nan


@dataclass(frozen=True)
class Worth:
    """The gain of one row over another, in balanced accuracy of pairs, or of the runs of targets.

    All vectors cannot be used: their set differs by form (flattened: all runs; contrasted: those of targets),
    so that
    accuracies cannot be subtracted.
    """

    gain: float
    error: float

    @classmethod
    def of(cls, row: Beside, other: Beside) -> Worth:
        """Compare `row` with `other`."""
        return cls(row.same - other.same, hypot(row.error, other.error))

    @property
    def told(self) -> str:
        """The gain in words: "helps", "hurts" or "cannot be told" (not significant)."""
        if not abs(self.gain) > ERRORS * self.error:
            return "cannot be told"
        return "helps" if self.gain > 0 else "hurts"


@dataclass(frozen=True)
class EvaluatedMatrices:
    """All that the page is drawn from; frames as `training.matrices.stages` describes them."""

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
        """Read the stages' files under `root`."""
        places = Places("matrices", root)
        metrics = read_json(places.metrics, Metrics)
        times = places.reports / "times.parquet"
        frames = {
            "oof": VERDICTS, "tables": TABLES, "ablation": ABLATION, "curves": CURVES, "validity": VALIDITY,
            "groups": GROUPS, "served": SERVED,
        }  # fmt: skip
        read = [
            read_table(places.evaluated / f"{name}.parquet", dtypes, ()) for name, dtypes in frames.items()
        ]
        # missing where DVC took what it knows from its cache instead of running the stage
        read.append(read_table(times, TIMES) if times.is_file() else pd.DataFrame(columns=[*TIMES]))
        notes = tuple(MatrixDecisions.read(places.valid).explained())
        return cls(metrics, notes, *read)

    @property
    def champion(self) -> pd.DataFrame:
        """The champion's verdicts on the test cases that it had not seen."""
        return self.verdicts[self.verdicts["entry"] == self.metrics.champion]

    def table(self, number: int) -> list[Beside]:
        """Return the rows of a table of the seed."""
        rows = self.tables[self.tables["table"] == number]
        return [Beside.of(row, "row", "scheme") for _, row in rows.iterrows()]

    def steps(self, part: str, same: str = "pair") -> list[list[Beside]]:
        """Return the rows of a part of the ablation, one list per model and way through it."""
        rows = self.ablation[self.ablation["part"] == part]
        ways = rows.groupby((rows["step"] == 0).cumsum(), sort=False)
        return [[Beside.of(row, "remedy", "form", same) for _, row in own.iterrows()] for _, own in ways]
