"""The impact of a task from how far it got, alone and together, with an interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from training.corun.progress.belief import PRIOR, SlowdownPrior, guesses
from training.corun.progress.course import AlignedRuns

Floats = NDArray[np.float64]
#: What repeats itself no better: the standard deviation of the logarithm of a whole run's time.
REPEATS = 0.004
#: How often a model's opinion is worth nothing, and how far apart such opinions lie, as logarithms.
WRONG, _ANYWHERE = 0.1, 1.0


@dataclass(frozen=True)
class ImpactBelief:
    """Normal distributions of the logarithm of an impact, and how much each is believed in.

    Attributes
    ----------
    weights, means, deviations : ndarray of shape (n_guesses,)
    """

    weights: Floats
    means: Floats
    deviations: Floats

    def quantile(self, share: float) -> float:
        """Return what so large a share of impacts is below, as a logarithm."""
        lowest = (self.means - 9 * self.deviations).min()
        highest = (self.means + 9 * self.deviations).max()

        def beyond(at: float) -> float:
            return float(self.weights @ ndtr((at - self.means) / self.deviations) - share)

        return float(brentq(beyond, lowest, highest, xtol=1e-7))

    def hidden(self, other: ImpactBelief) -> ImpactBelief:
        """Return the sum with another, which is independent of it."""
        weights = np.outer(self.weights, other.weights).ravel()
        means = np.add.outer(self.means, other.means).ravel()
        deviations = np.sqrt(np.add.outer(self.deviations**2, other.deviations**2)).ravel()
        return ImpactBelief(weights, means, deviations)

    def with_opinion(self, mean: float, deviation: float) -> ImpactBelief:
        """Return what is believed after an independent opinion, itself a normal distribution.

        It is worth nothing with a chance of `WRONG`: one far from all that is believed sways nothing.
        """
        both = self.deviations**2 + deviation**2
        likely = np.exp(-0.5 * (self.means - mean) ** 2 / both) / np.sqrt(2 * np.pi * both)
        swayed = (1 - WRONG) * self.weights * likely
        weights = np.concatenate([swayed, WRONG / _ANYWHERE * self.weights])
        means = (self.means * deviation**2 + mean * self.deviations**2) / both
        return ImpactBelief(
            weights / weights.sum(),
            np.concatenate([means, self.means]),
            np.concatenate([self.deviations * deviation / np.sqrt(both), self.deviations]),
        )

    @classmethod
    def known(cls, impact: float) -> ImpactBelief:
        """Return what is believed of an impact that was measured to the end."""
        return cls(np.ones(1), np.log([impact]), np.array([REPEATS]))


def believed(runs: AlignedRuns, prior: SlowdownPrior = PRIOR) -> ImpactBelief:
    """Return what is believed of the impact of the whole run."""
    found = guesses(runs, prior)
    weights = np.exp(found.weights - found.weights.max())
    return ImpactBelief(weights / weights.sum(), found.means, np.sqrt(found.variances + REPEATS**2))
