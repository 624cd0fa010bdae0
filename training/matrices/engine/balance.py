"""Resampling by row numbers (seed 001, section 4.4), which copies nothing that is left out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.intp]

SAMPLERS = ("none", "under", "over")


def resampled(y: NDArray[np.int64], sampler: str, rate: float, seed: int) -> Whole:
    """Return the rows to learn from.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        1 is abnormal, 0 normal.
    sampler : "none", "under" or "over"
        ``"under"`` leaves out rows of the more frequent class, ``"over"`` repeats rows of the rarer one.
    rate : float
        How many of the rarer class there are to be per one of the more frequent; not above 1. Where there are
        as many already, all rows are returned once.
    seed : int

    Returns
    -------
    ndarray of int
        Ascending.
    """
    places = np.arange(len(y))
    if sampler == "none":
        return places
    rare, frequent = sorted((places[y == 0], places[y == 1]), key=len)
    if not len(rare) or len(rare) >= rate * len(frequent):
        return places
    draw = np.random.default_rng(seed)
    if sampler == "under":
        frequent = draw.choice(frequent, round(len(rare) / rate), replace=False)
    else:
        more = round(rate * len(frequent)) - len(rare)
        rare = np.concatenate([rare, draw.choice(rare, more)])
    return np.sort(np.concatenate([rare, frequent]))
