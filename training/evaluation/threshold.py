"""From which probability on a comparison fails."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Cuts whose balanced accuracy is this close to the best one are as good as it.
PLATEAU = 0.005
#: Probabilities nearer to 0 or 1 than this are not told apart when the middle of a plateau is sought.
EXTREME = 1e-3


@dataclass(frozen=True)
class Cut:
    """A threshold, and the balanced accuracy at the best cut of its plateau."""

    threshold: float
    balanced_accuracy: float


def best_cut(y: NDArray[np.int64], probability: Floats) -> Cut:
    """Choose the threshold with the highest balanced accuracy.

    The best cut among few fails is often a narrow accident. So all neighbouring cuts that are within
    `PLATEAU` of it count as one plateau, and the threshold is the plateau's middle on the scale of
    log-odds, which stays a distance from both edges for confident and for timid models alike.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        Labels, 1 is fail; both must occur.
    probability : ndarray of shape (n_rows,)
        Of fail, by models that had not seen the row.
    """
    values, place = np.unique(probability, return_inverse=True)
    fails = np.bincount(place, weights=y)
    passes = np.bincount(place, weights=1 - y)
    # cut i: fail from values[i] on; the cut 0 fails everything, which is never better than 0.5
    caught = (fails.sum() - np.cumsum(fails)) / fails.sum()
    spared = np.cumsum(passes) / passes.sum()
    balanced = (caught + spared)[:-1] / 2
    if not len(balanced):
        return Cut(0.5, 0.5)
    best = int(balanced.argmax())
    worse = np.flatnonzero(balanced < balanced[best] - PLATEAU)
    first = int(worse[worse < best].max(initial=-1)) + 1
    last = int(worse[worse > best].min(initial=len(balanced))) - 1
    return Cut(_middle(values[first], values[last + 1]), float(balanced[best]))


def _middle(low: float, high: float) -> float:
    """Return the point between both whose log-odds are half way, and that is above `low` in any case."""
    edges = np.clip([low, high], EXTREME, 1 - EXTREME)
    odds = float(np.log(edges / (1 - edges)).mean())
    middle = 1 / (1 + np.exp(-odds))
    return float(middle) if low < middle <= high else float((low + high) / 2)
