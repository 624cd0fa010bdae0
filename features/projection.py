"""One standardisation and projection of all groups' rows (seed 001, sections 4.2 and 4.3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: A column whose spread is a smaller share of its mean is constant.
CONSTANT = 1e-9


@dataclass(frozen=True)
class Projection:
    """Columns brought to mean 0 and spread 1, then turned to their principal components.

    Attributes
    ----------
    mean, scale : ndarray of shape (n_columns,)
    axes : ndarray of shape (n_components, n_columns) or None
        The components, that of the most variance first; orthonormal. None: columns are standardised only.
    """

    mean: Floats
    scale: Floats
    axes: Floats | None

    @classmethod
    def of(cls, x: Floats, most: int | None) -> Projection:
        """Learn from rows.

        Parameters
        ----------
        x : ndarray of shape (n_rows, n_columns)
            Finite.
        most : int or None
            Components at most; fewer where the rows have no more. None: no projection.
        """
        mean, spread = x.mean(axis=0), x.std(axis=0)
        scale = np.where(spread > CONSTANT * np.maximum(np.abs(mean), 1e-300), spread, 1.0)
        if most is None:
            return cls(mean, scale, None)
        return cls(mean, scale, _axes((x - mean) / scale, most))

    def standardised(self, x: Floats) -> Floats:
        """Return the columns at mean 0 and spread 1, shape as `x`."""
        return np.asarray((x - self.mean) / self.scale)

    def projected(self, x: Floats) -> Floats:
        """Return the components of the rows of `x`, shape (n_rows, n_components)."""
        rows = self.standardised(x)
        return rows if self.axes is None else rows @ self.axes.T

    def back(self, weights: Floats) -> Floats:
        """Return weights of the columns, in their own units, that say the same as these of the components.

        Parameters
        ----------
        weights : ndarray of shape (..., n_components)

        Returns
        -------
        ndarray of shape (..., n_columns)
        """
        turned = weights if self.axes is None else weights @ self.axes
        return np.asarray(turned / self.scale)


def _axes(rows: Floats, most: int) -> Floats:
    """Return the leading principal components of standardised rows; the largest part of each is positive."""
    n, width = rows.shape
    most = min(most, width, max(n - 1, 1))
    if n < width:
        _, _, axes = np.linalg.svd(rows, full_matrices=False)
    else:
        # the square of the columns is much smaller than the rows
        from scipy.linalg import eigh

        _, vectors = eigh(rows.T @ rows, subset_by_index=[width - most, width - 1])
        axes = vectors.T[::-1]
    axes = axes[:most]
    signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])
    return np.ascontiguousarray(axes * signs[:, None])
