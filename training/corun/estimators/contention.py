"""Estimator of the impact of co-runners: trees, pressures, the pair's other co-runs, a smooth function."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from features.corun.rates import Floats
from training.corun.estimators.pressure import Named, PressureRegressor, Words, locate_words, pair_members
from training.corun.estimators.smooth import SmoothRegressor
from training.corun.splits import folds_of_members
from training.estimators.catalogue import BOOSTING, FOREST, HISTOGRAMS, Params, build_estimator

#: Training and test rows of each fold.
Folds = list[tuple[NDArray[np.intp], NDArray[np.intp]]]
#: Features, log impacts, names and sides of the training rows.
_Training = tuple[Floats, Floats, Named, NDArray[np.intp]]

#: Number of inner folds, for predictions of unseen pairs.
_FOLDS = 3
#: Least number of rows to choose shares.
_ENOUGH = 50
#: Number of rows that one processor predicts at a time.
_BLOCK = 50_000
_STEPS = 10
#: Shares of trees, pressures, the pair's other co-runs, and the smooth function; of equal errors the first
#: wins.
_SHARES = np.array(
    [
        (_STEPS - pressed - by_pair - smooth, pressed, by_pair, smooth)
        for pressed in range(_STEPS + 1)
        for by_pair in range(_STEPS + 1 - pressed)
        for smooth in range(_STEPS + 1 - pressed - by_pair)
    ]
) / float(_STEPS)
_TREES_ALONE = _SHARES[0]
#: Number of parts that have shares.
PARTS = _SHARES.shape[1]
_PRESSED, _ELSEWHERE, _SMOOTH = 1, 2, 3


def build_boosted(name: str, params: Params, seed: int, _: Any = None, **fixed: Any) -> Any:
    """Return an unfitted estimator `name` of XGBoost with ``trees, depth, rate, child_weight, columns``.

    `fixed` are further arguments of the class. KeyError if one of `params` is missing.
    """
    arguments = {**BOOSTING, "learning_rate": "rate"}
    fixed = {"subsample": 0.8, "max_bin": 64, **HISTOGRAMS, **fixed}
    return build_estimator(f"xgboost:{name}", arguments, params, seed, None, **fixed)


@dataclass(frozen=True)
class _PartPredictions:
    """Log impacts by trees, by pressures (NaN for unknown tasks), and by the smooth function."""

    trees: Floats
    pressed: Floats
    smooth: Floats

    def __getitem__(self, rows: Any) -> _PartPredictions:
        return _PartPredictions(self.trees[rows], self.pressed[rows], self.smooth[rows])

    def blend_parts(self, elsewhere: Floats, shares: Floats) -> Floats:
        pressed = np.where(np.isnan(self.pressed), self.trees, self.pressed)
        parts = (self.trees, pressed, elsewhere, self.smooth)
        return np.asarray(sum(share * part for share, part in zip(shares, parts, strict=True)))

    def best_shares(self, elsewhere: Floats, logs: Floats, shares: Floats) -> Floats:
        errors = [np.abs(np.expm1(self.blend_parts(elsewhere, row) - logs)).mean() for row in shares]
        return np.asarray(shares[int(np.argmin(errors))])


class ContentionRegressor:
    """A blend of three kinds of trees, pressures, a smooth function, and the pair's impact on other machines.

    All parts predict log impact, which suits relative errors. The trees (boosting with squared and with
    absolute error, extra trees) make different errors. They take the solo measurements of both sides; so does
    a `SmoothRegressor`, which is better where tasks are few and new ones are between known ones; a
    `PressureRegressor` uses only the names, and the co-runs of each task with others. The shares of the blend
    are those with the least error inside the training rows: for known tasks with whole pairs held out, for
    unknown tasks with tasks held out. Where training rows have the same task and co-runners on another
    machine, their mean is a part of the blend, too.

    `trees` is the number of boosting rounds, `rate` the learning rate, `leaf` the least number of instances
    in a leaf of the extra trees, `forest` their number, `columns` the share of the features that a tree uses;
    `mixed`: whether to blend other parts with the trees, which takes a few more fits.
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

    def fit(self, x: Floats, y: Floats, named: Named, sides: NDArray[np.intp]) -> ContentionRegressor:
        """Fit to impacts `y` (positive, shape (n_rows,)) and return self; features `x` may have NaN.

        `named` has the task, co-runners and machine of each row; `sides` comes from `smooth.sides_of`. Fewer
        than 50 rows are fitted by trees alone.
        """
        logs = np.log(y)
        self.members_ = [member.fit(x, logs) for member in self._unfitted_members()]
        self.pairs_, owners, counts = np.unique(named.pairs, return_inverse=True, return_counts=True)
        self.known_ = np.bincount(owners, logs) / counts
        self.shares_new_ = self.shares_known_ = self.shares_strange_ = _TREES_ALONE
        self.pressures_, self.smooth_ = PressureRegressor(), SmoothRegressor(self.seed)
        if self.mixed and len(y) >= _ENOUGH:
            self._choose_shares((x, logs, named, sides), owners, counts)
        if self.is_blended:
            self.pressures_.fit(named, logs)
        if self.uses_smooth:
            self.smooth_.fit(x, logs, named, sides)
        return self

    def predict(self, x: Floats, named: Named) -> Floats:
        """Return impacts (n_rows,) of features `x`, which may have NaN."""
        return np.exp(self._blend_log_impacts(self.tree_log_impacts(x), x, named))

    def _blend_log_impacts(self, logs: Floats, x: Floats, named: Named) -> Floats:
        if not self.is_blended:
            return logs
        smooth = self.smooth_.predict(x, named) if self.uses_smooth else logs
        parts = _PartPredictions(logs, self.pressures_.predict(named), smooth)
        place, by_pair = locate_words(self.pairs_, named.pairs)
        of_known = parts.blend_parts(self.known_[place], self.shares_known_)
        of_strange = parts.blend_parts(logs, self.shares_strange_)
        of_new = parts.blend_parts(logs, self.shares_new_)
        return np.asarray(np.select([by_pair, np.isnan(parts.pressed)], [of_known, of_strange], of_new))

    def shares_of(self, *, by_pair: bool, has_unknown_task: bool) -> list[float]:
        """Return the weights of trees, pressures, the pair's other co-runs and the smooth function; sum 1.

        `by_pair`: training has the same pair; `has_unknown_task`: training has not seen the task or a
        co-runner.
        """
        of_new = self.shares_strange_ if has_unknown_task else self.shares_new_
        return list(map(float, self.shares_known_ if by_pair else of_new))

    @property
    def uses_smooth(self) -> bool:
        """Whether the smooth function has a weight above 0 for any kind of co-run."""
        return any(shares[_SMOOTH] for shares in self._all_shares)

    @property
    def is_blended(self) -> bool:
        """Whether any part is blended with the trees."""
        return any(shares[0] < 1 for shares in self._all_shares)

    @property
    def _all_shares(self) -> tuple[Floats, Floats, Floats]:
        return self.shares_new_, self.shares_known_, self.shares_strange_

    def tree_log_impacts(self, x: Floats) -> Floats:
        """Return log impacts by the trees, shape (n_rows,); many rows are divided among the processors."""
        from concurrent.futures import ThreadPoolExecutor

        def mean_prediction(block: Floats) -> Floats:
            logs = [np.asarray(member.predict(block), np.float64) for member in self.members_]
            return np.mean(logs, axis=0)

        blocks = np.array_split(x, max(len(x) // _BLOCK, 1))
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            return np.concatenate(list(threads.map(mean_prediction, blocks)))

    def _unfitted_members(self) -> list[Any]:
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import Pipeline

        boosted = partial(build_boosted, "XGBRegressor", {**vars(self), "child_weight": 2}, self.seed)
        grown = {"trees": self.forest, "leaf": self.leaf, "features": max(self.columns, 0.3)}
        address = "sklearn.ensemble:ExtraTreesRegressor"
        forest = build_estimator(address, FOREST, grown, self.seed, None, n_jobs=1)
        return [
            boosted(objective="reg:squarederror"),
            boosted(objective="reg:absoluteerror"),
            Pipeline([("impute", SimpleImputer(keep_empty_features=True)), ("forest", forest)]),
        ]

    def _choose_shares(self, training: _Training, owners: NDArray[np.intp], counts: NDArray[np.intp]) -> None:
        """Set the best shares for new pairs, for pairs with two rows or more, and for unknown tasks."""
        _, logs, named, _ = training
        new, strange = _hold_out_pairs(self.pairs_, owners, self.seed), _hold_out_tasks(named, self.seed)
        if not new:
            return
        rows, parts = self._held_out(new, *training)
        self.shares_new_ = parts.best_shares(parts.trees, logs[rows], _SHARES[_SHARES[:, _ELSEWHERE] == 0])
        self.shares_known_ = self.shares_strange_ = self.shares_new_
        is_repeated, pair = counts[owners[rows]] > 1, owners[rows]
        if is_repeated.sum() >= _ENOUGH:
            sums = (np.bincount(owners, logs)[pair] - logs[rows])[is_repeated]
            others = sums / (counts[pair] - 1)[is_repeated]
            self.shares_known_ = parts[is_repeated].best_shares(others, logs[rows][is_repeated], _SHARES)
        if strange:
            rows, parts = self._held_out(strange, *training)
            neither = _SHARES[:, [_PRESSED, _ELSEWHERE]].sum(axis=1) == 0
            self.shares_strange_ = parts.best_shares(parts.trees, logs[rows], _SHARES[neither])

    def _held_out(
        self, folds: Folds, x: Floats, logs: Floats, named: Named, sides: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], _PartPredictions]:
        """Return the test rows of `folds`, and predictions of them by parts fitted to the training rows."""
        predictions = []
        for train, test in folds:
            # about as good as all trees together, with half the rounds
            rounds = {"n_estimators": self.trees // 2 or 1, "learning_rate": 2 * self.rate}
            boosted = self._unfitted_members()[0].set_params(**rounds)
            trees = np.asarray(boosted.fit(x[train], logs[train]).predict(x[test]), np.float64)
            pressures = PressureRegressor().fit(named[train], logs[train])
            smooth = SmoothRegressor(self.seed).fit(x[train], logs[train], named[train], sides)
            predictions.append((trees, pressures.predict(named[test]), smooth.predict(x[test], named[test])))
        parts = map(np.concatenate, zip(*predictions, strict=True))
        return np.concatenate([test for _, test in folds]), _PartPredictions(*parts)


def _hold_out_pairs(pairs: Words, owners: NDArray[np.intp], seed: int) -> Folds:
    """Hold out whole pairs, in both directions; empty where they are too few."""
    from sklearn.model_selection import GroupKFold

    groups = np.array(["\n".join(sorted(pair_members(pair))) for pair in pairs])[owners]
    if len(np.unique(groups)) < _FOLDS:
        return []
    return list(GroupKFold(_FOLDS, shuffle=True, random_state=seed).split(groups, groups=groups))


def _hold_out_tasks(named: Named, seed: int) -> Folds:
    """Hold out rows with some tasks, and fit to rows without them; empty where these are too few."""
    of_rows = folds_of_members([pair_members(str(pair)) for pair in named.pairs], _FOLDS, seed)
    tests = [np.array([number in folds for folds in of_rows]) for number in range(_FOLDS)]
    task_folds = [(np.flatnonzero(~test), np.flatnonzero(test)) for test in tests]
    return task_folds if all(len(train) >= _ENOUGH / 2 and len(test) for train, test in task_folds) else []
