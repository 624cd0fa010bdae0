"""Whether phases come back: what a beginning says of the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: Natures that lie closer, as a mean square of logarithms, are of one phase; or than so many times their noise.
_SAME, _TIMES = 0.01, 9.0
#: Of neighbours, a share that surely lies within one phase.
_WITHIN = 0.3


@dataclass(frozen=True)
class Returned:
    """How often a phase was seen again.

    Attributes
    ----------
    stretches : int
        Blocks in a row that are of one phase.
    times : int
        How many of them are like an earlier one.
    """

    stretches: int
    times: int

    @classmethod
    def of(cls, natures: Floats) -> Returned:
        """Look at what blocks were like, in order."""
        least = max(_SAME, _TIMES * cls.noise(natures))
        changes = np.flatnonzero((np.diff(natures, axis=0) ** 2).mean(axis=1) > least) + 1
        parts = [part for part in np.split(natures, changes) if len(part) > 1] or [natures]
        means = np.array([part.mean(axis=0) for part in parts])
        apart = ((means[:, None] - means) ** 2).mean(axis=2)
        return cls(len(parts), sum(bool((apart[i, : i - 1] < least).any()) for i in range(2, len(parts))))

    @staticmethod
    def noise(natures: Floats) -> float:
        """Return the mean square by which neighbours of one phase differ."""
        differ = (np.diff(natures, axis=0) ** 2).mean(axis=1)
        return float(np.quantile(differ, _WITHIN)) if len(differ) else 0.0
