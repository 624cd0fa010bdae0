"""Our estimator of the impact of co-runners: ensembles of trees, and what the same pair did elsewhere."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Words = NDArray[np.str_]

#: Inner folds that say what the trees know without having seen a row.
_FOLDS = 3
#: Rows whose pair is known from elsewhere, without which no weight can be chosen.
_ENOUGH = 50
#: Rows that one processor answers at a time.
_BLOCK = 50_000
_WEIGHTS = np.linspace(0, 1, 11)


class ContentionRegressor:
    """Mean of boosted trees for two losses and of extra trees, on log impact, and what a pair did elsewhere.

    Boosting with squared and with absolute error and extra trees err differently, and relative errors want
    the logarithm. Where training rows have the same task beside the same co-runners on another machine, the
    mean of these is mixed in, with the weight that served best inside the training rows.

    Parameters
    ----------
    trees, depth : int
        Boosting rounds, and the depth of their trees.
    rate : float
        The rate of learning.
    leaf : int
        The fewest instances in a leaf of the extra trees.
    forest : int
        How many extra trees.
    columns : float
        Share of the features that a tree looks at.
    elsewhere : bool
        Whether to look at the pair on other machines; it costs a few fits more.
    seed : int
    """

    def __init__(
        self,
        *,
        trees: int = 300,
        depth: int = 6,
        rate: float = 0.06,
        leaf: int = 1,
        forest: int = 50,
        columns: float = 0.4,
        elsewhere: bool = True,
        seed: int = 0,
    ) -> None:
        self.trees = trees
        self.depth = depth
        self.rate = rate
        self.leaf = leaf
        self.forest = forest
        self.columns = columns
        self.elsewhere = elsewhere
        self.seed = seed

    def fit(self, x: Floats, y: Floats, pairs: Words) -> ContentionRegressor:
        """Fit to impacts.

        Parameters
        ----------
        x : ndarray of shape (n_rows, n_features)
            May hold NaN.
        y : ndarray of shape (n_rows,)
            Impacts, positive.
        pairs : ndarray of str, shape (n_rows,)
            The task and its co-runners, the same on every machine.
        """
        logs = np.log(y)
        self.members_ = self._fitted(x, logs)
        self.pairs_, owners, counts = np.unique(pairs, return_inverse=True, return_counts=True)
        self.known_ = np.bincount(owners, logs) / counts
        self.weight_ = self._weight(x, logs, owners, counts) if self.elsewhere else 0.0
        if not self.weight_:
            self.pairs_, self.known_ = self.pairs_[:0], self.known_[:0]
        return self

    def predict(self, x: Floats, pairs: Words | None = None) -> Floats:
        """Return impacts, shape (n_rows,); without `pairs` none is known from elsewhere."""
        logs = self._logs(x)
        if pairs is not None and len(self.pairs_):
            place = np.minimum(np.searchsorted(self.pairs_, pairs), len(self.pairs_) - 1)
            blended = (1 - self.weight_) * logs + self.weight_ * self.known_[place]
            logs = np.where(self.pairs_[place] == pairs, blended, logs)
        return np.asarray(np.exp(logs))

    def _logs(self, x: Floats) -> Floats:
        """Return log impacts by the trees; many rows are divided among the processors."""
        from concurrent.futures import ThreadPoolExecutor

        blocks = np.array_split(x, max(len(x) // _BLOCK, 1))
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            return np.concatenate(list(threads.map(lambda block: _mean(self.members_, block), blocks)))

    def _fitted(self, x: Floats, logs: Floats) -> list[Any]:
        return [member.fit(x, logs) for member in self._members()]

    def _members(self) -> list[Any]:
        from sklearn.ensemble import ExtraTreesRegressor
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import Pipeline
        from xgboost import XGBRegressor

        boosted = {
            "n_estimators": self.trees,
            "max_depth": self.depth,
            "learning_rate": self.rate,
            "min_child_weight": 2,
            "subsample": 0.8,
            "colsample_bytree": self.columns,
            "max_bin": 64,
            "tree_method": "hist",
            "nthread": 1,
            "random_state": self.seed,
        }
        forest = ExtraTreesRegressor(
            self.forest,
            min_samples_leaf=self.leaf,
            max_features=max(self.columns, 0.3),
            n_jobs=1,
            random_state=self.seed,
        )
        return [
            XGBRegressor(**boosted, objective="reg:squarederror"),
            XGBRegressor(**boosted, objective="reg:absoluteerror"),
            Pipeline([("impute", SimpleImputer(keep_empty_features=True)), ("forest", forest)]),
        ]

    def _weight(self, x: Floats, logs: Floats, owners: NDArray[np.intp], counts: NDArray[np.intp]) -> float:
        """Return the weight of what a pair did elsewhere that served best for pairs with two rows or more."""
        from sklearn.model_selection import KFold

        again = np.flatnonzero(counts[owners] > 1)
        if len(again) < _ENOUGH:
            return 0.0
        alone = np.zeros(len(logs))
        for train, test in KFold(_FOLDS, shuffle=True, random_state=self.seed).split(x):
            # one of the three says about as well what trees know alone
            alone[test] = self._members()[0].fit(x[train], logs[train]).predict(x[test])
        others = (np.bincount(owners, logs)[owners] - logs)[again] / (counts[owners] - 1)[again]
        errors = [
            np.abs(np.expm1(weight * others + (1 - weight) * alone[again] - logs[again])).mean()
            for weight in _WEIGHTS
        ]
        return float(_WEIGHTS[int(np.argmin(errors))])


def _mean(members: list[Any], x: Floats) -> Floats:
    return np.mean([np.asarray(member.predict(x), np.float64) for member in members], axis=0)
