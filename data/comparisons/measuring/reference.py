"""How much slower a build is than the unchanged one, from samples taken in turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

#: Slower by this much or more is a regression that an engineer would act on.
FAIL = 0.03
#: Slower by this much or less is none; between them nobody can say.
PASS = 0.02
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Slowdown:
    """The share by which a build is worse, negative where it is better, with its interval."""

    share: float
    low: float
    high: float
    pairs: int

    @classmethod
    def of(cls, unchanged: ArrayLike, changed: ArrayLike, better: str) -> Slowdown:
        """Estimate it from pairs: the median of the Walsh averages of log ratios (Hodges and Lehmann, 1963).

        Its interval is that of Wilcoxon's signed-rank test: it takes no normal noise, and no outlier moves
        it far.
        """
        sign = 1.0 if better == "lower" else -1.0
        logs = sign * np.log(np.asarray(changed, float) / np.asarray(unchanged, float))
        first, second = np.triu_indices(len(logs))
        walsh = np.sort((logs[first] + logs[second]) / 2)
        cut = _ranks_outside(len(logs))
        share, low, high = np.expm1([np.median(walsh), walsh[cut], walsh[-1 - cut]]).tolist()
        return cls(share, low, high, len(logs))

    @property
    def status(self) -> str | None:
        """The label that follows; None where the reference is not sure."""
        if self.low >= FAIL:
            return "fail"
        return "pass" if self.high <= PASS else None


def _ranks_outside(pairs: int) -> int:
    """Return how many Walsh averages lie outside the interval on either side."""
    ways = np.ones(1)
    for rank in range(1, pairs + 1):
        ways = np.r_[ways, np.zeros(rank)] + np.r_[np.zeros(rank), ways]
    below = np.cumsum(ways) / ways.sum()
    return max(0, int(np.searchsorted(below, (1 - CONFIDENCE) / 2, side="right")) - 1)
