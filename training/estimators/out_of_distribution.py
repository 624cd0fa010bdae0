"""Out-of-distribution score: the Mahalanobis distance, with a limit by conformal prediction.

Features have long tails and are squashed first. The distance is that of all features together: a value that
is usual by itself may be unusual given the others. Missing values do not contribute. A row with a combination
of missing features that no training row had is out of distribution by that alone. The limit is a quantile of
the distances of held-out rows (inductive conformal anomaly detection, Laxhammar and Falkman, 2015): of rows
like those in training, at most the stated share exceeds it.
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
from training.estimators.answering import Floats

Bools = NDArray[np.bool_]
#: A pattern of missing features, and the rows that have it.
Alike = tuple[Bools, "NDArray[np.intp] | slice"]
#: Share of ordinary rows that may be called out of distribution.
LEVEL = 0.01
#: Distance of the normal distribution's 5 % and 95 % quantiles, in standard deviations.
_WIDTH = 3.29
#: The squashing is about linear up to this number of standard deviations.
_LINEAR = 3
#: Least variance of a direction, as a share of the mean.
_LEAST = 1e-3
#: Scale of a feature that never varied, as a share of its size.
_NEVER = 0.1
FOLDS = 5
_FEATURES = ArraySpec("f", ("features",))
SPECS = {
    **dict.fromkeys(("centre", "scale", "mean"), _FEATURES),
    "precision": ArraySpec("f", ("features", "features")),
    "patterns": ArraySpec("b", ("patterns", "features")),
    **dict.fromkeys(("low", "high"), _FEATURES),
    "limit": ArraySpec("f", (), finite=False),
}


@dataclass(frozen=True)
class OutOfDistributionScore:
    """The share of ordinary rows that are called out of distribution."""

    level: FiniteFloat  # the intended share, at most
    held_out: FiniteFloat  # the measured share among held-out groups of training rows


@dataclass(frozen=True)
class TrainingDistribution:
    """The distribution of the training rows."""

    #: centre, scale: shape (n_features,): A deviation d = (value - centre) / scale is squashed to 3 asinh(d /
    #: 3), 0 where a value is unknown.
    centre: Floats
    scale: Floats
    mean: Floats  # shape (n_features,)
    #: Shape (n_features, n_features): The inverse of the covariance of squashed features; 0 for those without
    #: any value.
    precision: Floats
    #: Shape (n_patterns, n_features): The features that were missing together in training rows; a pattern
    #: that another one contains is left out.
    patterns: Bools
    #: low, high: shape (n_features,): The 1 % and 99 % quantiles of the training values.
    low: Floats
    high: Floats
    limit: Floats  # shape (): Rows farther away are out of distribution

    @classmethod
    def from_rows(cls, rows: Floats, groups: NDArray[np.str_]) -> Self:
        """Return the distribution of training rows, with a limit that at most a share `LEVEL` exceeds.

        `rows`: shape (n_rows, n_features), NaN where missing. `groups`: shape (n_rows,); whole groups are
        held out to find the limit, which is infinite with too few groups.
        """
        folds = fold_flags(groups)
        held_out = [cls._describe_rows(rows[~test]).training_distance(rows[test]) for test in folds]
        distances = np.sort(np.concatenate([*held_out, np.zeros(0)]))
        # the distance that at most the share of such rows exceeds; of few rows, the largest
        rank = int(np.ceil((len(distances) + 1) * (1 - LEVEL)))
        limit = float(distances[min(rank, len(distances)) - 1]) if len(distances) else np.inf
        return cls._describe_rows(rows, limit)

    @classmethod
    def _describe_rows(cls, rows: Floats, limit: float = np.inf) -> Self:
        finite = np.isfinite(rows)
        present = finite.any(axis=0)
        ends = np.zeros((5, rows.shape[1]))
        for feature in np.flatnonzero(present):
            ends[:, feature] = np.quantile(rows[finite[:, feature], feature], [0.01, 0.05, 0.5, 0.95, 0.99])
        centre, width = ends[2], (ends[3] - ends[1]) / _WIDTH
        scale = np.where(width > 0, width, _NEVER * np.maximum(np.abs(centre), 1.0))
        squashed = np.where(finite, _squash_values((np.where(finite, rows, 0.0) - centre) / scale), 0.0)
        mean = squashed.sum(axis=0) / np.maximum(finite.sum(axis=0), 1)
        precision = np.where(np.outer(present, present), _shrunken_precision(squashed, finite, mean), 0.0)
        patterns = _maximal_patterns(~finite)
        return cls(centre, scale, mean, precision, patterns, ends[0], ends[4], np.array(limit))

    def squashed_deviations(
        self, rows: Floats, columns: Sequence[int] | NDArray[np.intp] | slice = slice(None)
    ) -> Floats:
        """Return the deviations of squashed features from their means; 0 where a value is unknown.

        `columns` are the indices of the features in `rows`, shape (..., n_places); default: all.
        """
        with np.errstate(invalid="ignore"):
            squashed = _squash_values((rows - self.centre[columns]) / self.scale[columns])
            return np.where(np.isnan(rows), 0.0, squashed - self.mean[columns])

    def training_distance(self, rows: Floats) -> Floats:
        """Return the root mean square distance of each row from the training rows, shape (n_rows,)."""
        return self._pattern_distances(rows, _rows_by_pattern(np.isnan(rows)))

    def is_out_of_distribution(self, rows: Floats) -> Bools:
        """Return True for rows beyond the limit, or with an unseen set of gaps, shape (n_rows,)."""
        alike = _rows_by_pattern(np.isnan(rows))
        flags = self._pattern_distances(rows, alike) > self.limit
        for pattern, rows_of_pattern in alike:
            flags[rows_of_pattern] |= self._gaps_beyond_patterns(pattern).any()
        return np.asarray(flags)

    def _pattern_distances(self, rows: Floats, alike: Sequence[Alike]) -> Floats:
        deviations, distances = self.squashed_deviations(rows), np.zeros(len(rows))
        for missing, rows_of_pattern in alike:
            among, n_known = deviations[rows_of_pattern], (self._present_features & ~missing).sum()
            squares = (among @ self._precision_without(missing) * among).sum(axis=1)
            distances[rows_of_pattern] = np.sqrt(np.maximum(squares, 0.0) / max(n_known, 1))
        return distances

    def new_gaps(self, row: Floats) -> list[int]:
        """Return the indices of a row's missing features that exceed the closest training pattern.

        `row` has shape (n_features,), NaN where a feature is missing.
        """
        return np.flatnonzero(self._gaps_beyond_patterns(np.isnan(row))).tolist()

    def most_unusual_feature(self, row: Floats) -> int:
        """Return the index of the most unusual feature of a row, shape (n_features,).

        The first feature of `new_gaps`, if there is any. Else, of the features outside their usual range (of
        all, if none is), the one whose replacement by the value that the others predict would reduce the
        distance most.
        """
        missing = np.isnan(row)
        if (unusual_gaps := self._gaps_beyond_patterns(missing)).any():
            return int(np.argmax(unusual_gaps))
        precision = self._precision_without(missing)
        pull, diagonal = precision @ self.squashed_deviations(row[None])[0], np.diagonal(precision)
        gain = np.where(diagonal > 0, pull**2 / np.where(diagonal > 0, diagonal, 1.0), 0.0)
        with np.errstate(invalid="ignore"):
            outside = (row < self.low) | (row > self.high)
        return int(np.argmax(gain * outside if (gain * outside).any() else gain))

    def _gaps_beyond_patterns(self, missing: Bools) -> Bools:
        beyond = missing & ~self.patterns
        return np.asarray(beyond[beyond.sum(axis=1).argmin()])

    def _precision_without(self, missing: Bools) -> Floats:
        """Return the inverse covariance of the known features (Schur complement), 0 for the missing ones."""
        absent = missing & self._present_features
        if not absent.any():
            return self.precision
        across = self.precision[absent]
        reduced = self.precision - across.T @ np.linalg.solve(self.precision[np.ix_(absent, absent)], across)
        return np.where(missing | missing[:, None], 0.0, reduced)

    @cached_property
    def _present_features(self) -> Bools:
        return np.asarray(np.diagonal(self.precision) > 0)


def _shrunken_precision(squashed: Floats, finite: Bools, mean: Floats) -> Floats:
    """Return the inverse of the shrunken covariance; each entry comes from rows with both features."""
    from sklearn.covariance import ledoit_wolf_shrinkage

    centred = np.where(finite, squashed - mean, 0.0)
    counts = finite.astype(np.float64)
    moment = centred.T @ centred / np.maximum(counts.T @ counts, 1.0)
    shrinkage = ledoit_wolf_shrinkage(centred, assume_centered=True)
    size = np.trace(moment) / len(moment)
    values, vectors = np.linalg.eigh((1 - shrinkage) * moment + shrinkage * size * np.eye(len(moment)))
    # entries that come from different rows may be inconsistent, so no direction varies less than after
    # shrinking
    least = max(shrinkage, _LEAST) * size if size > 0 else 1.0
    return np.asarray((vectors / np.maximum(values, least)) @ vectors.T)


def _maximal_patterns(missing: Bools) -> Bools:
    different = np.unique(missing, axis=0)
    contained = [(different | ~row).all(axis=1).sum() > len(("itself",)) for row in different]
    return np.asarray(different[~np.array(contained)])


def _rows_by_pattern(missing: Bools) -> Sequence[Alike]:
    if not missing.any():
        return [(np.zeros(missing.shape[1], bool), slice(None))]
    packed = np.packbits(missing, axis=1)
    padded = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8)))
    words = np.ascontiguousarray(padded).view(np.uint64).T
    order = np.lexsort(words)
    starts = np.flatnonzero((np.diff(words[:, order]) != 0).any(axis=0)) + 1
    return [(missing[members[0]], members) for members in np.split(order, starts)]


def _squash_values(deviations: Floats) -> Floats:
    return np.asarray(_LINEAR * np.arcsinh(deviations / _LINEAR))


def fold_flags(groups: NDArray[np.str_]) -> list[Bools]:
    """Return flags, shape (n_rows,), of the test rows of each fold; folds consist of whole groups.

    Groups are dealt to `FOLDS` (5) folds in turn, in the order of their names. Only folds with test rows and
    more than one training row are in the result.
    """
    _, place = np.unique(groups, return_inverse=True)
    flags = (place % FOLDS == fold for fold in range(FOLDS))
    return [test for test in flags if test.any() and (~test).sum() > 1]


def score_held_out_rows(rows: Floats, groups: NDArray[np.str_]) -> OutOfDistributionScore:
    """Return ``level``, the intended share of rows out of distribution, and ``held_out``, the measured share.

    `rows`, shape (n_rows, n_features), are NaN where missing; whole `groups`, shape (n_rows,), are held out
    by the folds of `fold_flags`. ``level`` is 0.01; ``held_out`` is 0 if no fold can be held out.
    """
    flags = [
        TrainingDistribution.from_rows(rows[~test], groups[~test]).is_out_of_distribution(rows[test])
        for test in fold_flags(groups)
    ]
    return OutOfDistributionScore(LEVEL, float(np.concatenate(flags).mean()) if flags else 0.0)
