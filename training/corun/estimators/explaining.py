"""What a model of impact rests on: features shuffled or removed, and its residuals (seed 002, section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.sidebyside import Compute, side_by_side
from features.corun.rates import CORUN, MOST, OTHERS, OWN
from training.corun.estimators.fitting import ImpactRecipe, Learned
from training.corun.estimators.scores import accuracy

Floats = NDArray[np.float64]
#: The features that the seed calls essential, in the order of their importance there.
ESSENTIAL = (
    "instructions",
    "bus-cycles",
    "LLC-loads",
    "L1-dcache-loads",
    "dTLB-loads",
    "branch-instructions",
    "branch-loads",
    "context-switches",
)
#: How often a feature is shuffled, and in how many rows.
SHUFFLES, PERMUTED = 5, 500


@dataclass(frozen=True)
class ExplainedFold:
    """How a fold is fitted, and its training and test rows."""

    recipe: ImpactRecipe
    train: pd.DataFrame
    test: pd.DataFrame

    def errors(self) -> Floats:
        """Return the relative errors of the test rows."""
        return _errors(self.recipe.fit(self.train), self.test)


def permuted(fold: ExplainedFold, seed: int) -> pd.DataFrame:
    """Return by how much the mean relative error of unseen rows grows when a feature is shuffled.

    Of more than `PERMUTED` rows, so many are drawn.

    Returns
    -------
    DataFrame
        ``feature, rise, spread`` (mean and standard deviation over the shuffles), largest rise first.
    """
    generator = np.random.default_rng(seed)
    model, rows = fold.recipe.fit(fold.train), fold.test
    if len(rows) > PERMUTED:
        rows = rows.iloc[np.sort(generator.choice(len(rows), PERMUTED, replace=False))]
    before = _errors(model, rows).mean()
    repeated = pd.concat([rows] * SHUFFLES, ignore_index=True)
    found = []
    for name in model.columns:
        values = rows[name].to_numpy()
        shuffled = np.concatenate([generator.permutation(values) for _ in range(SHUFFLES)])
        rises = (
            _errors(model, repeated.assign(**{name: shuffled})).reshape(SHUFFLES, -1).mean(axis=1) - before
        )
        found.append({"feature": name, "rise": float(rises.mean()), "spread": float(rises.std())})
    return pd.DataFrame(found).sort_values(["rise", "feature"], ascending=[False, True], ignore_index=True)


def removed(folds: Sequence[ExplainedFold], unseen: pd.DataFrame, compute: Compute) -> pd.DataFrame:
    """Return how accurate a model is without each of the seed's essential features.

    Parameters
    ----------
    folds : sequence of ExplainedFold
    unseen : DataFrame
        ``measured, predicted`` of all folds with all features.
    compute : Compute
        Where it is fitted.

    Returns
    -------
    DataFrame
        ``without`` (empty: with all), ``measured`` (whether the rows have that event),
        ``within_tolerance, mape``, pooled over the folds.
    """
    errors = np.abs(unseen["predicted"].to_numpy(np.float64) / unseen["measured"].to_numpy(np.float64) - 1)
    share, columns = folds[0].recipe.share, folds[0].recipe.columns
    found: list[dict[str, Any]] = [{"without": "", "measured": True, **accuracy(errors, share)}]
    for event in ESSENTIAL:
        gone = {f"{prefix}{event}" for prefix in (OWN, OTHERS, MOST)}
        kept = tuple(name for name in columns if name not in gone)
        row: dict[str, Any] = {"without": event, "measured": len(kept) < len(columns)}
        if row["measured"]:
            lacking = [replace(fold, recipe=replace(fold.recipe, columns=kept)) for fold in folds]
            again = side_by_side(ExplainedFold.errors, lacking, compute, f"corun without {event}")
            row |= accuracy(np.concatenate(again), share)
        found.append(row)
    return pd.DataFrame(found, columns=["without", "measured", "within_tolerance", "mape"])


def residuals(predictions: pd.DataFrame, features: Floats) -> pd.DataFrame:
    """Return what the four residual plots of seed 002, figures 4 and 5, show.

    Parameters
    ----------
    predictions : DataFrame
        One model's rows of oof.parquet in one design.
    features : ndarray of shape (n_rows, n_features)
        The vectors of the same rows, for their leverage.

    Returns
    -------
    DataFrame
        ``task, corunners, machine, fitted, residual, standardised, theoretical, scale, leverage, cook``:
        impact as predicted for the unseen row and what was left; the residual over its standard deviation
        and sqrt(1 - leverage); the normal quantile at its rank; the square root of its size; the diagonal of
        the hat matrix of the standardised features; Cook's distance.
    """
    from scipy.special import ndtri

    fitted = predictions["predicted"].to_numpy(np.float64)
    left = predictions["measured"].to_numpy(np.float64) - fitted
    leverage, rank = _leverage(features)
    spread = float(np.std(left)) or 1.0
    standardised = left / (spread * np.sqrt(np.maximum(1 - leverage, 1e-9)))
    order = np.argsort(np.argsort(standardised, kind="stable"), kind="stable")
    return (
        predictions[CORUN]
        .reset_index(drop=True)
        .assign(
            fitted=fitted,
            residual=left,
            standardised=standardised,
            theoretical=ndtri((order + 0.5) / len(left)),
            scale=np.sqrt(np.abs(standardised)),
            leverage=leverage,
            cook=standardised**2 * leverage / (rank * np.maximum(1 - leverage, 1e-9)),
        )
    )


def _leverage(features: Floats) -> tuple[Floats, int]:
    """Return the diagonal of the hat matrix with an intercept, and its rank."""
    filled = np.where(np.isnan(features), np.nanmedian(features, axis=0), features)
    centred = filled - filled.mean(axis=0)
    spread = centred.std(axis=0)
    standard = np.column_stack([np.ones(len(centred)), centred[:, spread > 0] / spread[spread > 0]])
    left, values, _ = np.linalg.svd(standard, full_matrices=False)
    kept = values > values[0] * 1e-10
    return np.asarray((left[:, kept] ** 2).sum(axis=1)), int(kept.sum())


def _errors(model: Learned, rows: pd.DataFrame) -> Floats:
    return np.asarray(np.abs(model.predict(rows) / rows["impact"].to_numpy(np.float64) - 1))
