"""Chart primitives: lines, dots, bars, boxes, heat maps, each with its drawing and its hover areas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import ArrayLike, NDArray

from serving.reports.charts import FAIL, GRID, INK, MUTED, PAPER, PASS, SERIES, plain_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
#: Minimal width and height of a hover area, in points.
_LEAST = 4.0
#: Half extent of a hover area that spans its axis.
FAR = 1e12


@dataclass(frozen=True)
class HoverArea:
    """A hover area of a chart, in the units of its axes, with the values of its tooltip.

    `name` is that of the mark. `values` are shown, each with a word, on the axis `along` ("", "x" or "y");
    empty: the values of `x` and `y`. `wide` and `high` are half the extent around the centre; 0: a point.
    """

    x: float
    y: float
    name: str = ""
    values: Sequence[tuple[str, float]] = ()
    along: str = ""
    wide: float = 0.0
    high: float = 0.0


def hover_shapes(
    figure: Figure, axes: Axes, hover_areas: Sequence[tuple[HoverArea, str]]
) -> Iterator[tuple[float, Markup]]:
    """Yield the size in square points and the SVG element, with its tooltip, of each hover area.

    `hover_areas` holds each hover area with the text of its tooltip; `figure` must have been drawn. Areas are
    clipped to the axes (a point or a line has the size 0); those outside of them or with NaN are omitted.
    """
    if not hover_areas:
        return
    middle = np.array([(spot.x, spot.y) for spot, _ in hover_areas], float)
    reach = np.array([(spot.wide, spot.high) for spot, _ in hover_areas], float)
    corners = np.stack([middle - reach, middle + reach], axis=1).reshape(-1, 2)
    within = (axes.transData - axes.transAxes).transform(corners).reshape(-1, 2, 2)
    visible = ((within.max(axis=1) >= 0) & (within.min(axis=1) <= 1)).all(axis=1)
    page = (axes.transAxes - figure.transFigure).transform(np.clip(within, 0, 1).reshape(-1, 2))
    inches: Floats = figure.get_size_inches()
    boxes = 72 * inches * page.reshape(-1, 2, 2)
    for box, (_, tooltip) in compress(zip(boxes, hover_areas, strict=True), visible):
        (left, low), (right, high) = box.min(axis=0), box.max(axis=0)
        top, wide, tall = 72 * inches[1] - high, right - left, high - low
        tag, attributes = "circle", f'cx="{left:.1f}" cy="{top:.1f}"'
        if wide or tall:
            size = f'width="{max(wide, _LEAST):.1f}" height="{max(tall, _LEAST):.1f}"'
            tag, attributes = "rect", f'x="{left:.1f}" y="{top:.1f}" {size}'
        title = f"<title>{escape(tooltip)}</title>"
        yield wide * tall, Markup(f"<{tag} {attributes}>{title}</{tag}>")  # noqa: S704 - numbers, and escaped


Dash = str | tuple[int, tuple[int, ...]]

MARKERS = "os^DvPX*<>"
DASHES: tuple[Dash, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
#: Fills of adjacent boxes and bars, distinct in grey scale.
FILLS = (PASS, PAPER, SERIES[0])
#: Maximal numbers of markers and of hover areas on one line, and number of bins of a histogram.
_MARKED, _POINTED, _BINS = 25, 100, 30
#: Share of the colour scale from which a colour of a heat map is dark.
_DARK = 0.7
#: Percentile of distances at the end of the colour scale, and the smallest such distance.
_NEARLY, _SMALL = 95, 1e-6


@dataclass(frozen=True)
class Line:
    """A line through points; `style` numbers its colour, marker and dashes.

    `spread` and `sideways` are half lengths of error bars in `y` and `x`, `band` is the half height of a
    band. A `hollow` line has empty markers, which distinguish it from another line with the same look.
    """

    name: str
    x: ArrayLike
    y: ArrayLike
    style: int = 0
    spread: ArrayLike | None = None
    sideways: ArrayLike | None = None
    band: ArrayLike | None = None
    hollow: bool = False
    joined: bool = True
    marked: bool = True
    steps: bool = False

    def draw(self, axes: Axes) -> None:
        """Draw the line, its markers, error bars and band."""
        x, y = np.asarray(self.x, float), np.asarray(self.y, float)
        colour = SERIES[self.style % len(SERIES)]
        if self.band is not None:
            band = np.asarray(self.band, float)
            axes.fill_between(x, y - band, y + band, color=colour, alpha=0.12, linewidth=0)
        dash = ":" if self.hollow else DASHES[self.style % len(DASHES)]
        # where lines overlap, the first is on top
        above = 3 - 0.01 * self.style
        axes.plot(
            x, y, color=colour, label=self.name, linewidth=1.4, markersize=4.5, zorder=above,
            marker=MARKERS[self.style % len(MARKERS)] if self.marked else "",
            markerfacecolor=PAPER if self.hollow else colour,
            linestyle=dash if self.joined else "",
            drawstyle="steps-pre" if self.steps else "default",
            markevery=max(1, len(x) // _MARKED),
        )  # fmt: skip
        axes.errorbar(x, y, self.spread, self.sideways, fmt="none", ecolor=colour, elinewidth=0.7)

    def hover_areas(self) -> Iterator[HoverArea]:
        """Yield a hover area per point; of more than 100 points an even share."""
        x, y = np.asarray(self.x, float), np.asarray(self.y, float)
        varying = next((half for half in (self.spread, self.band, self.sideways) if half is not None), None)
        along, values = ("x", x) if self.sideways is not None else ("y", y)
        readings = _with_spread(values, varying)
        for place in range(len(x))[even_slice(len(x), _POINTED)]:
            yield HoverArea(x[place], y[place], self.name, readings[place], along)


@dataclass(frozen=True)
class Dots:
    """Unconnected points; `size` is the marker area in square points, `thickness` that of its edge in points.

    `point_names` holds a name per point for its tooltip (default: `name`).
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
    point_names: Sequence[str] = ()

    def hover_areas(self) -> Iterator[HoverArea]:
        """Yield a hover area per point."""
        x, y = np.asarray(self.x, float).tolist(), np.asarray(self.y, float).tolist()
        names = self.point_names or [self.name] * len(x)
        yield from map(HoverArea, x, y, names)

    def draw(self, axes: Axes) -> None:
        """Draw the points."""
        axes.scatter(
            self.x, self.y, s=self.size, marker=self.marker, facecolor=self.fill, edgecolor=self.edge,
            linewidth=self.thickness, alpha=self.alpha, label=self.name or None, zorder=4,
        )  # fmt: skip


@dataclass(frozen=True)
class Bars:
    """Horizontal bars from `start` to `lengths` at the positions 0, 1, ..., with half error bars `spread`.

    Bars that share positions have different turns (0 to `turns` - 1) and fills.
    """

    lengths: ArrayLike
    name: str = ""
    spread: ArrayLike | None = None
    start: float = 0.0
    turn: int = 0
    turns: int = 1

    def draw(self, axes: Axes) -> None:
        """Draw the bars and their error bars."""
        middles, height = self._bar_positions()
        axes.barh(
            middles, np.asarray(self.lengths, float) - self.start, height, left=self.start, xerr=self.spread,
            color=FILLS[self.turn], edgecolor=INK, linewidth=0.6, label=self.name or None,
            error_kw={"elinewidth": 0.8, "ecolor": INK},
        )  # fmt: skip

    def hover_areas(self) -> Iterator[HoverArea]:
        """Yield the whole row of each bar, since a bar may have no length."""
        lengths, (middles, height) = np.asarray(self.lengths, float), self._bar_positions()
        for length, middle, values in zip(lengths, middles, _with_spread(lengths, self.spread), strict=True):
            yield HoverArea(length, middle, self.name, values, "x", FAR, height / 2)

    def _bar_positions(self) -> tuple[Floats, float]:
        height = 0.8 / self.turns if self.turns > 1 else 0.65
        middles: Floats = np.arange(float(np.size(self.lengths)))
        return middles + height * (self.turn - (self.turns - 1) / 2), height


def _with_spread(values: Floats, spread: ArrayLike | None) -> list[list[tuple[str, float]]]:
    """Return the tooltip values of each point: its value, then ± its spread unless that is NaN."""
    spreads = np.full(len(values), np.nan) if spread is None else np.asarray(spread, float)
    return [
        [("", value), *([] if np.isnan(half) else [("\N{PLUS-MINUS SIGN}", half)])]
        for value, half in zip(values, spreads, strict=True)
    ]


def box_percentiles(values: ArrayLike, low: float = 0, high: float = 100) -> Floats:
    """Return the percentiles `low`, 25, 50, 75 and `high` of `values`, shape (5,); all NaN if a value is.

    `values` must not be empty (IndexError).
    """
    return np.percentile(np.asarray(values, float), (low, 25, 50, 75, high))


@dataclass(frozen=True)
class Boxes:
    """Boxes of five numbers each (see `box_percentiles`) at the positions 0, 1, ... plus `shift`.

    A box with NaN is not drawn. `fill` is an index of `FILLS`.
    """

    fives: Sequence[Floats]
    name: str = ""
    upright: bool = False
    shift: float = 0.0
    width: float = 0.6
    fill: int = 0

    def draw(self, axes: Axes) -> None:
        """Draw the boxes and their whiskers."""
        complete = [place for place, five in enumerate(self.fives) if not np.isnan(five).any()]
        names, thin = ("whislo", "q1", "med", "q3", "whishi"), {"color": INK, "linewidth": 0.8}
        axes.bxp(
            [dict(zip(names, self.fives[place].tolist(), strict=True)) for place in complete],
            positions=[place + self.shift for place in complete], widths=self.width,
            orientation="vertical" if self.upright else "horizontal",
            showfliers=False, patch_artist=True, manage_ticks=False,
            boxprops={"facecolor": FILLS[self.fill], "edgecolor": INK, "linewidth": 0.8},
            # ink is hardly visible on the darkest fill
            medianprops={"color": PAPER if FILLS[self.fill] == SERIES[0] else INK, "linewidth": 2},
            whiskerprops=thin, capprops=thin,
            # without boxes, matplotlib could not set a label
            label=self.name if complete else None,
        )  # fmt: skip

    def hover_areas(self) -> Iterator[HoverArea]:
        """Yield each box with its whiskers."""
        for place, five in enumerate(self.fives):
            if np.isnan(five).any():
                continue
            low, q1, median, q3, high = five.tolist()
            values = [("median", median), ("quartiles", q1), ("and", q3), ("whiskers", low), ("and", high)]
            middle, reach = (low + high) / 2, (high - low) / 2
            if self.upright:
                yield HoverArea(place + self.shift, middle, self.name, values, "y", self.width / 2, reach)
            else:
                yield HoverArea(middle, place + self.shift, self.name, values, "x", reach, self.width / 2)


@dataclass(frozen=True)
class Histogram:
    """A histogram of values."""

    values: ArrayLike
    name: str

    def draw(self, axes: Axes) -> None:
        """Draw the histogram."""
        axes.hist(self.values, bins=_BINS, color=PASS, edgecolor=INK, linewidth=0.4, label=self.name)

    def hover_areas(self) -> Iterator[HoverArea]:
        """Yield a hover area per bin, left to right, each as high as the chart."""
        counts, edges = np.histogram(np.asarray(self.values, float), _BINS)
        for count, low, high in zip(counts, edges, edges[1:], strict=False):
            values = [("from", low), ("to", high), ("count", float(count))]
            yield HoverArea((low + high) / 2, 0.0, self.name, values, "", (high - low) / 2, FAR)


@dataclass(frozen=True)
class ValueLine:
    """A line across the panel at one value of `x` or of `y`."""

    name: str = ""
    x: float | None = None
    y: float | None = None
    colour: str = MUTED
    dash: str = ":"
    width: float = 1.3

    def draw(self, axes: Axes) -> None:
        """Draw the line."""
        draw_line: Any = axes.axvline if self.y is None else axes.axhline
        at = self.x if self.y is None else self.y
        draw_line(at, color=self.colour, linestyle=self.dash, linewidth=self.width, label=self.name or None)

    def hover_areas(self) -> Iterator[HoverArea]:
        """Yield the line if it has a name."""
        if self.name and self.x is not None:
            yield HoverArea(self.x, 0.0, self.name, [("", self.x)], "x", 0.0, FAR)
        elif self.name and self.y is not None:
            yield HoverArea(0.0, self.y, self.name, [("", self.y)], "y", FAR, 0.0)


@dataclass(frozen=True)
class Diagonal:
    """A line of the points where `x` and `y` are equal, between two values."""

    low: float
    high: float

    def draw(self, axes: Axes) -> None:
        """Draw the line."""
        axes.plot([self.low, self.high], [self.low, self.high], color=MUTED, linewidth=1, linestyle="--")

    def hover_areas(self) -> Iterator[HoverArea]:
        """Yield nothing: the line only guides the eye."""
        return iter(())


@dataclass(frozen=True)
class Heat:
    """A heat map from blue through white (at `middle`) to red; NaN is not painted.

    The colours are perceptually uniform, for the colour-blind too (K. Moreland, Diverging color maps for
    scientific visualization, ISVC 2009). They end at a distance of `reach` from the middle; values beyond
    have the last colour, and the legend an arrow. `shows_values`: write each value into its cell.
    """

    values: Floats
    label: str
    middle: float
    reach: float
    shows_values: bool = False

    @classmethod
    def with_robust_range(cls, values: Floats, label: str, middle: float) -> Heat:
        """Return a heat map whose colours reach to the 95th percentile of distances from `middle`.

        `values` has shape (n_rows, n_columns) and the unit of `middle`.
        """
        far = np.abs(values[np.isfinite(values)] - middle)
        return cls(values, label, middle, max(float(np.percentile(far, _NEARLY)), _SMALL))

    def draw(self, axes: Axes) -> None:
        """Draw the cells and the legend of the colours."""
        low, high = self.middle - self.reach, self.middle + self.reach
        colours: Any = {"cmap": "coolwarm", "vmin": low, "vmax": high}
        image = axes.imshow(self.values, **colours, interpolation="none", aspect="auto")
        axes.grid(visible=False)
        below, above = bool(np.nanmin(self.values) < low), bool(np.nanmax(self.values) > high)
        ends = (("neither", "max"), ("min", "both"))[below][above]
        bar = axes.figure.colorbar(image, ax=axes, label=self.label, shrink=0.7, pad=0.015, extend=ends)
        bar.ax.yaxis.set_major_formatter(lambda value, _: plain_number(value))
        for (row, column), value in np.ndenumerate(self.values) if self.shows_values else ():
            # the colours of the map do not change with the page's theme
            ink = "white" if abs(value - self.middle) > _DARK * self.reach else "black"
            number = f"{value:.1f}".replace("-", "\N{MINUS SIGN}")
            axes.text(column, row, number, ha="center", va="center", fontsize=8.5, color=ink)

    def hover_areas(self) -> Iterator[HoverArea]:
        """Yield the cells with a value."""
        name = self.label.partition(" (")[0]
        for (row, column), value in np.ndenumerate(self.values):
            if not np.isnan(value):
                yield HoverArea(column, row, "", [(name, float(value))], "", 0.5, 0.5)


@dataclass(frozen=True)
class HeatCell:
    """A cell of a table: its number, words below it, and its shade (0 to 1; 0: framed)."""

    number: int
    shade: float
    below: str = ""


@dataclass(frozen=True)
class Cells:
    """A table of shaded numbers; None leaves a cell empty."""

    rows: Sequence[Sequence[HeatCell | None]]

    def draw(self, axes: Axes) -> None:
        """Draw the cells."""
        for down, row in enumerate(self.rows):
            for across, cell in enumerate(row):
                if cell is not None:
                    _draw_cell(axes, down, across, cell)
        axes.set(xlim=(-0.5, len(self.rows[0]) - 0.5))
        axes.grid(visible=False)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)

    def hover_areas(self) -> Iterator[HoverArea]:
        """Yield nothing: the numbers are written in the cells."""
        return iter(())


def _draw_cell(axes: Axes, down: int, across: int, cell: HeatCell) -> None:
    from matplotlib.patches import Rectangle

    style: Any = {"facecolor": PAPER, "edgecolor": INK, "linewidth": 1.2}
    if cell.shade:
        style = {"facecolor": PASS, "edgecolor": GRID, "alpha": cell.shade, "linewidth": 0.8}
    axes.add_patch(Rectangle((across - 0.48, down - 0.47), 0.96, 0.94, **style))
    middle: Any = {"ha": "center", "va": "center"}
    rise, size = (0.08, 17) if cell.below else (0, 8.5)
    axes.text(across, down - rise, f"{cell.number:,}", fontsize=size, **middle)
    if cell.below:
        axes.text(across, down + 0.24, cell.below, fontsize=8.5, **middle)


def even_slice(number: int, max_marks: int) -> slice:
    """Return the slice that leaves at most `max_marks` (at least 1) of `number` marks, evenly spaced."""
    return slice(None, None, max(1, -(-number // max_marks)))


#: Style of dots that are highlighted, such as the largest residuals.
WORST: dict[str, Any] = {"fill": FAIL, "marker": "D", "size": 34, "thickness": 0.5}
