"""The impact model as plain arrays, which predict in less than a millisecond, and its Shapley values.

All trees are in one array and are walked down together, one level at a time. The features' shares of the
impact are Shapley values (Shapley, "A value for n-person games", 1953) with the average co-run as the
reference. For trees they are exact: the weight of a leaf depends only on how many features lead there from
either side (Lundberg and others, "From local explanations to global understanding with explainable AI for
trees", Nature Machine Intelligence 2020).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.errors import InputError
from data.tables import arrays
from data.tables.arrays import ArraySpec
from features.corun.rates import Floats
from training.corun.estimators.contention import PARTS, ContentionRegressor
from training.corun.estimators.fitting import FittedImpact
from training.corun.estimators.pressure import (
    NO_EVIDENCE,
    CorunEvidence,
    Named,
    PressureRegressor,
    locate_words,
)
from training.corun.estimators.smooth import SmoothRegressor
from training.estimators import compiled_pipeline
from training.estimators.compiled_pipeline import (
    LEAF,
    Forest,
    Single,
    Tree,
    Whole,
    belongs_to_model,
    by_name,
    join_trees,
    write_arrays,
)

#: The file next to ``model.skops``.
FILE = "model.npz"
#: Version of the file's content; other versions are not read.
VERSION = 3
#: Arrays of a `ContentionRegressor` and its `PressureRegressor`, apart from the trees.
_OF_PAIRS = {
    "pairs_": ArraySpec("U", ("pairs",)),
    "known_": ArraySpec("f", ("pairs",)),
    **dict.fromkeys(("shares_new_", "shares_known_", "shares_strange_"), ArraySpec("f", (PARTS,))),
}
_OF_PRESSURES = {
    **{f"{names}_": ArraySpec("U", (names,)) for names in ("tasks", "corunners", "machines")},
    "sensitivity_": ArraySpec("f", ("tasks",)),
    "pressure_": ArraySpec("f", ("corunners",)),
    "shift_": ArraySpec("f", ("machines", "tasks")),
}
_SIDES = ("task", "beside", "machine")
_OF_SMOOTH = {
    "middle_": ArraySpec("f", ("features",)),
    "rates_": ArraySpec("b", ("features",)),
    "centre_": ArraySpec("f", ("features",)),
    **dict.fromkeys(("mean_", "spread_"), ArraySpec("f", ())),
    **{f"{side}_turn_": ArraySpec("f", ("features", side)) for side in _SIDES},
    **{f"{side}s_": ArraySpec("U", (f"smooth_{side}s",)) for side in _SIDES},
    **{f"{side}_at_": ArraySpec("f", ("kept", side)) for side in _SIDES},
    **{f"{side}_who_": ArraySpec("i", ("kept",)) for side in _SIDES},
    "weights_": ArraySpec("f", ("kept",)),
}
#: With a prefix, because two parts of a model have arrays of the same name.
_SMOOTH = {f"smooth_{name}": spec for name, spec in _OF_SMOOTH.items()}
_TREES = {
    **compiled_pipeline.SPECS,
    "fill": ArraySpec("f", ("features",)),
    "base": ArraySpec("f", ()),
    "gap": ArraySpec("b", ("nodes",)),
}


@dataclass(frozen=True)
class ImpactArrays(Forest):
    """All trees of a fitted `ContentionRegressor`; a leaf's value is added to log impact.

    Trees take each row twice: unchanged, then with gaps replaced by `fill`, shape (n_features,), for the
    forest. `base`, shape (), is added to all trees; `gap`, shape (n_nodes,), flags the nodes where a gap
    counts as below the threshold.
    """

    fill: Floats
    base: Floats
    gap: NDArray[np.bool_]

    def __post_init__(self) -> None:
        self.check_nodes(2 * len(self.fill))

    @classmethod
    def from_model(cls, model: ContentionRegressor) -> ImpactArrays:
        """Return the trees of a fitted model as arrays; the model's other parts are not converted."""
        *boosted, grown = model.members_
        share = 1 / len(model.members_)
        impute, forest = grown.named_steps["impute"], grown.named_steps["forest"]
        trees, gaps, base = [], [], 0.0
        for member in boosted:
            member_trees, member_gaps, start = _boosted_trees(member, share)
            trees += member_trees
            gaps += member_gaps
            base += start * share
        share /= len(forest.estimators_)
        for tree in (estimator.tree_ for estimator in forest.estimators_):
            trees.append(Tree.from_sklearn(tree, tree.value[:, 0, 0] * share, len(impute.statistics_)))
            gaps.append(np.zeros(tree.node_count, bool))
        gap = np.concatenate(gaps)
        return cls(**join_trees(trees), fill=impute.statistics_, base=np.array(base), gap=gap)

    def tree_log_impacts(self, x: Floats) -> Floats:
        """Return log impacts by the trees alone, shape (n_rows,); `x`, (n_rows, n_features), may have NaN."""
        return self.base + self.sum_leaf_values(self.tree_inputs(x))

    def tree_inputs(self, x: Floats) -> Single:
        """Return the input of the trees, shape (n_rows, 2 n_features): rows of `x`, then with gaps filled."""
        return np.hstack([x, np.where(np.isnan(x), self.fill, x)]).astype(np.float32)

    def below_threshold(self, values: Single, nodes: Whole) -> NDArray[np.bool_]:
        """Return which values are not above their node's threshold, shape (n,); a gap follows `gap`."""
        return super().below_threshold(values, nodes) | (np.isnan(values) & self.gap.take(nodes))


class QuickContention(ContentionRegressor):
    """A fitted `ContentionRegressor` that predicts from arrays: fast for few rows, slow for many."""

    arrays_: ImpactArrays

    def tree_log_impacts(self, x: Floats) -> Floats:
        """Return log impacts by the trees alone, shape (n_rows,); `x`, (n_rows, n_features), may have NaN."""
        return self.arrays_.tree_log_impacts(x)


def write_impact_arrays(path: Path, model: ContentionRegressor, stored: Path) -> None:
    """Write a fitted model's arrays to `path`, a NumPy archive, with the SHA-256 of the file `stored`.

    `stored` is the file of the model; InputError if it is missing. An existing `path` is replaced atomically;
    OSError if it does not end in ``.npz``.
    """
    content = by_name(ImpactArrays.from_model(model)) | {name: getattr(model, name) for name in _OF_PAIRS}
    # a part without a share was not fitted
    if model.is_blended:
        content |= {name: getattr(model.pressures_, name) for name in _OF_PRESSURES}
    if model.uses_smooth:
        content |= {f"smooth_{name}": getattr(model.smooth_, name) for name in _OF_SMOOTH}
    write_arrays(path, VERSION, stored, content)


def read_impact_arrays(path: Path, stored: Path) -> QuickContention | None:
    """Return the fitted model from a file of `write_impact_arrays`, read without pickle.

    None if `path` does not exist, has another version or does not belong to the file `stored`. InputError if
    only `stored` is missing, `path` is not a NumPy archive, or an array is missing or wrong.
    """
    if not path.is_file() or not belongs_to_model(path, VERSION, stored):
        return None
    optional = {**_OF_PRESSURES, **_SMOOTH}
    stored_arrays = arrays.read_arrays(path, {**_TREES, **_OF_PAIRS, **optional}, optional)
    quick = QuickContention()
    quick.pressures_, quick.smooth_ = PressureRegressor(), SmoothRegressor()
    for part, specs in ((quick, _OF_PAIRS), (quick.pressures_, _OF_PRESSURES), (quick.smooth_, _SMOOTH)):
        for name in stored_arrays.keys() & specs.keys():
            setattr(part, name.removeprefix("smooth_"), stored_arrays[name])
    if quick.is_blended:
        arrays.read_arrays(path, _OF_PRESSURES)
    if quick.uses_smooth:
        arrays.read_arrays(path, _SMOOTH)
    try:
        quick.arrays_ = ImpactArrays(**{name: stored_arrays[name] for name in _TREES})
    except ValueError as exc:
        raise InputError(str(exc), file=path) from exc
    return quick


def _boosted_trees(member: Any, share: float) -> tuple[list[Tree], list[NDArray[np.bool_]], float]:
    content = json.loads(bytes(member.get_booster().save_raw("json")))["learner"]
    # a number, or a list with one number
    start = np.ravel(json.loads(content["learner_model_param"]["base_score"]))
    trees, gaps = [], []
    for tree in content["gradient_booster"]["model"]["trees"]:
        left, right = (np.array(tree[f"{side}_children"], np.intp) for side in ("left", "right"))
        condition = np.array(tree["split_conditions"], np.float32)
        feature = np.where(left == LEAF, LEAF, np.array(tree["split_indices"], np.intp))
        # XGBoost sends a value left if it is below the threshold; here, also if it is equal
        threshold = np.nextafter(condition, np.float32(-np.inf)).astype(np.float64)
        values = condition.astype(np.float64) * share
        trees.append(Tree(feature, threshold, np.column_stack([right, left]), values))
        gaps.append(np.array(tree["default_left"], bool))
    return trees, gaps, float(start[0])


#: Number of random orders for models without exact shares; each is also used in reverse.
ORDERS = 6
#: Number of co-runs that walk through the trees at a time, which bounds memory.
_COEXPLAINED = 16


@dataclass(frozen=True)
class CorunContrast:
    """The average co-run `usual` and the co-run to explain, `row`: both of shape (n_features,), with NaN.

    `owners`, shape (n_features,), is the number of each feature's factor, from 0 to `n_factors`, exclusive;
    `named` has one row, the co-run to explain.
    """

    row: Floats
    usual: Floats
    owners: Whole
    n_factors: int
    named: Named


@dataclass(frozen=True)
class LogShares:
    """A log impact as a sum: ``usual + shares.sum() + of_task.share + of_corunners.share == impact``.

    `of_task` is the evidence from other co-runs of the task, `of_corunners` from those of its co-runners.
    """

    usual: float
    impact: float
    shares: Floats
    of_task: CorunEvidence = NO_EVIDENCE
    of_corunners: CorunEvidence = NO_EVIDENCE

    @property
    def points_per_log_share(self) -> float:
        """Points of impact per unit of log share, so that points add up as shares do."""
        way = self.impact - self.usual
        return float(np.expm1(way) / way * np.exp(self.usual)) if way else float(np.exp(self.usual))


def split_log_impacts(learned: FittedImpact, contrasts: Sequence[CorunContrast]) -> list[LogShares]:
    """Return the log impact predicted for each co-run as the average co-run's plus a share per factor.

    Shares, of shape (n_factors,), are natural logs, positive where they slow the task down. For a
    `ContentionRegressor` the trees' shares are exact Shapley values, the smooth part's are integrated; for
    other models shares are averages over random orders of the factors, and those of the evidence are 0. All
    `contrasts` have the same factors. The result for a co-run does not depend on the others.
    """
    model = learned.model
    if not isinstance(model, ContentionRegressor):
        return [_split_any_model(learned, contrast) for contrast in contrasts]
    trees = model.arrays_ if isinstance(model, QuickContention) else ImpactArrays.from_model(model)
    by_trees = [
        shares
        for start in range(0, len(contrasts), _COEXPLAINED)
        for shares in split_by_trees(trees, contrasts[start : start + _COEXPLAINED])
    ]
    return [_blend_parts(model, way, shares) for way, shares in zip(contrasts, by_trees, strict=True)]


def split_by_trees(trees: ImpactArrays, contrasts: Sequence[CorunContrast]) -> list[LogShares]:
    """Return the trees' log impact of each co-run as a sum over its factors: exact Shapley values.

    A result's ``impact`` is ``usual``, the log impact of the average co-run, plus the sum of ``shares``,
    shape (n_factors,). `contrasts` must not be empty, and must all have the same factors.
    """
    count, n_factors = len(contrasts), contrasts[0].n_factors
    owners, children = np.tile(contrasts[0].owners, 2), trees.children.reshape(-1)
    inputs = trees.tree_inputs(np.stack([row for way in contrasts for row in (way.row, way.usual)]))
    values, width = inputs.reshape(-1), inputs.shape[1]
    nodes = np.tile(trees.roots, count)
    # one path per leaf that is reached; a fork adds a path. 1: the path has the value of this co-run, -1: the
    # usual one, 0: both
    n_paths, paths = len(nodes), np.arange(len(nodes))
    led = np.zeros((8 * n_paths, n_factors), np.int8)
    coruns, leaves = np.zeros((2, len(led)), np.intp)
    coruns[:n_paths] = np.repeat(np.arange(count), len(trees.roots))
    while len(nodes):
        features = trees.feature.take(nodes)
        is_leaf = features == LEAF
        ends = is_leaf.nonzero()[0]
        if len(ends):
            leaves[paths.take(ends)] = nodes.take(ends)
            inner = (~is_leaf).nonzero()[0]
            nodes, paths, features = nodes.take(inner), paths.take(inner), features.take(inner)
        factors = owners.take(features)
        place = coruns.take(paths) * (2 * width) + features
        now = trees.below_threshold(values.take(place), nodes)
        then = trees.below_threshold(values.take(place + width), nodes)
        side = led.reshape(-1).take(paths * n_factors + factors)
        forks = ((now != then) & (side == 0)).nonzero()[0]
        onward = children.take(2 * nodes + np.where(side < 0, then, now))
        if len(forks):
            old, new = paths.take(forks), np.arange(n_paths, n_paths + len(forks))
            n_paths += len(forks)
            if n_paths > len(led):
                led, coruns, leaves = (
                    np.concatenate([values_of_paths, np.zeros_like(values_of_paths)])
                    for values_of_paths in (led, coruns, leaves)
                )
            led[new], coruns[new] = led.take(old, axis=0), coruns.take(old)
            led[old, factors.take(forks)], led[new, factors.take(forks)] = 1, -1
            onward = np.concatenate([onward, children.take(2 * nodes.take(forks) + then.take(forks))])
            paths = np.concatenate([paths, new])
        nodes = onward
    return _sum_leaf_shares(trees, leaves[:n_paths], coruns[:n_paths], led[:n_paths])


def _sum_leaf_shares(
    trees: ImpactArrays, leaves: Whole, coruns: Whole, led: NDArray[np.int8]
) -> list[LogShares]:
    """Return the sums over the leaves of each co-run, in the order of the co-runs.

    `led`, shape (n_leaves, n_factors), is 1 where the leaf needs a factor's value of the co-run, -1 its usual
    value.
    """
    count, n_factors = int(coruns.max()) + 1, led.shape[1]
    values = trees.value.take(leaves)
    cells = (led != 0).reshape(-1).nonzero()[0]
    leaf, factor = np.divmod(cells, n_factors)
    is_towards = led.reshape(-1).take(cells) > 0
    n_towards = np.bincount(leaf[is_towards], minlength=len(led))
    n_away = np.bincount(leaf[~is_towards], minlength=len(led))
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n_factors + 1)))])
    log_total = logs[n_towards + n_away]
    gained = values * np.exp(logs[np.maximum(n_towards - 1, 0)] + logs[n_away] - log_total)
    lost = values * np.exp(logs[n_towards] + logs[np.maximum(n_away - 1, 0)] - log_total)
    shares = np.where(is_towards, gained.take(leaf), -lost.take(leaf))
    numbers = coruns.take(leaf) * n_factors + factor
    totals = np.asarray(np.bincount(numbers, shares, count * n_factors), np.float64)
    usual, impact = (
        trees.base + np.bincount(coruns, np.where(others == 0, values, 0.0), count)
        for others in (n_towards, n_away)
    )
    by_corun = totals.reshape(count, n_factors)
    return [LogShares(float(usual[n]), float(impact[n]), by_corun[n]) for n in range(count)]


def _blend_parts(model: ContentionRegressor, way: CorunContrast, trees: LogShares) -> LogShares:
    if not model.is_blended:
        return trees
    pressed = model.pressures_.split_log_impact(way.named)
    place, is_known = locate_words(model.pairs_, way.named.pairs)
    weights = model.shares_of(by_pair=bool(is_known[0]), has_unknown_task=pressed is None)
    by_trees, by_pressures, by_pair, by_smooth = weights
    if pressed is None:
        by_trees, by_pressures = by_trees + by_pressures, 0.0
    usual_pressed, of_task, of_corunners = pressed or (0.0, NO_EVIDENCE, NO_EVIDENCE)
    # the evidence on the pair needs both names, so each gets half
    half = by_pair * (model.known_[place[0]] - trees.usual) / 2 if by_pair else 0.0
    shares, of_names, usual_smooth = by_trees * trees.shares, np.zeros(2), 0.0
    if by_smooth:
        usual_smooth, features, of_names = model.smooth_.split_log_impact(way.row, way.usual, way.named)
        shares += by_smooth * np.bincount(way.owners, features, way.n_factors)
    of_task, of_corunners = (
        replace(side, share=by_pressures * side.share + half + by_smooth * of_name)
        for side, of_name in zip((of_task, of_corunners), of_names.tolist(), strict=True)
    )
    base = (by_trees + by_pair) * trees.usual + by_pressures * usual_pressed + by_smooth * usual_smooth
    impact = base + shares.sum() + of_task.share + of_corunners.share
    return LogShares(base, impact, shares, of_task, of_corunners)


def _split_any_model(learned: FittedImpact, way: CorunContrast) -> LogShares:
    """Average the change that each factor causes in random orders, each also reversed."""
    generator = np.random.default_rng(0)
    drawn = [generator.permutation(way.n_factors) for _ in range(ORDERS)]
    orders = np.array([order for permutation in drawn for order in (permutation, permutation[::-1])])
    ranks = np.argsort(orders, axis=1)
    come = ranks[:, None, :] < np.arange(way.n_factors + 1)[None, :, None]
    mixed = np.where(come[:, :, way.owners], way.row, way.usual).reshape(-1, len(way.row))
    named = way.named[np.zeros(len(mixed), np.intp)]
    logs = np.log(learned.predict_matrix(mixed, named)).reshape(len(orders), -1)
    shares = np.zeros((len(orders), way.n_factors))
    np.put_along_axis(shares, orders, np.diff(logs, axis=1), axis=1)
    return LogShares(float(logs[0, 0]), float(logs[0, -1]), shares.mean(axis=0))
