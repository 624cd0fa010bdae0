"""Our way to a profile: correlation-adjusted scores, which share importance among correlated stressors.

On logarithms a power law (performance = product of rates to some power) is a linear regression. Its R2 is
split among the stressors by the squares of the correlation-adjusted (CAR) scores ``R^(-1/2) r`` of Zuber and
Strimmer (2011): ``R`` are the correlations among the stressors, ``r`` those with the performance. Twins get
equal shares, and the shares of a group add up to what the group explains, which the seed's importances don't
do: each split gives everything to the one twin that happened to be ahead.
"""

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


Floats = NDArray[np.float64]
#: Weight of the identity in ``R``: correlations of 40 stressors over some tens of machines are singular.
SHRINKAGE = 0.3
#: Resamples whose correlations are computed in one go; bounds memory.
BLOCK = 16
#: Stressors whose logarithms correlate by this much on average are one cluster.
ALIKE = 0.9
#: Below this a constant column differs from its mean by rounding only.
STILL = 1e-9


def log_rates(x: Floats, known: NDArray[np.int64] | None = None) -> Floats:
    """Return the logarithms of the rates; gaps become the median of the column over rows that are known.

    Parameters
    ----------
    x : ndarray of shape (n_rows, n_columns)
        Positive rates, NaN where there is none.
    known : ndarray of int, optional
        The rows that medians are taken from (the training part); all without.
    """
    logs = np.log(x)
    gaps = np.isnan(logs)
    if not gaps.any():
        return logs
    rows = logs if known is None else logs[known]
    empty = np.isnan(rows).all(axis=0)
    medians = np.zeros(x.shape[1])
    medians[~empty] = np.nanmedian(rows[:, ~empty], axis=0)
    return np.where(gaps, medians, logs)


def car_scores(measured: Measured, weights: Floats | None = None) -> Floats:
    """Return the correlation-adjusted scores, signed: positive where a faster stressor goes with more speed.

    Their squares are what each stressor explains.

    Parameters
    ----------
    measured : Measured
        One row per machine.
    weights : ndarray of shape (n_resamples, n_rows), optional
        How often each row counts in each resample; without, once and every row alike.

    Returns
    -------
    ndarray of shape (n_resamples, n_columns)
        0 where nothing correlates.
    """
    counts = np.ones((1, len(measured.y))) if weights is None else weights
    logs = log_rates(measured.x)
    both = np.column_stack([logs, measured.speed])
    both -= both.mean(axis=0)
    blocks = [_car(both, counts[start : start + BLOCK]) for start in range(0, len(counts), BLOCK)]
    return np.concatenate(blocks)


def correlations(measured: Measured, weights: Floats) -> Floats:
    """Return how closely each column alone goes with the performance, without sign.

    Parameters
    ----------
    measured : Measured
        One row per machine.
    weights : ndarray of shape (n_resamples, n_rows)
        How often each row counts.

    Returns
    -------
    ndarray of shape (n_resamples, n_columns)
        0 where a column does not vary.
    """
    logs, speed = log_rates(measured.x), measured.speed
    logs, speed = logs - logs.mean(axis=0), speed - speed.mean()
    shares = weights / weights.sum(axis=1, keepdims=True)
    mean, middle = shares @ logs, shares @ speed
    together = shares @ (logs * speed[:, None]) - mean * middle[:, None]
    spread = shares @ logs**2 - mean**2
    scale = np.sqrt(spread * (shares @ speed**2 - middle**2)[:, None])
    return np.asarray(np.abs(together) / np.where(spread > STILL**2, scale, np.inf), np.float64)


def car_operator(logs: Floats) -> Floats:
    """Return the matrix that turns standardised performances into scores, every row counting alike.

    Parameters
    ----------
    logs : ndarray of shape (n_rows, n_columns)
        Logarithms of the rates, without gaps.

    Returns
    -------
    ndarray of shape (n_columns, n_rows)
    """
    centred = logs - logs.mean(axis=0)
    spread = centred.std(axis=0)
    standard = centred / np.where(spread > STILL, spread, np.inf)
    among = standard.T @ standard / len(logs)
    values, vectors = np.linalg.eigh((1 - SHRINKAGE) * among + SHRINKAGE * np.eye(len(among)))
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T @ standard.T / len(logs), np.float64)


def _car(both: Floats, counts: Floats) -> Floats:
    correlations = np.stack([_correlation(both, count / count.sum()) for count in counts])
    among, with_speed = correlations[:, :-1, :-1], correlations[:, :-1, -1]
    identity = np.eye(among.shape[1])
    values, vectors = np.linalg.eigh((1 - SHRINKAGE) * among + SHRINKAGE * identity)
    turned = np.einsum("bij,bi->bj", vectors, with_speed) / np.sqrt(values)
    return np.asarray(np.einsum("bij,bj->bi", vectors, turned), np.float64)


def _correlation(both: Floats, weights: Floats) -> Floats:
    """Return weighted correlations; a column that does not vary correlates with nothing."""
    mean = weights @ both
    centred = (both - mean) * np.sqrt(weights)[:, None]
    covariance = centred.T @ centred
    spread = np.sqrt(np.diag(covariance))
    scale = np.where(spread > STILL, spread, np.inf)
    correlation = covariance / np.outer(scale, scale)
    np.fill_diagonal(correlation, 1)
    return np.asarray(correlation, np.float64)


def clusters(measured: Measured) -> list[list[int]]:
    """Group columns that the machines cannot tell apart, in the order of their first columns.

    They are grouped by correlation over machines (average linkage).

    Returns
    -------
    list of lists of int
        Every column is in one of them.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    logs = log_rates(measured.x)
    varies = np.ptp(logs, axis=0) > 0
    correlation = np.eye(logs.shape[1])
    inside = np.ix_(varies, varies)
    correlation[inside] = np.corrcoef(logs[:, varies], rowvar=False)
    if len(correlation) == 1:
        return [[0]]
    distance = np.clip(1 - np.abs(correlation), 0, None)
    np.fill_diagonal(distance, 0)
    labels: NDArray[np.int64] = fcluster(
        linkage(squareform(distance, checks=False), "average"), 1 - ALIKE, "distance"
    )
    found: dict[int, list[int]] = {}
    for column, label in enumerate(labels):
        found.setdefault(int(label), []).append(column)
    return list(found.values())
