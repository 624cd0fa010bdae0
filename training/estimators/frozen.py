"""Fitted pipelines as plain arrays: they answer with NumPy alone, and are read in milliseconds.

To import scikit-learn and skops takes longer than to judge. A linear model or a forest needs neither: what
it learned is a few arrays, which lie beside ``model.skops`` in ``model.npz``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from data.errors import InputError
from data.tables import arrays
from data.tables.arrays import ArraySpec
from data.tables.digest import digest_of
from data.tables.files import replacing
from training.estimators import forest
from training.estimators.answering import Floats, Unit
from training.estimators.forest import LEAF, Forest, Single, Tree, chained

#: The file beside ``model.skops``.
FILE = "model.npz"
#: Of the file's content; another version is not read.
VERSION = 2


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

    @classmethod
    def of(cls, steps: Sequence[Any]) -> Preparation | None:
        """Take from fitted steps what they do; None if they do anything else."""
        kinds = [type(step).__name__ for step in steps]
        if kinds != ["SimpleImputer", "StandardScaler"] or np.isnan(steps[0].statistics_).any():
            return None
        return Preparation(steps[0].statistics_, steps[1].mean_, steps[1].scale_)

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

    def answers(self, columns: Floats, reference: Floats) -> tuple[Floats, Floats]:
        """Answer; contributions are coefficient x deviation from the reference; see `Answering`."""
        contributions = (self.prepared(columns) - self.prepared(reference)) * self.coefficients
        return self.probability(columns), contributions

    def probability(self, columns: Floats) -> Floats:
        """Give the probability alone."""
        # not a product of matrices, whose last digit depends on how many rows there are
        log_odds = (self.prepared(columns) * self.coefficients).sum(axis=1) + self.intercept
        return np.asarray(np.exp(-np.logaddexp(0.0, -log_odds)))


@dataclass(frozen=True)
class Trees(Forest, Preparation):
    """A decision tree, a random forest or extra trees.

    The value of a node is the share of ``fail`` in the training vectors that came to it, by weight.
    """

    unit: ClassVar[Unit] = "probability"

    def __post_init__(self) -> None:
        """Refuse trees that lead out of the arrays, or nowhere."""
        super().__post_init__()
        self.check(len(self.fill))
        if (self.value < 0).any() or (self.value > 1).any():
            raise ValueError("value holds what is no share")

    @property
    def base_rate(self) -> float:
        """The probability before any feature is looked at: the mean of the roots."""
        return float(self.value[self.roots].mean())

    def answers(self, columns: Floats, reference: Floats) -> tuple[Floats, Floats]:
        """Return the mean of the leaves that a row comes to, and how it changes on the way; see `Answering`.

        Every split moves the expected probability from that of its node to that of the child; the
        difference belongs to the split's feature (Saabas, "Interpreting random forests", 2014). A row sums
        to its probability - `base_rate`.
        """
        del reference
        answer = np.full(len(columns), self.of_leaf[self.roots].sum())
        moved = np.zeros(columns.shape)
        for step in self.steps(self._single(columns)):
            own, part = answer[step.part], moved[step.part]
            cells = step.owners * columns.shape[1] + step.features
            own += np.bincount(step.owners, self.of_leaf.take(step.children), minlength=own.size)
            rises = np.bincount(cells, self._rise.take(step.children), minlength=part.size)
            part += rises.reshape(part.shape)
        return answer / len(self.roots), moved / len(self.roots)

    def probability(self, columns: Floats) -> Floats:
        """Give the probability alone."""
        return self.summed(self._single(columns)) / len(self.roots)

    @cached_property
    def _rise(self) -> Floats:
        """By how much the value of every node is above that of its parent."""
        rise, inner = np.zeros(len(self.value)), (self.feature != LEAF).nonzero()[0]
        children = self.children[inner]
        rise[children] = self.value[children] - self.value[inner, None]
        return rise

    def _single(self, columns: Floats) -> Single:
        # scikit-learn compares values of single precision with thresholds of double precision
        return self.prepared(columns).astype(np.float32)


Frozen = Linear | Trees
_KINDS: dict[str, type[Frozen]] = {"linear": Linear, "trees": Trees}
_FEATURES = ArraySpec("f", ("features",))
_PREPARATION = {"fill": _FEATURES, "mean": _FEATURES, "scale": _FEATURES}
_SPECS = {
    "linear": {**_PREPARATION, "coefficients": _FEATURES, "intercept": ArraySpec("f", ())},
    "trees": {**_PREPARATION, **forest.SPECS},
}
#: What every file of arrays begins with: which model it belongs to.
OWNER = {"version": ArraySpec("i", ()), "model_digest": ArraySpec("U", ())}
#: Classes of scikit-learn whose trees are frozen.
_OF_TREES = {"DecisionTreeClassifier", "RandomForestClassifier", "ExtraTreesClassifier"}


def freeze(pipeline: Any) -> Frozen | None:
    """Take from a fitted pipeline what it answers with.

    Parameters
    ----------
    pipeline : Pipeline
        As `training.estimators.pipelines` builds it: imputer, scaler, perhaps a sampler, classifier of two
        classes.

    Returns
    -------
    Linear or Trees or None
        None if it is another pipeline, or its classifier is no linear model and has no trees.
    """
    *before, classifier = [step for _, step in pipeline.steps if not hasattr(step, "fit_resample")]
    prepared, kind = Preparation.of(before), type(classifier).__name__
    if prepared is None:
        return None
    preparation = prepared.fill, prepared.mean, prepared.scale
    if kind == "LogisticRegression":
        return Linear(*preparation, classifier.coef_[0], classifier.intercept_[0])
    if kind in _OF_TREES:
        return _trees(preparation, [tree.tree_ for tree in getattr(classifier, "estimators_", [classifier])])
    return None


def _trees(preparation: tuple[Floats, Floats, Floats], trees: list[Any]) -> Trees:
    weights = [tree.value[:, 0, :] for tree in trees]
    shares = [own[:, 1] / own.sum(axis=1) for own in weights]
    return Trees(
        *preparation, **chained([Tree.of(tree, own) for tree, own in zip(trees, shares, strict=True)])
    )


def write(path: Path, frozen: Frozen, model: Path) -> None:
    """Write `frozen` to `path`, with the SHA-256 of the file `model` that it belongs to."""
    kind = next(name for name, known in _KINDS.items() if isinstance(frozen, known))
    write_arrays(path, VERSION, model, {"kind": np.array(kind), **by_name(frozen)})


def by_name(frozen: Frozen | Forest) -> dict[str, NDArray[Any]]:
    """Return the arrays of `frozen`, by name."""
    return {field.name: np.asarray(getattr(frozen, field.name)) for field in fields(frozen)}


def write_arrays(path: Path, version: int, model: Path, content: Mapping[str, Any]) -> None:
    """Write arrays to `path`, with the SHA-256 of the file `model` that they belong to."""
    with replacing(path) as temporary:
        np.savez(temporary, version=version, model_digest=digest_of(model), **content)


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
    kind = arrays.read(path, {"kind": ArraySpec("U", ())})["kind"].item()
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
