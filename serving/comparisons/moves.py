"""Which configuration moved, and what was set aside before the model answered: in numbers and in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.comparisons.pair import counted
from data.comparisons.sides import Sides
from features.comparisons.outliers import Wild
from features.comparisons.prepared import Asked
from training.comparisons.decision import SAME

Ints = NDArray[np.int64]
#: Changes are told with one digit from this share on, smaller ones with the digit that they have.
_ONE_DIGIT = 1e-3


class Move(NamedTuple):
    """What the median of one configuration did, without samples that were left out.

    Attributes
    ----------
    threads : int
    baseline_median, target_median : float
        In the unit of the result.
    change : float
        As a share of the baseline's median; negative is worse.
    """

    threads: int
    baseline_median: float
    target_median: float
    change: float

    @property
    def told(self) -> str:
        """In words."""
        return f"{counted(self.threads, 'thread')}: median {_change(self.change)}"


def moves(asked: Asked, configurations: Ints) -> Iterator[Move | None]:
    """Yield what the median of each of these configurations did; None for -1."""
    sides, known = asked.sides, configurations >= 0
    columns = (sides.threads, sides.baseline_five[:, 2], sides.target_five[:, 2], asked.change)
    told = map(Move, *(column[configurations[known]].tolist() for column in columns))
    return (next(told) if one else None for one in known.tolist())


def improved(asked: Asked, floor: float) -> Ints:
    """Return the configuration of every comparison that got better most, -1 where none did beside the worst.

    Improvements below the floor are none, either.
    """
    change = np.append(asked.change, np.nan)[asked.best]
    better = (asked.best != asked.worst) & (change > 0) & (change >= floor)
    return np.where(better, asked.best, -1)


def left_out(wild: Wild) -> dict[int, tuple[str, ...]]:
    """Say of every comparison that had wild samples or runs which ones were left out, by its row."""
    found: dict[int, tuple[str, ...]] = {}
    columns = (wild.comparison, wild.threads, wild.side, wild.samples, wild.value, wild.median)
    for row, threads, side, samples, value, median in zip(*(c.tolist() for c in columns), strict=True):
        configuration = counted(threads, "thread")
        what, place = f"one sample of {samples}", f"{side}, {configuration}"
        if side == "history":
            what, place = f"one run of {samples} before the target", configuration
        told = f"{what} is left out: {value:.4g} against a median of {median:.4g} ({place})"
        found[row] = (*found.get(row, ()), told)
    return found


def in_hindsight(sides: Sides, *, looked_at: bool) -> dict[int, tuple[str, ...]]:
    """Say where versions after the target are known for nothing, or wanted and not known, by comparison."""
    if looked_at:
        lacking = np.bincount(sides.comparison, sides.later.lengths, sides.n_comparisons) == 0
        rows, told = np.flatnonzero(lacking), "judged in hindsight, but no version after the target is known"
    else:
        rows = np.unique(sides.comparison[sides.later.lengths > 0])
        told = "versions after the target are known; this model does not look at them"
    return dict.fromkeys(rows.tolist(), (told,))


def floored(change: float, floor: float) -> str:
    """Say why a change does not count as a loss, whatever the model says of it.

    Parameters
    ----------
    change : float
        Of the median that moved most towards worse, as a share; negative is worse.
    floor : float
        The smallest loss that counts, as a share.
    """
    if change > 0:
        return "no median got worse"
    if change < -floor - SAME:
        return "no more than runs of this operation differ by"
    return f"below the floor of {100 * floor:g} %"


def _change(change: float) -> str:
    if change == 0:
        return "unchanged"
    size = abs(change)
    number = f"{100 * size:.1f}" if size >= _ONE_DIGIT else f"{100 * size:.1g}"
    return f"{number} % {'worse' if change < 0 else 'better'}"
