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

from data.errors import InputError
from data.tables import arrays
from data.tables.arrays import Spec
from data.tables.digest import digest_of
from data.tables.files import replacing
from training.corun.estimators.contention import ContentionRegressor
from training.corun.estimators.pressure import Named, PressureRegressor
from training.estimators import tree_arrays
from training.estimators.frozen import belongs
from training.estimators.tree_arrays import LEAF, Whole

Floats = NDArray[np.float64]
#: The file beside ``model.skops``.
FILE = "model.npz"
#: Of the file's content; another version is not read.
VERSION = 1
#: What a `ContentionRegressor` and its `PressureRegressor` know of pairs beside their trees.
_OF_PAIRS = {
    "pairs_": Spec("U", ("pairs",)),
    "known_": Spec("f", ("pairs",)),
    "shares_new_": Spec("f", (3,)),
    "shares_known_": Spec("f", (3,)),
}
_OF_PRESSURES = {
    "tasks_": Spec("U", ("tasks",)),
    "corunners_": Spec("U", ("corunners",)),
    "machines_": Spec("U", ("machines",)),
    "sensitivity_": Spec("f", ("tasks",)),
    "pressure_": Spec("f", ("corunners",)),
    "shift_": Spec("f", ("machines", "tasks")),
}
_NODES = ("nodes",)
_TREES = {
    "fill": Spec("f", ("features",)),
    "base": Spec("f", ()),
    "roots": Spec("i", ("trees",)),
    "feature": Spec("i", _NODES),
    "threshold": Spec("f", _NODES, finite=False),
    "children": Spec("i", ("nodes", 2)),
    "gap": Spec("b", _NODES),
    "value": Spec("f", _NODES),
}


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

    def __post_init__(self) -> None:
        """Refuse trees that lead out of the arrays, or nowhere."""
        tree_arrays.check(self.roots, self.feature, self.children, 2 * len(self.fill))

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
            [np.where(part[2] < 0, LEAF, part[2] + root) for part, root in zip(parts, roots, strict=True)]
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
            leaf = feature == LEAF
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
    content = {field.name: getattr(trees, field.name) for field in fields(trees)}
    content |= {name: getattr(model, name) for name in _OF_PAIRS}
    # pressures that have no share were not fitted
    content |= {
        name: getattr(model.pressures_, name) for name in _OF_PRESSURES if hasattr(model.pressures_, name)
    }
    with replacing(path) as temporary:
        np.savez(temporary, version=VERSION, model_digest=digest_of(stored), **content)


def read(path: Path, stored: Path) -> QuickContention | None:
    """Read what `write` wrote, without pickle.

    Returns
    -------
    QuickContention or None
        None if there is no such file, or it is of another version or does not belong to the file `stored`.

    Raises
    ------
    InputError
        If there is no `stored`, or the file holds anything else; names the array.
    """
    if not path.is_file() or not belongs(path, VERSION, stored):
        return None
    found = arrays.read(path, {**_TREES, **_OF_PAIRS, **_OF_PRESSURES}, optional=_OF_PRESSURES)
    if found["shares_new_"][1] or found["shares_known_"][1]:
        arrays.read(path, _OF_PRESSURES)
    rest, pressures = ContentionRegressor(), PressureRegressor()
    for name in _OF_PAIRS:
        setattr(rest, name, found[name])
    for name in found.keys() & _OF_PRESSURES:
        setattr(pressures, name, found[name])
    rest.pressures_ = pressures
    parts: dict[str, Any] = {field.name: found[field.name] for field in fields(ImpactArrays)}
    try:
        return QuickContention(ImpactArrays(**parts | {"base": float(parts["base"])}), rest)
    except ValueError as exc:
        raise InputError(str(exc), file=path) from exc


_Tree = tuple[Whole, NDArray[np.float32], Whole, NDArray[np.bool_], Floats]


def _boosted(member: Any, share: float) -> tuple[list[_Tree], float]:
    """Take the trees of XGBoost from its own format, and what they start from."""
    content = json.loads(bytes(member.get_booster().save_raw("json")))["learner"]
    start = content["learner_model_param"]["base_score"]
    trees = []
    for tree in content["gradient_booster"]["model"]["trees"]:
        left, right = (np.array(tree[f"{side}_children"], np.intp) for side in ("left", "right"))
        leaf = left == LEAF
        condition = np.array(tree["split_conditions"], np.float32)
        trees.append(
            (
                np.where(leaf, LEAF, np.array(tree["split_indices"], np.intp)),
                condition,
                np.column_stack([right, left]),
                np.array(tree["default_left"], bool),
                np.where(leaf, condition, 0.0).astype(np.float64) * share,
            )
        )
    return trees, float(json.loads(start)[0] if start.startswith("[") else start)


def _grown(tree: Any, width: int, share: float) -> _Tree:
    """Take a tree of scikit-learn, which sends a value down to the left if it is not above the threshold."""
    leaf = tree.children_left == LEAF
    near = tree.threshold.astype(np.float32)
    lower = np.where(near > tree.threshold, np.nextafter(near, np.float32(-np.inf)), near)
    return (
        np.where(leaf, LEAF, tree.feature + width),
        np.nextafter(lower, np.float32(np.inf)).astype(np.float32),
        np.column_stack([tree.children_right, tree.children_left]).astype(np.intp),
        np.zeros(len(leaf), bool),
        np.where(leaf, tree.value[:, 0, 0], 0.0) * share,
    )
