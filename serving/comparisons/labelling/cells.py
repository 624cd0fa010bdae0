"""How far the medians of two results lie apart, in the words and colours of a table's cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from data.comparisons.missing import counted
from data.comparisons.sides import Sides

#: From which share on a change has the next stronger colour.
_LEVELS = (0.01, 0.025, 0.05, 0.1)


class ChangeCell(NamedTuple):
    """What the median of one configuration did.

    Attributes
    ----------
    threads : int
    change : float or None
        As a share of the baseline's median; negative is worse. None where it cannot be known.
    """

    threads: int
    change: float | None

    @property
    def configuration(self) -> str:
        """In words."""
        return counted(self.threads, "thread")

    @property
    def told(self) -> str:
        """In percent, with its sign."""
        if self.change is None:
            return "\N{EN DASH}"
        rounded = round(100 * self.change, 1)
        digits = 1 if abs(rounded) < 100 else 0  # noqa: PLR2004 - of a number's digits, three count
        return f"{rounded:+.{digits}f}".replace("-", "\N{MINUS SIGN}") if rounded else "0.0"

    @property
    def level(self) -> str:
        """How strong its colour is: ``same``, or ``worse-1`` ... ``better-4``."""
        strength = sum(abs(self.change or 0.0) >= one for one in _LEVELS)
        side = "worse" if (self.change or 0.0) < 0 else "better"
        return f"{side}-{strength}" if strength else "same"


def changes(sides: Sides) -> Iterator[ChangeCell]:
    """Yield what every configuration did, in the order of the sides."""
    before, after = sides.baseline_five[:, 2], sides.target_five[:, 2]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        change = sides.sign * (after - before) / np.abs(before)
    for threads, one in zip(sides.threads.tolist(), change.tolist(), strict=True):
        yield ChangeCell(threads, one if np.isfinite(one) else None)
