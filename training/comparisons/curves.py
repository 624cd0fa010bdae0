"""How accuracy depends on neighbours and on trees (seed 000, figures 6.6 and 6.8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.sidebyside import Compute, side_by_side
from training.comparisons.examples import Examples
from training.comparisons.splits import Part
from training.estimators.catalogue import CATALOGUE
from training.estimators.pipelines import pipeline

NEIGHBOURS = 30
#: Beyond this share of the votes a comparison fails; a tie passes.
MAJORITY = 0.5
#: A fold with more training rows than this learns from all fails and some passes; the figures show a
#: trend, and all of them would take minutes.
LARGEST = 3000

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class _Curves:
    """All four curves of one fold."""

    train: Examples
    test: Examples
    number: int
    seed: int


def curves(examples: Examples, folds: list[Part], seed: int, compute: Compute) -> pd.DataFrame:
    """Compute the accuracy curves on `folds`, with the configurations of seed 000, section 6.7.

    Returns
    -------
    DataFrame
        ``curve`` ("knn-uniform", "knn-distance", "random-forest", "extra-trees"), ``parameter`` (neighbours,
        or trees), ``fold``, ``accuracy``.
    """
    tasks = [
        _Curves(examples.rows(part.train).sample(LARGEST, seed), examples.rows(part.test), number, seed)
        for number, part in enumerate(folds)
    ]
    return pd.concat(side_by_side(_of_fold, tasks, compute, "accuracy curves"), ignore_index=True)


def _of_fold(task: _Curves) -> pd.DataFrame:
    rows = []
    for curve in ("knn-uniform", "knn-distance", "random-forest", "extra-trees"):
        votes = _neighbour_votes(task, curve) if curve.startswith("knn") else _tree_votes(task, curve)
        for parameter, share in enumerate(votes, start=1):
            accuracy = float(((share > MAJORITY) == task.test.y).mean())
            rows.append((curve, parameter, task.number, accuracy))
    return pd.DataFrame(rows, columns=["curve", "parameter", "fold", "accuracy"])


def _fitted(task: _Curves, name: str) -> tuple[Any, Floats]:
    """Return the fitted classifier and the test vectors as it sees them."""
    model = CATALOGUE[name]
    whole = pipeline(model, model.start, task.train.y, task.seed).fit(task.train.x, task.train.y)
    return whole[-1], np.asarray(whole[:-1].transform(task.test.x))


def _neighbour_votes(task: _Curves, name: str) -> Iterator[Floats]:
    """Yield the share of votes for fail among the nearest 1, 2, ... neighbours."""
    classifier, x = _fitted(task, name)
    distance, nearest = classifier.kneighbors(x, n_neighbors=min(NEIGHBOURS, len(task.train.y)))
    weight = np.ones_like(distance) if name == "knn-uniform" else _nearness(distance)
    voted = np.cumsum(weight * task.train.y[nearest], axis=1) / np.cumsum(weight, axis=1)
    yield from voted.T


def _nearness(distance: Floats) -> Floats:
    """Weigh neighbours by the inverse of their distance; those at no distance outvote all others."""
    same = distance == 0
    inverse = 1 / np.where(same, 1.0, distance)
    return np.where(same.any(axis=1, keepdims=True), same.astype(np.float64), inverse)


def _tree_votes(task: _Curves, name: str) -> Iterator[Floats]:
    """Yield the share of votes for fail of the first 1, 2, ... trees of one forest."""
    classifier, x = _fitted(task, name)
    total = np.zeros(len(x))
    for number, tree in enumerate(classifier.estimators_, start=1):
        total += tree.predict_proba(x)[:, 1]
        yield total / number
