"""Samples far outside all others of their side: no verdict is to rest on a single one of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints, Samples, Sides, five_numbers

#: A side with fewer samples has no "others" to lie outside of.
FEWEST = 5
#: A sample is wild if its distance from the nearest other one is more than so many times the range of all
#: others, by how many there are on the side. The three numbers are what 1 of 1,000 lists of normal values
#: exceeds (Dixon's ratio, both ends). More samples would allow less than `FAR`, but noise has long tails.
_FAR_OF_FEW = {5: 11.0, 6: 6.0, 7: 4.0}
FAR = 3.0
#: All others count as spanning at least this share of their median: what is wild is gross, too.
SPAN = 0.01


@dataclass(frozen=True)
class Wild:
    """The samples that were left out, a row each.

    Attributes
    ----------
    comparison, threads : ndarray of int
        The comparison's row, and the configuration.
    side : ndarray of str
        ``baseline`` or ``target``.
    samples : ndarray of int
        How many the side had there, this one included.
    value, median : ndarray of float
        The sample, and the median of the others.
    """

    comparison: Ints
    threads: Ints
    side: NDArray[np.str_]
    samples: Ints
    value: Floats
    median: Floats


_NO_ROWS = np.zeros(0, np.int64)
NOTHING = Wild(_NO_ROWS, _NO_ROWS, np.zeros(0, str), _NO_ROWS, np.zeros(0), np.zeros(0))


def without_wild(sides: Sides) -> tuple[Sides, Wild]:
    """Leave out the one sample of a side that lies far outside all others of it.

    Where most of several configurations have one on the same side, it is what that side does and no
    accident, and all stay in. History, and what came as five numbers, stays as it is.

    Returns
    -------
    sides : Sides
        The same object if nothing is wild.
    wild : Wild
        What is missing in it.
    """
    if not any(_outlying(ordered).any() for _, ordered in sides.pooled.ordered):
        return sides, NOTHING
    found = {name: _wild(getattr(sides, name), sides) for name in ("baseline", "target")}
    parts = []
    for name, at in found.items():
        rows = np.flatnonzero(at >= 0)
        samples: Samples = getattr(sides, name)
        if len(rows):
            kept = _without(samples, rows, at[rows])
            five = getattr(sides, f"{name}_five").copy()
            five[rows] = five_numbers(Samples(kept.values, kept.orders, kept.starts[rows], kept.stops[rows]))
            sides = replace(sides, **{name: kept, f"{name}_five": five})
        lengths, medians = samples.lengths[rows], getattr(sides, f"{name}_five")[rows, 2]
        places = sides.comparison[rows], sides.threads[rows], np.full(len(rows), name)
        parts.append((*places, lengths, samples.values[at[rows]], medians))
    return sides, Wild(*(np.concatenate(both) for both in zip(*parts, strict=True)))


def _wild(samples: Samples, sides: Sides) -> Ints:
    """Return the position of the wild sample of every configuration, -1 where there is none."""
    at = np.full(len(samples.starts), -1)
    for rows, index in samples.indices:
        at[rows] = _farthest(samples.values[index], index)
    wild, n = at >= 0, sides.n_comparisons
    many = np.bincount(sides.comparison[wild], minlength=n)
    accident = (many == 1) | (2 * many <= np.bincount(sides.comparison, minlength=n))
    return np.where(wild & accident[sides.comparison], at, -1)


def _farthest(values: Floats, index: Ints) -> Ints:
    """Return which position each row of `values` has its wild sample at, -1 where it has none."""
    above, below = _outlying(np.sort(values, axis=1))
    at, rows = np.full(len(values), -1), np.flatnonzero(above | below)
    column = np.where(above[rows], values[rows].argmax(axis=1), values[rows].argmin(axis=1))
    at[rows] = index[rows, column]
    return at


def _outlying(ordered: Floats) -> NDArray[np.bool_]:
    """Tell of ascending rows whether their largest and their smallest value is wild, shape (2, n_rows)."""
    size = ordered.shape[1]
    if size < FEWEST:
        return np.zeros((2, len(ordered)), bool)
    far = _FAR_OF_FEW.get(size, FAR)
    first, second, before_last, last = (ordered[:, column] for column in (0, 1, -2, -1))
    # what is infinite data.comparisons.validity reports
    with np.errstate(invalid="ignore", over="ignore"):
        least = SPAN * np.abs(ordered[:, size // 2])
        above = last - before_last > far * np.maximum(before_last - first, least)
        below = second - first > far * np.maximum(last - second, least)
    return np.array((above, below))


def _without(samples: Samples, rows: Ints, at: Ints) -> Samples:
    """Return `samples` with the lists of `rows` rewritten behind all others, without the positions `at`."""
    bounds = zip(samples.starts[rows], at, samples.stops[rows], strict=True)
    index = np.concatenate([np.r_[start:wild, wild + 1 : stop] for start, wild, stop in bounds])
    starts, stops, lengths = samples.starts.copy(), samples.stops.copy(), samples.lengths[rows] - 1
    stops[rows] = len(samples.values) + np.cumsum(lengths)
    starts[rows] = stops[rows] - lengths
    values, orders = (
        np.r_[samples.values, samples.values[index]],
        np.r_[samples.orders, samples.orders[index]],
    )
    return Samples(values, orders, starts, stops)
