"""MongoDB's signal-processing-algorithms: E-divisive with a permutation test."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
from points import Series, Way, answer
from signal_processing_algorithms.energy_statistics.energy_statistics import e_divisive, get_energy_statistics

SEED = 20261121
#: The library's default, and a stricter value: at most 1 of its 100 permutations is as extreme.
P = 0.05
LEVELS = (P, 0.01)
#: Longer series are cut into overlapping stretches, as the time grows with the third power of the length.
STRETCH, STEP = 300, 200


def changes(series: Series, p: float = P) -> list[int]:
    return search_stretches(series[0].tobytes(), p)


@cache
def search_stretches(content: bytes, p: float) -> list[int]:
    """Search overlapping stretches; in an overlap, the stretch whose end is farther away counts."""
    values, positions = np.frombuffer(content), set[int]()
    last = max(len(values) - STRETCH + STEP, 1)
    for start in range(0, last, STEP):
        np.random.seed(SEED)  # noqa: NPY002 - the global generator that e_divisive uses
        margin = (STRETCH - STEP) // 2
        low = margin if start else 0
        high = STEP + margin if start + STEP < last else STRETCH
        points = e_divisive(values[start : start + STRETCH].copy(), pvalue=p)
        positions |= {start + point for point in points if low <= point < high}
    return sorted(positions)


def by_p_and_size(series: Series) -> dict[int, float]:
    """Vary the p value; points of equal p are ranked by the energy statistic h of the two sides."""
    strengths: dict[int, float] = {}
    for rank, p in enumerate(LEVELS, start=1):
        points = changes(series, p)
        edges = list(pairwise([0, *points, len(series[0])]))
        for (first, at), (_, stop) in pairwise(edges):
            strengths[at] = rank + get_energy_statistics(series[0][first:at], series[0][at:stop]).h
    return strengths


answer("signal-processing-algorithms", {"p, then h": Way(changes, by_p_and_size)})
