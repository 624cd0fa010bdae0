"""The share of fails in unlabelled data (prior shift), and probabilities corrected for it.

The assumption is that scores of fails, and of passes, are distributed as in training, and that only the share
of fails differs. The share is the maximum of the likelihood, the fixed point of EM (Saerens, Latinne and
Decaestecker, Neural Computation 14, 2002); black-box shift estimation (Lipton, Wang and Smola, ICML 2018)
checks it. Scores are calibrated probabilities of the training data, 0 below the minimum effect size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from data.deferred import special
from data.errors import InputError
from training.estimators.answering import Floats

#: Least number of comparisons for an estimate.
FEWEST = 100
#: Number of training rows that are stored; beyond it, rows are drawn at random.
MOST_ROWS = 5000
#: Confidence level of the interval, and its quantile of the normal distribution.
CONFIDENCE, _DEVIATIONS = 0.95, 1.96
#: Distance of estimated shares from 0 and 1.
_ENDS = 1e-9
#: Log-odds of shares that are tested for the interval, relative to the estimate.
_STEPS = np.linspace(-8, 8, 161)
#: Scores at which shares are compared, draws of the bootstrap, and the quantile that is still by chance.
_BINS, _DRAWS, _BY_CHANCE = 50, 300, 0.99


def shift_odds(probability: Floats, factor: float) -> Floats:
    """Return probabilities with their odds multiplied by `factor` (above 0), in the shape of `probability`.

    It is increasing, and maps 0 to 0 and 1 to 1; a factor of 1 returns `probability` itself.
    """
    return probability if factor == 1 else factor * probability / (1 - probability + factor * probability)


def odds(share: float) -> float:
    """Return the odds, share / (1 - share), of a share that is below 1."""
    return share / (1 - share)


@dataclass(frozen=True)
class TrainingScores:
    """Out-of-fold scores of training rows; all attributes but the last have length n_rows."""

    probability: tuple[FiniteFloat, ...]  # calibrated; 0 below the minimum effect size
    failed: tuple[bool, ...]
    groups: tuple[int, ...]  # rows of one group resemble each other
    min_effect_size: FiniteFloat  # as a share of the baseline's median

    @classmethod
    def from_rows(
        cls, probability: Floats, y: NDArray[np.int64], groups: NDArray[np.str_], min_effect_size: float
    ) -> TrainingScores:
        """Return the scores of at most `MOST_ROWS` rows, drawn at random; arrays have shape (n_rows,).

        In the labels `y`, 1 is fail.
        """
        rows = np.sort(np.random.default_rng(0).permutation(len(y))[:MOST_ROWS])
        place = np.unique(groups, return_inverse=True)[1]
        scores, failed, group = (tuple(values[rows].tolist()) for values in (probability, y == 1, place))
        return cls(scores, failed, group, min_effect_size)

    @cached_property
    def rows(self) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
        """Score, label (1 is fail) and group of each row, as arrays."""
        return np.array(self.probability), np.array(self.failed, np.int64), np.array(self.groups, np.int64)

    @property
    def rate(self) -> float:
        """The share of fails, with half a row of each label added."""
        return (sum(self.failed) + 0.5) / (len(self.failed) + 1)


@dataclass(frozen=True)
class BaseRate:
    """The share of fails among comparisons: given by a user, or estimated; then no attribute is None.

    Attributes
    ----------
    rate, low, high : float
        The share of fails, and its interval at the level `CONFIDENCE`.
    n_comparisons : int
        The number of comparisons that the estimate is based on.
    black_box : float
        The share by black-box shift estimation.
    distance, max_distance : float
        Largest difference between the shares of comparisons above a score, here and in the nearest mixture of
        both labels' training scores, over scores from the threshold on; and its largest value by chance.
    """

    rate: float
    low: float | None = None
    high: float | None = None
    n_comparisons: int | None = None
    black_box: float | None = None
    distance: float | None = None
    max_distance: float | None = None

    @property
    def explains_scores(self) -> bool:
        """Whether a mixture of the training scores explains the scores, or nothing was estimated."""
        return self.distance is None or self.max_distance is None or self.distance <= self.max_distance


def estimate_base_rate(training: TrainingScores, scores: Floats, threshold: float) -> BaseRate:
    """Return the share of fails among unlabelled rows, with its 95 % interval and checks of the estimate.

    `scores`, shape (n_rows,), are calibrated probabilities of ``fail`` as in `training`, 0 below the minimum
    effect size; ``fail`` is the better guess from `threshold` on. The likeliest share ``rate`` is never 0 or
    1; the ends of its interval may be. InputError for fewer than 100 (`FEWEST`) scores, or if `training` has
    one label only.
    """
    if len(set(training.failed)) == 1:
        raise InputError("base_rate: the model has training scores of one label only; expected a number")
    if len(scores) < FEWEST:
        needed = f"an estimate needs at least {FEWEST} comparisons that can be judged, here are {len(scores)}"
        raise InputError(f"base_rate: {needed}; expected more comparisons, or a number")
    mixture = _Mixture.from_scores(training, scores, threshold)
    rate, black_box = mixture.likeliest_rate(), mixture.black_box_rate()
    return BaseRate(rate, *mixture.interval(rate), len(scores), black_box, *mixture.distance(rate))


@dataclass(frozen=True)
class _Mixture:
    """Scores of unlabelled rows, as a mixture of the training scores of both labels.

    Scores below `threshold` are not told apart: they say little about the share of fails, and noise, which
    differs between systems, moves the scores of passes there.
    """

    scores: Floats
    known: Floats  # known, failed, groups: score, label (1 is fail) and group of the training rows
    failed: NDArray[np.int64]
    groups: NDArray[np.int64]
    training_rate: float
    threshold: float

    @classmethod
    def from_scores(cls, training: TrainingScores, scores: Floats, threshold: float) -> _Mixture:
        known, failed, groups = training.rows
        low = known < threshold
        # the calibrated probability of all of them together
        pooled = min((failed[low].sum() + 0.5) / (low.sum() + 1), threshold)
        pooled_scores, pooled_known = (np.where(part < threshold, pooled, part) for part in (scores, known))
        return cls(pooled_scores, pooled_known, failed, groups, training.rate, threshold)

    def likeliest_rate(self) -> float:
        """Return the share of fails; half a row of each label is added, so that it is never 0 or 1."""
        from scipy.optimize import brentq

        def excess(rate: float) -> float:
            posterior = self._posterior(self.scores, rate)
            return float((posterior.sum() + 0.5) / (len(posterior) + 1) - rate)

        return float(brentq(excess, _ENDS, 1 - _ENDS, xtol=1e-9))

    def interval(self, rate: float) -> tuple[float, float]:
        """Return the shares around the estimate `rate` that the score test of the likelihood does not reject.

        The errors of the scores and of the training scores, by whole groups, are considered.
        """
        grid = special.expit(np.log(odds(rate)) + _STEPS)
        deviations = np.array([self._deviation(share) for share in grid])
        below = grid[(grid < rate) & (deviations > _DEVIATIONS)]
        above = grid[(grid > rate) & (deviations < -_DEVIATIONS)]
        return float(below.max(initial=0.0)), float(above.min(initial=1.0))

    def black_box_rate(self) -> float:
        """Return the share that explains how many scores are at or above the threshold."""
        false, true = ((self.known[self.failed == label] >= self.threshold).mean() for label in (0, 1))
        share = ((self.scores >= self.threshold).mean() - false) / max(true - false, _ENDS)
        return float(np.clip(share, 0, 1))

    def distance(self, rate: float) -> tuple[float, float]:
        """Return the distance to the nearest mixture, and its largest value by chance if the share is `rate`.

        The bootstrap draws training groups, and scores of the mixture.
        """
        favouring = np.append(self.threshold, self.known[self.known >= self.threshold])
        edges = np.unique(np.quantile(favouring, np.linspace(0, 1, _BINS)))
        table = np.zeros((self.groups.max() + 1, 2, len(edges) + 1))
        np.add.at(table, (self.groups, self.failed, np.searchsorted(edges, self.known, "right")), 1)
        table = table[table.any(axis=(1, 2))]
        observed = np.bincount(np.searchsorted(edges, self.scores, "right"), minlength=len(edges) + 1)
        whole = table.sum(axis=0)
        expected = np.array([1 - rate, rate]) @ (whole / whole.sum(axis=1, keepdims=True))
        generator = np.random.default_rng(0)
        counts = generator.multinomial(len(table), np.full(len(table), 1 / len(table)), size=_DRAWS)
        drawn = generator.multinomial(len(self.scores), expected / expected.sum(), size=_DRAWS)
        by_chance = _nearest_distance(np.tensordot(counts.astype(np.float64), table, 1), drawn)
        found = _nearest_distance(whole[None], observed[None])
        return float(found[0]), float(np.quantile(by_chance, _BY_CHANCE))

    def _posterior(self, scores: Floats, rate: float) -> Floats:
        return shift_odds(scores, odds(rate) / odds(self.training_rate))

    def _deviation(self, rate: float) -> float:
        """Return the mean posterior of the scores minus the share that it estimates, in standard errors."""
        posterior, sizes = self._posterior(self.known, rate), np.bincount(self.failed, minlength=2)
        weights = (np.array([1 - rate, rate]) / sizes)[self.failed]
        mean = np.bincount(self.failed, posterior, 2) / sizes
        variance = weights @ posterior**2 - (weights @ posterior) ** 2
        by_group = np.bincount(self.groups, weights * (posterior - mean[self.failed]))
        error = np.sqrt(variance / len(self.scores) + by_group @ by_group + _ENDS**2)
        return float((self._posterior(self.scores, rate).mean() - rate) / error)


def _nearest_distance(shapes: Floats, counts: NDArray[np.int64]) -> Floats:
    """Return the distance of each row of `counts` to the nearest mixture of its two `shapes`.

    `shapes`: (n_draws, 2, n_bins), counts of passes and fails; `counts`: (n_draws, n_bins).
    """
    shares = shapes.cumsum(axis=2) / np.maximum(shapes.sum(axis=2, keepdims=True), 1)
    passes, fails = np.moveaxis(shares, 1, 0)
    stream = counts.cumsum(axis=1) / counts.sum(axis=1, keepdims=True)
    low, high = np.zeros(len(stream)), np.ones(len(stream))

    def largest_gap(rate: Floats) -> Floats:
        return np.abs(stream - passes - rate[:, None] * (fails - passes)).max(axis=1)

    # the largest gap is convex in the rate: ternary search
    for _ in range(30):
        third = (high - low) / 3
        falls = largest_gap(low + third) > largest_gap(high - third)
        low, high = np.where(falls, low + third, low), np.where(falls, high, high - third)
    return largest_gap((low + high) / 2)
