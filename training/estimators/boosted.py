"""Boosted trees without their pipeline: arrays prepare what XGBoost answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from training.estimators.answering import Floats, Unit
from training.estimators.preparation import Preparation
from training.estimators.shapley import Attributions


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
        """Answer; contributions are exact, as XGBoost's own; see `Answering`."""
        del reference
        prepared = self.prepared(columns)
        return self.told_in_odds(self._plain(prepared), self._contributions(prepared), prepared)

    def probability(self, columns: Floats) -> Floats:
        """Give the probability alone."""
        prepared = self.prepared(columns)
        return self.risen(self._plain(prepared), prepared)

    def _plain(self, prepared: Floats) -> Floats:
        # not by a DMatrix, which takes longer to begin with
        return np.asarray(self.booster.inplace_predict(prepared), np.float64)

    def _contributions(self, prepared: Floats) -> Floats:
        if self._attributions is None:
            return np.asarray(self.booster.predict(_matrix(prepared), pred_contribs=True)[:, :-1], np.float64)
        return self._attributions.contributions(prepared.astype(np.float32))

    @cached_property
    def _attributions(self) -> Attributions | None:
        return Attributions.of(self.booster)


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
