"""apache-otava: Hunter's E-divisive with Student's t test over sliding windows, and a merge by p and size."""

from __future__ import annotations

import math
from functools import partial

from otava.analysis import compute_change_points
from points import Series, Way, answer, strictest

#: Defaults of otava.
P, MAGNITUDE = 0.001, 0.0
LEVELS = (0.05, 0.01, P, 1e-4, 1e-6)
SIZES = (0.005, 0.01, 0.02, 0.05, 0.1)


def changes(series: Series, p: float = P, magnitude: float = MAGNITUDE) -> list[int]:
    points, _ = compute_change_points(series[0].tolist(), max_pvalue=p, min_magnitude=magnitude)
    return [point.index for point in points]


#: In the second way, the smallest relative change is varied at the p value's default.
VARIED = {
    "max_pvalue": lambda series: strictest({-math.log10(p): p for p in LEVELS}, partial(changes, series)),
    "min_magnitude": lambda series: strictest({size: size for size in SIZES}, partial(changes, series, P)),
}
answer("apache-otava", {name: Way(changes, varied) for name, varied in VARIED.items()})
