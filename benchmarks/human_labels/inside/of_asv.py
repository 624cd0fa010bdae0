"""asv's step detection (a Potts model with an automatic penalty) and its regressions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from asv.step_detect import detect_regressions, detect_steps
from points import Series, Way, answer, strictest

#: Default of ``regressions_thresholds`` in asv's configuration.
THRESHOLD = 0.05
THRESHOLDS = (0.0, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, THRESHOLD, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5)
Steps = list[tuple[int, int, float, float, float]]


def steps(series: Series) -> Steps:
    """Fit the steps; asv takes lower for better, so it gets the reciprocals where higher is better."""
    values, better = series
    with np.errstate(divide="ignore"):
        costs = values if better < 0 else np.where(values > 0, 1 / values, np.nan)
    return detect_steps(costs.tolist())


def regressions(fitted_steps: Steps, threshold: float) -> list[int]:
    _, _, positions = detect_regressions(fitted_steps, threshold=threshold)
    return [after for _, after, _, _ in positions or ()]


def by_threshold(series: Series) -> dict[int, float]:
    fitted_steps = steps(series)
    return strictest(dict(enumerate(THRESHOLDS, 1)), lambda t: regressions(fitted_steps, t))


def by_step(series: Series) -> dict[int, float]:
    """Return the size of every step over the scatter around it, also of steps that were reverted later."""
    sized = {}
    for (_, _, before, _, error), (at, _, after, _, later) in pairwise(steps(series)):
        sized[at] = abs(after - before) / max(error, later, 1e-9 * abs(before), 1e-300)
    return sized


answer(
    "asv",
    {
        "regressions, threshold": Way(lambda series: regressions(steps(series), THRESHOLD), by_threshold),
        "steps, size over error": Way(lambda series: [at for at, *_ in steps(series)[1:]], by_step),
    },
)
