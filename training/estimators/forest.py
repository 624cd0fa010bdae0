"""Fitted trees as plain arrays: the nodes of all trees in one row, walked down a level at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.tables.arrays import ArraySpec

Floats = NDArray[np.float64]
Single = NDArray[np.float32]
Whole = NDArray[np.intp]
#: What a leaf looks at.
LEAF = -1
#: Rows that walk through the trees at once, so that what they look at stays in the cache.
_ROWS = 512
SPECS = {
    "roots": ArraySpec("i", ("trees",)),
    "feature": ArraySpec("i", ("nodes",)),
    "threshold": ArraySpec("f", ("nodes",), finite=False),
    "children": ArraySpec("i", ("nodes", 2)),
    "value": ArraySpec("f", ("nodes",)),
}


class Tree(NamedTuple):
    """One tree, whose nodes are numbered by itself; see `Forest`. Children of leaves are anything below 0."""

    feature: Whole
    threshold: Floats
    children: Whole
    value: Floats

    @classmethod
    def of(cls, tree: Any, value: Floats, first: int = 0) -> Tree:
        """Take scikit-learn's own arrays; `first` is the column of its first feature."""
        return cls(
            np.where(tree.children_left == LEAF, LEAF, tree.feature + first),
            tree.threshold,
            np.column_stack([tree.children_right, tree.children_left]),
            value,
        )


def chained(trees: Sequence[Tree]) -> dict[str, Any]:
    """Return ``roots, feature, threshold, children, value`` of a `Forest` of these trees."""
    sizes = np.array([len(tree.feature) for tree in trees])
    roots = np.cumsum(sizes) - sizes
    below = [
        np.where(tree.children < 0, LEAF, tree.children + root)
        for tree, root in zip(trees, roots, strict=True)
    ]
    return {
        "roots": roots,
        "feature": np.concatenate([tree.feature for tree in trees]),
        "threshold": np.concatenate([tree.threshold for tree in trees]),
        "children": np.concatenate(below),
        "value": np.concatenate([tree.value for tree in trees]),
    }


class Level(NamedTuple):
    """One level down: which rows move in some tree, what their nodes look at, and where they come to."""

    part: slice
    owners: Whole
    features: Whole
    children: Whole


@dataclass(frozen=True)
class Forest:
    """Trees; every child lies after its parent, as scikit-learn and XGBoost number them.

    Attributes
    ----------
    roots : ndarray of shape (n_trees,)
    feature : ndarray of shape (n_nodes,)
        Which one a node looks at; -1 in a leaf.
    threshold : ndarray of shape (n_nodes,)
    children : ndarray of shape (n_nodes, 2)
        Where values above the threshold go, and where the others go.
    value : ndarray of shape (n_nodes,)
        What a leaf answers.
    """

    roots: Whole
    feature: Whole
    threshold: Floats
    children: Whole
    value: Floats

    def check(self, features: int) -> None:
        """Check that a walk stays inside the arrays and comes to an end, with so many features to look at.

        Raises
        ------
        ValueError
            Naming the array, the node and the value that is wrong.
        """
        nodes = len(self.feature)
        _refuse(
            "roots", self.roots, (self.roots < 0) | (self.roots >= nodes), f"is none of the {nodes} nodes"
        )
        outside = (self.feature < LEAF) | (self.feature >= features)
        _refuse("feature", self.feature, outside, f"is none of the {features} features")
        inner = (self.feature != LEAF)[:, None]
        _refuse("children", self.children, inner & (self.children >= nodes), f"is none of the {nodes} nodes")
        before = inner & (self.children <= np.arange(nodes)[:, None])
        _refuse("children", self.children, before, "does not lie after its parent")

    def summed(self, rows: Single) -> Floats:
        """Return the sum of the leaves that a row comes to, shape (n_rows,)."""
        total = np.full(len(rows), self.of_leaf[self.roots].sum())
        for step in self.steps(rows):
            part = total[step.part]
            part += np.bincount(step.owners, self.of_leaf.take(step.children), minlength=part.size)
        return total

    @cached_property
    def of_leaf(self) -> Floats:
        """What a leaf answers; 0 of any other node."""
        return np.where(self.feature == LEAF, self.value, 0.0)

    def steps(self, rows: Single) -> Iterator[Level]:
        """Walk down with all rows in all trees, a level at a time."""
        children = self.children.reshape(-1)
        for start in range(0, len(rows), _ROWS):
            part = slice(start, start + _ROWS)
            own = rows[part]
            owners = np.repeat(np.arange(len(own)), len(self.roots))
            nodes = np.tile(self.roots, len(own))
            features = self.feature.take(nodes)
            while len(moving := (features != LEAF).nonzero()[0]):
                owners, nodes, features = owners.take(moving), nodes.take(moving), features.take(moving)
                values = own.take(owners * own.shape[1] + features)
                nodes = children.take(2 * nodes + self.below(values, nodes))
                yield Level(part, owners, features, nodes)
                features = self.feature.take(nodes)

    def below(self, values: Single, nodes: Whole) -> NDArray[np.bool_]:
        """Tell which values are not above the threshold of their node."""
        return values <= self.threshold.take(nodes)


def _refuse(name: str, values: NDArray[Any], wrong: NDArray[np.bool_], why: str) -> None:
    if wrong.any():
        place = np.argwhere(wrong)[0]
        raise ValueError(f"{name}{place.tolist()}={values[tuple(place)]} {why}")
