"""Importance of stressors by correlation-adjusted scores, which divide it among correlated stressors.

On logarithms a power law (performance = product of rates to some power) is a linear regression. Its R2 is
split among the stressors by the squares of the correlation-adjusted (CAR) scores ``R^(-1/2) r`` of Zuber and
Strimmer (2011): ``R`` are the correlations among the stressors, ``r`` those with the performance. Identical
stressors get equal shares, and the shares of a group add up to the R2 of the group. The importances of seed
003 don't have these properties: each split credits only the stressor that it happens to use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from features.fingerprints.matrix import Measured, zscores

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

Boosting = Literal["gradient-boosting", "xgboost"]
#: Settings of section 5.2, from the paper's scripts: 1000 trees of depth 4 at rate 0.01.
TREES, DEPTH, RATE = 1000, 4, 0.01


def seed_shares(
    measured: Measured,
    seed: int,
    weights: NDArray[np.float64] | None = None,
    boosting: Boosting = "gradient-boosting",
) -> NDArray[np.float64]:
    """Return the importances of columns by the regression of the fingerprint paper, shape (n_columns,).

    Boosted trees predict the performance from z-scores, for which all rows count alike. The importances add
    up to 1, or are all 0 where no split helps. `weights`, shape (n_rows,), weigh the rows in the regression;
    None: all 1. "xgboost" is a faster equivalent of scikit-learn's, which the paper uses; of equally good
    splits it takes the first column, not a random one.
    """
    counts = np.ones(len(measured.y)) if weights is None else weights
    has_weight = counts > 0
    scores = zscores(measured.x)[has_weight]
    model = seed_model(boosting, seed).fit(scores, measured.y[has_weight], sample_weight=counts[has_weight])
    return np.asarray(model.feature_importances_, np.float64)


def seed_model(boosting: Boosting, seed: int) -> Any:
    """Return unfitted boosted regression trees: XGBoost's for "xgboost", else scikit-learn's.

    They are 1000 trees of depth 4, with the learning rate 0.01; `seed` is their random seed.
    """
    trees = {"n_estimators": TREES, "max_depth": DEPTH, "learning_rate": RATE, "random_state": seed}
    if boosting == "xgboost":
        from xgboost import XGBRegressor

        return XGBRegressor(**trees, reg_lambda=0, importance_type="total_gain", n_jobs=1)
    from sklearn.ensemble import GradientBoostingRegressor

    return GradientBoostingRegressor(**trees)


#: Weight of the identity in ``R``: correlations of 40 stressors over some tens of machines are singular.
SHRINKAGE = 0.3
#: Number of resamples whose correlations are computed at a time; bounds memory.
BLOCK = 64
#: Maximal number of bytes of the matrices of a block whose decomposition is kept for the next application.
SMALL = 2**19
#: Stressors whose logarithms correlate by this much on average form one cluster.
ALIKE = 0.9
#: A constant column differs from its mean by less than this, by rounding.
STILL = 1e-9


def log_rates(x: Floats, train_rows: NDArray[np.int64] | None = None) -> Floats:
    """Return the natural logarithms of rates `x`, shape (n_rows, n_columns), without missing values.

    Rates are above 0 or NaN. NaN becomes the median of the column's logarithms in the rows `train_rows`
    (indices; None: all rows), or 0 if the column has no value in these rows.
    """
    logs = np.log(x)
    gaps = np.isnan(logs)
    if not gaps.any():
        return logs
    rows = logs if train_rows is None else logs[train_rows]
    empty = np.isnan(rows).all(axis=0)
    medians = np.zeros(x.shape[1])
    medians[~empty] = np.nanmedian(rows[:, ~empty], axis=0)
    return np.where(gaps, medians, logs)


def car_scores(measured: Measured, weights: Floats | None = None) -> Floats:
    """Return signed correlation-adjusted scores of columns, shape (n_resamples, n_columns).

    Positive: the application is faster where the stressor is. Squares are parts of R2, on natural logarithms
    and with correlations shrunk by 0.3 (`SHRINKAGE`), and add up to it. Missing rates become their column's
    median. Constant columns have 0; all have 0 if the performance is constant. `weights`, shape (n_resamples,
    n_rows), weigh the rows; None: one resample with every row once.
    """
    counts = np.ones((1, len(measured.y))) if weights is None else weights
    logs = log_rates(measured.x)
    logs_and_speed = np.column_stack([logs, measured.log_speed])
    logs_and_speed -= logs_and_speed.mean(axis=0)
    scores, identity = [], np.eye(logs.shape[1])
    for start in range(0, len(counts), BLOCK):
        rows = counts[start : start + BLOCK]
        related = _weighted_correlations(logs_and_speed, rows / rows.sum(axis=1, keepdims=True))
        among, with_speed = related[:, :-1, :-1], related[:, :-1, -1]
        shrunk = (1 - SHRINKAGE) * among + SHRINKAGE * identity
        # equal for all applications on the same machines
        small = shrunk.nbytes <= SMALL
        values, vectors = _known_eigh(shrunk.tobytes(), shrunk.shape) if small else np.linalg.eigh(shrunk)
        turned = np.einsum("bij,bi->bj", vectors, with_speed) / np.sqrt(values)
        scores.append(np.einsum("bij,bj->bi", vectors, turned))
    return np.concatenate(scores)


@lru_cache(16)
def _known_eigh(matrices: bytes, shape: tuple[int, ...]) -> Any:
    return np.linalg.eigh(np.frombuffer(matrices).reshape(shape))


def speed_correlations(measured: Measured, weights: Floats) -> Floats:
    """Return absolute correlations of each column with the performance, shape (n_resamples, n_columns).

    They are of logarithms; 0 where a column or the performance does not vary. `weights`, shape
    (n_resamples, n_rows), is the weight of each row.
    """
    logs, speed = log_rates(measured.x), measured.log_speed
    logs, speed = logs - logs.mean(axis=0), speed - speed.mean()
    shares = weights / weights.sum(axis=1, keepdims=True)
    mean, middle = shares @ logs, shares @ speed
    together = shares @ (logs * speed[:, None]) - mean * middle[:, None]
    spread, speed_spread = shares @ logs**2 - mean**2, (shares @ speed**2 - middle**2)[:, None]
    varies = np.minimum(spread, speed_spread) > STILL**2
    scale = np.sqrt(np.where(varies, spread * speed_spread, np.inf))
    return np.asarray(np.abs(together) / scale, np.float64)


def standardise_columns(values: Floats) -> Floats:
    """Return `values`, (n_rows, n_columns), by column with mean 0 and deviation 1 (by n); 0 if constant."""
    centred = values - values.mean(axis=0)
    spread = centred.std(axis=0)
    return np.asarray(centred / np.where(spread > STILL, spread, np.inf), np.float64)


def car_operator(logs: Floats) -> Floats:
    """Return the matrix (n_columns, n_rows) that converts standardised log performances to scores.

    `logs` are log rates, shape (n_rows, n_columns), without NaN. The scores are those of `car_scores`.
    """
    standard = standardise_columns(logs)
    among = standard.T @ standard / len(logs)
    values, vectors = np.linalg.eigh((1 - SHRINKAGE) * among + SHRINKAGE * np.eye(len(among)))
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T @ standard.T / len(logs), np.float64)


def _weighted_correlations(columns: Floats, weights: Floats) -> Floats:
    centred = (columns - weights[:, None] @ columns) * np.sqrt(weights)[:, :, None]
    covariance = centred.transpose(0, 2, 1) @ centred
    spread = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    scale = np.where(spread > STILL, spread, np.inf)
    correlation = covariance / (scale[:, :, None] * scale[:, None])
    diagonal = np.arange(columns.shape[1])
    correlation[:, diagonal, diagonal] = 1
    return np.asarray(correlation, np.float64)


def cluster_columns(measured: Measured) -> list[list[int]]:
    """Return groups of column indices whose log rates correlate by about 0.9 or -0.9 or more strongly.

    Groups are clusters by average linkage, with 1 - the absolute value of Pearson's correlation as distance,
    in the order of their first columns. A constant column is a group of its own.
    """
    logs = log_rates(measured.x)
    return [*map(list, _known_clusters(logs.tobytes("F"), logs.shape))]


@lru_cache(4)
def _known_clusters(content: bytes, shape: tuple[int, ...]) -> list[list[int]]:
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    logs = np.frombuffer(content).reshape(shape, order="F")
    varies = np.ptp(logs, axis=0) > 0
    correlation = np.eye(logs.shape[1])
    inside = np.ix_(varies, varies)
    correlation[inside] = np.corrcoef(logs[:, varies], rowvar=False)
    if len(correlation) == 1:
        return [[0]]
    distance = np.clip(1 - np.abs(correlation), 0, None)
    np.fill_diagonal(distance, 0)
    links = linkage(squareform(distance, checks=False), "average")
    labels: NDArray[np.int64] = fcluster(links, 1 - ALIKE, "distance")
    members: dict[int, list[int]] = {}
    for column, label in enumerate(labels):
        members.setdefault(int(label), []).append(column)
    return list(members.values())


FOLDS = 5
EXTRA_TREES = 50
_LARGEST = np.iinfo(np.int32).max
HALVES = 2


@dataclass(frozen=True)
class HeldOut:
    """Errors on held-out CPU models.

    `r2` is of log performance; `median_error` is relative; `growth`, shape (n_groups,), at least 0, is how
    much the mean squared log error grows when a group's columns are shuffled together. With a single CPU
    model, the first two are NaN, and `growth` is 0.
    """

    r2: float
    median_error: float
    growth: Floats


def cpu_model_folds(cpus: NDArray[np.str_], number: int = FOLDS) -> Iterator[tuple[Rows, Rows]]:
    """Yield training and test row numbers of up to `number` folds; no CPU model is in both.

    The folds are not random. ValueError at the first fold if there is only one CPU model.
    """
    yield from _known_folds(tuple(cpus.tolist()), number)


@lru_cache(2)
def _known_folds(cpus: tuple[str, ...], number: int) -> list[tuple[Rows, Rows]]:
    from sklearn.model_selection import GroupKFold

    return list(GroupKFold(min(number, len(set(cpus)))).split(cpus, groups=cpus))


def held_out(measured: Measured, groups: Sequence[Sequence[int]], seed: int) -> HeldOut:
    """Return errors when CPU models are predicted from others (up to 5 folds), and their growth by shuffling.

    `groups` has the column indices of each group. The regression is a forest of extremely randomised trees on
    logarithms: fast, and without assumptions about how stressors act together.
    """
    if len(np.unique(measured.cpus)) < 2:  # noqa: PLR2004 - one to learn from, one to predict
        return HeldOut(float("nan"), float("nan"), np.zeros(len(groups)))
    generator = np.random.default_rng(seed)
    truth = measured.log_speed
    is_shuffled = np.zeros((1 + len(groups), 1, len(measured.columns)), bool)
    for number, group in enumerate(groups, 1):
        is_shuffled[number, :, list(group)] = True
    error, squares = np.zeros(len(truth)), np.zeros(len(groups))
    for train, test in cpu_model_folds(measured.cpus):
        logs = log_rates(measured.x, train)
        rows, orders = logs[test], np.tile(np.arange(len(test)), (1 + len(groups), 1))
        generator.permuted(orders[1:], axis=1, out=orders[1:])
        shuffled = np.where(is_shuffled, rows[orders], rows)
        predicted = predict_by_extra_trees(measured, train, logs, np.concatenate(shuffled), seed)
        misses = predicted.reshape(-1, len(test)) - truth[test]
        error[test] = misses[0]
        squares += (misses[1:] ** 2).sum(axis=1)
    growth = (squares - (error**2).sum()) / len(truth)
    return HeldOut(r2(error, truth), float(np.median(np.abs(np.expm1(error)))), np.maximum(growth, 0))


def needed_machines_factor(measured: Measured, reached: float, wanted: float, seed: int) -> float:
    """Return the factor by which the number of machines must grow to reach the R2 `wanted`.

    `reached` is the R2 now, on held-out CPU models. The unexplained part, 1 - R2, is assumed to fall as a
    power of the number of CPU models, and that number to grow in proportion to the machines; the exponent
    comes from regressions that learn from half of the CPU models and from most. `seed` is that of the
    regressions; the folds are not random. The factor is below 1 if `reached` exceeds `wanted`; infinite if
    half of the CPU models predict at least as well as most, or there are at most two CPU models. Both R2 must
    be below 1; at 1, it may raise ZeroDivisionError.
    """
    parts = min(FOLDS, len(np.unique(measured.cpus)))
    if parts <= HALVES:
        return float("inf")
    halved = np.zeros(len(measured.y))
    for train, test in cpu_model_folds(measured.cpus, HALVES):
        logs = log_rates(measured.x, train)
        predicted = predict_by_extra_trees(measured, train, logs, logs[test], seed)
        halved[test] = predicted - measured.log_speed[test]
    fallen = (1 - r2(halved, measured.log_speed)) / (1 - reached)
    exponent = float(np.log(fallen) / np.log((1 - 1 / parts) * HALVES))
    return ((1 - reached) / (1 - wanted)) ** (1 / exponent) if exponent > 0 else float("inf")


def r2(misses: Floats, truth: Floats) -> float:
    """Return the share of the variance of `truth` that is explained, given `misses`; NaN without variance.

    `misses` are predicted - true values; both have shape (n_rows,). Negative if worse than the mean.
    """
    total = float(((truth - truth.mean()) ** 2).sum())
    return 1 - float((misses**2).sum()) / total if total else float("nan")


def predict_by_extra_trees(measured: Measured, train: Rows, logs: Floats, rows: Floats, seed: int) -> Floats:
    """Return log speeds, shape (n_rows,), predicted by 50 extremely randomised trees.

    `logs` are the log rates of all machines of `measured`, `train` the indices of those to fit to, `rows` the
    log rates, shape (n_rows, n_columns), of the machines to predict. The result equals that of scikit-learn's
    ``ExtraTreesRegressor``, which takes ten times as long: it copies and checks parameters for every tree.
    """
    from sklearn.tree import ExtraTreeRegressor
    from sklearn.utils import get_tags

    x, y = logs[train].astype(np.float32), measured.log_speed[train].reshape(-1, 1)
    rows, total = rows.astype(np.float32), np.zeros(len(rows))
    tree = ExtraTreeRegressor(
        max_depth=_LARGEST,
        max_features=max(1, x.shape[1] // 2),
        min_samples_leaf=2,
        random_state=_Replay(_tree_draws(seed)),
    )
    # the rest of a fit's time is the derivation of its tags, and the decorator that validates parameters
    tags, fit = get_tags(tree), ExtraTreeRegressor.fit.__wrapped__
    tags.requires_fit = False
    vars(tree).update(__sklearn_tags__=lambda: tags)
    for _ in range(EXTRA_TREES):
        fit(tree, x, y, check_input=False)
        total += tree.tree_.predict(rows)[:, 0]
    return total / EXTRA_TREES


@lru_cache
def _tree_draws(seed: int) -> tuple[int, ...]:
    """Return the only number that each tree of a forest draws from its generator, which seeds its splits."""
    seeds = np.random.RandomState(seed).randint(_LARGEST, size=EXTRA_TREES)
    return tuple(np.random.RandomState(of_tree).randint(_LARGEST) for of_tree in seeds)


class _Replay(np.random.RandomState):
    """Repeats numbers drawn earlier, which takes a tenth of the time of seeding a generator for each."""

    def __init__(self, draws: Sequence[int]) -> None:
        # not used, but seeded in a tenth of the default's time
        super().__init__(np.random.PCG64(0))
        self._next = iter(draws).__next__

    def randint(self, *_: Any, **__: Any) -> int:  # type: ignore[override]
        return self._next()
