"""Our estimator of impact as plain arrays: one co-run is answered in less than a millisecond.

To ask three ensembles through their libraries costs more than the walk down their trees: all trees stand in
one array, and all go down a level at a time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.contention import ContentionRegressor

Floats = NDArray[np.float64]
Whole = NDArray[np.intp]
_LEAF = -1


@dataclass(frozen=True)
class ImpactArrays:
    """All trees of a fitted `ContentionRegressor`.

    A row is looked at twice: as it is, then with gaps filled; trees of the forest look at the second half.

    Attributes
    ----------
    fill : ndarray of shape (n_features,)
    base : float
        What all trees together start from.
    roots : ndarray of shape (n_trees,)
    feature : ndarray of shape (n_nodes,)
        Which column a node looks at; -1 in a leaf.
    threshold : ndarray of float32, shape (n_nodes,)
    children : ndarray of shape (n_nodes, 2)
        Where a value goes that is not below the threshold, and where one goes that is.
    gap : ndarray of bool, shape (n_nodes,)
        Whether a gap counts as below.
    value : ndarray of shape (n_nodes,)
        What a leaf adds to log impact.
    """

    fill: Floats
    base: float
    roots: Whole
    feature: Whole
    threshold: NDArray[np.float32]
    children: Whole
    gap: NDArray[np.bool_]
    value: Floats

    @classmethod
    def of(cls, model: ContentionRegressor) -> ImpactArrays:
        """Take the trees of a fitted model; its `blend` adds what else it knows of a pair."""
        *boosted, forest = model.members_
        share = 1 / len(model.members_)
        impute, trees = forest.named_steps["impute"], forest.named_steps["forest"]
        parts, base = [], 0.0
        for member in boosted:
            own, start = _boosted(member, share)
            parts += own
            base += start * share
        width = len(impute.statistics_)
        parts += [_grown(tree.tree_, width, share / len(trees.estimators_)) for tree in trees.estimators_]
        sizes = np.array([len(part[0]) for part in parts])
        roots = np.cumsum(sizes) - sizes
        children = np.concatenate(
            [np.where(part[2] < 0, _LEAF, part[2] + root) for part, root in zip(parts, roots, strict=True)]
        )
        feature, threshold, _, gap, value = (np.concatenate(column) for column in zip(*parts, strict=True))
        return cls(impute.statistics_, base, roots, feature, threshold, children, gap, value)

    def logs(self, x: Floats) -> Floats:
        """Return log impacts by the trees, shape (n_rows,)."""
        values = np.hstack([x, np.where(np.isnan(x), self.fill, x)]).astype(np.float32)
        return np.array([self.base + self._sum(row) for row in values])

    def _sum(self, row: NDArray[np.float32]) -> float:
        nodes, total = self.roots, 0.0
        while len(nodes):
            feature = self.feature.take(nodes)
            leaf = feature == _LEAF
            total += float(self.value.take(nodes[leaf]).sum())
            nodes, looked = nodes[~leaf], row.take(feature[~leaf])
            below = (looked < self.threshold.take(nodes)) | (np.isnan(looked) & self.gap.take(nodes))
            nodes = self.children[nodes, below.astype(np.intp)]
        return total


_Tree = tuple[Whole, NDArray[np.float32], Whole, NDArray[np.bool_], Floats]


def _boosted(member: Any, share: float) -> tuple[list[_Tree], float]:
    """Take the trees of XGBoost from its own format, and what they start from."""
    content = json.loads(bytes(member.get_booster().save_raw("json")))["learner"]
    start = content["learner_model_param"]["base_score"]
    trees = []
    for tree in content["gradient_booster"]["model"]["trees"]:
        left, right = (np.array(tree[f"{side}_children"], np.intp) for side in ("left", "right"))
        leaf = left == _LEAF
        condition = np.array(tree["split_conditions"], np.float32)
        trees.append(
            (
                np.where(leaf, _LEAF, np.array(tree["split_indices"], np.intp)),
                condition,
                np.column_stack([right, left]),
                np.array(tree["default_left"], bool),
                np.where(leaf, condition, 0.0).astype(np.float64) * share,
            )
        )
    return trees, float(json.loads(start)[0] if start.startswith("[") else start)


def _grown(tree: Any, width: int, share: float) -> _Tree:
    """Take a tree of scikit-learn, which sends a value down to the left if it is not above the threshold."""
    leaf = tree.children_left == _LEAF
    near = tree.threshold.astype(np.float32)
    lower = np.where(near > tree.threshold, np.nextafter(near, np.float32(-np.inf)), near)
    return (
        np.where(leaf, _LEAF, tree.feature + width),
        np.nextafter(lower, np.float32(np.inf)).astype(np.float32),
        np.column_stack([tree.children_right, tree.children_left]).astype(np.intp),
        np.zeros(len(leaf), bool),
        np.where(leaf, tree.value[:, 0, 0], 0.0) * share,
    )
