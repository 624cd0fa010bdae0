"""Small pictures of single comparisons: the versions around the boundary, a panel each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Versions drawn on either side of the boundary; those after the target no model has seen.
BEFORE, AFTER = 40, 30
_COLUMNS, _WIDTH, _HEIGHT, _DPI = 5, 2.3, 1.25, 62
_COLOURS = {"history": "0.55", "baseline": "#1f6f8b", "target": "#a3310f", "later": "0.8"}


class Case(NamedTuple):
    """One comparison.

    Attributes
    ----------
    versions : DataFrame
        ``place`` (0 = the target's first) and ``level``, the median, of the versions around it.
    sides : mapping of str to tuple
        The first place of a part, and the one behind its last.
    """

    title: str
    versions: pd.DataFrame
    sides: dict[str, tuple[int, int]]


def case_of(title: str, comparison: NamedTuple, results: pd.DataFrame) -> Case:
    """Gather a comparison from the results of its operation."""
    first, last, start, stop = (getattr(comparison, name) for name in _ENDS)
    near = results[results["order"].between(start - BEFORE, start + AFTER)]
    levels = near.groupby("order")["value"].median()
    versions = pd.DataFrame({"place": levels.index - start, "level": levels.to_numpy()})
    bounds = (-BEFORE, first - start, last + 1 - start, stop + 1 - start, AFTER + 1)
    return Case(title, versions, dict(zip(_COLOURS, pairwise(bounds), strict=True)))


_ENDS = ("baseline_from", "baseline_to", "target_from", "target_to")


def sheet(cases: Sequence[Case], path: Path) -> None:
    """Draw all cases on one sheet."""
    from matplotlib.figure import Figure

    rows = -(-len(cases) // _COLUMNS)
    figure = Figure(figsize=(_COLUMNS * _WIDTH, rows * _HEIGHT))
    figure.subplots_adjust(left=0.005, right=0.995, bottom=0.01, top=0.985, wspace=0.04, hspace=0.25)
    panels = figure.subplots(rows, _COLUMNS, squeeze=False).ravel()
    for panel, case in zip(panels, cases, strict=False):
        _draw(panel, case)
    for panel in panels[len(cases) :]:
        panel.set_axis_off()
    figure.savefig(path, dpi=_DPI, pil_kwargs={"optimize": True})


def _draw(panel: Axes, case: Case) -> None:
    place, level = (case.versions[name].to_numpy() for name in ("place", "level"))
    panel.plot(place, level, color="0.85", linewidth=0.6, zorder=1)
    for side, (first, stop) in case.sides.items():
        own = (place >= first) & (place < stop)
        panel.plot(place[own], level[own], ".", color=_COLOURS[side], markersize=3)
    panel.axvline(-0.5, color="0.4", linewidth=0.5)
    panel.set_ylim(*_limits(level))
    panel.set_title(case.title, fontsize=6, pad=2)
    panel.set(xticks=[], yticks=[])


def _limits(level: NDArray[np.float64]) -> tuple[float, float]:
    """Leave single spikes outside."""
    low, high = np.quantile(level, (0.02, 0.98))
    margin = 0.15 * (high - low) or 1.0
    return float(low - margin), float(high + margin)
