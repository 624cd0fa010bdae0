"""One standardisation and projection of all groups' rows (matrix paper, sections 4.2 and 4.3)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from data.matrices.tables import Floats
from features.matrices.forms import Rows

#: A column is constant if its standard deviation is a smaller share of its mean.
CONSTANT = 1e-9


@dataclass(frozen=True)
class RowMoments:
    """Means of rows, and the sums of products of deviations from them; instances can be added."""

    n: int
    mean: Floats  # shape (n_columns,)
    cross: Floats  # shape (n_columns, n_columns)

    @classmethod
    def from_rows(cls, x: Floats) -> RowMoments:
        """Return the moments of the rows of `x`, shape (n_rows, n_columns), at least one row."""
        mean = x.mean(axis=0)
        return cls(len(x), mean, (x - mean).T @ (x - mean))

    def __add__(self, other: RowMoments) -> RowMoments:
        """Return the moments of all rows, without loss of digits (Chan, Golub and LeVeque 1983)."""
        n, shift = self.n + other.n, other.mean - self.mean
        cross = self.cross + other.cross + np.outer(shift, shift) * (self.n * other.n / n)
        return RowMoments(n, self.mean + shift * (other.n / n), cross)


@dataclass(frozen=True)
class Projection:
    """Standardisation of columns, followed by principal components of the metrics.

    All blocks of metrics of a row use the same components; further columns are standardised only.
    """

    #: mean, scale: shape (n_metrics + n_beside,)
    mean: Floats
    scale: Floats
    #: Shape (n_components, n_metrics): orthonormal, by descending variance; None: standardisation only.
    axes: Floats | None

    @classmethod
    def from_rows(cls, rows: Rows, max_components: int | None) -> Projection:
        """Return the standardisation and the principal components of training rows.

        At most `max_components` components, fewer with few rows or metrics; None: standardisation only.
        Constant columns are only centred.
        """
        metrics, other_columns = _split_columns(rows)
        mean = np.concatenate([metrics.mean(axis=0), other_columns.mean(axis=0)])
        scale = _column_scale(mean, np.concatenate([metrics.std(axis=0), other_columns.std(axis=0)]))
        if max_components is None:
            return cls(mean, scale, None)
        n, width = metrics.shape
        standardised = (metrics - mean[:width]) / scale[:width]
        max_components = min(max_components, width, max(n - 1, 1))
        if n < width:
            _, _, axes = np.linalg.svd(standardised, full_matrices=False)
        else:
            # the cross product of the columns is much smaller than the rows
            axes = _leading_axes(standardised.T @ standardised, max_components)
        return cls(mean, scale, _orient_axes(axes[:max_components]))

    @classmethod
    def from_moments(cls, moments: RowMoments, n_other_columns: int, max_components: int) -> Projection:
        """Return the projection for the moments of training rows, which need not be in memory.

        The rows have one block of metrics, and `n_other_columns` further columns at the end. At most
        `max_components` components, fewer with few rows or metrics.
        """
        scale = _column_scale(moments.mean, np.sqrt(np.diag(moments.cross) / moments.n))
        width = len(scale) - n_other_columns
        cross = moments.cross[:width, :width] / np.outer(scale[:width], scale[:width])
        axes = _leading_axes(cross, min(max_components, width, max(moments.n - 1, 1)))
        return cls(moments.mean, scale, _orient_axes(axes))

    def first_components(self, components: int | None) -> Projection:
        """Return a copy with the first `components` components; None: standardisation only."""
        axes = None if components is None or self.axes is None else self.axes[:components]
        return replace(self, axes=axes)

    def project_rows(self, rows: Rows) -> Floats:
        """Return the standardised components of every block of `rows`, then the further columns.

        Shape (n_rows, n_blocks * n_components + n_other_columns); without axes, components are metrics.
        """
        metrics, other_columns = _split_columns(rows)
        width = metrics.shape[1]
        projected = (metrics - self.mean[:width]) / self.scale[:width]
        projected = projected if self.axes is None else projected @ self.axes.T
        standardised = (other_columns - self.mean[width:]) / self.scale[width:]
        return np.hstack([projected.reshape(len(rows.x), -1), standardised])


def _split_columns(rows: Rows) -> tuple[Floats, Floats]:
    count = rows.x.shape[1] - rows.n_other_columns
    return rows.x[:, :count].reshape(-1, count // rows.blocks), rows.x[:, count:]


def _column_scale(mean: Floats, spread: Floats) -> Floats:
    return np.where(spread > CONSTANT * np.abs(mean), spread, 1.0)


def _leading_axes(cross: Floats, n_axes: int) -> Floats:
    """Return the eigenvectors of the largest eigenvalues, as rows, the largest first."""
    from scipy.linalg import eigh

    width = len(cross)
    _, vectors = eigh(cross, subset_by_index=[width - n_axes, width - 1])
    return np.asarray(vectors.T[::-1])


def _orient_axes(axes: Floats) -> Floats:
    """Return components with such signs that the largest part of each is positive."""
    signs = np.where(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)] < 0, -1.0, 1.0)
    return np.ascontiguousarray(axes * signs[:, None])
