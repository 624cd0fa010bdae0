"""Bootstrap resamples of machines that are the same in every profile."""

from __future__ import annotations

from zlib import crc32

import numpy as np
from numpy.typing import NDArray

#: A resample with fewer units than this has nothing to correlate.
ENOUGH = 3


def resamples(units: NDArray[np.str_], number: int, seed: int) -> NDArray[np.float64]:
    """Return how often each row counts in each bootstrap resample of the units.

    All rows of a unit (a machine, a CPU model) count alike. The counts are Poisson with mean 1 (the bootstrap
    for streams: Oza and Russell 2001) and are drawn from the unit's name, so that a unit counts alike in
    resample i of every application: profiles which share machines are thereby resampled together.

    Parameters
    ----------
    units : ndarray of str, shape (n_rows,)
    number : int
    seed : int

    Returns
    -------
    ndarray of shape (number, n_rows)
        Whole numbers; resamples that would hold fewer than three units have exponential weights with mean 1
        instead (the Bayesian bootstrap).
    """
    names, rows = np.unique(units, return_inverse=True)
    generators = [np.random.default_rng([seed, crc32(name.encode())]) for name in names]
    counts = np.column_stack([generator.poisson(1, number) for generator in generators]).astype(np.float64)
    smooth = np.column_stack([generator.exponential(1, number) for generator in generators])
    few = (counts > 0).sum(axis=1) < ENOUGH
    return np.where(few[:, None], smooth, counts)[:, rows]
