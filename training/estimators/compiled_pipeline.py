"""Fitted pipelines as plain arrays, which predict with NumPy alone and load in milliseconds.

Importing scikit-learn and skops takes longer than judging. Linear models, trees and one-sided neighbours need
neither: they are a few arrays, stored next to ``model.skops`` in ``model.npz``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.errors import InputError
from data.tables import arrays
from data.tables.arrays import ArraySpec
from data.tables.files import digest_of, replacing
from training.estimators.answering import SPECS as PREPARATION
from training.estimators.answering import Floats, Preparation, Unit

Single = NDArray[np.float32]
Whole = NDArray[np.intp]
#: Feature index of a leaf.
LEAF = -1
#: Number of rows that walk through the trees at a time, so that their data stays in the cache.
_ROWS = 512
#: Number of rows whose distances are computed at a time, so that these stay in the cache.
_NEAR_ROWS = 256
#: Added to every distance, in standard deviations, to keep it above zero.
_NEAREST = 0.05
SPECS = {
    "roots": ArraySpec("i", ("trees",)),
    "feature": ArraySpec("i", ("nodes",)),
    "threshold": ArraySpec("f", ("nodes",), finite=False),
    "children": ArraySpec("i", ("nodes", 2)),
    "value": ArraySpec("f", ("nodes",)),
}


class Tree(NamedTuple):
    """One tree with its own node numbers; see `Forest`. Children of leaves are negative."""

    feature: Whole
    threshold: Floats
    children: Whole
    value: Floats

    @classmethod
    def from_sklearn(cls, tree: Any, value: Floats, first: int = 0) -> Tree:
        """Return a tree with scikit-learn's arrays; `first` is the column of the tree's first feature.

        `value`, shape (n_nodes,), is the prediction of each node.
        """
        feature = np.where(tree.children_left == LEAF, LEAF, tree.feature + first)
        children = np.column_stack([tree.children_right, tree.children_left])
        return cls(feature, tree.threshold, children, value)


def join_trees(trees: Sequence[Tree]) -> dict[str, Any]:
    """Return the fields ``roots, feature, threshold, children, value`` of a `Forest` of `trees`, by name.

    The nodes of all trees, at least one, are numbered consecutively, tree by tree; ``roots`` are the first
    nodes of the trees, and ``children`` are -1 in leaves.
    """
    sizes = np.array([len(tree.feature) for tree in trees])
    roots = np.cumsum(sizes) - sizes
    children = zip((tree.children for tree in trees), roots, strict=True)
    return {
        "roots": roots,
        "feature": np.concatenate([tree.feature for tree in trees]),
        "threshold": np.concatenate([tree.threshold for tree in trees]),
        "children": np.concatenate([np.where(below < 0, LEAF, below + root) for below, root in children]),
        "value": np.concatenate([tree.value for tree in trees]),
    }


class Level(NamedTuple):
    """One level of a walk: the rows that move in some tree, the features compared, the nodes reached."""

    part: slice
    owners: Whole
    features: Whole
    children: Whole


@dataclass(frozen=True)
class Forest:
    """Trees; every child comes after its parent, as scikit-learn and XGBoost number them."""

    roots: Whole  # shape (n_trees,)
    feature: Whole  # shape (n_nodes,): The feature that a node compares; -1 in a leaf
    threshold: Floats  # shape (n_nodes,)
    children: Whole  # shape (n_nodes, 2): The child for values above the threshold, and for the others
    value: Floats  # shape (n_nodes,): In a leaf, its prediction

    def check_nodes(self, features: int) -> None:
        """Raise ValueError unless a walk with `features` columns stays inside the arrays and ends."""
        nodes = len(self.feature)
        no_node = f"is not one of the {nodes} nodes"
        _raise_if_wrong("roots", self.roots, (self.roots < 0) | (self.roots >= nodes), no_node)
        outside = (self.feature < LEAF) | (self.feature >= features)
        _raise_if_wrong("feature", self.feature, outside, f"is not one of the {features} features")
        inner = (self.feature != LEAF)[:, None]
        _raise_if_wrong("children", self.children, inner & (self.children >= nodes), no_node)
        before = inner & (self.children <= np.arange(nodes)[:, None])
        _raise_if_wrong("children", self.children, before, "is not after its parent")

    def sum_leaf_values(self, rows: Single) -> Floats:
        """Return the sum of the leaf values that each row reaches, shape (n_rows,)."""
        total = np.full(len(rows), self.of_leaf[self.roots].sum())
        for step in self.walk_levels(rows):
            part = total[step.part]
            part += np.bincount(step.owners, self.of_leaf.take(step.children), minlength=part.size)
        return total

    @cached_property
    def of_leaf(self) -> Floats:
        """The value of each leaf; 0 for other nodes."""
        return np.where(self.feature == LEAF, self.value, 0.0)

    def walk_levels(self, rows: Single) -> Iterator[Level]:
        """Yield, level by level, the walk of all rows through all trees."""
        children = self.children.reshape(-1)
        for start in range(0, len(rows), _ROWS):
            part = slice(start, start + _ROWS)
            block = rows[part]
            owners = np.repeat(np.arange(len(block)), len(self.roots))
            nodes = np.tile(self.roots, len(block))
            features = self.feature.take(nodes)
            while len(moving := (features != LEAF).nonzero()[0]):
                owners, nodes, features = owners.take(moving), nodes.take(moving), features.take(moving)
                values = block.take(owners * block.shape[1] + features)
                nodes = children.take(2 * nodes + self.below_threshold(values, nodes))
                yield Level(part, owners, features, nodes)
                features = self.feature.take(nodes)

    def below_threshold(self, values: Single, nodes: Whole) -> NDArray[np.bool_]:
        """Return whether each value is at most the threshold of its node; all have shape (n,)."""
        return values <= self.threshold.take(nodes)


def _raise_if_wrong(name: str, values: NDArray[Any], wrong: NDArray[np.bool_], problem: str) -> None:
    if wrong.any():
        place = np.argwhere(wrong)[0]
        raise ValueError(f"{name}{place.tolist()}={values[tuple(place)]} {problem}")


#: The file next to ``model.skops``.
FILE = "model.npz"
#: Version of the file's content; other versions are not read.
VERSION = 3


@dataclass(frozen=True)
class Linear(Preparation):
    """A logistic regression."""

    coefficients: Floats  # shape (n_features,)
    intercept: Floats  # shape ()

    unit: ClassVar[Unit] = "log-odds"

    def predict_and_explain(self, columns: Floats, reference: Floats) -> tuple[Floats, Floats]:
        """Return probabilities, shape (n_rows,), and coefficient x deviation from the reference.

        Contributions, shape as `columns`, are in log-odds; positive is towards fail.
        """
        prepared = self.prepare_columns(columns)
        contributions = (prepared - self.prepare_columns(reference)) * self.coefficients
        return self.raise_with_contributions(self.classifier_probability(prepared), contributions, prepared)

    def classifier_probability(self, prepared: Floats) -> Floats:
        """Return the probability of ``fail`` by the logistic function, shape (n_rows,)."""
        # the last digit of a matrix product would depend on the number of rows
        log_odds = (prepared * self.coefficients).sum(axis=1) + self.intercept
        return np.asarray(np.exp(-np.logaddexp(0.0, -log_odds)))


@dataclass(frozen=True)
class Trees(Forest, Preparation):
    """A decision tree, a random forest or extra trees.

    The value of a node is the weighted share of ``fail`` in the training rows that reached it.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_nodes(len(self.fill))
        if (self.value < 0).any() or (self.value > 1).any():
            raise ValueError("value: expected shares from 0 to 1")

    def predict_and_explain(self, columns: Floats, reference: Floats) -> tuple[Floats, Floats]:
        """Return the mean of the leaves that a row reaches, and the change by each feature.

        Every split moves the expected probability from that of its node to that of the child; the difference
        is attributed to the split's feature (Saabas, "Interpreting random forests", 2014). The contributions
        of a row, shape as `columns`, sum to its probability, shape (n_rows,), minus the mean value of the
        roots. `reference` is ignored.
        """
        del reference
        answer = np.full(len(columns), self.of_leaf[self.roots].sum())
        moved = np.zeros(columns.shape)
        prepared = self.prepare_columns(columns)
        # scikit-learn compares values of single precision with thresholds of double precision
        for step in self.walk_levels(prepared.astype(np.float32)):
            total, part = answer[step.part], moved[step.part]
            cells = step.owners * columns.shape[1] + step.features
            total += np.bincount(step.owners, self.of_leaf.take(step.children), minlength=total.size)
            rises = np.bincount(cells, self._rise_from_parent.take(step.children), minlength=part.size)
            part += rises.reshape(part.shape)
        return self.raise_with_contributions(answer / len(self.roots), moved / len(self.roots), prepared)

    def classifier_probability(self, prepared: Floats) -> Floats:
        """Return the mean of the leaves that each row reaches, shape (n_rows,)."""
        return self.sum_leaf_values(prepared.astype(np.float32)) / len(self.roots)

    @cached_property
    def _rise_from_parent(self) -> Floats:
        rise, inner = np.zeros(len(self.value)), (self.feature != LEAF).nonzero()[0]
        children = self.children[inner]
        rise[children] = self.value[children] - self.value[inner, None]
        return rise


@dataclass(frozen=True)
class NearVotes:
    """The stored points of `training.estimators.monotone.OneSidedNeighbours`."""

    axes: Floats  # shape (n_features, n_axes)
    points: Floats  # shape (n_points, n_axes)
    fails: NDArray[np.int64]  # shape (n_points,): 1 where it failed
    #: k, p, weighted: shape ()
    k: NDArray[np.int64]
    p: NDArray[np.int64]
    weighted: NDArray[np.int64]

    def fail_share(self, x: Floats) -> Floats:
        """Return the share of ``fail`` in the densities of both classes, shape (n_rows,)."""
        from scipy.special import expit

        rows = (x @ self.axes).astype(np.float32)
        points = (self.points[self.fails == label].T for label in (0, 1))
        passes, fails = (np.ascontiguousarray(part, np.float32) for part in points)
        odds = np.empty(len(rows))
        for start in range(0, len(rows), _NEAR_ROWS):
            part = slice(start, start + _NEAR_ROWS)
            # a pass is far where the row is worse, a fail where the row is better
            from_passes = self._one_sided_distance(passes, rows[part], 1)
            from_fails = self._one_sided_distance(fails, rows[part], -1)
            odds[part] = self._density_log_odds(from_passes, from_fails)
        return np.asarray(expit(odds))

    def _one_sided_distance(self, points: Single, rows: Single, sign: int) -> Single:
        total = np.zeros((len(rows), points.shape[1]), np.float32)
        for axis, positions in enumerate(points):
            difference = sign * (positions - rows[:, axis, None])
            np.maximum(difference, 0.0, out=difference)
            total += difference * difference if self.p != 1 else difference
        return np.sqrt(total, out=total) if self.p != 1 else total

    def _density_log_odds(self, passes: Single, fails: Single) -> Floats:
        """Return the log-odds of the density of fails against that of passes, by the `k` nearest of each.

        The density of a class is its inverse distance to the power of the number of axes (Loftsgaarden,
        Quesenberry, A nonparametric estimate of a multivariate density function, 1965).
        """
        means = []
        for distance in (passes, fails):
            count = min(int(self.k), distance.shape[1])
            near = np.partition(distance, count - 1, axis=1)[:, :count] + np.float32(_NEAREST)
            # the harmonic mean if they are weighted
            means.append(1 / (1 / near).mean(axis=1) if self.weighted else near.mean(axis=1))
        return np.asarray(self.axes.shape[1] * (np.log(means[0]) - np.log(means[1])), np.float64)


@dataclass(frozen=True)
class Neighbours(NearVotes, Preparation):
    """One-sided nearest neighbours; see `training.estimators.monotone.OneSidedNeighbours`."""

    def predict_and_explain(self, columns: Floats, reference: Floats) -> tuple[Floats, Floats]:
        """Return probabilities, shape (n_rows,), and contributions, shape as `columns`; see `Answering`.

        The difference from the reference's probability is divided among the columns that deviate from the
        reference in the direction of the difference, in proportion to their deviation.
        """
        prepared, ordinary = self.prepare_columns(columns), self.prepare_columns(reference[None])
        share = self.fail_share(np.concatenate([prepared, ordinary]))
        more = share[:-1] - share[-1]
        deviations = (ordinary - prepared) * self.axes.sum(axis=1) * np.where(more < 0, -1.0, 1.0)[:, None]
        np.maximum(deviations, 0.0, out=deviations)
        whole = deviations.sum(axis=1, keepdims=True)
        np.divide(deviations, whole, out=deviations, where=whole > 0)
        deviations *= more[:, None]
        return self.raise_with_contributions(share[:-1], deviations, prepared)

    def classifier_probability(self, prepared: Floats) -> Floats:
        """Return the share of ``fail`` by the nearest points, shape (n_rows,)."""
        return self.fail_share(prepared)


CompiledPipeline = Linear | Trees | Neighbours
_KINDS: dict[str, type[CompiledPipeline]] = {"linear": Linear, "trees": Trees, "neighbours": Neighbours}
_FEATURES = ArraySpec("f", ("features",))
_SPECS = {
    "linear": {**PREPARATION, "coefficients": _FEATURES, "intercept": ArraySpec("f", ())},
    "trees": {**PREPARATION, **SPECS},
    "neighbours": {
        **PREPARATION,
        "axes": ArraySpec("f", ("features", "axes")),
        "points": ArraySpec("f", ("points", "axes")),
        "fails": ArraySpec("i", ("points",)),
        **dict.fromkeys(("k", "p", "weighted"), ArraySpec("i", ())),
    },
}
#: First arrays of every file: its version, and the digest of the model file.
OWNER = {"version": ArraySpec("i", ()), "model_digest": ArraySpec("U", ())}
#: Class names of the classifiers that are compiled.
_LINEAR = {"LogisticRegression", "SignedLogistic"}
_OF_TREES = {"DecisionTreeClassifier", "RandomForestClassifier", "ExtraTreesClassifier"}


def compile_pipeline(pipeline: Any) -> CompiledPipeline | None:
    """Return a fitted pipeline as arrays that predict alike; None if it cannot be converted.

    It must impute and scale as the catalogue's pipelines do; samplers are ignored. The classifier must be a
    logistic regression, a decision tree, a random forest, extra trees or `OneSidedNeighbours`.
    """
    parts = Preparation.from_pipeline(pipeline)
    if parts is None:
        return None
    prepared, classifier = parts
    preparation, kind = by_name(prepared), type(classifier).__name__
    if kind in _LINEAR:
        return Linear(**preparation, coefficients=classifier.coef_[0], intercept=classifier.intercept_[0])
    if kind in _OF_TREES:
        trees = [tree.tree_ for tree in getattr(classifier, "estimators_", [classifier])]
        weights = [tree.value[:, 0, :] for tree in trees]
        shares = [weight[:, 1] / weight.sum(axis=1) for weight in weights]
        return Trees(**preparation, **join_trees([*map(Tree.from_sklearn, trees, shares)]))
    if kind == "OneSidedNeighbours":
        return Neighbours(**preparation, **vars(classifier.near_votes))
    return None


def write(path: Path, compiled: CompiledPipeline, model: Path) -> None:
    """Write `compiled` to `path`, with the SHA-256 of the file `model`; see `write_arrays`.

    An existing file is replaced. OSError if `path` does not end in ``.npz``; InputError without `model`.
    """
    kind = next(name for name, kind_type in _KINDS.items() if isinstance(compiled, kind_type))
    write_arrays(path, VERSION, model, {"kind": np.array(kind), **by_name(compiled)})


def by_name(compiled: Preparation | Forest) -> dict[str, NDArray[Any]]:
    """Return the fields of `compiled` as arrays, by name, as they are stored in a file."""
    return {field.name: np.asarray(getattr(compiled, field.name)) for field in fields(compiled)}


def write_arrays(path: Path, version: int, model: Path, content: Mapping[str, Any]) -> None:
    """Write arrays to `path`, a NumPy archive, with the SHA-256 of the file `model` that they belong to.

    `content` has arrays by name; `version` is that of their layout, and is stored, too. An existing file is
    replaced atomically, a missing directory created. OSError if the name of `path` does not end in ``.npz``
    or the file cannot be written; InputError if `model` is missing.
    """
    with replacing(path) as temporary:
        np.savez(temporary, version=version, model_digest=digest_of(model), **content)


def read(path: Path, model: Path) -> CompiledPipeline | None:
    """Return the compiled pipeline that `write` wrote to `path`, read without pickle.

    None if the file does not exist, has another version or does not belong to the file `model`. InputError if
    the file exists and `model` does not, or if the file is unreadable or its arrays are missing or invalid.
    """
    if not path.is_file() or not belongs_to_model(path, VERSION, model):
        return None
    kind = arrays.read_arrays(path, {"kind": ArraySpec("U", ())})["kind"].item()
    if kind not in _KINDS:
        raise InputError(f'is "{kind}"; expected {" or ".join(_KINDS)}', file=path, place='array "kind"')
    try:
        return _KINDS[kind](**arrays.read_arrays(path, _SPECS[kind]))
    except ValueError as exc:
        raise InputError(str(exc), file=path) from exc


def belongs_to_model(path: Path, version: int, model: Path) -> bool:
    """Return whether a file of arrays states this layout version and the SHA-256 of the file `model`.

    InputError if `path` or `model` is missing, or `path` is not a NumPy archive with version and digest;
    other arrays in it are not checked.
    """
    owner = arrays.read_arrays(path, OWNER)
    return (owner["version"].item(), owner["model_digest"].item()) == (version, digest_of(model))
