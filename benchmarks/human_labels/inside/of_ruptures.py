"""ruptures: PELT, binary segmentation and a sliding window, with several costs, over penalties."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import ruptures as rpt
from points import Series, Way, answer, strictest

#: Multiples of the logarithm of the length; the guide of ruptures gives 1 for a signal in units of its noise.
PENALTIES = np.geomspace(0.5, 500, 13)
#: Third quartile of the standard normal distribution.
QUARTILE = 0.6745
#: Length of the window: half of the versions before a position, half from it on.
WIDTH = 10
SHORTEST = 4
Maker = Callable[[], Any]


def scale_by_noise(values: Any) -> Any:
    """Return a series in units of its noise, estimated robustly from neighbours' differences."""
    noise = np.median(np.abs(np.diff(values))) / QUARTILE / np.sqrt(2) or np.std(values) or 1.0
    return ((values - np.median(values)) / noise).reshape(-1, 1)


def change_points(fitted: Any, penalty: float) -> list[int]:
    return [int(at) for at in fitted.predict(pen=penalty)[:-1]]


def points_at_penalty(make: Maker, series: Series, penalty: float | None = None) -> list[int]:
    if len(series[0]) < SHORTEST:
        return []
    chosen_penalty = np.log(len(series[0])) if penalty is None else penalty
    return change_points(make().fit(scale_by_noise(series[0])), chosen_penalty)


def strictest_penalties(make: Maker, series: Series) -> dict[int, float]:
    if len(series[0]) < SHORTEST:
        return {}
    fitted, scale = make().fit(scale_by_noise(series[0])), np.log(len(series[0]))
    return strictest({size: size * scale for size in PENALTIES.tolist()}, partial(change_points, fitted))


def search_way(make: Maker, penalty: float | None = None) -> Way:
    return Way(lambda series: points_at_penalty(make, series, penalty), partial(strictest_penalties, make))


def all_ways() -> dict[str, Way]:
    """Return all search methods; every version may be a boundary (jump 1; the default is every fifth)."""
    search = {
        # PELT in C
        "PELT, l2": search_way(lambda: rpt.KernelCPD(kernel="linear", min_size=2)),
        # the penalty of the example on the first page of ruptures
        "PELT, rbf": search_way(lambda: rpt.KernelCPD(kernel="rbf", min_size=2), 10.0),
    }
    for cost in ("l2", "l1"):
        search[f"binary segmentation, {cost}"] = search_way(partial(rpt.Binseg, model=cost, jump=1))
    for cost in ("l2", "l1"):
        search[f"window, {cost}"] = search_way(partial(rpt.Window, width=WIDTH, model=cost, jump=1))
    return search


answer("ruptures", all_ways())
