"""What the stages of the family ``comparisons`` left behind, read for its report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from pydantic import Field

from data.comparisons.labels.consensus import Rule
from data.comparisons.params import CheckComparisons, Comparisons
from data.comparisons.tables import ComparisonTables
from data.params import load
from data.paths import Places
from data.tables.files import read_json
from data.tables.specs import read_table
from serving.comparisons.charts import ModelPromises
from serving.reports import evaluation_files as pages
from training.comparisons.stored import TrainedModel

VERDICTS = {"comparison_id": "str", "repeat": "int64"} | pages.VERDICTS
CURVES = {"curve": "str", "parameter": "int64", "fold": "int64", "accuracy": "float64"}


class DataSet(pages.DataSet):
    """The labelled comparisons."""

    comparisons: int
    fails: int
    operations: int


class Metrics(pages.Metrics[pages.Judged]):
    """What the page uses of ``metrics.json``."""

    data: DataSet
    features: str
    promises: dict[str, dict[str, ModelPromises]] = Field(default_factory=dict)


@dataclass(frozen=True)
class EvaluatedComparisons:
    """All that the page is drawn from."""

    metrics: Metrics
    #: verdicts on held-out folds: one row per entry, split, repeat and comparison; columns `VERDICTS`
    verdicts: pd.DataFrame
    #: one row per curve, parameter and fold, with the columns of `CURVES`; empty if there are none
    curves: pd.DataFrame
    features: pd.DataFrame  # one row per comparison: ``comparison_id, status`` and the features
    tables: ComparisonTables
    tree: TrainedModel | None  # the decision tree; None where the params leave it out
    rule: Rule = "majority"  # how what several people say becomes one status

    @classmethod
    def read(cls, root: Path) -> EvaluatedComparisons:
        """Read the stages' files under `root`.

        Raises InputError if one that the page cannot do without is missing or broken.
        """
        places = Places("comparisons", root)
        curves, tree = places.evaluated / "curves.parquet", places.models / "decision-tree"
        return cls(
            read_json(places.metrics, Metrics),
            read_table(places.evaluated / "oof.parquet", VERDICTS),
            read_table(curves, CURVES) if curves.is_file() else pd.DataFrame(columns=list(CURVES)),
            read_table(places.processed / "features.parquet", {"comparison_id": "str", "status": "str"}),
            ComparisonTables.read(places.interim),
            TrainedModel.read(tree) if (tree / "model.skops").is_file() else None,
            rule_under(root),
        )

    def of(self, split: str, kind: str) -> pd.DataFrame:
        """Return the verdicts of all models or all rules on the folds of `split`."""
        verdicts = self.verdicts
        return verdicts[(verdicts["split"] == split) & (verdicts["kind"] == kind)]


def rule_under(root: Path = Path()) -> Rule:
    """Return how labels become a status in the project under `root`; the default where there is no project.

    Raises InputError if its ``params.yaml`` is wrong.
    """
    path = root / "params.yaml"
    return (
        load(Comparisons, path).section.checks.consensus if path.is_file() else CheckComparisons().consensus
    )
