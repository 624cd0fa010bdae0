"""Our estimator of the impact of co-runners: trees, pressures, the same pair elsewhere, a smooth function."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.corun.estimators.pressure import Named, PressureRegressor, Words, members, placed
from training.corun.estimators.smooth import SmoothRegressor

Floats = NDArray[np.float64]
#: Training and test rows of each fold.
CellAnswers = list[tuple[NDArray[np.intp], NDArray[np.intp]]]

#: Inner folds that say what is known of a pair that no row has shown.
_FOLDS = 3
#: Rows without which no shares can be chosen.
_ENOUGH = 50
#: Rows that one processor answers at a time.
_BLOCK = 50_000
_STEPS = 10
#: Shares of trees, pressures, what a pair did elsewhere, and the smooth function; at equal errors the first.
_SHARES = np.array(
    [
        (_STEPS - pressed - known - smooth, pressed, known, smooth)
        for pressed in range(_STEPS + 1)
        for known in range(_STEPS + 1 - pressed)
        for smooth in range(_STEPS + 1 - pressed - known)
    ]
) / float(_STEPS)
_TREES_ALONE = _SHARES[0]
#: How many parts have shares.
PARTS = _SHARES.shape[1]
_PRESSED, _ELSEWHERE, _SMOOTH = 1, 2, 3


@dataclass(frozen=True)
class _Said:
    """Log impacts by trees, by pressures (NaN of strangers), and by the smooth function."""

    trees: Floats
    pressed: Floats
    smooth: Floats

    def __getitem__(self, rows: Any) -> _Said:
        return _Said(self.trees[rows], self.pressed[rows], self.smooth[rows])

    def blended(self, elsewhere: Floats, shares: Floats) -> Floats:
        pressed = np.where(np.isnan(self.pressed), self.trees, self.pressed)
        parts = (self.trees, pressed, elsewhere, self.smooth)
        return np.asarray(sum(share * part for share, part in zip(shares, parts, strict=True)))

    def best(self, elsewhere: Floats, logs: Floats, shares: Floats) -> Floats:
        """Return the shares with the least mean relative error."""
        errors = [np.abs(np.expm1(self.blended(elsewhere, row) - logs)).mean() for row in shares]
        return np.asarray(shares[int(np.argmin(errors))])


class ContentionRegressor:
    """Trees of three kinds on log impact, pressures, a smooth function, and what a pair did elsewhere.

    Boosting with squared and with absolute error and extra trees err differently, and relative errors want
    the logarithm. Trees see what was measured of both tasks alone; so does a `SmoothRegressor`, which does
    better where tasks are few and new ones lie between those that are known; a `PressureRegressor` knows only
    who they are, from the co-runs of each with others. All are mixed with the shares that served best inside
    the training rows: of known tasks where whole pairs were held out, of strangers where tasks were. Where
    training rows have the same task beside the same co-runners on another machine, their mean is mixed in
    likewise.

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
    """

    shares_new_: Floats
    shares_known_: Floats
    shares_strange_: Floats

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

    def fit(
        self, x: Floats, y: Floats, named: Named, sides: NDArray[np.intp] | None = None
    ) -> ContentionRegressor:
        """Fit to impacts `y` (positive, shape (n_rows,)); `x`, shape (n_rows, n_features), may hold NaN.

        `sides`, shape (n_features,), is the side of each feature as of `smooth.sides_of`; None: no smooth
        part.
        """
        logs = np.log(y)
        self.members_ = [member.fit(x, logs) for member in self._members()]
        self.pairs_, owners, counts = np.unique(named.pairs, return_inverse=True, return_counts=True)
        self.known_ = np.bincount(owners, logs) / counts
        self.shares_new_ = self.shares_known_ = self.shares_strange_ = _TREES_ALONE
        self.pressures_, self.smooth_ = PressureRegressor(), SmoothRegressor(self.seed)
        if self.mixed and len(y) >= _ENOUGH:
            self._choose(_Training(x, logs, named, sides, self.seed), owners, counts)
        if self.mixes:
            self.pressures_.fit(named, logs)
        if sides is not None and self.smoothed:
            self.smooth_.fit(x, logs, named, sides)
        return self

    def predict(self, x: Floats, named: Named | None = None) -> Floats:
        """Return impacts, shape (n_rows,); without `named` by the trees alone."""
        logs = self.logs(x)
        return np.asarray(np.exp(logs if named is None else self.blend(logs, x, named)))

    def blend(self, logs: Floats, x: Floats, named: Named) -> Floats:
        """Return log impacts by all that is known of these co-runs, given those by the trees."""
        if not self.mixes:
            return logs
        smooth = self.smooth_.predict(x, named) if self.smoothed else logs
        said = _Said(logs, self.pressures_.predict(named), smooth)
        place, known = placed(self.pairs_, named.pairs)
        by_shares = [
            said.blended(elsewhere, shares)
            for elsewhere, shares in (
                (self.known_[place], self.shares_known_),
                (logs, self.shares_strange_),
                (logs, self.shares_new_),
            )
        ]
        return np.asarray(np.select([known, np.isnan(said.pressed)], by_shares[:2], by_shares[2]))

    def shares_of(self, *, known: bool, stranger: bool) -> list[float]:
        """Return the shares of trees, pressures, what the pair did elsewhere and the smooth function."""
        of_new = self.shares_strange_ if stranger else self.shares_new_
        return [float(share) for share in (self.shares_known_ if known else of_new)]

    @property
    def smoothed(self) -> bool:
        """Whether the smooth function has a share."""
        return any(shares[_SMOOTH] for shares in self._shares)

    @property
    def mixes(self) -> bool:
        """Whether anything is mixed with the trees."""
        return any(shares[0] < 1 for shares in self._shares)

    @property
    def _shares(self) -> tuple[Floats, Floats, Floats]:
        return self.shares_new_, self.shares_known_, self.shares_strange_

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

    def _choose(self, rows: _Training, owners: NDArray[np.intp], counts: NDArray[np.intp]) -> None:
        """Set the shares that served best for new pairs, those with two rows or more, and strangers."""
        new, strange = _pairs_held(self.pairs_, owners, self.seed), _tasks_held(rows.named, self.seed)
        if not new:
            return
        held, said, logs = *rows.said(new, self._inner), rows.logs
        shares = _SHARES if rows.sides is not None else _SHARES[_SHARES[:, _SMOOTH] == 0]
        self.shares_new_ = said.best(said.trees, logs[held], shares[shares[:, _ELSEWHERE] == 0])
        self.shares_known_ = self.shares_strange_ = self.shares_new_
        again, pair = counts[owners[held]] > 1, owners[held]
        if again.sum() >= _ENOUGH:
            others = (np.bincount(owners, logs)[pair] - logs[held])[again] / (counts[pair] - 1)[again]
            self.shares_known_ = said[again].best(others, logs[held][again], shares)
        if strange:
            held, said = rows.said(strange, self._inner)
            nobody = shares[:, [_PRESSED, _ELSEWHERE]].sum(axis=1) == 0
            self.shares_strange_ = said.best(said.trees, logs[held], shares[nobody])

    def _inner(self) -> Any:
        """Return trees that say about as well what all of them know, in half the rounds."""
        return self._members()[0].set_params(n_estimators=self.trees // 2 or 1, learning_rate=2 * self.rate)


@dataclass(frozen=True)
class _Training:
    """What is fitted to."""

    x: Floats
    logs: Floats
    named: Named
    sides: NDArray[np.intp] | None
    seed: int

    def said(self, held: CellAnswers, boosted: Callable[[], Any]) -> tuple[NDArray[np.intp], _Said]:
        """Return the rows held out, and what each part says of them that was fitted to the others."""
        found = [self._said(train, test, boosted()) for train, test in held]
        trees, pressed, smooth = (
            np.concatenate(parts)
            for parts in zip(*((one.trees, one.pressed, one.smooth) for one in found), strict=True)
        )
        return np.concatenate([test for _, test in held]), _Said(trees, pressed, smooth)

    def _said(self, train: NDArray[np.intp], test: NDArray[np.intp], boosted: Any) -> _Said:
        x, logs, named = self.x[train], self.logs[train], self.named[train]
        trees = np.asarray(boosted.fit(x, logs).predict(self.x[test]), np.float64)
        pressed, smooth = PressureRegressor().fit(named, logs).predict(self.named[test]), trees
        if self.sides is not None:
            fitted = SmoothRegressor(self.seed).fit(x, logs, named, self.sides)
            smooth = fitted.predict(self.x[test], self.named[test])
        return _Said(trees, pressed, smooth)


def _pairs_held(pairs: Words, owners: NDArray[np.intp], seed: int) -> CellAnswers:
    """Hold out whole pairs, in both directions; nothing where they are too few."""
    from sklearn.model_selection import GroupKFold

    groups = np.array(["\n".join(sorted(members(pair))) for pair in pairs])[owners]
    if len(np.unique(groups)) < _FOLDS:
        return []
    return list(GroupKFold(_FOLDS, shuffle=True, random_state=seed).split(groups, groups=groups))


def _tasks_held(named: Named, seed: int) -> CellAnswers:
    """Hold out rows with some tasks, and fit to rows without them; nothing where these are too few."""
    everyone = [members(str(pair)) for pair in named.pairs]
    names = sorted({name for row in everyone for name in row})
    fold = dict(zip(names, np.random.default_rng(seed).permutation(len(names)) % _FOLDS, strict=True))
    of_rows = [{int(fold[name]) for name in row} for row in everyone]
    held = []
    for number in range(_FOLDS):
        out = np.array([number in found for found in of_rows])
        held.append((np.flatnonzero(~out), np.flatnonzero(out)))
    return held if all(len(train) >= _ENOUGH / 2 and len(test) for train, test in held) else []
