"""Our estimator of impact as plain arrays: one co-run is answered in less than a millisecond.

To ask three ensembles through their libraries costs more than the walk down their trees: all trees stand in
one array, and all go down a level at a time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.files import replacing
from training.contention import ContentionRegressor
from training.digest import digest_of
from training.pressure import Named, PressureRegressor

Floats = NDArray[np.float64]
Whole = NDArray[np.intp]
#: The file beside ``model.skops``.
FILE = "model.npz"
#: Of the file's content; another version is not read.
VERSION = 1
#: What a `ContentionRegressor` and its `PressureRegressor` know of pairs beside their trees.
_OF_PAIRS = ("pairs_", "known_", "shares_new_", "shares_known_")
_OF_PRESSURES = ("tasks_", "corunners_", "machines_", "sensitivity_", "pressure_", "shift_")
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


class QuickContention:
    """A fitted `ContentionRegressor` that answers from arrays: at once for few rows, slowly for many.

    Parameters
    ----------
    trees : ImpactArrays
    rest : ContentionRegressor
        Its members are not looked at.
    """

    def __init__(self, trees: ImpactArrays, rest: ContentionRegressor) -> None:
        self.trees = trees
        self.rest = rest
        self.pairs_ = rest.pairs_

    def predict(self, x: Floats, named: Named) -> Floats:
        """Return impacts, shape (n_rows,); see `ContentionRegressor.predict`."""
        return np.asarray(np.exp(self.rest.blend(self.trees.logs(x), named)))


def write(path: Path, model: ContentionRegressor, stored: Path) -> None:
    """Write the arrays of a fitted model, with the SHA-256 of the file `stored` that it lies in."""
    trees = ImpactArrays.of(model)
    arrays = {field.name: getattr(trees, field.name) for field in fields(trees)}
    arrays |= {name: getattr(model, name) for name in _OF_PAIRS}
    # pressures that have no share were not fitted
    arrays |= {
        name: getattr(model.pressures_, name) for name in _OF_PRESSURES if hasattr(model.pressures_, name)
    }
    with replacing(path) as temporary:
        np.savez(temporary, version=VERSION, model_digest=digest_of(stored), **arrays)


def read(path: Path, stored: Path) -> QuickContention | None:
    """Read what `write` wrote, without pickle.

    Returns
    -------
    QuickContention or None
        None if there is no such file, or it is of another version or does not belong to the file `stored`.

    Raises
    ------
    InputError
        If there is no `stored`.
    ValueError, KeyError, BadZipFile
        If it is no such file.
    """
    if not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as arrays:
        if (arrays["version"].item(), arrays["model_digest"].item()) != (VERSION, digest_of(stored)):
            return None
        parts = {field.name: arrays[field.name] for field in fields(ImpactArrays)}
        rest, pressures = ContentionRegressor(), PressureRegressor()
        for name in _OF_PAIRS:
            setattr(rest, name, arrays[name])
        for name in _OF_PRESSURES:
            if name in arrays:
                setattr(pressures, name, arrays[name])
    rest.pressures_ = pressures
    return QuickContention(ImpactArrays(**parts | {"base": float(parts["base"])}), rest)


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
