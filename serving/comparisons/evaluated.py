"""Output files of the pipeline stages of the family ``comparisons``, read for its report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from pydantic import Field

from data.comparisons.labels.consensus import Rule
from data.comparisons.params import CheckComparisons, Comparisons
from data.comparisons.tables import ComparisonTables
from data.params import load
from data.paths import FamilyPaths
from data.tables.files import read_json
from data.tables.specs import read_table
from serving.comparisons.charts import ModelGuarantees
from serving.reports import evaluation_files as pages
from training.comparisons.stored import TrainedModel

VERDICTS = {"comparison_id": "str", "repeat": "int64"} | pages.VERDICTS
CURVES = {"curve": "str", "parameter": "int64", "fold": "int64", "accuracy": "float64"}


class DataSet(pages.DataSet):
    """Sizes of the set of labelled comparisons."""

    comparisons: int
    fails: int
    operations: int


class Metrics(pages.Metrics[pages.Judged]):
    """The part of ``metrics.json`` that the page uses."""

    data: DataSet
    features: str
    risk_guarantees: dict[str, dict[str, ModelGuarantees]] = Field(default_factory=dict)


@dataclass(frozen=True)
class EvaluatedComparisons:
    """The content of the report page."""

    metrics: Metrics
    #: out-of-fold verdicts: one row per entry, split, repeat and comparison; columns `VERDICTS`
    verdicts: pd.DataFrame
    #: one row per curve, parameter and fold, with the columns of `CURVES`; may be empty
    curves: pd.DataFrame
    features: pd.DataFrame  # one row per comparison: ``comparison_id, status`` and the features
    tables: ComparisonTables
    tree: TrainedModel | None  # the decision tree; None if the parameters exclude it
    rule: Rule  # aggregates the labels of several annotators

    @classmethod
    def read(cls, root: Path) -> EvaluatedComparisons:
        """Return the results of the project `root`; InputError if a required file is missing or broken."""
        paths = FamilyPaths("comparisons", root)
        curves, tree = paths.evaluated / "curves.parquet", paths.models / "decision-tree"
        return cls(
            read_json(paths.metrics, Metrics),
            read_table(paths.evaluated / "oof.parquet", VERDICTS),
            read_table(curves, CURVES) if curves.is_file() else pd.DataFrame(columns=list(CURVES)),
            read_table(paths.processed / "features.parquet", {"comparison_id": "str", "status": "str"}),
            ComparisonTables.read(paths.interim),
            TrainedModel.read(tree) if (tree / "model.skops").is_file() else None,
            consensus_rule(root),
        )

    @property
    def champion_guarantees(self) -> ModelGuarantees | None:
        """The champion's risk guarantees on folds of whole operations; None if they were not evaluated."""
        return self.metrics.risk_guarantees.get("grouped", {}).get(self.metrics.champion)

    def grouped_verdicts(self, kind: str) -> pd.DataFrame:
        """Return the rows of `verdicts` on folds of whole operations, of a `kind`: "model" or "rule"."""
        return self.verdicts[(self.verdicts["split"] == "grouped") & (self.verdicts["kind"] == kind)]


def consensus_rule(root: Path = Path()) -> Rule:
    """Return the rule that aggregates labels in the project `root`: "majority" or "dawid-skene".

    Without ``params.yaml``, it is "majority". Raises InputError if that file is invalid.
    """
    path = root / "params.yaml"
    checks = load(Comparisons, path).section.checks if path.is_file() else CheckComparisons()
    return checks.consensus
