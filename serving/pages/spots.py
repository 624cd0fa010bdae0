"""What a reader is told who points at a mark: invisible shapes over a chart, each with its value in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Points that a shape has at least, so that it can be pointed at.
_LEAST = 4.0
#: As far as an axis goes, and farther.
FAR = 1e12


@dataclass(frozen=True)
class Spot:
    """A place of a chart, in the units of its axes, and what is there.

    Attributes
    ----------
    x, y : float
    name : str
        Of the mark.
    values : sequence of (str, float)
        What there is to read, each with a word; empty: what the axes say of the place.
    along : {"", "x", "y"}
        The axis whose reading `values` are.
    wide, high : float
        How far it reaches around the place; 0: it is a point.
    """

    x: float
    y: float
    name: str = ""
    values: Sequence[tuple[str, float]] = ()
    along: str = ""
    wide: float = 0.0
    high: float = 0.0


@dataclass(frozen=True)
class Outline:
    """Where a spot lies on the page, in points from the left and the top, and what is told there."""

    left: float
    top: float
    wide: float
    high: float
    told: str

    @property
    def svg(self) -> Markup:
        """Its element; a point is a circle, whose radius is a matter of style."""
        if not (self.wide or self.high):
            place = f'<circle cx="{self.left:.1f}" cy="{self.top:.1f}"'
        else:
            size = f'width="{max(self.wide, _LEAST):.1f}" height="{max(self.high, _LEAST):.1f}"'
            place = f'<rect x="{self.left:.1f}" y="{self.top:.1f}" {size}'
        end = "</rect>" if place.startswith("<rect") else "</circle>"
        return Markup(f"{place}><title>{escape(self.told)}</title>{end}")  # noqa: S704 - numbers, and escaped


def overlay(shapes: Sequence[Outline]) -> Markup:
    """Return the shapes as one group, the small ones above the large ones."""
    ordered = sorted(shapes, key=lambda shape: -shape.wide * shape.high)
    inside = Markup().join(shape.svg for shape in ordered)
    return Markup('<g class="spots">{}</g>').format(inside) if inside else inside


def outlines(figure: Figure, axes: Axes, spots: Sequence[tuple[Spot, str]]) -> Iterator[Outline]:
    """Yield where spots of axes lie; those that are no numbers, or lie outside, do not.

    Parameters
    ----------
    figure : Figure
        Which was drawn already, so that everything has its place.
    axes : Axes
    spots : sequence of (Spot, str)
        Each with what is told of it.
    """
    if not spots:
        return
    middle = np.array([(spot.x, spot.y) for spot, _ in spots], float)
    reach = np.array([(spot.wide, spot.high) for spot, _ in spots], float)
    corners = np.stack([middle - reach, middle + reach], axis=1).reshape(-1, 2)
    within = (axes.transData - axes.transAxes).transform(corners).reshape(-1, 2, 2)
    seen = ((within.max(axis=1) >= 0) & (within.min(axis=1) <= 1)).all(axis=1)
    page = (axes.transAxes - figure.transFigure).transform(np.clip(within, 0, 1).reshape(-1, 2))
    inches: NDArray[np.float64] = figure.get_size_inches()
    places = 72 * inches * page.reshape(-1, 2, 2)
    for place, kept, (_, told) in zip(places, seen, spots, strict=True):
        if kept:
            (left, low), (right, high) = place.min(axis=0), place.max(axis=0)
            yield Outline(left, 72 * inches[1] - high, right - left, high - low, told)
