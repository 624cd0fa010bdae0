"""The marks that charts are made of: a family gives data, and every chart looks like the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import ArrayLike, NDArray

from serving.reports.charts import FAIL, GRID, INK, MUTED, PAPER, PASS, SERIES, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Points that a shape has at least, so that it can be pointed at.
_LEAST = 4.0
#: As far as an axis goes, and farther.
FAR = 1e12


@dataclass(frozen=True)
class Spot:
    """A hover area of a chart, in the units of its axes, with its values.

    Attributes
    ----------
    name : str
        Name of the mark.
    values : sequence of (str, float)
        Values to show, each with a word; empty: the readings of the axes.
    along : {"", "x", "y"}
        The axis that `values` are measured on.
    wide, high : float
        Half the extent around the centre; 0: a point.
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
    """A hover area on the page, in points from the left and the top, with its text."""

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
    """Yield the hover areas in page coordinates, except those outside the axes or with NaN."""
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


Floats = NDArray[np.float64]
Dash = str | tuple[int, tuple[int, ...]]

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
DASHES: tuple[Dash, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
#: Fills of adjacent boxes and bars, distinct in grey scale too.
FILLS = (PASS, PAPER, SERIES[0])
#: Markers on one line, at most.
_MARKED = 25
#: From this share of its reach on, a colour of a heat map is dark.
_DARK = 0.7
#: The percentile of distances at the end of the colour scale, and the least distance shown.
_NEARLY, _SMALL = 95, 1e-6
#: Maximal number of hover areas of one line, and number of bins of a histogram.
_POINTED, _BINS = 100, 30


@dataclass(frozen=True)
class Line:
    """A line through points, with the colour, marker and dashes of its `look`.

    `spread` and `sideways` are the variation of `y` and `x`, drawn as bars; `band` is drawn as a band. A
    `hollow` line
    has empty markers, as distinct from another line of that look. `steps`: draw steps between the points.
    """

    name: str
    x: ArrayLike
    y: ArrayLike
    look: int = 0
    spread: ArrayLike | None = None
    sideways: ArrayLike | None = None
    band: ArrayLike | None = None
    hollow: bool = False
    joined: bool = True
    marked: bool = True
    steps: bool = False

    def draw(self, axes: Axes) -> None:
        """Draw it."""
        x, y = np.asarray(self.x, float), np.asarray(self.y, float)
        colour = SERIES[self.look % len(SERIES)]
        if self.band is not None:
            band = np.asarray(self.band, float)
            axes.fill_between(x, y - band, y + band, color=colour, alpha=0.12, linewidth=0)
        dash = ":" if self.hollow else DASHES[self.look % len(DASHES)]
        # where lines overlap, the first is on top
        above = 3 - 0.01 * self.look
        axes.plot(
            x, y, color=colour, label=self.name, linewidth=1.4, markersize=4.5, zorder=above,
            marker=MARKERS[self.look % len(MARKERS)] if self.marked else "",
            markerfacecolor=PAPER if self.hollow else colour,
            linestyle=dash if self.joined else "",
            drawstyle="steps-pre" if self.steps else "default",
            markevery=max(1, len(x) // _MARKED),
        )  # fmt: skip
        axes.errorbar(x, y, self.spread, self.sideways, fmt="none", ecolor=colour, elinewidth=0.7)

    def spots(self) -> Iterator[Spot]:
        """Yield its points; of many an even share."""
        x, y = np.asarray(self.x, float), np.asarray(self.y, float)
        varying = next((one for one in (self.spread, self.band, self.sideways) if one is not None), None)
        along, values = ("x", x) if self.sideways is not None else ("y", y)
        spread = np.full(len(x), np.nan) if varying is None else np.asarray(varying, float)
        for place in range(len(x))[thinned(len(x), _POINTED)]:
            told = [("", values[place]), *_varying(spread[place])]
            yield Spot(x[place], y[place], self.name, told, along)


@dataclass(frozen=True)
class Dots:
    """Unconnected points; `size` is the marker area in points squared, `thickness` its edge in points.

    `told` names each point in its tooltip; without it all have `name`.
    """

    x: ArrayLike
    y: ArrayLike
    name: str = ""
    fill: str = PASS
    edge: str = INK
    marker: str = "o"
    size: float = 22
    thickness: float = 0.6
    alpha: float = 1.0
    told: Sequence[str] = ()

    def spots(self) -> Iterator[Spot]:
        """Yield each."""
        x, y = (np.asarray(side, float).tolist() for side in (self.x, self.y))
        for place, (across, up) in enumerate(zip(x, y, strict=True)):
            yield Spot(across, up, self.told[place] if self.told else self.name)

    def draw(self, axes: Axes) -> None:
        """Draw them."""
        axes.scatter(
            self.x, self.y, s=self.size, marker=self.marker, facecolor=self.fill, edgecolor=self.edge,
            linewidth=self.thickness, alpha=self.alpha, label=self.name or None, zorder=4,
        )  # fmt: skip


@dataclass(frozen=True)
class Bars:
    """Horizontal bars from `start` to `lengths` at the positions 0, 1, ..., with error bars `spread`.

    Where several share a position, each has its `turn` out of `turns`, and a separate fill.
    """

    lengths: ArrayLike
    name: str = ""
    spread: ArrayLike | None = None
    start: float = 0.0
    turn: int = 0
    turns: int = 1

    def draw(self, axes: Axes) -> None:
        """Draw them."""
        lengths, (places, height) = np.asarray(self.lengths, float), self._rows()
        axes.barh(
            places, lengths - self.start, height, left=self.start, xerr=self.spread,
            color=FILLS[self.turn], edgecolor=INK, linewidth=0.6, label=self.name or None,
            error_kw={"elinewidth": 0.8, "ecolor": INK},
        )  # fmt: skip

    def spots(self) -> Iterator[Spot]:
        """Yield the whole row of each, since a bar may have no length."""
        lengths, (places, height) = np.asarray(self.lengths, float), self._rows()
        spread = np.full(len(lengths), np.nan) if self.spread is None else np.asarray(self.spread, float)
        for length, place, varies in zip(lengths, places, spread, strict=True):
            told = [("", length), *_varying(varies)]
            yield Spot(length, place, self.name, told, "x", FAR, height / 2)

    def _rows(self) -> tuple[NDArray[np.floating[Any]], float]:
        """Return where the middles of the bars are, and how high each is."""
        height = 0.8 / self.turns if self.turns > 1 else 0.65
        places = np.arange(np.size(self.lengths)) + height * (self.turn - (self.turns - 1) / 2)
        return places, height


def _varying(spread: float) -> list[tuple[str, float]]:
    return [] if np.isnan(spread) else [("\N{PLUS-MINUS SIGN}", spread)]


def five_of(values: ArrayLike, low: float = 0, high: float = 100) -> Floats:
    """Return the values of a box plot: percentiles `low`, 25, 50, 75 and `high`."""
    five: Floats = np.percentile(np.asarray(values, float), (low, 25, 50, 75, high))
    return five


@dataclass(frozen=True)
class Boxes:
    """Boxes of five numbers each (see `five_of`), on the places 0, 1, ... or by `shift` from them.

    One with NaN is not drawn. `fill` is the place of their colour in `FILLS`.
    """

    fives: Sequence[Floats]
    name: str = ""
    upright: bool = False
    shift: float = 0.0
    width: float = 0.6
    fill: int = 0

    def draw(self, axes: Axes) -> None:
        """Draw them."""
        known = [place for place, five in enumerate(self.fives) if not np.isnan(five).any()]
        names, thin = ("whislo", "q1", "med", "q3", "whishi"), {"color": INK, "linewidth": 0.8}
        found = axes.bxp(
            [dict(zip(names, self.fives[place].tolist(), strict=True)) for place in known],
            positions=[place + self.shift for place in known], widths=self.width,
            orientation="vertical" if self.upright else "horizontal",
            showfliers=False, patch_artist=True, manage_ticks=False,
            boxprops={"facecolor": FILLS[self.fill], "edgecolor": INK, "linewidth": 0.8},
            medianprops={"color": INK, "linewidth": 2}, whiskerprops=thin, capprops=thin,
        )  # fmt: skip
        if self.name and found["boxes"]:
            found["boxes"][0].set_label(self.name)

    def spots(self) -> Iterator[Spot]:
        """Yield each box with its whiskers."""
        for place, five in enumerate(self.fives):
            if np.isnan(five).any():
                continue
            low, q1, median, q3, high = (float(number) for number in five)
            told = [("median", median), ("quartiles", q1), ("and", q3), ("whiskers", low), ("and", high)]
            middle, reach = (low + high) / 2, (high - low) / 2
            if self.upright:
                yield Spot(place + self.shift, middle, self.name, told, "y", self.width / 2, reach)
            else:
                yield Spot(middle, place + self.shift, self.name, told, "x", reach, self.width / 2)


@dataclass(frozen=True)
class Histogram:
    """A histogram of values."""

    values: ArrayLike
    name: str

    def draw(self, axes: Axes) -> None:
        """Draw it."""
        axes.hist(self.values, bins=_BINS, color=PASS, edgecolor=INK, linewidth=0.4, label=self.name)

    def spots(self) -> Iterator[Spot]:
        """Yield each bar, from top to bottom."""
        counts, edges = np.histogram(np.asarray(self.values, float), _BINS)
        for count, low, high in zip(counts, edges, edges[1:], strict=False):
            told = [("from", low), ("to", high), ("count", float(count))]
            yield Spot((low + high) / 2, 0.0, self.name, told, "", (high - low) / 2, FAR)


@dataclass(frozen=True)
class ValueLine:
    """A line across the panel at one value: of `x`, or of `y`."""

    name: str = ""
    x: float | None = None
    y: float | None = None
    colour: str = MUTED
    dash: str = ":"
    width: float = 1.3

    def draw(self, axes: Axes) -> None:
        """Draw it."""
        across: Any = axes.axvline if self.y is None else axes.axhline
        at = self.x if self.y is None else self.y
        across(at, color=self.colour, linestyle=self.dash, linewidth=self.width, label=self.name or None)

    def spots(self) -> Iterator[Spot]:
        """Yield the line, if it has a name."""
        if self.name and self.x is not None:
            yield Spot(self.x, 0.0, self.name, [("", self.x)], "x", 0.0, FAR)
        elif self.name and self.y is not None:
            yield Spot(0.0, self.y, self.name, [("", self.y)], "y", FAR, 0.0)


@dataclass(frozen=True)
class Diagonal:
    """Where `x` and `y` are equal, between two values."""

    low: float
    high: float

    def draw(self, axes: Axes) -> None:
        """Draw it."""
        axes.plot([self.low, self.high], [self.low, self.high], color=MUTED, linewidth=1, linestyle="--")

    def spots(self) -> Iterator[Spot]:
        """Yield nothing: it is a help to the eye."""
        return iter(())


@dataclass(frozen=True)
class Heat:
    """A heat map from blue through white (at `middle`) to red; NaN is not painted.

    The colours are those of K. Moreland, Diverging color maps for scientific visualization, ISVC 2009:
    perceptually
    uniform, also for the colour-blind. Colours end at a distance of `reach` from the middle; values beyond
    have the last
    colour, and the legend an arrow. `told`: write each value into its cell.
    """

    values: Floats
    label: str
    middle: float
    reach: float
    told: bool = False

    @classmethod
    def robust(cls, values: Floats, label: str, middle: float) -> Heat:
        """Let the colours reach as far as nearly all values do, so that a few do not pale the others."""
        far = np.abs(values[np.isfinite(values)] - middle)
        return cls(values, label, middle, max(float(np.percentile(far, _NEARLY)), _SMALL))

    def draw(self, axes: Axes) -> None:
        """Draw it."""
        low, high = self.middle - self.reach, self.middle + self.reach
        image = axes.imshow(
            self.values, cmap="coolwarm", vmin=low, vmax=high, interpolation="none", aspect="auto"
        )
        axes.grid(visible=False)
        below, above = bool(np.nanmin(self.values) < low), bool(np.nanmax(self.values) > high)
        ends = {(True, True): "both", (True, False): "min", (False, True): "max"}.get(
            (below, above), "neither"
        )
        bar = axes.figure.colorbar(image, ax=axes, label=self.label, shrink=0.7, pad=0.015, extend=ends)
        bar.ax.yaxis.set_major_formatter(lambda value, _: plain(value))
        for (row, column), value in np.ndenumerate(self.values) if self.told else ():
            # the colours of the map are the same on dark paper, so that the ink on them is too
            ink = "white" if abs(value - self.middle) > _DARK * self.reach else "black"
            number = f"{value:.1f}".replace("-", "\N{MINUS SIGN}")
            axes.text(column, row, number, ha="center", va="center", fontsize=8.5, color=ink)

    def spots(self) -> Iterator[Spot]:
        """Yield each cell."""
        name = self.label.partition(" (")[0]
        for (row, column), value in np.ndenumerate(self.values):
            if not np.isnan(value):
                yield Spot(column, row, "", [(name, float(value))], "", 0.5, 0.5)


@dataclass(frozen=True)
class HeatCell:
    """A cell of a table: its number, words below it, and how strongly it is shaded (0 to 1; 0: framed)."""

    number: int
    shade: float
    below: str = ""


@dataclass(frozen=True)
class Cells:
    """A table of shaded numbers; None leaves a cell empty."""

    rows: Sequence[Sequence[HeatCell | None]]

    def draw(self, axes: Axes) -> None:
        """Draw it."""
        for down, row in enumerate(self.rows):
            for across, cell in enumerate(row):
                if cell is not None:
                    _cell(axes, down, across, cell)
        axes.set(xlim=(-0.5, len(self.rows[0]) - 0.5))
        axes.grid(visible=False)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)

    def spots(self) -> Iterator[Spot]:
        """Yield nothing: the numbers are written in the cells."""
        return iter(())


def _cell(axes: Axes, down: int, across: int, cell: HeatCell) -> None:
    from matplotlib.patches import Rectangle

    shaded = {"facecolor": PASS, "edgecolor": GRID, "alpha": cell.shade, "linewidth": 0.8}
    framed = {"facecolor": PAPER, "edgecolor": INK, "linewidth": 1.2}
    how: Any = shaded if cell.shade else framed
    axes.add_patch(Rectangle((across - 0.48, down - 0.47), 0.96, 0.94, **how))
    middle: Any = {"ha": "center", "va": "center"}
    if cell.below:
        axes.text(across, down - 0.08, f"{cell.number:,}", fontsize=17, **middle)
        axes.text(across, down + 0.24, cell.below, fontsize=8.5, **middle)
    else:
        axes.text(across, down, f"{cell.number:,}", fontsize=8.5, **middle)


def thinned(number: int, most: int) -> slice:
    """Return which of `number` things to draw where more than `most` would hide each other: an even share."""
    return slice(None, None, max(1, -(-number // most)))


#: Colour of highlighted marks: the worst of many, the failed ones.
WORST: dict[str, Any] = {"fill": FAIL, "marker": "D", "size": 34, "thickness": 0.5}
