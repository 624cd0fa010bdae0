"""Boosted trees without their pipeline: arrays prepare what XGBoost answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from training.estimators.answering import Floats, Unit
from training.estimators.frozen import Preparation


@dataclass(frozen=True)
class Boosted(Preparation):
    """XGBoost's own trees.

    Attributes
    ----------
    booster : Booster
    """

    booster: Any

    unit: ClassVar[Unit] = "log-odds"

    def answers(self, columns: Floats, reference: Floats) -> tuple[Floats, Floats]:
        """Answer; contributions are XGBoost's own exact ones; see `Answering`."""
        del reference
        contributions = self.booster.predict(self._matrix(columns), pred_contribs=True)[:, :-1]
        return self.probability(columns), np.asarray(contributions, np.float64)

    def probability(self, columns: Floats) -> Floats:
        """Give the probability alone."""
        return np.asarray(self.booster.predict(self._matrix(columns)), np.float64)

    def _matrix(self, columns: Floats) -> Any:
        import xgboost

        return xgboost.DMatrix(self.prepared(columns), nthread=1)


def boosted(pipeline: Any) -> Boosted | None:
    """Take from a fitted pipeline what it answers with; None if that is not XGBoost's."""
    *before, classifier = [step for _, step in pipeline.steps if not hasattr(step, "fit_resample")]
    preparation = Preparation.of(before)
    if preparation is None or not hasattr(classifier, "get_booster"):
        return None
    return Boosted(preparation.fill, preparation.mean, preparation.scale, classifier.get_booster())
