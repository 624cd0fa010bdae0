"""Fitted pipelines as plain arrays: they answer with NumPy alone, and are read in milliseconds.

To import scikit-learn and skops takes longer than to judge. A linear model or a forest needs neither: what
it learned is a few arrays, which lie beside ``model.skops`` in ``model.npz``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from data.errors import InputError
from data.tables import arrays
from data.tables.arrays import Spec
from data.tables.digest import digest_of
from data.tables.files import replacing
from training.estimators import tree_arrays
from training.estimators.answering import Floats, Unit
from training.estimators.tree_arrays import LEAF, Whole

#: The file beside ``model.skops``.
FILE = "model.npz"
#: Of the file's content; another version is not read.
VERSION = 1
#: Rows that walk through the trees at once, so that what they look at stays in the cache.
_ROWS = 512


@dataclass(frozen=True)
class Preparation:
    """What happens to the features first: gaps are filled, then all is standardised.

    Attributes
    ----------
    fill, mean, scale : ndarray of shape (n_features,)
    """

    fill: Floats
    mean: Floats
    scale: Floats

    def __post_init__(self) -> None:
        """Refuse to divide by nothing."""
        if (self.scale <= 0).any():
            raise ValueError("scale holds what is not above 0")

    def prepared(self, columns: Floats) -> Floats:
        """Return what the classifier takes, shape (n_rows, n_features)."""
        return np.asarray((np.where(np.isnan(columns), self.fill, columns) - self.mean) / self.scale)


@dataclass(frozen=True)
class Linear(Preparation):
    """A logistic regression.

    Attributes
    ----------
    coefficients : ndarray of shape (n_features,)
    intercept : ndarray of shape ()
    """

    coefficients: Floats
    intercept: Floats

    unit: ClassVar[Unit] = "log-odds"

    def probability(self, columns: Floats) -> Floats:
        """Return the probability of ``fail``; see `Answering`."""
        log_odds = self.prepared(columns) @ self.coefficients + self.intercept
        return np.asarray(np.exp(-np.logaddexp(0.0, -log_odds)))

    def contributions(self, columns: Floats, reference: Floats) -> Floats:
        """Return coefficient x deviation from the reference; see `Answering`."""
        return (self.prepared(columns) - self.prepared(reference)) * self.coefficients


class _Step(NamedTuple):
    """One level down: which rows move in some tree, and between which nodes."""

    part: slice
    owners: Whole
    parents: Whole
    children: Whole


@dataclass(frozen=True)
class Trees(Preparation):
    """A decision tree, a random forest or extra trees; the nodes of all trees stand in one array.

    Attributes
    ----------
    roots : ndarray of shape (n_trees,)
    feature : ndarray of shape (n_nodes,)
        Which one a node looks at; -1 in a leaf.
    threshold : ndarray of shape (n_nodes,)
    children : ndarray of shape (n_nodes, 2)
        Where values above the threshold go, and where the others go; both lie after the node.
    share : ndarray of shape (n_nodes,)
        Of ``fail`` in the training vectors that came to the node, by weight.
    """

    roots: Whole
    feature: Whole
    threshold: Floats
    children: Whole
    share: Floats

    unit: ClassVar[Unit] = "probability"

    def __post_init__(self) -> None:
        """Refuse trees that lead out of the arrays, or nowhere."""
        super().__post_init__()
        tree_arrays.check(self.roots, self.feature, self.children, len(self.fill))
        if (self.share < 0).any() or (self.share > 1).any():
            raise ValueError("share holds what is no share")

    @property
    def base_rate(self) -> float:
        """The probability before any feature is looked at: the mean of the roots."""
        return float(self.share[self.roots].mean())

    def probability(self, columns: Floats) -> Floats:
        """Return the mean of the leaves that a row comes to; see `Answering`."""
        of_leaf = np.where(self.feature == LEAF, self.share, 0.0)
        total = np.full(len(columns), of_leaf[self.roots].sum())
        for step in self._steps(columns):
            part = total[step.part]
            part += np.bincount(step.owners, of_leaf.take(step.children), minlength=part.size)
        return total / len(self.roots)

    def contributions(self, columns: Floats, reference: Floats) -> Floats:
        """Return how the probability changes on the way from the roots to the leaves; see `Answering`.

        Every split moves the expected probability from that of its node to that of the child; the
        difference belongs to the split's feature (Saabas, "Interpreting random forests", 2014). A row sums
        to its probability - `base_rate`.
        """
        del reference
        total = np.zeros(columns.shape)
        for step in self._steps(columns):
            part = total[step.part]
            cells = step.owners * columns.shape[1] + self.feature.take(step.parents)
            moved = self.share.take(step.children) - self.share.take(step.parents)
            part += np.bincount(cells, moved, minlength=part.size).reshape(part.shape)
        return total / len(self.roots)

    def _steps(self, columns: Floats) -> Iterator[_Step]:
        """Walk down with all rows in all trees, a level at a time."""
        children = self.children.reshape(-1)
        # scikit-learn compares values of single precision with thresholds of double precision
        prepared = self.prepared(columns).astype(np.float32)
        for start in range(0, len(prepared), _ROWS):
            part = slice(start, start + _ROWS)
            rows = prepared[part]
            owners = np.repeat(np.arange(len(rows)), len(self.roots))
            nodes = np.tile(self.roots, len(rows))
            while len(moving := np.flatnonzero(self.feature.take(nodes) != LEAF)):
                owners, nodes = owners.take(moving), nodes.take(moving)
                values = rows.take(owners * rows.shape[1] + self.feature.take(nodes))
                reached = children.take(2 * nodes + (values <= self.threshold.take(nodes)))
                yield _Step(part, owners, nodes, reached)
                nodes = reached


Frozen = Linear | Trees
_KINDS: dict[str, type[Frozen]] = {"linear": Linear, "trees": Trees}
_FEATURES = Spec("f", ("features",))
_PREPARATION = {"fill": _FEATURES, "mean": _FEATURES, "scale": _FEATURES}
_SPECS = {
    "linear": {**_PREPARATION, "coefficients": _FEATURES, "intercept": Spec("f", ())},
    "trees": {
        **_PREPARATION,
        "roots": Spec("i", ("trees",)),
        "feature": Spec("i", ("nodes",)),
        "threshold": Spec("f", ("nodes",), finite=False),
        "children": Spec("i", ("nodes", 2)),
        "share": Spec("f", ("nodes",)),
    },
}
#: What every file of arrays begins with: which model it belongs to.
OWNER = {"version": Spec("i", ()), "model_digest": Spec("U", ())}
#: Classes of scikit-learn whose trees are frozen.
_OF_TREES = {"DecisionTreeClassifier", "RandomForestClassifier", "ExtraTreesClassifier"}


def freeze(pipeline: Any) -> Frozen | None:
    """Take from a fitted pipeline what it answers with.

    Parameters
    ----------
    pipeline : Pipeline
        As `training.estimators.pipelines` builds it: imputer, scaler, perhaps a sampler, classifier of two classes.

    Returns
    -------
    Linear or Trees or None
        None if it is another pipeline, or its classifier is no linear model and has no trees.
    """
    steps = [step for _, step in pipeline.steps if not hasattr(step, "fit_resample")]
    kinds = [type(step).__name__ for step in steps]
    if kinds[:-1] != ["SimpleImputer", "StandardScaler"] or np.isnan(steps[0].statistics_).any():
        return None
    preparation = (steps[0].statistics_, steps[1].mean_, steps[1].scale_)
    if kinds[-1] == "LogisticRegression":
        return Linear(*preparation, steps[-1].coef_[0], steps[-1].intercept_[0])
    if kinds[-1] in _OF_TREES:
        return _trees(preparation, [tree.tree_ for tree in getattr(steps[-1], "estimators_", steps[-1:])])
    return None


def _trees(preparation: tuple[Floats, Floats, Floats], trees: list[Any]) -> Trees:
    ends = np.cumsum([tree.node_count for tree in trees])
    roots = ends - [tree.node_count for tree in trees]
    below = [
        np.column_stack([tree.children_right, tree.children_left]) + root
        for tree, root in zip(trees, roots, strict=True)
    ]
    leaf = np.concatenate([tree.children_left == LEAF for tree in trees])
    weights = np.concatenate([tree.value[:, 0, :] for tree in trees])
    return Trees(
        *preparation,
        roots,
        np.where(leaf, LEAF, np.concatenate([tree.feature for tree in trees])),
        np.concatenate([tree.threshold for tree in trees]),
        np.where(leaf[:, None], LEAF, np.concatenate(below)),
        weights[:, 1] / weights.sum(axis=1),
    )


def write(path: Path, frozen: Frozen, model: Path) -> None:
    """Write `frozen` to `path`, with the SHA-256 of the file `model` that it belongs to."""
    kind = next(name for name, known in _KINDS.items() if isinstance(frozen, known))
    content = {field.name: getattr(frozen, field.name) for field in fields(frozen)}
    with replacing(path) as temporary:
        np.savez(temporary, version=VERSION, model_digest=digest_of(model), kind=kind, **content)


def read(path: Path, model: Path) -> Frozen | None:
    """Read what `write` wrote, without pickle.

    Returns
    -------
    Linear or Trees or None
        None if there is no such file, or it is of another version or does not belong to the file `model`.

    Raises
    ------
    InputError
        If there is no `model`, or the file holds anything else; names the array.
    """
    if not path.is_file() or not belongs(path, VERSION, model):
        return None
    kind = arrays.read(path, {"kind": Spec("U", ())})["kind"].item()
    if kind not in _KINDS:
        raise InputError(f'is "{kind}"; expected {" or ".join(_KINDS)}', file=path, place='array "kind"')
    try:
        return _KINDS[kind](**arrays.read(path, _SPECS[kind]))
    except ValueError as exc:
        raise InputError(str(exc), file=path) from exc


def belongs(path: Path, version: int, model: Path) -> bool:
    """Tell whether a file of arrays is of this version and belongs to the file `model`.

    Raises
    ------
    InputError
        If there is no `model`, or the file does not say.
    """
    owner = arrays.read(path, OWNER)
    return (owner["version"].item(), owner["model_digest"].item()) == (version, digest_of(model))
