"""Our estimator of impact as plain arrays: one co-run is answered in less than a millisecond.

To ask three ensembles through their libraries costs more than the walk down their trees: all trees stand in
one array, and all go down a level at a time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.errors import InputError
from data.tables import arrays
from data.tables.arrays import ArraySpec
from training.corun.estimators.contention import PARTS, ContentionRegressor
from training.corun.estimators.pressure import PressureRegressor
from training.corun.estimators.smooth import SmoothRegressor
from training.estimators import compiled_pipeline
from training.estimators.compiled_pipeline import (
    LEAF,
    Forest,
    Single,
    Tree,
    Whole,
    belongs,
    by_name,
    chained,
    write_arrays,
)

Floats = NDArray[np.float64]
#: The file beside ``model.skops``.
FILE = "model.npz"
#: Of the file's content; another version is not read.
VERSION = 3
#: What a `ContentionRegressor` and its `PressureRegressor` know of pairs beside their trees.
_OF_PAIRS = {
    "pairs_": ArraySpec("U", ("pairs",)),
    "known_": ArraySpec("f", ("pairs",)),
    "shares_new_": ArraySpec("f", (PARTS,)),
    "shares_known_": ArraySpec("f", (PARTS,)),
    "shares_strange_": ArraySpec("f", (PARTS,)),
}
_OF_PRESSURES = {
    "tasks_": ArraySpec("U", ("tasks",)),
    "corunners_": ArraySpec("U", ("corunners",)),
    "machines_": ArraySpec("U", ("machines",)),
    "sensitivity_": ArraySpec("f", ("tasks",)),
    "pressure_": ArraySpec("f", ("corunners",)),
    "shift_": ArraySpec("f", ("machines", "tasks")),
}
_OF_SMOOTH = {
    "middle_": ArraySpec("f", ("features",)),
    "rates_": ArraySpec("b", ("features",)),
    "centre_": ArraySpec("f", ("features",)),
    "mean_": ArraySpec("f", ()),
    "spread_": ArraySpec("f", ()),
    "task_turn_": ArraySpec("f", ("features", "own")),
    "beside_turn_": ArraySpec("f", ("features", "others")),
    "machine_turn_": ArraySpec("f", ("features", "here")),
    "tasks_": ArraySpec("U", ("names",)),
    "besides_": ArraySpec("U", ("groups",)),
    "machines_": ArraySpec("U", ("places",)),
    "task_at_": ArraySpec("f", ("kept", "own")),
    "beside_at_": ArraySpec("f", ("kept", "others")),
    "machine_at_": ArraySpec("f", ("kept", "here")),
    "task_who_": ArraySpec("i", ("kept",)),
    "beside_who_": ArraySpec("i", ("kept",)),
    "machine_who_": ArraySpec("i", ("kept",)),
    "weights_": ArraySpec("f", ("kept",)),
}
#: Two parts of a model have arrays of one name.
_SMOOTH = {f"smooth_{name}": spec for name, spec in _OF_SMOOTH.items()}
_TREES = {
    **compiled_pipeline.SPECS,
    "fill": ArraySpec("f", ("features",)),
    "base": ArraySpec("f", ()),
    "gap": ArraySpec("b", ("nodes",)),
}


@dataclass(frozen=True)
class ImpactArrays(Forest):
    """All trees of a fitted `ContentionRegressor`; a leaf's value is what it adds to log impact.

    A row is looked at twice: as it is, then with gaps filled; trees of the forest look at the second half.

    Attributes
    ----------
    fill : ndarray of shape (n_features,)
    base : ndarray of shape ()
        What all trees together start from.
    gap : ndarray of bool, shape (n_nodes,)
        Whether a gap counts as below.
    """

    fill: Floats
    base: Floats
    gap: NDArray[np.bool_]

    def __post_init__(self) -> None:
        """Refuse trees that lead out of the arrays, or nowhere."""
        self.check(2 * len(self.fill))

    @classmethod
    def of(cls, model: ContentionRegressor) -> ImpactArrays:
        """Take the trees of a fitted model; its `blend` adds what else it knows of a pair."""
        *boosted, grown = model.members_
        share = 1 / len(model.members_)
        impute, last = grown.named_steps["impute"], grown.named_steps["forest"]
        parts = [_boosted(member, share) for member in boosted]
        base = sum(start * share for _, _, start in parts)
        share /= len(last.estimators_)
        width, alone = len(impute.statistics_), [one.tree_ for one in last.estimators_]
        trees = [tree for own, _, _ in parts for tree in own]
        trees += [Tree.of(tree, tree.value[:, 0, 0] * share, width) for tree in alone]
        gaps = [gap for _, own, _ in parts for gap in own]
        gaps += [np.zeros(tree.node_count, bool) for tree in alone]
        return cls(**chained(trees), fill=impute.statistics_, base=np.array(base), gap=np.concatenate(gaps))

    def logs(self, x: Floats) -> Floats:
        """Return log impacts by the trees, shape (n_rows,)."""
        return self.base + self.summed(self.looked_at(x))

    def looked_at(self, x: Floats) -> Single:
        """Return rows as trees look at them: as they are, then with gaps filled."""
        return np.hstack([x, np.where(np.isnan(x), self.fill, x)]).astype(np.float32)

    def below(self, values: Single, nodes: Whole) -> NDArray[np.bool_]:
        """Tell which values go below; a gap goes where its node sends it."""
        return super().below(values, nodes) | (np.isnan(values) & self.gap.take(nodes))


class QuickContention(ContentionRegressor):
    """A fitted `ContentionRegressor` that answers from arrays: at once for few rows, slowly for many.

    Attributes
    ----------
    arrays_ : ImpactArrays
        In place of its members.
    """

    arrays_: ImpactArrays

    def logs(self, x: Floats) -> Floats:
        """Return log impacts by the trees, shape (n_rows,)."""
        return self.arrays_.logs(x)


def write(path: Path, model: ContentionRegressor, stored: Path) -> None:
    """Write the arrays of a fitted model, with the SHA-256 of the file `stored` that it lies in."""
    content = by_name(ImpactArrays.of(model)) | {name: getattr(model, name) for name in _OF_PAIRS}
    # what has no share was not fitted
    if model.mixes:
        content |= {name: getattr(model.pressures_, name) for name in _OF_PRESSURES}
    if model.smoothed:
        content |= {f"smooth_{name}": getattr(model.smooth_, name) for name in _OF_SMOOTH}
    write_arrays(path, VERSION, stored, content)


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
    found = arrays.read(
        path, {**_TREES, **_OF_PAIRS, **_OF_PRESSURES, **_SMOOTH}, optional=(*_OF_PRESSURES, *_SMOOTH)
    )
    quick = QuickContention()
    quick.pressures_, quick.smooth_ = PressureRegressor(), SmoothRegressor()
    for name in _OF_PAIRS:
        setattr(quick, name, found[name])
    if quick.mixes:
        arrays.read(path, _OF_PRESSURES)
    if quick.smoothed:
        arrays.read(path, _SMOOTH)
    for name in found.keys() & _OF_PRESSURES:
        setattr(quick.pressures_, name, found[name])
    for name in found.keys() & _SMOOTH:
        setattr(quick.smooth_, name.removeprefix("smooth_"), found[name])
    try:
        quick.arrays_ = ImpactArrays(**{name: found[name] for name in _TREES})
    except ValueError as exc:
        raise InputError(str(exc), file=path) from exc
    return quick


def _boosted(member: Any, share: float) -> tuple[list[Tree], list[NDArray[np.bool_]], float]:
    """Take the trees of XGBoost from its own format, which gaps they send below, and what they start from."""
    content = json.loads(bytes(member.get_booster().save_raw("json")))["learner"]
    # a number, or a list of one
    start = np.ravel(json.loads(content["learner_model_param"]["base_score"]))
    found = content["gradient_booster"]["model"]["trees"]
    gaps = [np.array(tree["default_left"], bool) for tree in found]
    return [_one_of(tree, share) for tree in found], gaps, float(start[0])


def _one_of(tree: dict[str, Any], share: float) -> Tree:
    left, right = (np.array(tree[f"{side}_children"], np.intp) for side in ("left", "right"))
    condition = np.array(tree["split_conditions"], np.float32)
    return Tree(
        np.where(left == LEAF, LEAF, np.array(tree["split_indices"], np.intp)),
        # XGBoost sends a value down to the left if it is below the threshold, which itself is not
        np.nextafter(condition, np.float32(-np.inf)).astype(np.float64),
        np.column_stack([right, left]),
        condition.astype(np.float64) * share,
    )
