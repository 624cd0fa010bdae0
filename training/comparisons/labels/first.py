"""Label these first: the comparisons from whose labels a model would learn most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.comparisons.examples import Examples
from training.comparisons.labels.few import Learnable, fitted
from training.estimators.pipelines import fail_probability

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: What nobody has labelled.
UNLABELLED = -1
#: While no fail is labelled, one in so many is drawn at random: passes are needed, too, and suspicion errs.
ONE_AT_RANDOM = 5
#: Probabilities nearer to 0 or 1 than this are not told apart.
_EXTREME = 1e-4


@dataclass(frozen=True)
class Pool:
    """Comparisons that can be labelled, and what is known of them.

    Attributes
    ----------
    x : ndarray of shape (n_rows, n_features)
        May hold NaN.
    y : ndarray of shape (n_rows,)
        1 is fail, 0 is pass, `UNLABELLED` is neither yet.
    groups : ndarray of shape (n_rows,)
        The operation of each.
    suspicion : ndarray of shape (n_rows,)
        The larger, the sooner it fails: by a champion's probability, or by a rule.
    start : Examples or None
        What a champion has learnt from.
    """

    x: Floats
    y: Ints
    groups: NDArray[np.str_]
    suspicion: Floats
    start: Examples | None = None

    @property
    def free(self) -> Ints:
        """The rows that nobody has labelled, ascending."""
        return np.flatnonzero(self.y == UNLABELLED)

    @property
    def known(self) -> Learnable:
        """What can be learned from."""
        rows = np.flatnonzero(self.y != UNLABELLED)
        return Learnable(Examples(self.x[rows], self.y[rows], self.groups[rows]), self.start)


def next_to_label(pool: Pool, n: int, seed: int = 0) -> Ints:
    """Return the rows to label next, the first of them first.

    Fails are rare, so the first task is to find some: while none is labelled, the most suspicious come first,
    with some at random among them. Then a model is fitted to what is labelled, and those come first of which
    it is least sure, by the distance of their log-odds from even (uncertainty sampling: D. Lewis, W. Gale, A
    sequential algorithm for training text classifiers, SIGIR 1994). Either way one of an operation comes
    before a second: neighbours in a series tell the same.

    Parameters
    ----------
    pool : Pool
    n : int
        How many; fewer if fewer are left.
    seed : int
        The same pool and seed give the same rows.
    """
    known, free = pool.known, pool.free
    model = fitted(known, seed) if (known.own.y == 1).any() else None
    if model is not None and len(free):
        odds = np.clip(fail_probability(model, pool.x[free]), _EXTREME, 1 - _EXTREME)
        return _spread(pool, free[np.argsort(np.abs(np.log(odds / (1 - odds))), kind="stable")])[:n]
    return _found(pool, free, n, seed)


def _found(pool: Pool, free: Ints, n: int, seed: int) -> Ints:
    """Return the most suspicious, every `ONE_AT_RANDOM`-th place drawn from the others."""
    ordered = _spread(pool, free[np.argsort(-pool.suspicion[free], kind="stable")])
    n = min(n, len(ordered))
    suspicious = n - n // ONE_AT_RANDOM
    others = np.random.default_rng(seed).permutation(ordered[suspicious:])[: n - suspicious]
    places = np.arange(1, len(others) + 1) * (ONE_AT_RANDOM - 1)
    return np.insert(ordered[:suspicious], np.minimum(places, suspicious), others)


def _spread(pool: Pool, ordered: Ints) -> Ints:
    """Put the first of every group before all seconds, those before all thirds, and so on.

    While no fail is labelled, a group that has labels stands back likewise.
    """
    names, groups = np.unique(pool.groups, return_inverse=True)
    seen = np.bincount(groups[pool.y == 0], minlength=len(names)) * (not (pool.y == 1).any())
    turns = _turns(groups[ordered]) + seen[groups[ordered]]
    return ordered[np.argsort(turns, kind="stable")]


def _turns(groups: Ints) -> Ints:
    """Return how often the group of each row came before it."""
    order = np.argsort(groups, kind="stable")
    sorted_groups = groups[order]
    begins = np.flatnonzero(np.diff(sorted_groups, prepend=-1))
    runs = np.diff(np.append(begins, len(groups)))
    turns = np.empty(len(groups), np.int64)
    turns[order] = np.arange(len(groups)) - np.repeat(begins, runs)
    return turns
