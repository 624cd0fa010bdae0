"""Ours and a plain XGBoost on the same rows of co-runs, with what a search would try first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.transfer.row import TransferRow
from training.corun.estimators.fitting import ImpactRecipe, ImpactTable
from training.corun.estimators.models import CATALOGUE

Rows = NDArray[np.intp]
Errors = NDArray[np.float64]
JUDGES = ("contention", "xgboost")
TOLERANCE = 0.03


def recipe_of(table: ImpactTable, model: str, seed: int) -> ImpactRecipe:
    """Return how a model is fitted without tuning."""
    params = CATALOGUE[model].first(len(table.rates))
    params |= {"preparation": "n-d"} if CATALOGUE[model].prepared else {}
    return ImpactRecipe(model, params, table.columns(model), TOLERANCE, seed, table.rates)


def errors_of(table: ImpactTable, recipe: ImpactRecipe, train: Rows, test: Rows) -> Errors:
    """Return the relative errors of unseen co-runs."""
    frame = table.frame
    predicted = recipe.fit(frame.iloc[train]).predict(frame.iloc[test])
    return np.asarray(np.abs(predicted / frame["impact"].to_numpy(np.float64)[test] - 1))


@dataclass(frozen=True)
class Question:
    """What is asked of which data, with what held out."""

    data: str
    held_out: str
    told: str

    def row(self, judge: str, folds: Sequence[Errors]) -> TransferRow:
        """Return the mean error over all folds, and its spread over them."""
        means, every = [float(fold.mean()) for fold in folds], np.concatenate(folds)
        return TransferRow(
            data=self.data,
            held_out=self.held_out,
            question=self.told,
            cases=len(every),
            judge=judge,
            figure="mean error",
            value=float(every.mean()),
            spread=float(np.std(means)),
        )
