"""The section ``matrices`` of params.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from data.params import Count, FamilySection, Ingest, Promote, Share
from data.tables.documents import Section


class ValidateMatrices(Section):
    """Largest share of missing values of a metric (over the runs), and of a run (over the raw metrics).

    A metric or run with a larger share is left out.
    """

    missing: Share = 0.5


class EvaluateMatrices(Section):
    """Parameters of the evaluation.

    ``models`` are the candidates for champion under the full scheme; each search inside a training part has
    ``trials`` trials and at most ``components`` principal components. ``folds`` is the number of folds of
    whole test cases for tables, ``cause_folds`` of whole causes, ``curve_folds`` for the figures of seed 001.
    """

    trials: Count = 6
    components: Count = 100
    models: tuple[str, ...] = ("decision-tree", "logistic", "tan", "svm", "knn", "random-forest", "xgboost")
    folds: Annotated[int, Field(ge=2)] = 10
    cause_folds: Annotated[int, Field(ge=2)] = 5
    curve_folds: Annotated[int, Field(ge=2)] = 3


class DecideMatrices(Section):
    """Threshold of the verdict ``fail``: that of the best balanced accuracy, or a higher one.

    At most the share ``false_alarms`` of the normal pairs of other test cases gets ``fail``, with
    ``confidence``; null: without a guarantee.
    """

    false_alarms: Share | None = 0.1
    confidence: Share = 0.9


class Matrices(FamilySection):
    """The family ``matrices``: one section per stage."""

    family: ClassVar[str] = "matrices"
    ingest: Ingest = Ingest(path=Path("data/raw/matrices"))
    checks: ValidateMatrices = ValidateMatrices()
    evaluate: EvaluateMatrices = EvaluateMatrices()
    decide: DecideMatrices = DecideMatrices()
    promote: Promote = Promote(name="regression-matrix")
