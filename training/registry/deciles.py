"""What the features of a model held in its training rows, for what it is asked to be held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

_PARTS = 10
#: How near a value lies to one that many rows have, to count as the same.
_SAME = 1e-9


@dataclass(frozen=True)
class Deciles:
    """What one feature held.

    Attributes
    ----------
    edges : tuple of float
        Increasing. Between them lie as many rows each, but for values that many rows have: those have a bin
        of their own.
    shares : tuple of float, length len(edges) + 2
        Of the rows up to each edge, of those beyond the last, and of those without a value. Half a row is
        added to each, so that none is 0 (Jeffreys).
    """

    edges: tuple[FiniteFloat, ...]
    shares: tuple[FiniteFloat, ...]

    def __post_init__(self) -> None:
        """Refuse what does not belong together."""
        if len(self.shares) != len(self.edges) + 2:
            raise ValueError(f"{len(self.shares)} shares for {len(self.edges)} edges")

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Self:
        """Take them from the training rows, shape (n_rows,)."""
        known = values[np.isfinite(values)]
        edges = _edges(known) if len(known) else np.zeros(0)
        bins = np.searchsorted(edges, known)
        counts = np.append(np.bincount(bins, minlength=len(edges) + 1), len(values) - len(known))
        return cls(tuple(edges.tolist()), tuple(smoothed(counts).tolist()))


def of_features(names: Sequence[str], values: NDArray[np.float64]) -> dict[str, Deciles]:
    """Return the deciles of every feature of the training rows, shape (n_rows, n_features)."""
    return {name: Deciles.of(column) for name, column in zip(names, values.T, strict=True)}


def smoothed(counts: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
    """Return counts, a bin in each place of the last axis, as shares of which none is 0."""
    raised = counts + 0.5
    shares: NDArray[np.float64] = raised / raised.sum(axis=-1, keepdims=True)
    return shares


def _edges(known: NDArray[np.float64]) -> NDArray[np.float64]:
    inner = np.quantile(known, np.arange(1, _PARTS) / _PARTS, method="inverted_cdf")
    values, times = np.unique(inner, return_counts=True)
    often = values[(times > 1) | (known.min() == known.max())]
    near = _SAME * np.maximum(np.abs(often), 1.0)
    alone = values[~np.isin(values, often)]
    return np.unique(np.concatenate([alone, often - near, often + near]))
