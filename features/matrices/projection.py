"""One standardisation and projection of all groups' rows (seed 001, sections 4.2 and 4.3)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from features.matrices.forms import Rows

Floats = NDArray[np.float64]

#: A column is constant if its standard deviation is a smaller share of its mean.
CONSTANT = 1e-9


@dataclass(frozen=True)
class RowMoments:
    """Means of rows, and the sums of products of deviations from them; instances can be added."""

    n: int
    mean: Floats  # shape (n_columns,)
    cross: Floats  # shape (n_columns, n_columns)

    @classmethod
    def of(cls, x: Floats) -> RowMoments:
        """Take the moments of rows, at least one."""
        mean = x.mean(axis=0)
        return cls(len(x), mean, (x - mean).T @ (x - mean))

    def __add__(self, other: RowMoments) -> RowMoments:
        """Join both (Chan, Golub and LeVeque 1983): no digits are lost where means are large."""
        n, apart = self.n + other.n, other.mean - self.mean
        cross = self.cross + other.cross + np.outer(apart, apart) * (self.n * other.n / n)
        return RowMoments(n, self.mean + apart * (other.n / n), cross)


@dataclass(frozen=True)
class Projection:
    """Standardisation of columns, followed by principal components of the metrics.

    Where a row has several blocks of the same metrics, all use the same components; the further columns are
    standardised only.
    """

    #: mean, scale: shape (n_metrics + n_beside,)
    mean: Floats
    scale: Floats
    #: Shape (n_components, n_metrics) or None: The components, that of the most variance first; orthonormal.
    #: None: columns are standardised only.
    axes: Floats | None

    @classmethod
    def of(cls, rows: Rows, most: int | None) -> Projection:
        """Learn from training rows.

        Parameters
        ----------
        most : int or None
            Largest number of components, also limited by the numbers of rows and metrics. None: no
            projection.
        """
        metrics, beside = _parted(rows)
        mean = np.concatenate([metrics.mean(axis=0), beside.mean(axis=0)])
        scale = _scale(mean, np.concatenate([metrics.std(axis=0), beside.std(axis=0)]))
        if most is None:
            return cls(mean, scale, None)
        width = metrics.shape[1]
        return cls(mean, scale, _axes((metrics - mean[:width]) / scale[:width], most))

    @classmethod
    def of_moments(cls, moments: RowMoments, beside: int, most: int) -> Projection:
        """Learn from the moments of rows of one block, so that the rows need not be in memory at once."""
        scale = _scale(moments.mean, np.sqrt(np.diag(moments.cross) / moments.n))
        width = len(scale) - beside
        cross = moments.cross[:width, :width] / np.outer(scale[:width], scale[:width])
        return cls(moments.mean, scale, _oriented(_leading(cross, min(most, width, max(moments.n - 1, 1)))))

    def leading(self, components: int | None) -> Projection:
        """Return a copy with the first `components` components; None: standardisation only."""
        axes = None if components is None or self.axes is None else self.axes[:components]
        return replace(self, axes=axes)

    def standardised(self, rows: Rows) -> Floats:
        """Return the standardised columns of `rows`, shape as ``rows.x``."""
        return self._columns(rows, None)

    def projected(self, rows: Rows) -> Floats:
        """Return the standardised components of every block of `rows`, then the further columns.

        Shape (n_rows, n_blocks * n_components + n_beside).
        """
        return self._columns(rows, self.axes)

    def _columns(self, rows: Rows, axes: Floats | None) -> Floats:
        metrics, beside = _parted(rows)
        width = metrics.shape[1]
        turned = (metrics - self.mean[:width]) / self.scale[:width]
        turned = turned if axes is None else turned @ axes.T
        standardised = (beside - self.mean[width:]) / self.scale[width:]
        return np.hstack([turned.reshape(len(rows.x), -1), standardised])


def _parted(rows: Rows) -> tuple[Floats, Floats]:
    """Return the blocks of metrics, one row per block, and the further columns."""
    count = rows.x.shape[1] - rows.beside
    return rows.x[:, :count].reshape(-1, count // rows.blocks), rows.x[:, count:]


def _axes(rows: Floats, most: int) -> Floats:
    """Return the leading principal components of standardised rows; the largest part of each is positive."""
    n, width = rows.shape
    most = min(most, width, max(n - 1, 1))
    if n < width:
        _, _, axes = np.linalg.svd(rows, full_matrices=False)
    else:
        # the cross product of the columns is much smaller than the rows
        axes = _leading(rows.T @ rows, most)
    return _oriented(axes[:most])


def _scale(mean: Floats, spread: Floats) -> Floats:
    return np.where(spread > CONSTANT * np.abs(mean), spread, 1.0)


def _leading(cross: Floats, most: int) -> Floats:
    """Return the eigenvectors of the largest eigenvalues, as rows, the largest first."""
    from scipy.linalg import eigh

    width = len(cross)
    _, vectors = eigh(cross, subset_by_index=[width - most, width - 1])
    return np.asarray(vectors.T[::-1])


def _oriented(axes: Floats) -> Floats:
    signs = np.where(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)] < 0, -1.0, 1.0)
    return np.ascontiguousarray(axes * signs[:, None])
