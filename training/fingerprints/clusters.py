"""Stressors that the machines cannot tell apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from features.fingerprints.matrix import Measured
from training.fingerprints.importance import log_rates

#: Stressors whose logarithms correlate by this much on average are one cluster.
ALIKE = 0.9


def clusters(measured: Measured) -> list[list[int]]:
    """Group columns by correlation over machines (average linkage), in the order of their first columns.

    Returns
    -------
    list of lists of int
        Every column is in one of them.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    logs = log_rates(measured.x)
    varies = np.ptp(logs, axis=0) > 0
    correlation = np.eye(logs.shape[1])
    inside = np.ix_(varies, varies)
    correlation[inside] = np.corrcoef(logs[:, varies], rowvar=False)
    if len(correlation) == 1:
        return [[0]]
    distance = np.clip(1 - np.abs(correlation), 0, None)
    np.fill_diagonal(distance, 0)
    labels: NDArray[np.int64] = fcluster(
        linkage(squareform(distance, checks=False), "average"), 1 - ALIKE, "distance"
    )
    found: dict[int, list[int]] = {}
    for column, label in enumerate(labels):
        found.setdefault(int(label), []).append(column)
    return list(found.values())
