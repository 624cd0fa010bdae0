"""Which of several models is taken where one measurement cannot tell them apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

#: Draws of the bootstrap.
DRAWS = 400
#: Of the percentile interval.
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Said:
    """What a model said of rows that it had not seen.

    Attributes
    ----------
    probability : ndarray of shape (n_rows,)
        Of ``fail``.
    fails : ndarray of bool, shape (n_rows,)
        Its verdicts.
    """

    probability: Floats
    fails: Flags


def steadiest(
    failed: Flags,
    said: Mapping[str, Said],
    groups: NDArray[np.str_],
    order: Sequence[str],
    seed: int,
) -> str:
    """Return the first of `order` that is not worse than the best.

    What a model is worth is the mean of its balanced accuracy and its average precision, as in the search for
    parameters. It is worse where the whole interval of the difference in worth is, over whole groups drawn
    with replacement: smaller differences are those between samples of groups, and what one measurement cannot
    tell apart is told by how little a model depends on it (as the simplest model within the error is taken by
    Breiman, Friedman, Olshen and Stone, Classification and Regression Trees, 1984, section 3.4.3).

    Parameters
    ----------
    failed : ndarray of bool, shape (n_rows,)
        The people's verdicts.
    said : mapping
        By model, on the same rows.
    groups : ndarray of shape (n_rows,)
    order : sequence of str
        The steadiest first; models that it lacks come last, as they stand in `said`.
    seed : int
    """
    names = sorted(said, key=lambda name: order.index(name) if name in order else len(order))
    once = np.ones(len(failed))
    worth = {name: _worth(failed, said[name], once) for name in names}
    best = max(names, key=lambda name: worth[name])
    weights = list(_drawn(failed, groups, seed))
    drawn = {name: np.array([_worth(failed, said[name], weight) for weight in weights]) for name in names}
    tail = (1 - CONFIDENCE) / 2
    return next(name for name in names if np.quantile(drawn[best] - drawn[name], tail) <= 0)


def _drawn(failed: Flags, groups: NDArray[np.str_], seed: int) -> list[Floats]:
    """Return how often each row is drawn; draws without any fail or pass are left out."""
    _, group = np.unique(groups, return_inverse=True)
    size = int(group.max()) + 1
    counts = np.random.default_rng(seed).multinomial(size, np.full(size, 1 / size), size=DRAWS)
    weights = counts[:, group].astype(np.float64)
    return [weight for weight in weights if weight[failed].sum() and weight[~failed].sum()]


def _worth(failed: Flags, said: Said, weight: Floats) -> float:
    from sklearn.metrics import average_precision_score

    recall = np.average(said.fails[failed], weights=weight[failed])
    spared = np.average(~said.fails[~failed], weights=weight[~failed])
    precision = average_precision_score(failed, said.probability, sample_weight=weight)
    return float(((recall + spared) / 2 + precision) / 2)
