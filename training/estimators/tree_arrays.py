"""What must hold in the arrays of trees, so that a walk down them stays inside and comes to an end."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.intp]
#: What a leaf looks at.
LEAF = -1


def check(roots: Whole, feature: Whole, children: Whole, features: int) -> None:
    """Check trees whose nodes stand in one array, every child after its parent.

    scikit-learn and XGBoost number nodes as they make them, so the trees of both are so.

    Parameters
    ----------
    roots : ndarray of shape (n_trees,)
    feature : ndarray of shape (n_nodes,)
        Which one a node looks at; `LEAF` in a leaf.
    children : ndarray of shape (n_nodes, 2)
    features : int
        How many there are to look at.

    Raises
    ------
    ValueError
        Naming the array, the node and the value that is wrong.
    """
    nodes = len(feature)
    _refuse("roots", roots, (roots < 0) | (roots >= nodes), f"is none of the {nodes} nodes")
    outside = (feature < LEAF) | (feature >= features)
    _refuse("feature", feature, outside, f"is none of the {features} features")
    inner = (feature != LEAF)[:, None]
    _refuse("children", children, inner & (children >= nodes), f"is none of the {nodes} nodes")
    before = inner & (children <= np.arange(nodes)[:, None])
    _refuse("children", children, before, "does not lie after its parent")


def _refuse(name: str, values: NDArray[Any], wrong: NDArray[np.bool_], why: str) -> None:
    if wrong.any():
        place = np.argwhere(wrong)[0]
        raise ValueError(f"{name}{place.tolist()}={values[tuple(place)]} {why}")
