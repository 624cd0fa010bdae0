"""Shared by the scripts of this folder; they run in other environments, so this needs only NumPy."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

#: A series with a number per version; and 1 where higher is better, else -1.
Series = tuple[Any, float]
#: Positions of changes, each the first of the new level.
Fixed = Callable[[Series], list[int]]
#: Positions of changes over all settings, each with the strictest setting that finds it, as a number above 0.
Varied = Callable[[Series], dict[int, float]]


@dataclass(frozen=True)
class Way:
    """One way to use a tool: at its fixed setting, and at many settings."""

    fixed: Fixed
    varied: Varied


def answer(package: str, ways: dict[str, Way]) -> None:
    """Read the series in the file of the first argument, and write the change points to the second.

    Points of the fixed setting have the strength 0.
    """
    with np.load(sys.argv[1]) as request:
        values = np.split(request["values"], request["starts"][1:-1])
        series = list(zip(values, request["better"], strict=True))
    points, seconds = [], []
    for number, way in enumerate(ways.values()):
        start = time.process_time()
        settled = [way.fixed(measured_series) for measured_series in series]
        seconds.append(time.process_time() - start)
        for place, measured_series in enumerate(series):
            for strengths in (dict.fromkeys(settled[place], 0.0), way.varied(measured_series)):
                points += [(place, at, number, strength) for at, strength in strengths.items()]
    integers = [(name, np.int64) for name in ("series", "position", "way")]
    table = np.array(points, [*integers, ("strength", np.float64)])
    columns = {name: table[name] for name in table.dtype.names}
    np.savez(sys.argv[2], **columns, ways=list(ways), seconds=seconds, version=version(package))


def strictest(settings: Mapping[float, Any], find: Callable[[Any], list[int]]) -> dict[int, float]:
    """Run `find` at every setting; return for each position the largest key at which it was found."""
    return {place: strength for strength in sorted(settings) for place in find(settings[strength])}
