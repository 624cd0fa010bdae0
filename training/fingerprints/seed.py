"""The seed's own way to a profile: importances of gradient boosting on z-scores (section 5.2)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from features.fingerprints.matrix import Measured, zscores

Boosting = Literal["gradient-boosting", "xgboost"]
#: Section 5.2 as the paper's scripts have it: 1000 trees of depth 4 at rate 0.01.
TREES, DEPTH, RATE = 1000, 4, 0.01


def seed_shares(
    measured: Measured,
    seed: int,
    weights: NDArray[np.float64] | None = None,
    boosting: Boosting = "gradient-boosting",
) -> NDArray[np.float64]:
    """Return the importances of the seed's regression from z-scores to the performance as it is.

    Parameters
    ----------
    measured : Measured
    seed : int
        Breaks ties between splits.
    weights : ndarray of shape (n_rows,), optional
        How often each row counts; rows that count 0 are left out.
    boosting : {"gradient-boosting", "xgboost"}
        scikit-learn's, as in the paper, or the quick equivalent. Of equally good splits, common on few
        machines, scikit-learn draws one and XGBoost takes the first column.

    Returns
    -------
    ndarray of shape (n_columns,)
        They add up to 1; all 0 where no split helps.
    """
    counts = np.ones(len(measured.y)) if weights is None else weights
    kept = counts > 0
    scores = zscores(measured.x)[kept]
    model = seed_model(boosting, seed).fit(scores, measured.y[kept], sample_weight=counts[kept])
    return np.asarray(model.feature_importances_, np.float64)


def seed_model(boosting: Boosting, seed: int) -> Any:
    """Return the seed's regression, unfitted."""
    if boosting == "xgboost":
        from xgboost import XGBRegressor

        return XGBRegressor(
            n_estimators=TREES,
            max_depth=DEPTH,
            learning_rate=RATE,
            reg_lambda=0,
            importance_type="total_gain",
            n_jobs=1,
            random_state=seed,
        )
    from sklearn.ensemble import GradientBoostingRegressor

    return GradientBoostingRegressor(
        n_estimators=TREES, max_depth=DEPTH, learning_rate=RATE, random_state=seed
    )
