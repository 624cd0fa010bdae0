"""Our estimator of the impact of co-runners: trees, pressures, and what the same pair did elsewhere."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.corun.estimators.pressure import Named, PressureRegressor, members, placed

Floats = NDArray[np.float64]

#: Inner folds that say what is known of a pair that no row has shown.
_FOLDS = 4
#: Rows without which no shares can be chosen.
_ENOUGH = 50
#: Rows that one processor answers at a time.
_BLOCK = 50_000
_STEPS = 10
#: Shares of trees, pressures and what a pair did elsewhere; at equal errors the first is taken.
_SHARES = np.array(
    [
        (_STEPS - pressed - known, pressed, known)
        for pressed in range(_STEPS + 1)
        for known in range(_STEPS + 1 - pressed)
    ]
) / float(_STEPS)
_TREES_ALONE = _SHARES[0]


class ContentionRegressor:
    """Mean of trees of three kinds on log impact, beside pressures, and what a pair did elsewhere.

    Boosting with squared and with absolute error and extra trees err differently, and relative errors want
    the logarithm. Trees see what was measured of both tasks alone; a `PressureRegressor` knows only who they
    are, from the co-runs of each with others, and is mixed in with the share that served best inside the
    training rows, where whole pairs were held out. Where training rows have the same task beside the same
    co-runners on another machine, their mean is mixed in likewise, and the shares of all three are chosen
    together. Where pressures say nothing, the trees have their share.

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
    mixed : bool
        Whether to mix anything with the trees; to choose the shares costs a few fits more.
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
        mixed: bool = True,
        seed: int = 0,
    ) -> None:
        self.trees = trees
        self.depth = depth
        self.rate = rate
        self.leaf = leaf
        self.forest = forest
        self.columns = columns
        self.mixed = mixed
        self.seed = seed

    def fit(self, x: Floats, y: Floats, named: Named) -> ContentionRegressor:
        """Fit to impacts.

        Parameters
        ----------
        x : ndarray of shape (n_rows, n_features)
            May hold NaN.
        y : ndarray of shape (n_rows,)
            Impacts, positive.
        named : Named
            The rows' tasks, co-runners and machines.
        """
        logs = np.log(y)
        self.members_ = [member.fit(x, logs) for member in self._members()]
        self.pairs_, owners, counts = np.unique(named.pairs, return_inverse=True, return_counts=True)
        self.known_ = np.bincount(owners, logs) / counts
        self.shares_new_ = self.shares_known_ = _TREES_ALONE
        if self.mixed and len(y) >= _ENOUGH:
            self._choose(x, logs, named, owners, counts)
        self.pressures_ = PressureRegressor()
        if self._pressed:
            self.pressures_.fit(named, logs)
        return self

    def predict(self, x: Floats, named: Named | None = None) -> Floats:
        """Return impacts, shape (n_rows,); without `named` by the trees alone."""
        logs = self.logs(x)
        return np.asarray(np.exp(logs if named is None else self.blend(logs, named)))

    def blend(self, logs: Floats, named: Named) -> Floats:
        """Return log impacts by all that is known of these pairs, given those by the trees."""
        pressed = self.pressures_.predict(named) if self._pressed else np.full(len(logs), np.nan)
        place, known = placed(self.pairs_, named.pairs)
        new = _blended(logs, pressed, logs, self.shares_new_)
        return np.where(known, _blended(logs, pressed, self.known_[place], self.shares_known_), new)

    @property
    def _pressed(self) -> bool:
        return bool(self.shares_new_[1] or self.shares_known_[1])

    def logs(self, x: Floats) -> Floats:
        """Return log impacts by the trees, shape (n_rows,); many rows are divided among the processors."""
        from concurrent.futures import ThreadPoolExecutor

        def mean(block: Floats) -> Floats:
            return np.mean([np.asarray(one.predict(block), np.float64) for one in self.members_], axis=0)

        with ThreadPoolExecutor(os.cpu_count()) as threads:
            return np.concatenate(list(threads.map(mean, np.array_split(x, max(len(x) // _BLOCK, 1)))))

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

    def _choose(
        self, x: Floats, logs: Floats, named: Named, owners: NDArray[np.intp], counts: NDArray[np.intp]
    ) -> None:
        """Set the shares that served best for pairs that are new, and for those with two rows or more."""
        from sklearn.model_selection import GroupKFold

        groups = np.array(["\n".join(sorted(members(pair))) for pair in self.pairs_])[owners]
        if len(np.unique(groups)) < _FOLDS:
            return
        alone, pressed = np.zeros(len(logs)), np.zeros(len(logs))
        for train, test in GroupKFold(_FOLDS, shuffle=True, random_state=self.seed).split(x, groups=groups):
            # one of the three says about as well what trees know
            alone[test] = self._members()[0].fit(x[train], logs[train]).predict(x[test])
            pressed[test] = PressureRegressor().fit(named[train], logs[train]).predict(named[test])
        self.shares_new_ = _best(_SHARES[_SHARES[:, 2] == 0], alone, pressed, alone, logs)
        again = counts[owners] > 1
        if again.sum() >= _ENOUGH:
            others = (np.bincount(owners, logs)[owners] - logs)[again] / (counts[owners] - 1)[again]
            self.shares_known_ = _best(_SHARES, alone[again], pressed[again], others, logs[again])
        else:
            self.shares_known_ = self.shares_new_


def _best(shares: Floats, trees: Floats, pressed: Floats, known: Floats, logs: Floats) -> Floats:
    """Return the shares with the least mean relative error."""
    errors = [np.abs(np.expm1(_blended(trees, pressed, known, row) - logs)).mean() for row in shares]
    return np.asarray(shares[int(np.argmin(errors))])


def _blended(trees: Floats, pressed: Floats, known: Floats, shares: Floats) -> Floats:
    pressed = np.where(np.isnan(pressed), trees, pressed)
    return np.asarray(shares[0] * trees + shares[1] * pressed + shares[2] * known)
