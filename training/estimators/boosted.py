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
        import xgboost

        del reference
        prepared = xgboost.DMatrix(self.prepared(columns), nthread=1)
        found = self.booster.predict(prepared), self.booster.predict(prepared, pred_contribs=True)[:, :-1]
        return np.asarray(found[0], np.float64), np.asarray(found[1], np.float64)


def boosted(pipeline: Any) -> Boosted | None:
    """Take from a fitted pipeline what it answers with; None if that is not XGBoost's."""
    *before, classifier = [step for _, step in pipeline.steps if not hasattr(step, "fit_resample")]
    preparation = Preparation.of(before)
    if preparation is None or not hasattr(classifier, "get_booster"):
        return None
    return Boosted(preparation.fill, preparation.mean, preparation.scale, classifier.get_booster())
