"""Boosted trees without their pipeline: arrays prepare what XGBoost answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from training.estimators.answering import Floats, Unit
from training.estimators.preparation import Preparation


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
        prepared = self.prepared(columns)
        rows = _matrix(prepared)
        found = self.booster.predict(rows), self.booster.predict(rows, pred_contribs=True)[:, :-1]
        probability, contributions = (np.asarray(one, np.float64) for one in found)
        return self.told_in_odds(probability, contributions, prepared)

    def probability(self, columns: Floats) -> Floats:
        """Give the probability alone."""
        prepared = self.prepared(columns)
        return self.risen(np.asarray(self.booster.predict(_matrix(prepared)), np.float64), prepared)


def boosted(pipeline: Any) -> Boosted | None:
    """Take from a fitted pipeline what it answers with; None if that is not XGBoost's."""
    found = Preparation.of(pipeline)
    if found is None or not hasattr(found[1], "get_booster"):
        return None
    prepared, classifier = found
    return Boosted(**vars(prepared), booster=classifier.get_booster())


def _matrix(prepared: Floats) -> Any:
    import xgboost

    return xgboost.DMatrix(prepared, nthread=1)
