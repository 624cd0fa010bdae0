"""The knobs of matrices."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from data.params import Count, FamilySection, Ingest, Promote, Share
from data.tables.documents import Section


class ValidateMatrices(Section):
    """The share of the runs that may lack a metric, and of the raw metrics that a run may lack.

    Beyond it either is left out.
    """

    missing: Share = 0.5


class EvaluateMatrices(Section):
    """Who is judged, and on what.

    ``models`` want to be champion under the full scheme; every search inside a training part has so many
    ``trials``, and looks at so many principal ``components`` at most. There are ``folds`` of whole test cases
    for tables, ``cause_folds`` of whole causes, and ``curve_folds`` for the seed's figures.
    """

    trials: Count = 6
    components: Count = 100
    models: tuple[str, ...] = ("decision-tree", "logistic", "tan", "svm", "knn", "random-forest", "xgboost")
    folds: Annotated[int, Field(ge=2)] = 10
    cause_folds: Annotated[int, Field(ge=2)] = 5
    curve_folds: Annotated[int, Field(ge=2)] = 3


class DecideMatrices(Section):
    """Where ``fail`` begins: at the threshold of the best balanced accuracy, or above it.

    At most ``false_alarms`` of the normal pairs of other test cases raise an alarm, with ``confidence``;
    null: nothing is promised.
    """

    false_alarms: Share | None = 0.1
    confidence: Share = 0.9


class Matrices(FamilySection):
    """The family ``matrices``: a section per verb."""

    family: ClassVar[str] = "matrices"
    ingest: Ingest = Ingest(path=Path("data/raw/matrices"))
    checks: ValidateMatrices = ValidateMatrices()
    evaluate: EvaluateMatrices = EvaluateMatrices()
    decide: DecideMatrices = DecideMatrices()
    promote: Promote = Promote(name="regression-matrix")
