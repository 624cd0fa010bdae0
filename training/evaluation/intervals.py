"""How wide an interval has to be, from errors on what was held out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def half_width(misses: NDArray[np.float64], confidence: float) -> float:
    """Return the half width of intervals (split conformal: Vovk and others 2005, Lei and others 2018).

    Parameters
    ----------
    misses : ndarray of shape (n,)
        Errors of models that had not seen these cases.
    confidence : float
        The share of cases that intervals are to hold.

    Returns
    -------
    float
        The ceil((n + 1) confidence)-th smallest error; the largest where there are too few.
    """
    rank = int(np.ceil((len(misses) + 1) * confidence))
    return float(np.sort(np.abs(misses))[min(rank, len(misses)) - 1])
