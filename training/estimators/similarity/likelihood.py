"""The likelihood that similarity logistic climbs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Penalty:
    """What is asked of the weights besides likelihood."""

    ridge: float
    intercept: bool


@dataclass(frozen=True)
class Pairs:
    """The penalised likelihood of labelled pairs, in standardised features.

    The target of a dissimilar pair stands here with the opposite sign, which turns Y' into its opposite: then
    in every pair the hidden classes agree, P(label) = s(u) s(v) + s(-u) s(-v) with u and v of the two rows.

    Attributes
    ----------
    rows : ndarray of shape (2 * n_pairs, n_weights)
        Baselines, then targets; a column of ones for the intercept comes last, of either sign.
    dissimilar : ndarray of shape (n_pairs,)
    cost : ndarray of shape (2 * n_pairs,)
        What a pair weighs, twice.
    ridge : ndarray of shape (n_weights,)
        The penalty of each weight.
    mean, scale : ndarray of shape (n_features,)
        Of the features.
    """

    rows: Floats
    dissimilar: NDArray[np.bool_]
    cost: Floats
    ridge: Floats
    mean: Floats
    scale: Floats

    @classmethod
    def of(
        cls, baseline: Floats, target: Floats, dissimilar: NDArray[np.bool_], cost: Floats, penalty: Penalty
    ) -> Self:
        """Standardise `baseline` and `target`, both of shape (n_pairs, n_features)."""
        n, width = baseline.shape
        rows = np.empty((2 * n, width + penalty.intercept))
        rows[:n, :width], rows[n:, :width] = baseline, target
        twice = np.concatenate([cost, cost])
        features = rows[:, :width]
        share = twice / twice.sum()
        mean = share @ features if penalty.intercept else np.zeros(width)
        features -= mean
        spread = np.sqrt(np.einsum("i,ij,ij->j", share, features, features))
        scale = np.where(spread > 1e-12 * np.maximum(np.abs(mean), 1e-300), spread, 1.0)
        features /= scale
        rows[:, width:] = 1.0
        rows[n:][dissimilar] *= -1
        ridge = np.zeros(rows.shape[1])
        ridge[:width] = penalty.ridge / scale**2
        return cls(rows, dissimilar, twice, ridge, mean, scale)

    def some(self, most: int) -> Pairs:
        """Return about `most` pairs, evenly spaced, with the penalty's share of them."""
        n = len(self.dissimilar)
        if n <= most:
            return self
        chosen = np.linspace(0, n - 1, most).astype(np.intp)
        twice = np.concatenate([chosen, n + chosen])
        ridge = self.ridge * (self.cost[twice].sum() / self.cost.sum())
        return replace(
            self,
            rows=self.rows[twice],
            dissimilar=self.dissimilar[chosen],
            cost=self.cost[twice],
            ridge=ridge,
        )

    def unscaled(self, weights: Floats) -> tuple[Floats, float]:
        """Return the weights of the features as they came, and the intercept, with the sign of `coef_`."""
        width = len(self.mean)
        n = len(self.dissimilar)
        scores = (self.rows @ weights) * self.cost
        rise = -(scores[n:] + scores[:n])[self.dissimilar].sum()
        turned = -weights if rise < 0 else weights
        coefficients = turned[:width] / self.scale
        intercept = turned[width:].sum() - coefficients @ self.mean
        return coefficients, float(intercept) if len(weights) > width else 0.0

    def likelihood(self, weights: Floats, scores: Floats) -> float:
        """Return the penalised log-likelihood of the labels."""
        u, v = np.split(scores, 2)
        own = np.logaddexp(0.0, u + v) - np.logaddexp(0.0, u) - np.logaddexp(0.0, v)
        return float(self.cost[: len(u)] @ own - self.ridge @ weights**2 / 2)

    def hidden(self, scores: Floats) -> Floats:
        """Return the probability of the hidden classes given the labels (the E step)."""
        u, v = np.split(scores, 2)
        agreed = logistic(u + v)
        return np.concatenate([agreed, agreed])

    def gradient(self, weights: Floats, scores: Floats, hidden: Floats) -> Floats:
        """Return the gradient of the expected likelihood, which is the likelihood's if `hidden` is new."""
        rest = self.cost * (hidden - logistic(scores))
        return np.asarray(rest @ self.rows - self.ridge * weights)

    def expected(self, weights: Floats, scores: Floats, hidden: Floats) -> float:
        """Return the penalised expected log-likelihood, which the M step maximises."""
        own = hidden * scores - np.logaddexp(0.0, scores)
        return float(self.cost @ own - self.ridge @ weights**2 / 2)

    def curvature(self, scores: Floats) -> Floats:
        """Return the negative Hessian of the expected likelihood."""
        share = logistic(scores)
        # the product of a matrix with itself costs half of that of two
        rooted = self.rows * np.sqrt(self.cost * share * (1.0 - share))[:, None]
        return np.asarray(rooted.T @ rooted) + np.diag(self.ridge)


def logistic(scores: Floats) -> Floats:
    """Return 1 / (1 + exp(-scores))."""
    from scipy.special import expit

    return np.asarray(expit(scores))
