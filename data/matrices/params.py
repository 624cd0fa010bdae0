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

    max_missing_fraction: Share = 0.5


class EvaluateMatrices(Section):
    """Parameters of the evaluation.

    ``models`` are the candidates for champion under the full scheme; each search inside a training part has
    ``n_trials`` trials and at most ``max_components`` principal components. ``n_folds`` is the number of
    folds of whole test cases for tables, ``n_cause_folds`` of whole causes and of pairs, ``n_curve_folds``
    for the figures of the matrix paper; the ablation is scored on as many of the ``n_folds``.
    """

    n_trials: Count = 6
    max_components: Count = 100
    models: tuple[str, ...] = ("decision-tree", "logistic", "tan", "svm", "knn", "random-forest", "xgboost")
    n_folds: Annotated[int, Field(ge=2)] = 10
    n_cause_folds: Annotated[int, Field(ge=2)] = 5
    n_curve_folds: Annotated[int, Field(ge=2)] = 3


class DecideMatrices(Section):
    """Threshold of the verdict ``fail``: that of the best balanced accuracy, or a higher one.

    At most the share ``max_false_positive_rate`` of the normal pairs of other test cases gets ``fail``, with
    ``confidence``; null: without a guarantee.
    """

    max_false_positive_rate: Share | None = 0.1
    confidence: Share = 0.9


class Matrices(FamilySection):
    """The family ``matrices``: one section per stage."""

    family: ClassVar[str] = "matrices"
    ingest: Ingest = Ingest(path=Path("data/raw/matrices"))
    checks: ValidateMatrices = ValidateMatrices()
    evaluate: EvaluateMatrices = EvaluateMatrices()
    decide: DecideMatrices = DecideMatrices()
    promote: Promote = Promote(name="regression-matrix")
