"""How unlike what a model was trained on a row is: Mahalanobis' distance, its limit by conformal prediction.

Features are squashed (their tails are long), so that a row's distance is that of all features together: a
value that is usual by itself may be strange beside the others. A gap counts where training rows had none. The
limit is the quantile of the distances of rows that were held out (inductive conformal anomaly detection,
Laxhammar and Falkman, 2015): of rows like those in training at most the stated share lie beyond it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from data.tables.arrays import ArraySpec

Floats = NDArray[np.float64]
#: The share of ordinary rows that may be called strange.
LEVEL = 0.01
#: The normal distribution's 5 % and 95 % quantiles lie so many standard deviations apart.
_WIDTH = 3.29
#: Up to so many standard deviations the squashing is about linear.
_LINEAR = 3
#: Of a feature that never varied, this share of its size counts as a deviation.
_NEVER = 0.1
FOLDS = 5
_FEATURES = ArraySpec("f", ("features",))
SPECS = {
    "centre": _FEATURES,
    "scale": _FEATURES,
    "mean": _FEATURES,
    "precision": ArraySpec("f", ("features", "features")),
    "gaps": _FEATURES,
    "low": _FEATURES,
    "high": _FEATURES,
    "limit": ArraySpec("f", (), finite=False),
}


@dataclass(frozen=True)
class Strangeness:
    """How many ordinary rows are called strange.

    Attributes
    ----------
    level : float
        The share that was aimed at, at most.
    held_out : float
        The share among training rows of groups that were held out.
    """

    level: FiniteFloat
    held_out: FiniteFloat


@dataclass(frozen=True)
class Familiar:
    """What rows in training look like.

    Attributes
    ----------
    centre, scale : ndarray of shape (n_features,)
        A deviation d = (value - centre) / scale is squashed to 3 asinh(d / 3), 0 where a value is unknown.
    mean : ndarray of shape (n_features,)
    precision : ndarray of shape (n_features, n_features)
        The inverse of the covariance of squashed features; 0 for those without any value.
    gaps : ndarray of shape (n_features,)
        What a gap adds to the squared distance: something where training rows had none, else 0.
    low, high : ndarray of shape (n_features,)
        Between them lie 98 of 100 training values.
    limit : ndarray of shape ()
        Rows farther away are strange.
    """

    centre: Floats
    scale: Floats
    mean: Floats
    precision: Floats
    gaps: Floats
    low: Floats
    high: Floats
    limit: Floats

    @classmethod
    def of(cls, rows: Floats, groups: NDArray[np.str_], level: float = LEVEL) -> Self:
        """Learn from training rows, shape (n_rows, n_features); whole groups are held out for the limit."""
        held_out = np.concatenate(
            [
                cls._described(rows[~own]).distance(rows[own])
                for own in folds(groups)
                if own.any() and (~own).sum() > 1
            ]
            or [np.zeros(0)]
        )
        return cls._described(rows, _limit(held_out, level))

    @classmethod
    def _described(cls, rows: Floats, limit: float = np.inf) -> Self:
        from sklearn.covariance import LedoitWolf

        known = np.isfinite(rows)
        present = known.any(axis=0)
        ends = np.zeros((5, rows.shape[1]))
        for feature in np.flatnonzero(present):
            ends[:, feature] = np.quantile(rows[known[:, feature], feature], [0.01, 0.05, 0.5, 0.95, 0.99])
        centre, width = ends[2], (ends[3] - ends[1]) / _WIDTH
        scale = np.where(width > 0, width, _NEVER * np.maximum(np.abs(centre), 1.0))
        squashed = np.where(known, _squashed((np.where(known, rows, 0.0) - centre) / scale), 0.0)
        found = LedoitWolf().fit(squashed)
        precision = np.where(np.outer(present, present), found.precision_, 0.0)
        # a row that lacks all that no other row lacks is as strange as one row among so many can be
        always = known.all(axis=0)
        gaps = always * len(rows) / max(always.sum(), 1)
        return cls(centre, scale, found.location_, precision, gaps, ends[0], ends[4], np.array(limit))

    def squashed(
        self, rows: Floats, places: Sequence[int] | NDArray[np.intp] | slice = slice(None)
    ) -> Floats:
        """Return the deviations of squashed features from their means; 0 where a value is unknown.

        Parameters
        ----------
        rows : ndarray of shape (..., n_places)
        places : sequence of int, optional
            Which features they are; all if not given.
        """
        with np.errstate(invalid="ignore"):
            deviations = _squashed((rows - self.centre[places]) / self.scale[places]) - self.mean[places]
        return np.where(np.isnan(rows), 0.0, deviations)

    def distance(self, rows: Floats) -> Floats:
        """Return how far each row lies from those in training, shape (n_rows,)."""
        deviations = self.squashed(rows)
        squares = (deviations @ self.precision * deviations).sum(axis=1)
        return np.asarray(np.sqrt(np.maximum(squares, 0.0) + np.isnan(rows) @ self.gaps))

    def strange(self, rows: Floats) -> NDArray[np.bool_]:
        """Return which rows lie beyond the limit, shape (n_rows,)."""
        return np.asarray(self.distance(rows) > self.limit)

    def strangest(self, row: Floats) -> int:
        """Return which feature of a row is the strange one, shape (n_features,).

        Among those with a value outside their usual range, if there are any, the one whose value would bring
        the row nearest if it were what the others suggest.
        """
        missing = np.isnan(row)
        if (self.gaps[missing] > 0).any():
            return int(np.flatnonzero(missing & (self.gaps > 0))[0])
        pull = self.precision @ self.squashed(row[None])[0]
        gain = np.where(self._diagonal > 0, pull**2 / np.where(self._diagonal > 0, self._diagonal, 1.0), 0.0)
        with np.errstate(invalid="ignore"):
            outside = (row < self.low) | (row > self.high)
        return int(np.argmax(gain * outside if (gain * outside).any() else gain))

    @cached_property
    def _diagonal(self) -> Floats:
        return np.diagonal(self.precision)


def _squashed(deviations: Floats) -> Floats:
    return np.asarray(_LINEAR * np.arcsinh(deviations / _LINEAR))


def folds(groups: NDArray[np.str_]) -> list[NDArray[np.bool_]]:
    """Return which rows are held out in each fold: whole groups, in the order of their names."""
    _, place = np.unique(groups, return_inverse=True)
    return [place % FOLDS == fold for fold in range(FOLDS)]


def warned(rows: Floats, groups: NDArray[np.str_], level: float = LEVEL) -> Strangeness:
    """Measure which share of held-out rows is called strange by what the other groups say."""
    found = [
        Familiar.of(rows[~own], groups[~own], level).strange(rows[own])
        for own in folds(groups)
        if own.any() and (~own).sum() > 1
    ]
    return Strangeness(level, float(np.concatenate(found).mean()) if found else 0.0)


def _limit(held_out: Floats, level: float) -> float:
    """Return the distance that at most a share of `level` of rows like these exceeds; the largest if few."""
    if not len(held_out):
        return np.inf
    place = int(np.ceil((len(held_out) + 1) * (1 - level)))
    return float(np.sort(held_out)[min(place, len(held_out)) - 1])
