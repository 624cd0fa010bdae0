"""XGBoost's trees without their pipeline: plain arrays prepare the features."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations
from math import comb
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from training.estimators.answering import Floats, Preparation, Unit
from training.estimators.compiled_pipeline import Single, Whole

#: Largest number of nodes in a part: their decisions fit in one byte.
_NODES = 8
#: A part is a subtree this many levels above the deepest leaves, with the nodes on the way to it.
_LEVELS = 3
#: Number of rows looked up at a time, so that the tables stay in the cache.
_ROWS = 4096
#: Up to this number of rows, all parts are looked up at once.
_FEW = 256
#: Feature, threshold, and whether a missing value goes left.
_Node = tuple[int, float, bool]
#: A padding node: every value goes right.
_NOBODY: _Node = (0, -np.inf, False)


class _Leaf(NamedTuple):
    """A leaf: its value, and for every feature on its path the nodes of the part that test it."""

    part: int
    value: float
    #: By feature: the nodes (index in the part, and whether the path goes left), and the share of training
    #: rows that they let pass.
    asks: dict[int, tuple[list[tuple[int, bool]], float]]


@dataclass(frozen=True)
class Attributions:
    """Shapley attributions of boosted trees, tabulated by the decisions of their nodes."""

    #: features, thresholds, gaps: shape (n_parts, 8): A node's feature, the threshold below which values go
    #: left, and whether a missing value does.
    features: Whole
    thresholds: Single
    gaps: NDArray[np.bool_]
    #: parts, owners: shape (n_entries,): The part of an entry, ascending, and its feature.
    parts: Whole
    owners: Whole
    #: Shape (n_entries, 256): The attribution by the decisions of the part: bit ``i`` is set if node ``i``
    #: goes left.
    table: Floats

    @classmethod
    def from_booster(cls, booster: Any) -> Self | None:
        """Return the tabulated attributions of XGBoost's trees.

        None for other boosters, and if a part of a tree is too large.
        """
        model = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]
        if model["name"] != "gbtree":
            return None
        nodes, leaves = list[list[_Node]](), list[_Leaf]()
        for tree in model["model"]["trees"]:
            for inner, below in _tree_parts(tree):
                if len(inner) > _NODES:
                    return None
                leaves += [leaf._replace(part=len(nodes)) for leaf in below]
                nodes.append(inner)
        padded = [node for inner in nodes for node in (*inner, *[_NOBODY] * (_NODES - len(inner)))]
        of_each: list[Any] = [*zip(*padded, strict=True)]
        features, thresholds, gaps = (
            np.array(values, kind).reshape(-1, _NODES)
            for values, kind in zip(of_each, (np.intp, np.float32, bool), strict=True)
        )
        return cls(features, thresholds, gaps, *_attribution_table(leaves))

    def compute_contributions(self, rows: Single) -> Floats:
        """Return the attribution of every feature, in log-odds, shape (n_rows, n_features)."""
        result = np.empty(rows.shape)
        for start in range(0, len(rows), _ROWS):
            part = rows[start : start + _ROWS]
            result[start : start + _ROWS] = self._of_few(part) if len(part) <= _FEW else self._of_many(part)
        return result

    def _of_few(self, rows: Single) -> Floats:
        values = rows[:, self.features]
        left = (values < self.thresholds) | (np.isnan(values) & self.gaps)
        bits = np.packbits(left, axis=2, bitorder="little")[:, self.parts, 0]
        amounts = self.table[np.arange(len(self.parts)), bits]
        cells = np.arange(len(rows))[:, None] * rows.shape[1] + self.owners
        sums = np.bincount(cells.ravel(), amounts.ravel(), rows.size)
        return np.asarray(sums.reshape(rows.shape), np.float64)

    def _of_many(self, rows: Single) -> Floats:
        """Return the result of `_of_few` to the last digit: values are added in the same order."""
        columns, result = np.ascontiguousarray(rows.T), np.zeros(rows.shape[::-1])
        gaps = np.isnan(columns)
        entries = np.searchsorted(self.parts, np.arange(len(self.features) + 1))
        for part, (features, thresholds) in enumerate(zip(self.features, self.thresholds, strict=True)):
            bits = np.zeros(len(rows), np.uint8)
            for bit in np.flatnonzero(thresholds != -np.inf):
                left = columns[features[bit]] < thresholds[bit]
                if self.gaps[part, bit]:
                    left |= gaps[features[bit]]
                bits |= left.view(np.uint8) << np.uint8(bit)
            place = bits.astype(np.intp)
            for entry in range(entries[part], entries[part + 1]):
                result[self.owners[entry]] += self.table[entry].take(place)
        return result.T


def _tree_parts(tree: dict[str, Any]) -> Iterator[tuple[list[_Node], list[_Leaf]]]:
    depth = _tree_depth(tree, 0)

    def grow_parts(node: int, above: list[tuple[int, bool]]) -> Iterator[tuple[list[int], list[Any]]]:
        if tree["left_children"][node] < 0:
            yield [], [(node, above)]
            return
        sides = [
            [*grow_parts(tree[side][node], [*above, (node, left)])]
            for side, left in (("left_children", True), ("right_children", False))
        ]
        if len(above) < depth - _LEVELS:
            yield from (([node, *tests], paths) for side in sides for tests, paths in side)
            return
        (left_nodes, left_paths), (right_nodes, right_paths) = (side[0] for side in sides)
        yield [node, *left_nodes, *right_nodes], left_paths + right_paths

    for inner, paths in grow_parts(0, []):
        place = {node: at for at, node in enumerate(inner)}
        tests = [
            (tree["split_indices"][node], tree["split_conditions"][node], bool(tree["default_left"][node]))
            for node in inner
        ]
        yield tests, [_leaf_of_path(tree, leaf, above, place) for leaf, above in paths]


def _tree_depth(tree: dict[str, Any], node: int) -> int:
    children = tree["left_children"][node], tree["right_children"][node]
    return 0 if children[0] < 0 else 1 + max(_tree_depth(tree, child) for child in children)


def _leaf_of_path(
    tree: dict[str, Any], leaf: int, above: list[tuple[int, bool]], place: dict[int, int]
) -> _Leaf:
    tests: dict[int, tuple[list[tuple[int, bool]], float]] = {}
    path = [*(node for node, _ in above), leaf]
    for (node, left), below in zip(above, path[1:], strict=True):
        feature = tree["split_indices"][node]
        conditions, share = tests.get(feature, ([], 1.0))
        passed = tree["sum_hessian"][below] / tree["sum_hessian"][node]
        tests[feature] = ([*conditions, (place[node], left)], share * passed)
    return _Leaf(0, tree["split_conditions"][leaf], tests)


def _attribution_table(leaves: list[_Leaf]) -> tuple[Whole, Whole, Floats]:
    players = max((len(leaf.asks) for leaf in leaves), default=0)
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").T.astype(bool)
    passes = np.ones((players, len(leaves), 256))
    shares, owners = np.ones((players, len(leaves), 1)), np.full((players, len(leaves)), -1)
    for at, leaf in enumerate(leaves):
        for player, (feature, (nodes, share)) in enumerate(leaf.asks.items()):
            passes[player, at] = np.all([bits[node] == left for node, left in nodes], axis=0)
            shares[player, at], owners[player, at] = share, feature
    values = np.array([leaf.value for leaf in leaves])[:, None]
    shapley = np.array([values * _shapley_value(passes, shares, player) for player in range(players)])
    parts = np.broadcast_to([leaf.part for leaf in leaves], owners.shape)
    occupied = owners >= 0
    keys, entry = np.unique(np.column_stack((parts[occupied], owners[occupied])), axis=0, return_inverse=True)
    table = np.zeros((len(keys), 256))
    np.add.at(table, entry.ravel(), shapley[occupied])
    return keys[:, 0], keys[:, 1], table


def _shapley_value(passes: Floats, shares: Floats, player: int) -> Floats:
    """Return the Shapley value of a player; players outside a coalition count with their share."""
    others = [other for other in range(len(passes)) if other != player]
    total = np.zeros(passes.shape[1:])
    for size in range(len(others) + 1):
        for coalition in combinations(others, size):
            parts = [passes[other] if other in coalition else shares[other] for other in others]
            total += reduce(np.multiply, parts, 1.0) / comb(len(others), size)
    return np.asarray(total * (passes[player] - shares[player]) / len(passes))


@dataclass(frozen=True)
class Boosted(Preparation):
    """An XGBoost model."""

    booster: Any

    unit: ClassVar[Unit] = "log-odds"

    def predict_and_explain(self, columns: Floats, reference: Floats) -> tuple[Floats, Floats]:
        """Return probabilities, shape (n_rows,), and exact Shapley contributions, equal to XGBoost's.

        Contributions, shape as `columns`, are in log-odds; positive is towards fail. `reference` is ignored.
        """
        del reference
        prepared = self.prepare_columns(columns)
        probability = self.classifier_probability(prepared)
        return self.raise_with_contributions(probability, self._shapley_contributions(prepared), prepared)

    def classifier_probability(self, prepared: Floats) -> Floats:
        """Return the probability of ``fail`` by all trees, shape (n_rows,)."""
        # a DMatrix takes longer to build
        return np.asarray(self.booster.inplace_predict(prepared), np.float64)

    def _shapley_contributions(self, prepared: Floats) -> Floats:
        if self._tabulated_attributions is not None:
            return self._tabulated_attributions.compute_contributions(prepared.astype(np.float32))
        import xgboost

        matrix = xgboost.DMatrix(prepared, nthread=1)
        return np.asarray(self.booster.predict(matrix, pred_contribs=True)[:, :-1], np.float64)

    @cached_property
    def _tabulated_attributions(self) -> Attributions | None:
        return Attributions.from_booster(self.booster)


def compile_boosted(pipeline: Any) -> Boosted | None:
    """Return a fitted XGBoost pipeline in a faster form; None for other classifiers or other steps.

    It must impute and scale as the catalogue's pipelines do; samplers are ignored.
    """
    compiled = Preparation.from_pipeline(pipeline)
    if compiled is None or not hasattr(compiled[1], "get_booster"):
        return None
    prepared, classifier = compiled
    return Boosted(**vars(prepared), booster=classifier.get_booster())
