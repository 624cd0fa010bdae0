"""Learning curves on held-out groups: models from the first so many labels of an order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from training.comparisons.family import Examples, group_folds
from training.comparisons.label_review import UNLABELLED, FewModel, Learnable, Pool, learned, next_to_label
from training.evaluation.metrics import scores

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SIZES = (25, 50, 100, 200, 400)
#: Labels that are asked for at once.
BATCH = 25
FOLDS = 5


class Way(NamedTuple):
    """How somebody comes by a model: which are labelled first, and what it starts from."""

    order: str
    start: str


WAYS = tuple(Way(*pair) for pair in product(("random", "these first"), ("nothing", "champion")))


def ways(shipped: Examples | None) -> tuple[Way, ...]:
    """Return all of them, or without a champion those from nothing."""
    return WAYS if shipped is not None else tuple(way for way in WAYS if way.start == "nothing")


@dataclass(frozen=True)
class Trial:
    """One fold of one seed.

    Attributes
    ----------
    train, test : Examples
        All of them labelled; the labels of `train` are shown one after the other.
    suspicion : ndarray of shape (n_train,)
        Of those who start from nothing.
    shipped : Examples or None
        What the champion has learnt from; None: there is no champion.
    seed, fold : int
    """

    train: Examples
    test: Examples
    suspicion: Floats
    shipped: Examples | None
    seed: int
    fold: int


def trials(
    examples: Examples, suspicion: Floats, shipped: Examples | None, seeds: Sequence[int]
) -> Iterator[Trial]:
    """Yield every fold of whole groups, for every seed."""
    for seed in seeds:
        for fold, (train, test) in enumerate(group_folds(examples, FOLDS, seed, "few labels")):
            yield Trial(examples.rows(train), examples.rows(test), suspicion[train], shipped, seed, fold)


def curves(trial: Trial) -> pd.DataFrame:
    """Return a row per way and number of labels: the mistakes on the test rows, and the average precision."""
    champion, rows = None, []
    if trial.shipped is not None:
        champion = learned(Learnable(trial.shipped), trial.seed)
        rows = [_scored(trial, Way("none", "champion"), np.zeros(0, np.int64), champion)]
    for way in ways(trial.shipped):
        start = trial.shipped if way.start == "champion" else None
        labelled = _order(trial, way, champion)
        rows += [_learned(trial, way, labelled[:count], start) for count in SIZES]
        if way.order == "random":
            whole = _learned(trial, way, np.arange(len(trial.train.y)), start)
            rows += [whole, {**whole, "order": "these first"}]
    return pd.DataFrame(rows)


def _learned(trial: Trial, way: Way, chosen: Ints, start: Examples | None) -> dict[str, object]:
    known = Learnable(trial.train.rows(chosen), start, np.delete(trial.train.x, chosen, axis=0))
    return _scored(trial, way, chosen, learned(known, trial.seed))


def _order(trial: Trial, way: Way, champion: FewModel | None) -> Ints:
    most, n = SIZES[-1], len(trial.train.y)
    if way.order == "random":
        return np.random.default_rng([trial.seed, trial.fold]).permutation(n)[:most]
    start, suspicion = None, trial.suspicion
    if way.start == "champion" and champion is not None:
        start, suspicion = trial.shipped, champion.probability(trial.train.x)
    unlabelled = np.full(n, UNLABELLED)
    pool = Pool(trial.train.x, unlabelled, trial.train.groups, suspicion, start)
    labelled = np.zeros(0, np.int64)
    while len(labelled) < most:
        chosen = next_to_label(pool, BATCH, trial.seed)
        labelled = np.concatenate([labelled, chosen])
        y = pool.y.copy()
        y[chosen] = trial.train.y[chosen]
        pool = replace(pool, y=y)
    return labelled


def _scored(trial: Trial, way: Way, chosen: Ints, model: FewModel | None) -> dict[str, object]:
    """Score a model; without one all comparisons pass."""
    failed = trial.test.y == 1
    probability = np.zeros(len(failed)) if model is None else model.probability(trial.test.x)
    judged = probability >= model.threshold if model is not None else np.zeros(len(failed), bool)
    found = scores(failed, judged, probability)
    return {
        "seed": trial.seed,
        "fold": trial.fold,
        **way._asdict(),
        "labels": len(chosen),
        "all": len(chosen) == len(trial.train.y),
        "fails": int(trial.train.y[chosen].sum()),
        "missed": int((failed & ~judged).sum()),
        "alarms": int((~failed & judged).sum()),
        "test_fails": int(failed.sum()),
        "test_passes": int((~failed).sum()),
        "average_precision": found.average_precision,
    }
