"""Chart panels with axes, title and legend, in the style of all pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from markupsafe import Markup

from serving.reports.chart_marks import Outline, Spot, outlines, overlay
from serving.reports.charts import NARROW, Chart, Words, inline, percent, plain, sketch

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Names of one axis, at most; from so many on they are small; up to so many letters they stand side by side.
_NAMED, _MANY, _SHORT = 50, 25, 4
#: Numbers below axes, at least, and pixels between them; names up to which each may have several lines.
_FEWEST, _GAP, _FEW = 2, 6.0, 12
#: Letters in a line of a narrow chart: of a label, and of a name; inches of a legend that stood beside.
_LABEL, _NAME, _LEGEND = 40, 24, 1.8
#: Maximal number of hover areas in a narrow chart.
_TAPPED = 300
#: Letters of a legend in an inch, and those that the room of a mark beside its name takes.
_LETTERS, _HANDLE = 15, 8


class Mark(Protocol):
    """A chart element that can be drawn on axes."""

    def draw(self, axes: Axes) -> None:
        """Draw it."""

    def spots(self) -> Iterator[Spot]:
        """Yield the hover areas of the mark."""


@dataclass(frozen=True)
class Axis:
    """One axis of a panel: its label with the unit, and its range.

    `names` label the positions 0, 1, ... of a categorical axis, from the top or left. `ticks` map positions
    to labels,
    instead of round numbers. `percent`: the values are shares.
    """

    label: str
    names: Sequence[str] = ()
    ticks: Mapping[float, str] = field(default_factory=dict)
    percent: bool = False
    log: bool = False
    low: float | None = None
    high: float | None = None
    backwards: bool = False

    def narrowed(self) -> Axis:
        """Return it with its label and its names on several lines, where they are long."""
        names = [_lines(name, _NAME) for name in self.names] if len(self.names) <= _FEW else self.names
        return replace(self, label=_lines(self.label, _LABEL), names=names)

    @property
    def short(self) -> str:
        """The label without units and remarks."""
        return re.split(r" \(|\n|; ", self.label)[0]

    def reads(self, value: float) -> str:
        """Return a number on it as a reader says it."""
        return percent(value) if self.percent else plain(value)

    def named(self, value: float) -> str:
        """Return the name of the thing at a place; nothing where it holds numbers."""
        place = round(value) if self.names and np.isfinite(value) else -1
        return self.names[place].replace("\n", ", ") if 0 <= place < len(self.names) else ""


def _lines(text: str, most: int) -> str:
    """Break text so that no line has more letters, where words allow it."""
    return "\n".join(chain.from_iterable(wrap(line, most) for line in text.split("\n")))


@dataclass(frozen=True)
class Panel:
    """Marks on the same axes; without axes where `x` and `y` are missing."""

    marks: Sequence[Mark]
    x: Axis | None = None
    y: Axis | None = None
    heading: str = ""
    square: bool = False

    def narrowed(self) -> Panel:
        """Return it with long words on several lines."""
        return replace(self, x=self.x and self.x.narrowed(), y=self.y and self.y.narrowed())


def drawn(
    words: Words,
    panels: Sequence[Panel],
    size: tuple[float, float],
    *,
    across: int = 1,
    beside: str = "",
    narrows: bool = True,
) -> Chart:
    """Draw panels as one chart.

    Parameters
    ----------
    panels : sequence of Panel
        Row by row. The marks of the first are named in the legend.
    size : tuple of float
        Width and height in inches; 8.4 is the width of the page.
    across : int
        Panels in a row.
    beside : str
        Title of a legend at the right; if empty, the legend is above.
    narrows : bool
        Whether to add a layout for narrow screens: panels one below the other, long words wrapped.
    """
    fits = size[0] <= NARROW
    svg = _laid_out(words, words.name, panels, _Layout(size, across, beside))
    if fits or not narrows:
        return Chart(**vars(words), svg=svg, fits=fits)
    high = size[1] / -(-len(panels) // across) * len(panels)
    layout = _Layout((NARROW, high + (_LEGEND if beside else 0)), 1, beside, narrow=True)
    return Chart(**vars(words), svg=svg, narrow=_laid_out(words, f"{words.name}-narrow", panels, layout))


@dataclass(frozen=True)
class _Layout:
    """Size of the chart, panels per row, and the title of the legend."""

    size: tuple[float, float]
    across: int
    beside: str
    narrow: bool = False


def _laid_out(words: Words, name: str, panels: Sequence[Panel], layout: _Layout) -> Markup:
    with sketch(*layout.size) as figure:
        rows = -(-len(panels) // layout.across)
        grid = list(np.atleast_1d(figure.subplots(rows, layout.across)).flat)
        for axes, panel in zip(grid, panels, strict=True):
            _panel(axes, panel.narrowed() if layout.narrow else panel)
        _name_marks(figure, layout)
        _loosen(figure, grid)

        def over() -> Markup:
            found = list(_outlines(figure, zip(grid, panels, strict=True)))
            # a finger does not hit one of so many
            return overlay([] if layout.narrow and len(found) > _TAPPED else found)

        return inline(figure, name, words.alt, over)


def _outlines(figure: Figure, drawn_on: Iterable[tuple[Axes, Panel]]) -> Iterator[Outline]:
    for axes, panel in drawn_on:
        if panel.x is not None and panel.y is not None:
            spots = [(spot, _told(spot, panel.x, panel.y)) for mark in panel.marks for spot in mark.spots()]
            yield from outlines(figure, axes, spots)


def _told(spot: Spot, x: Axis, y: Axis) -> str:
    """Return the tooltip of a hover area: the names first, then the values."""
    names = (spot.name, x.named(spot.x), y.named(spot.y))
    places = [
        (f"{axis.short} {axis.reads(value)}", which)
        for axis, value, which in ((x, spot.x, "x"), (y, spot.y, "y"))
        if not axis.names and which != spot.along and (spot.along or not spot.values)
    ]
    along = {"x": x, "y": y}.get(spot.along)
    values = [
        f"{word or (along.short if along else '')} {along.reads(value) if along else plain(value)}"
        for word, value in spot.values
    ]
    # a mark that spans an axis has no single position on it
    spans = {"x": spot.wide, "y": spot.high}
    read = [told for told, which in places if not spans[which]] + values
    return ": ".join(filter(None, (", ".join(filter(None, names)), ", ".join(read))))


def _panel(axes: Axes, panel: Panel) -> None:
    for mark in panel.marks:
        mark.draw(axes)
    if panel.x is None or panel.y is None:
        axes.axis("off")
        return
    _side(axes, panel.x, "x")
    _side(axes, panel.y, "y")
    axes.set_title(panel.heading, loc="left", fontsize=9)
    if panel.square:
        axes.set_aspect("equal")


def _side(axes: Axes, axis: Axis, which: str) -> None:
    """Scale, name and label one side of a panel."""

    def put(what: str, *given: Any, **how: Any) -> None:
        getattr(axes, f"set_{which}{what}")(*given, **how)

    side = axes.xaxis if which == "x" else axes.yaxis
    one_in = _every(axis.names)
    put("label", axis.label if one_in < 2 else f"{axis.label} (one in {one_in} is named)")  # noqa: PLR2004 - each
    if axis.log:
        put("scale", "log")
        _round_numbers(side)
    if axis.ticks:
        put("ticks", list(axis.ticks), list(axis.ticks.values()))
        axes.minorticks_off()
    if axis.names:
        _names(axes, axis.names, which)
    if axis.percent:
        side.set_major_formatter(lambda share, _: f"{plain(100 * share, 6)} %")
    elif not (axis.log or axis.ticks or axis.names):
        _plain_numbers(side)
    if axis.low is not None or axis.high is not None:
        put("lim", axis.low, axis.high)
    if axis.backwards:
        side.set_inverted(True)


def _every(names: Sequence[str]) -> int:
    """Return which of so many names an axis has room for: each, every second, ..."""
    return 1 + (len(names) - 1) // _NAMED


def _round_numbers(side: Any) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = side.get_view_interval()
    side.set_major_locator(
        LogLocator(subs=(1.0, 1.2, 1.5, 2.0, 3.0, 5.0) if high < 10 * low else (1.0, 2.0, 5.0))
    )
    side.set_major_formatter(lambda value, _: plain(value))
    side.set_minor_locator(NullLocator())


def _loosen(figure: Figure, grid: Sequence[Axes]) -> None:
    """Write fewer numbers below axes where they would touch."""
    from matplotlib.ticker import AutoLocator

    close = [axes for axes in grid if axes.axison and isinstance(axes.xaxis.get_major_locator(), AutoLocator)]
    for numbers in range(_FEWEST + 5, _FEWEST - 1, -1):
        if not close:
            return
        figure.draw_without_rendering()
        close = [axes for axes in close if _touch(axes)]
        for axes in close:
            axes.locator_params(axis="x", nbins=numbers)


def _touch(axes: Axes) -> bool:
    """Return whether numbers below axes touch."""
    low, high = sorted(axes.get_xlim())
    shown = [label for label in axes.get_xticklabels() if low <= label.get_position()[0] <= high]
    boxes = sorted((label.get_window_extent() for label in shown if label.get_text()), key=lambda box: box.x0)
    return any(box.x1 + _GAP > other.x0 for box, other in pairwise(boxes))


def _plain_numbers(side: Any) -> None:
    """Write all numbers of an axis with as many digits after the point as its steps have."""

    def written(value: float, _: object) -> str:
        step = float(np.min(np.diff(side.get_majorticklocs()), initial=np.inf))
        decimals = max(0, -int(np.floor(np.log10(step) + 1e-9))) if np.isfinite(step) else 0
        # a step of 0.25 has more digits than one of 0.1 as large
        decimals += round(step, decimals) != float(f"{step:.6g}")
        return f"{value:,.{decimals}f}".replace("-", "\N{MINUS SIGN}")

    side.set_major_formatter(written)


def _names(axes: Axes, names: Sequence[str], which: str) -> None:
    places = range(0, len(names), _every(names))
    labels = [str(names[place]) for place in places]
    size = 7.5 if len(names) > (_MANY if which == "x" else _NAMED - 5) else 8.5
    if which == "x":
        turned = max(map(len, labels)) > _SHORT and not any("\n" in label for label in labels)
        axes.set_xticks(places, labels, fontsize=size, rotation=90 if turned else 0)
    else:
        axes.set_yticks(places, labels, fontsize=size)
        axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False, axis="x" if which == "x" else "y")


def _name_marks(figure: Figure, layout: _Layout) -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    title = layout.beside or None
    if title and not layout.narrow:
        figure.legend(handles, labels, loc="outside right upper", title=title, fontsize=8.5)
    elif handles:
        room = int(_LETTERS * figure.get_figwidth() / (max(map(len, labels)) + _HANDLE))
        columns = max(1, room)
        figure.legend(handles, labels, loc="outside upper center", ncols=columns, fontsize=8.5, title=title)
