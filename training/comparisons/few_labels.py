"""What lies beside the table of labelled vectors: what a champion has learnt from, and unlabelled rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.tables.files import digest_of
from data.tables.specs import read_table
from training.comparisons.examples import Examples, FeatureTable, joined
from training.estimators.catalogue import CATALOGUE
from training.estimators.pipelines import fail_probability, pipeline
from training.evaluation.calibration import log_odds, sigmoid
from training.evaluation.thresholds import best_cut

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: What learns from few labels: trees that average over 4 rows or more, with classes of equal weight.
FEW = ("extra-trees", {**CATALOGUE["extra-trees"].start, "leaf": 4, "weights": "balanced", "cost_ratio": 1.0})
#: Fits to labelled rows.
Fitting = Callable[[Examples], Any]
#: A threshold needs fails and passes of 2 groups at least; folds of groups are 5 at most.
_FOLDS = (2, 5)
#: Where there is a champion to start from, own labels count from so many fails and so many passes on.
ENOUGH = 5
#: The threshold where labels cannot tell: that of classes of equal weight.
_EVEN = 0.5


@dataclass(frozen=True)
class Learnable:
    """All that there is to learn from.

    Attributes
    ----------
    own : Examples
        What the user has labelled.
    start : Examples or None
        What a champion has learnt from; the groups are others than those of `own`.
    rest : ndarray of shape (n_rest, n_features), or None
        What nobody has labelled yet.
    """

    own: Examples
    start: Examples | None = None
    rest: Floats | None = None

    @property
    def alone(self) -> bool:
        """Whether there are but the user's own labels."""
        return self.start is None and (self.rest is None or not len(self.rest))

    @property
    def learnt(self) -> Examples:
        """What a model is fitted to."""
        return self.of(self.own)

    def of(self, own: Examples) -> Examples:
        """Return what a model is fitted to that may see only these of the user's own; they come last."""
        return own.lessons if self.start is None else joined(self.start, own.lessons)


@dataclass(frozen=True)
class FewModel:
    """A model from few labels, and the probability from which on it fails."""

    fitted: Any
    threshold: float

    def probability(self, x: Floats) -> Floats:
        """Return the probability of fail, shape (n_rows,)."""
        return fail_probability(self.fitted, x)


def learned(known: Learnable, seed: int) -> FewModel | None:
    """Fit to what is `known`, and choose the threshold; None while there is only one kind of label.

    A champion stays as it is until `ENOUGH` own fails and passes are there: passes alone tell a model where a
    measurement comes from, not what a fail looks like there, and it would take all that comes from there for
    a pass.
    """
    if known.start is not None and np.bincount(known.own.y, minlength=2).min() < ENOUGH:
        known = Learnable(known.start)
    model = fitted(known, seed)
    if model is None:
        return None
    return FewModel(model, threshold(known, model, lambda rows: _fitted(rows, seed), seed))


def fitted(known: Learnable, seed: int) -> Any:
    """Fit to what is `known`; None while there is only one kind of label."""
    whole = known.learnt
    return _fitted(whole, seed) if len(np.unique(whole.y)) == len((0, 1)) else None


def threshold(known: Learnable, model: Any, fitting: Fitting, seed: int) -> float:
    """Choose from which probability on a comparison fails, for a model of `fitting` to what is `known`.

    The rows that somebody labels first are no fair sample: most are hard, and many fail. Few of all
    comparisons do, so those that nobody has labelled count as passes (C. Elkan, K. Noto, Learning classifiers
    from only positive and unlabeled data, KDD 2008), but as fails as far as the own labels make that of a
    row the likelier one: rows were chosen by what a model says of them, so what it says still means the same
    of the others. Own fails may be too few to be measured, so the fails of
    `known.start` count, too; its passes don't, for what a pass looks like is a matter of where it was
    measured. Nothing counts by the word of a model that was fitted to the row's group.
    """
    whole, folds = known.learnt, _folds(known.learnt, seed)
    if folds is None:
        return _EVEN
    probability = np.zeros(len(whole.y))
    for train, test in folds:
        probability[test] = fail_probability(fitting(whole.rows(train)), whole.x[test])
    counted = np.arange(len(whole.y)) >= len(whole.y) - known.own.asked.sum()
    counted |= whole.y == 1
    rest = np.zeros(0) if known.rest is None or not len(known.rest) else fail_probability(model, known.rest)
    own = slice(len(whole.y) - len(known.own.y), None)
    y = np.concatenate([whole.y[counted], _likely_fails(whole.y[own], probability[own], rest)])
    return best_cut(y, np.concatenate([probability[counted], rest])).threshold if y.min() < 1 else _EVEN


def _likely_fails(y: Ints, probability: Floats, rest: Floats) -> Floats:
    """Return how far rows that nobody has labelled count as fails, by labelled ones: 0, or more than half."""
    if len(np.unique(y)) < len((0, 1)) or not len(rest):
        return np.zeros(len(rest))
    failing = sigmoid(y, log_odds(probability))(log_odds(rest))
    share = 1 / (1 + np.exp(-failing))
    return np.asarray(np.where(share > _EVEN, share, 0.0))


def _folds(examples: Examples, seed: int) -> list[tuple[Ints, Ints]] | None:
    from sklearn.model_selection import StratifiedGroupKFold

    most = min(len(np.unique(examples.groups[examples.y == label])) for label in (0, 1))
    least, usual = _FOLDS
    if most < least:
        return None
    kfold = StratifiedGroupKFold(min(most, usual), shuffle=True, random_state=seed)
    divided = list(kfold.split(examples.x, examples.y, examples.groups))
    fair = all(len(np.unique(examples.y[train])) == len((0, 1)) for train, _ in divided)
    return divided if fair else None


def _fitted(examples: Examples, seed: int) -> Any:
    name, params = FEW
    return pipeline(CATALOGUE[name], params, examples.y, seed).fit(examples.x, examples.y)


#: By the file that featurize writes.
START, UNLABELLED = "start.parquet", "unlabelled.parquet"


def known_of(features: Path, table: FeatureTable, own: Examples, *, unlabelled: bool = False) -> Learnable:
    """Return all that there is to learn from.

    Parameters
    ----------
    features : Path
        The file of `table`; the others lie beside it, or not.
    table : FeatureTable
    own : Examples
        Of `table`.
    unlabelled : bool
        Whether what nobody has labelled counts.

    Raises
    ------
    InputError
        If one of them lacks a feature.
    """
    start, others = features.with_name(START), features.with_name(UNLABELLED)
    first = FeatureTable.read(start, table.columns).examples if start.is_file() else None
    wanted = dict.fromkeys(table.columns, "float64")
    counted = unlabelled and others.is_file()
    rest = read_table(others, wanted)[[*wanted]].to_numpy(np.float64) if counted else None
    return Learnable(own, first if first is not None and len(first.y) else None, rest)


def digest_beside(features: Path, table: FeatureTable) -> str:
    """Return what searches depend on: the digest of `table`, and of what models start from, if they do."""
    start = features.with_name(START)
    return f"{digest_of(start)[:6]}{table.digest}" if start.is_file() else table.digest
