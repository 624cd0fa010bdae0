"""Which metrics drove a verdict: those without whose differences it would not be what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import factorial

import numpy as np
from numpy.typing import NDArray

from features.matrices.forms import Removal

Floats = NDArray[np.float64]
Whole = NDArray[np.intp]
#: From rows, and the pair of each, to log-odds.
Odds = Callable[[Floats, Whole], Floats]

#: So many metrics, those that differ most by their noise, are tried first; then so many that were best.
TRIED, AGAIN = 32, 16
#: No more are named: what each contributes is found out of all their subsets.
MOST = 10
#: So many numbers at a time are judged.
AT_ONCE = 2_000_000
#: What differs by less is told apart by rounding only.
DIGITS = 9


@dataclass(frozen=True)
class NamedDrivers:
    """The drivers of some pairs.

    Attributes
    ----------
    metric : ndarray of int, shape (n_pairs, n)
        Places of metrics, the largest contribution first.
    contribution : ndarray of shape (n_pairs, n)
        Its share of what the log-odds of abnormal fall without all of them.
    """

    metric: Whole
    contribution: Floats


def drivers(removal: Removal, odds_of: Odds, n: int) -> Iterator[tuple[slice, NamedDrivers]]:
    """Find the `n` metrics, `MOST` at most, without whose differences the log-odds of abnormal fall most.

    One after the other is taken, that which lets them fall most once those before it are gone: the target's
    runs are moved so that the metric's middle is the baseline's. The engine is asked as it is, through form,
    projection and classifier. Of metrics that let them fall as far, that which differs most by its noise is
    taken. What is lost without all of them is shared among them by Shapley's value, so that contributions add
    up to it.

    Parameters
    ----------
    removal : Removal
    odds_of : callable
        What the engine says of rows of the form, of some pairs.
    n : int

    Yields
    ------
    slice, NamedDrivers
        Some pairs, in their order.
    """
    pairs, metrics = removal.sizes.shape
    n, tried = min(n, MOST, metrics), min(TRIED, metrics)
    rows = int(removal.counts.max(initial=1)) * max(tried, 2**n) * removal.rows.x.shape[1]
    step = max(1, AT_ONCE // max(1, rows))
    for first in range(0, pairs, step):
        here = slice(first, min(first + step, pairs))
        search = _Taking(removal, odds_of, np.arange(here.start, here.stop))
        # whoever asks looks whether what comes out is finite
        with np.errstate(over="ignore", invalid="ignore"):
            named = search.taken(n, tried)
        yield here, named


@dataclass(frozen=True)
class _Taking:
    """Pairs from which metrics are taken one after the other."""

    removal: Removal
    odds_of: Odds
    pair: Whole

    def taken(self, n: int, tried: int) -> NamedDrivers:
        count = len(self.pair)
        gone = np.zeros((count, self.removal.sizes.shape[1]), bool)
        left = np.argsort(-self.removal.sizes[self.pair], axis=1, kind="stable")[:, :tried]
        metric = np.zeros((count, n), np.intp)
        for place in range(n):
            without = self._odds(_with_each(gone, left))
            order = np.argsort(np.round(without, DIGITS), axis=1, kind="stable")
            left = np.take_along_axis(left, order, axis=1)
            metric[:, place] = left[:, 0]
            np.put_along_axis(gone, left[:, :1], values=True, axis=1)
            left = left[:, 1 : AGAIN + 1]
        return self._shared(metric)

    def _shared(self, metric: Whole) -> NamedDrivers:
        """Share what is lost without all metrics among them, by Shapley's value."""
        count, n = metric.shape
        inside = _subsets(n)
        removed = np.zeros((count, len(inside), self.removal.sizes.shape[1]), bool)
        places = np.broadcast_to(metric[:, None], (count, len(inside), n))
        np.put_along_axis(removed, places, np.broadcast_to(inside, places.shape), axis=2)
        contribution = np.round(-self._odds(removed) @ _weights(inside), 12) + 0.0
        order = np.argsort(-np.round(contribution, DIGITS), axis=1, kind="stable")
        metric = np.take_along_axis(metric, order, axis=1)
        return NamedDrivers(metric, np.take_along_axis(contribution, order, axis=1))

    def _odds(self, removed: NDArray[np.bool_]) -> Floats:
        """Return the log-odds of versions of every pair, of whose metrics some are `removed`."""
        count, versions, _ = removed.shape
        pair = np.repeat(self.pair, versions)
        x, version = self.removal.without(pair, removed.reshape(count * versions, -1))
        odds = self.odds_of(x, pair[version])
        return (np.bincount(version, odds) / np.bincount(version)).reshape(count, versions)


def _with_each(gone: NDArray[np.bool_], more: Whole) -> NDArray[np.bool_]:
    """Return what is `gone` and one more, shape (n_pairs, n_more, n_metrics)."""
    removed = np.repeat(gone[:, None], more.shape[1], axis=1)
    np.put_along_axis(removed, more[:, :, None], values=True, axis=2)
    return removed


def _subsets(n: int) -> NDArray[np.bool_]:
    """Return all subsets of so many, shape (2 ** n, n)."""
    return (np.arange(2**n)[:, None] >> np.arange(n)) % 2 == 1


def _weights(inside: NDArray[np.bool_]) -> Floats:
    """Return what the worth of each subset counts in the Shapley value of each member, shape as `inside`."""
    n, others = inside.shape[1], inside.sum(axis=1, keepdims=True) - inside
    orders = np.array([factorial(size) * factorial(n - 1 - size) / factorial(n) for size in range(n)])
    return np.where(inside, 1.0, -1.0) * orders[others]
