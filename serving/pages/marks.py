"""The marks that charts are made of: a family gives data, and every chart looks like the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from serving.pages.charts import FAIL, GRID, INK, MUTED, PAPER, PASS, SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
Dash = str | tuple[int, tuple[int, ...]]

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
DASHES: tuple[Dash, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
#: Boxes and bars that stand side by side: they differ on a grey-scale print too.
FILLS = (PASS, PAPER, SERIES[0])
#: Markers on one line, at most.
_MARKED = 25
#: From this share of its range on, a colour of a heat map is dark.
_DARK = 0.6


@dataclass(frozen=True)
class Line:
    """A line through points, in the colour, marker and dashes of its `look`.

    `spread` and `sideways` say how far `y` and `x` vary and become bars, `band` a band. A `hollow` one has
    empty markers, to tell it from another line of that look. `steps`: it goes in steps between the points.
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
        # of lines that lie on each other, the first is seen
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


@dataclass(frozen=True)
class Dots:
    """Points that nothing joins; `size` is a marker's in points squared, `thickness` its edge's in points."""

    x: ArrayLike
    y: ArrayLike
    name: str = ""
    fill: str = PASS
    edge: str = INK
    marker: str = "o"
    size: float = 22
    thickness: float = 0.6
    alpha: float = 1.0

    def draw(self, axes: Axes) -> None:
        """Draw them."""
        axes.scatter(
            self.x, self.y, s=self.size, marker=self.marker, facecolor=self.fill, edgecolor=self.edge,
            linewidth=self.thickness, alpha=self.alpha, label=self.name or None, zorder=4,
        )  # fmt: skip


@dataclass(frozen=True)
class Bars:
    """Horizontal bars from `start` to their lengths on the places 0, 1, ...; their ends vary by `spread`.

    Where several share a place, each has its `turn` of so many `turns`, and a fill of its own.
    """

    lengths: ArrayLike
    name: str = ""
    spread: ArrayLike | None = None
    start: float = 0.0
    turn: int = 0
    turns: int = 1

    def draw(self, axes: Axes) -> None:
        """Draw them."""
        lengths, height = np.asarray(self.lengths, float), 0.8 / self.turns if self.turns > 1 else 0.65
        places = np.arange(len(lengths)) + height * (self.turn - (self.turns - 1) / 2)
        axes.barh(
            places, lengths - self.start, height, left=self.start, xerr=self.spread,
            color=FILLS[self.turn], edgecolor=INK, linewidth=0.6, label=self.name or None,
            error_kw={"elinewidth": 0.8, "ecolor": INK},
        )  # fmt: skip


def five_of(values: ArrayLike, low: float = 0, high: float = 100) -> Floats:
    """Return what a box shows of values: quartiles, between the percentiles `low` and `high`."""
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


@dataclass(frozen=True)
class Histogram:
    """How many values lie where."""

    values: ArrayLike
    name: str

    def draw(self, axes: Axes) -> None:
        """Draw it."""
        axes.hist(self.values, bins=30, color=PASS, edgecolor=INK, linewidth=0.4, label=self.name)


@dataclass(frozen=True)
class Rule:
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


@dataclass(frozen=True)
class Diagonal:
    """Where `x` and `y` are equal, between two values."""

    low: float
    high: float

    def draw(self, axes: Axes) -> None:
        """Draw it."""
        axes.plot([self.low, self.high], [self.low, self.high], color=MUTED, linewidth=1, linestyle="--")


@dataclass(frozen=True)
class Heat:
    """A colour a value, from `low` to `high`, with a bar of colours beside it; NaN stays white.

    `told`: each value is written into its cell; then the middle of the colours is the palest.
    """

    values: Floats
    label: str
    low: float
    high: float
    colours: str = "viridis_r"
    told: bool = False

    def draw(self, axes: Axes) -> None:
        """Draw it."""
        image = axes.imshow(
            self.values, cmap=self.colours, vmin=self.low, vmax=self.high, interpolation="none", aspect="auto"
        )
        axes.grid(visible=False)
        axes.figure.colorbar(image, ax=axes, label=self.label, shrink=0.7, pad=0.015)
        for (row, column), value in np.ndenumerate(self.values) if self.told else ():
            # the colours of the map are the same on dark paper, so that the ink on them is too
            ink = "white" if abs(value) > _DARK * self.high else "black"
            number = f"{value:.1f}".replace("-", "\N{MINUS SIGN}")
            axes.text(column, row, number, ha="center", va="center", fontsize=7, color=ink)


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its number, words below it, and how strongly it is shaded (0 to 1; 0: framed)."""

    number: int
    shade: float
    below: str = ""


@dataclass(frozen=True)
class Cells:
    """A table of numbers that are shaded; None where there is nothing to say."""

    rows: Sequence[Sequence[Cell | None]]

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


def _cell(axes: Axes, down: int, across: int, cell: Cell) -> None:
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


#: What stands out: the worst of many, the failed ones.
WORST: dict[str, Any] = {"fill": FAIL, "marker": "D", "size": 34, "thickness": 0.5}
