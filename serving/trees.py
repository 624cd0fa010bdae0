"""Exact contributions of features in decision trees: how the probability changes along a path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Rows walked at once, so that what is added up stays in the cache.
_ROWS = 4096
_LEAF = -1


@dataclass(frozen=True)
class Ensemble:
    """The trees of a fitted classifier, and what lies on the way to each of their nodes.

    Attributes
    ----------
    trees : list
        scikit-learn's ``Tree`` objects.
    at_node : list of ndarray of shape (n_nodes, n_features)
        Per tree, the contributions added up from the root to each node; units of probability.
    """

    trees: list[Any]
    at_node: list[NDArray[np.float32]]

    @classmethod
    def of(cls, classifier: Any) -> Ensemble:
        """Walk the trees of a fitted decision tree, random forest or extra trees once.

        Every split moves the expected probability from that of its node to that of the child; the
        difference belongs to the split's feature (Saabas, "Interpreting random forests", 2014).
        """
        trees = _trees(classifier)
        return cls(trees, [_node_contributions(tree) for tree in trees])

    def contributions(self, prepared: Floats) -> Floats:
        """Return what every feature adds to the probability of the second class.

        Parameters
        ----------
        prepared : ndarray of shape (n_rows, n_features)
            What the classifier itself would take.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            In units of probability; a row sums to probability - `base_rate`.
        """
        rows = prepared.astype(np.float32)
        values = np.zeros(prepared.shape)
        for start in range(0, len(rows), _ROWS):
            part = slice(start, start + _ROWS)
            for tree, at_node in zip(self.trees, self.at_node, strict=True):
                values[part] += at_node[tree.apply(rows[part])]
        return values / len(self.trees)


def base_rate(classifier: Any) -> float:
    """Return the probability before any feature is looked at: the mean of the trees' roots."""
    return float(np.mean([_probabilities(tree)[0] for tree in _trees(classifier)]))


def _trees(classifier: Any) -> list[Any]:
    return [member.tree_ for member in getattr(classifier, "estimators_", [classifier])]


def _probabilities(tree: Any) -> Floats:
    weights = tree.value[:, 0, :]
    return np.asarray(weights[:, 1] / weights.sum(axis=1), np.float64)


def _node_contributions(tree: Any) -> NDArray[np.float32]:
    """Add up the contributions on the way to every node, all nodes of a level at once."""
    probability, feature = _probabilities(tree), tree.feature
    found = np.zeros((tree.node_count, tree.n_features), np.float32)
    level = np.zeros(1, np.int64)
    while len(level):
        level = level[tree.children_left[level] != _LEAF]
        for children in (tree.children_left[level], tree.children_right[level]):
            found[children] = found[level]
            found[children, feature[level]] += probability[children] - probability[level]
        level = np.concatenate([tree.children_left[level], tree.children_right[level]])
    return found
