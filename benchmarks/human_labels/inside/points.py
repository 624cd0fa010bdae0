"""Shared by the scripts of this folder; they run in other environments, so this needs only NumPy."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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


@dataclass
class _PointColumns:
    series: list[int] = field(default_factory=list)
    position: list[int] = field(default_factory=list)
    way: list[int] = field(default_factory=list)
    strength: list[float] = field(default_factory=list)

    def add(self, way: int, series: int, points: Mapping[int, float]) -> None:
        self.way += [way] * len(points)
        self.series += [series] * len(points)
        self.position += map(int, points)
        self.strength += map(float, points.values())


def answer(package: str, ways: dict[str, Way]) -> None:
    """Read the series in the file of the first argument, and write the change points to the second.

    Points of the fixed setting have the strength 0.
    """
    with np.load(sys.argv[1]) as request:
        series = list(
            zip(np.split(request["values"], request["starts"][1:-1]), request["better"], strict=True)
        )
    columns, seconds = _PointColumns(), []
    for number, way in enumerate(ways.values()):
        start = time.process_time()
        settled = [way.fixed(measured_series) for measured_series in series]
        seconds.append(time.process_time() - start)
        for place, measured_series in enumerate(series):
            columns.add(number, place, dict.fromkeys(settled[place], 0.0))
            columns.add(number, place, way.varied(measured_series))
    points = {name: np.array(column) for name, column in vars(columns).items()}
    tool_facts = {"ways": list(ways), "seconds": seconds, "version": version(package)}
    np.savez(sys.argv[2], **points, **{name: np.array(value) for name, value in tool_facts.items()})


def strictest(settings: Mapping[float, Any], find: Callable[[Any], list[int]]) -> dict[int, float]:
    """Run `find` at every setting; return for each position the largest key at which it was found."""
    return {place: strength for strength in sorted(settings) for place in find(settings[strength])}
