"""Tree-augmented naive Bayes: every metric depends on the class and on one other metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from training.estimators.answering import Floats
from training.estimators.preparation import Labelled, check_rows, check_training_rows

Whole = NDArray[np.intp]
Codes = NDArray[np.uint8]
#: Number of cells in the grid for class-dependent cuts.
_CELLS = 64
#: Largest number of levels of a feature.
_MOST = 12
#: Number of features cut at a time.
_FEATURES = 8
#: Number of values coded at a time (half a megabyte of them stays in the cache), and of entries of a one-hot
#: matrix multiplied at a time.
_AT_ONCE, _ONE_HOT = 1 << 16, 1 << 19
#: Possible numbers of levels: a level is stored as a byte.
_NUMBERS = range(2, 257)


def frequency_cuts(rows: Labelled, levels: int) -> Floats:
    """Return the cuts of every feature into levels of equal frequency, shape (n_features, levels - 1).

    A feature with at most `levels` distinct values keeps them all. Cuts ascend, and are infinite where a
    feature has fewer levels. The level of a value is the number of cuts below it.
    """
    total = float(len(rows.x))
    cuts = np.full((rows.x.shape[1], levels - 1), np.inf)
    positions = _equal_weight_bounds(np.arange(1.0, len(rows.x)), total, levels)
    step = max(1, _AT_ONCE // len(rows.x))
    for start in range(0, len(cuts), step):
        part = slice(start, start + step)
        values = np.sort(rows.x[:, part], axis=0)
        # features whose values all differ, as most do, are cut at the same places
        alike = (values[1:] != values[:-1]).all(axis=0)
        cuts[part, : len(positions)][alike] = _cut_between(values[positions], values[positions + 1]).T[alike]
        for place in np.flatnonzero(~alike):
            column = values[:, place]
            last = _last_of_equal(column)
            chosen = last[_equal_weight_bounds((last + 1).astype(np.float64), total, levels)]
            cuts[start + place, : len(chosen)] = _cut_between(column[chosen], column[chosen + 1])
    return cuts


def class_cuts(rows: Labelled) -> Floats:
    """Return the most probable discretisation: cuts where a feature's relation to the class changes.

    MODL (Boulle 2006, "MODL: a Bayes optimal discretization method for continuous attributes", Machine
    Learning 65) minimises the description length of the number of intervals, their bounds, the frequency of
    the classes in each, and the classes themselves. The minimum is exact on a grid of 64 cells of equal
    weight, after every class got the same total weight, for up to 12 intervals. A feature without information
    on the class gets no cuts. Result: shape (n_features, n_cuts), n_cuts of the feature with the most; cuts
    ascend and are followed by infinity where a feature has fewer.
    """
    n_classes = len(rows.classes)
    members = np.eye(n_classes)[rows.y]
    totals = members.sum(axis=0)
    grid = np.full((rows.x.shape[1], _CELLS - 1), np.inf)
    counts = np.zeros((len(grid), _CELLS, n_classes))
    for place, column in enumerate(rows.x.T):
        order = np.argsort(column, kind="stable")
        values = column[order]
        last = _last_of_equal(values)
        below = np.cumsum(members[order], axis=0)[last]
        chosen = _equal_weight_bounds((below / totals).sum(axis=1), float(n_classes), _CELLS)
        bounds = last[chosen]
        grid[place, : len(bounds)] = _cut_between(values[bounds], values[bounds + 1])
        counts[place, : len(chosen) + 1] = np.diff(below[chosen], axis=0, prepend=0.0, append=totals[None])
    parts = np.array_split(counts, range(_FEATURES, len(counts), _FEATURES))
    is_cut = np.concatenate([_modl_cuts(part) for part in parts])
    cuts = np.sort(np.where(is_cut, grid, np.inf), axis=1)
    return np.ascontiguousarray(cuts[:, : int(is_cut.sum(axis=1).max())])


def encode_levels(x: Floats, cuts: Floats) -> Codes:
    """Return the level of every value, counted from zero: the number of its feature's cuts below it.

    `x` has shape (n_rows, n_features), as has the result; `cuts` has shape (n_features, n_cuts), with at most
    255 cuts. NaN has level 0.
    """
    result = np.zeros(x.shape, np.uint8)
    for block in _row_blocks(x.shape, _AT_ONCE):
        part, levels = x[block], result[block]
        for cut in cuts.T:
            levels += part > cut
    return result


def _last_of_equal(ascending: Floats) -> Whole:
    """Return the index of the last of each run of equal values, except the largest."""
    return np.flatnonzero(ascending[1:] != ascending[:-1])


def _cut_between(low: Floats, high: Floats) -> Floats:
    low, high = low.astype(np.float64), high.astype(np.float64)
    middle = low / 2 + high / 2
    # the middle of two neighbours among floating-point numbers may be the upper one
    return np.where((low <= middle) & (middle < high), middle, low)


def _equal_weight_bounds(below: Floats, total: float, levels: int) -> NDArray[np.intp]:
    """Return the indices of the bounds nearest to `levels` of equal weight; all, if there are fewer."""
    if len(below) < levels:
        return np.arange(len(below))
    wanted = total * np.arange(1, levels) / levels
    right = np.clip(np.searchsorted(below, wanted), 1, len(below) - 1)
    return np.unique(right - (wanted - below[right - 1] <= below[right] - wanted))


def _modl_cuts(counts: Floats) -> NDArray[np.bool_]:
    """Return which bounds of the cells are cuts, shape (n_features, n_cells - 1)."""
    n_features, n_cells, n_classes = counts.shape
    below = np.zeros((n_features, n_cells + 1, n_classes))
    np.cumsum(counts, axis=1, out=below[:, 1:])
    inside = np.maximum(below[:, None, :, :] - below[:, :, None, :], 0.0)
    total = inside.sum(axis=-1)
    interval = _log_ways_to_split(total, n_classes) + gammaln(total + 1) - gammaln(inside + 1).sum(axis=-1)
    interval[:, np.tril_indices(n_cells + 1)[0], np.tril_indices(n_cells + 1)[1]] = np.inf
    best, origins = interval[:, 0], []
    n = total[:, 0, -1]
    costs = [best[:, -1]]
    for levels in range(2, _MOST + 1):
        reached = best[:, :, None] + interval
        origins.append(reached.argmin(axis=1))
        best = reached.min(axis=1)
        costs.append(best[:, -1] + _log_ways_to_split(n, levels))
    levels = np.argmin(costs, axis=0) + 1
    chosen = np.zeros((n_features, n_cells + 1), bool)
    at, feature = np.full(n_features, n_cells), np.arange(n_features)
    for step in range(_MOST, 1, -1):
        moving = levels >= step
        at[moving] = origins[step - 2][feature[moving], at[moving]]
        chosen[feature[moving], at[moving]] = True
    return chosen[:, 1:-1]


def _log_ways_to_split(n: Floats, parts: int) -> Floats:
    """Return the logarithm of the number of ways to split `n` into `parts`, zeros allowed."""
    return np.asarray(gammaln(n + parts) - gammaln(n + 1) - gammaln(parts))


class TAN(ClassifierMixin, BaseEstimator):
    """Tree-augmented naive Bayes (matrix paper, section 7; Friedman, Geiger and Goldszmidt 1997, section 4).

    The features are cut into levels. Their tree is the maximum spanning tree of the mutual information of two
    features given the class (Chow and Liu 1968), one tree for all classes. A feature's table has the
    probabilities of its levels for each class and each level of its parent. NaN and infinity are refused.

    Memory in addition to the data: a byte per value, and the square of the number of levels of all features.

    Parameters
    ----------
    levels : "classes" or int
        How features are cut. ``"classes"``: where their relation to the class changes
        (`training.estimators.tan.class_cuts`); features without information on the class by themselves are
        left out. A number from 2 to 256: into levels of equal frequency; a feature with no more distinct
        values keeps them.
    smoothing : float
        Added to every count of the tables (Laplace).
    class_weight : dict, "balanced" or None
        Cost of an error, by true class. A generative model includes costs in the frequency of the classes
        (Elkan 2001, "The foundations of cost-sensitive learning"); cuts, tree and tables don't depend on
        them.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    cuts_ : ndarray of shape (n_features, n_cuts)
        A value's level is the number of cuts below it; infinite where a feature has fewer levels.
    parents_ : ndarray of shape (n_features,)
        Of each feature in the tree; -1 for its root.
    log_prior_ : ndarray of shape (n_classes,)
    log_tables_ : ndarray of shape (n_classes, n_cells)
        The logarithm of P(level | parent's level, class), feature after feature, the parent's levels in rows.
    """

    def __init__(
        self,
        levels: str | int = 3,
        *,
        smoothing: float = 1.0,
        class_weight: dict[Any, float] | str | None = None,
    ) -> None:
        self.levels = levels
        self.smoothing = smoothing
        self.class_weight = class_weight

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803
        """Learn cuts, tree and tables.

        `X`: shape (n_rows, n_features). `y`: shape (n_rows,). ValueError if a value is not finite, `y` has a
        single class, or a parameter is out of its range.
        """
        whole = isinstance(self.levels, int | np.integer) and self.levels in _NUMBERS
        if not whole and self.levels != "classes":
            raise ValueError(f'TAN: levels={self.levels!r} is not "classes" or a whole number from 2 to 256')
        if not self.smoothing > 0:
            raise ValueError(f"TAN: smoothing={self.smoothing!r} is not above 0")
        rows = check_training_rows(self, X, y)
        self.classes_ = rows.classes
        self.cuts_ = class_cuts(rows) if self.levels == "classes" else frequency_cuts(rows, int(self.levels))
        coded = encode_levels(rows.x, self.cuts_)
        self.parents_ = _spanning_tree_parents(_mutual_information(coded, _level_counts(self.cuts_), rows))
        shape = _Shape.from_cuts(self.cuts_, self.parents_)
        counts = _cell_counts(coded, shape, rows) + float(self.smoothing)
        # for every cell, the sum over the cells with the same level of the parent
        sizes = np.repeat(shape.levels, shape.outer)
        sums = np.repeat(np.add.reduceat(counts, np.cumsum(sizes) - sizes, axis=1), sizes, axis=1)
        self.log_tables_ = np.log(counts) - np.log(sums)
        costs = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_[rows.y])
        prior = np.bincount(rows.y) * costs
        self.log_prior_ = np.log(prior) - np.log(prior.sum())
        return self

    def predict_log_proba(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the logarithm of the probability of every class, shape (n_rows, n_classes)."""
        return np.asarray(log_softmax(self._log_joint(X), axis=1))

    def predict_proba(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the probability of every class, shape (n_rows, n_classes)."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return the most probable class of each row, shape (n_rows,)."""
        joint = self._log_joint(X)
        return np.asarray(self.classes_[joint.argmax(axis=1)])

    def _log_joint(self, X: ArrayLike) -> Floats:  # noqa: N803
        check_is_fitted(self)
        x = check_rows(self, X)
        shape = _Shape.from_cuts(self.cuts_, self.parents_)
        joint = np.empty((len(x), len(self.classes_)))
        for part in _row_blocks(x.shape, _AT_ONCE):
            cells = shape.table_cells(encode_levels(x[part], self.cuts_))
            for place, table in enumerate(self.log_tables_):
                joint[part, place] = table[cells].sum(axis=1)
        return joint + self.log_prior_


@dataclass(frozen=True)
class _Shape:
    """The positions of all tables' cells in one array."""

    parents: Whole  # shape (n_features,): -1 for the root
    #: levels, outer: shape (n_features,): The number of a feature's levels, and of its parent's; the root's
    #: parent has one.
    levels: Whole
    outer: Whole
    starts: Whole  # shape (n_features + 1,): Where a feature's cells begin; the last is the number of all

    @classmethod
    def from_cuts(cls, cuts: Floats, parents: Whole) -> Self:
        levels = _level_counts(cuts)
        outer = np.where(parents < 0, 1, levels[parents])
        return cls(parents, levels, outer, np.concatenate([[0], np.cumsum(levels * outer)]))

    def table_cells(self, coded: Codes) -> Whole:
        cells = coded[:, self.parents] * np.where(self.parents < 0, 0, self.levels)
        cells += coded
        cells += self.starts[:-1]
        return np.asarray(cells)


def _cell_counts(coded: Codes, shape: _Shape, rows: Labelled) -> Floats:
    n_cells, n_classes = int(shape.starts[-1]), len(rows.classes)
    counts = np.zeros(n_classes * n_cells)
    for part in _row_blocks(coded.shape, _AT_ONCE):
        cells = shape.table_cells(coded[part])
        cells += (rows.y[part] * n_cells)[:, None]
        counts += np.bincount(cells.ravel(), minlength=counts.size)
    return counts.reshape(n_classes, n_cells)


def _level_counts(cuts: Floats) -> Whole:
    return np.asarray(np.isfinite(cuts).sum(axis=1) + 1)


def _row_blocks(shape: tuple[int, ...], numbers: int) -> list[slice]:
    step = max(1, numbers // max(1, shape[1]))
    return [slice(start, start + step) for start in range(0, shape[0], step)]


def _mutual_information(coded: Codes, levels: Whole, rows: Labelled) -> Floats:
    result = np.zeros((len(levels), len(levels)))
    completed, first = _completion_matrix(levels), np.cumsum(levels) - levels
    for place in range(len(rows.classes)):
        mine = np.flatnonzero(rows.y == place)
        product = completed @ _count_cooccurrences(coded, levels, mine)
        counts = completed @ product.T
        np.maximum(counts, 0.0, out=counts)
        total = counts[: levels[0], : levels[0]].sum()
        # in place: it is by far the largest array
        counts *= np.log(counts, out=np.zeros_like(counts), where=counts > 0)
        pairs = np.add.reduceat(np.add.reduceat(counts, first, axis=0), first, axis=1)
        single = np.diag(pairs)
        result += pairs - single[:, None] - single + total * np.log(total)
    return result / len(rows.y)


def _count_cooccurrences(coded: Codes, levels: Whole, mine: Whole) -> Floats:
    """Count in the rows `mine` how often two levels occur together, without each feature's first level."""
    feature = np.repeat(np.arange(len(levels)), levels - 1)
    level = np.concatenate([np.arange(1, n) for n in levels]).astype(np.uint8)
    width = len(level) + 1
    product = np.zeros((width, width))
    for part in _row_blocks((len(mine), width), _ONE_HOT):
        block = mine[part]
        # counts are below 2**24 in a block, so that single precision holds them exactly
        hot = np.ones((len(block), width), np.float32)
        np.equal(coded[block][:, feature], level, out=hot[:, 1:], casting="unsafe")
        product += hot.T @ hot
    return product


def _completion_matrix(levels: Whole) -> Any:
    """Return the matrix that adds first levels to counts: they are the total less the other levels."""
    from scipy.sparse import csr_array

    others = np.delete(np.arange(levels.sum()), starts := np.cumsum(levels) - levels)
    first, column = np.repeat(starts, levels - 1), np.arange(1, len(others) + 1)
    rows = np.concatenate([starts, others, first])
    columns = np.concatenate([np.zeros(len(starts), np.intp), column, column])
    values = np.repeat([1.0, 1.0, -1.0], [len(starts), len(others), len(others)])
    return csr_array((values, (rows, columns)), shape=(int(levels.sum()), len(others) + 1))


def _spanning_tree_parents(dependence: Floats) -> Whole:
    """Return each feature's parent in the maximum spanning tree; -1 for the first feature, its root."""
    from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

    # the graph takes zero for "no edge", so every length is above zero
    lengths = 1.0 + dependence.max() - dependence
    spanning = minimum_spanning_tree(np.triu(lengths, 1))
    _, parents = breadth_first_order(spanning, 0, directed=False)
    return np.maximum(parents.astype(np.intp), -1)
