"""Which features speak loudest for a verdict."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def strongest(values: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return which features contribute most, the strongest first, shape (n_comparisons, <= count).

    Strong is a large contribution in either direction; its sign tells which.
    """
    n_features = values.shape[1]
    count = min(count, n_features)
    if count == 0 or not len(values):
        return np.zeros((len(values), count), np.int64)
    size = np.abs(values)
    top = np.argpartition(size, n_features - count, axis=1)[:, n_features - count :]
    order = np.argsort(-np.take_along_axis(size, top, axis=1), axis=1, kind="stable")
    return np.take_along_axis(top, order, axis=1)
