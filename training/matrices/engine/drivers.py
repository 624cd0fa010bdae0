"""Which metrics drove a verdict: those without whose differences it would not be what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.matrices.removal import Removal

Floats = NDArray[np.float64]
Whole = NDArray[np.intp]
#: From rows, and the pair of each, to log-odds.
Odds = Callable[[Floats, Whole], Floats]

#: So many metrics, those that differ most by their noise, are tried first; then so many that were best.
TRIED, AGAIN = 32, 16
#: So many numbers at a time are judged.
AT_ONCE = 2_000_000
#: What differs by less is told apart by rounding only.
DIGITS = 9


@dataclass(frozen=True)
class Found:
    """The drivers of some pairs.

    Attributes
    ----------
    metric : ndarray of int, shape (n_pairs, n)
        Places of metrics, in the order in which they were taken.
    contribution : ndarray of shape (n_pairs, n)
        By how much the log-odds of abnormal fall.
    """

    metric: Whole
    contribution: Floats


def drivers(removal: Removal, odds_of: Odds, n: int) -> Iterator[tuple[slice, Found]]:
    """Find the `n` metrics without whose differences the log-odds of abnormal fall most.

    One after the other is taken, that which lets them fall most once those before it are gone: the target's
    runs are moved so that the metric's middle is the baseline's. So contributions add up to what is lost
    without all of them. The engine is asked as it is, through form, projection and classifier. Of metrics
    that contribute the same, that which differs most by its noise comes first.

    Parameters
    ----------
    removal : Removal
    odds_of : callable
        What the engine says of rows of the form, of some pairs.
    n : int

    Yields
    ------
    slice, Found
        Some pairs, in their order.
    """
    pairs, metrics = removal.sizes.shape
    tried, again = min(max(n, TRIED), metrics), min(max(n, AGAIN), metrics)
    rows = int(removal.counts.max(initial=1)) * tried * removal.rows.x.shape[1]
    step = max(1, AT_ONCE // max(1, rows))
    for first in range(0, pairs, step):
        here = slice(first, min(first + step, pairs))
        search = _Taking(removal, odds_of, np.arange(here.start, here.stop))
        yield here, search.taken(min(n, metrics), tried, again)


@dataclass(frozen=True)
class _Taking:
    """Pairs from which metrics are taken one after the other."""

    removal: Removal
    odds_of: Odds
    pair: Whole

    def taken(self, n: int, tried: int, again: int) -> Found:
        gone = np.zeros((len(self.pair), self.removal.sizes.shape[1]), bool)
        left = np.argsort(-self.removal.sizes[self.pair], axis=1, kind="stable")[:, :tried]
        metric, odds = np.zeros((len(gone), n), np.intp), np.zeros((len(gone), n + 1))
        for place in range(n):
            # what takes nothing stands first: the pair as it is
            asked = np.insert(left, 0, -1, axis=1) if not place else left
            without = self._without(gone, asked)
            if not place:
                odds[:, 0], without = without[:, 0], without[:, 1:]
            order = np.argsort(np.round(without, DIGITS), axis=1, kind="stable")
            left = np.take_along_axis(left, order, axis=1)
            metric[:, place] = left[:, 0]
            odds[:, place + 1] = np.take_along_axis(without, order[:, :1], axis=1)[:, 0]
            np.put_along_axis(gone, left[:, :1], values=True, axis=1)
            left = left[:, 1 : max(again, n - place) + 1]
        return Found(metric, -np.diff(odds, axis=1))

    def _without(self, gone: NDArray[np.bool_], one: Whole) -> Floats:
        """Return the log-odds of every pair without what is `gone` and one more (-1: none)."""
        count, tried = one.shape
        removed, more = np.repeat(gone, tried, axis=0), one.ravel()
        removed[more >= 0, more[more >= 0]] = True
        pair = np.repeat(self.pair, tried)
        x, version = self.removal.without(pair, removed)
        odds = self.odds_of(x, pair[version])
        sums = np.bincount(version, odds, len(removed)) / np.bincount(version, minlength=len(removed))
        return sums.reshape(count, tried)
